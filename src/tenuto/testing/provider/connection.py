"""One client connection: reads requests, answers them one after another, notices who went away.

Invariant: responses leave in the order of the requests, also when the client sends the next one early.
"""

import asyncio
from collections import deque
from typing import Protocol, cast

from tenuto.testing.provider.delivery import Outgoing, deliver
from tenuto.testing.provider.gate import Gate
from tenuto.testing.provider.http1 import BadHTTP, Request, RequestReader, head

__all__ = ["Connection", "Desk"]

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Desk(Protocol):
    """What a connection needs of its provider."""

    held: Gate

    def opened(self, connection: "Connection") -> int:
        """Note a new connection; give its number."""
        ...

    def closed(self, connection: "Connection", *, mid_stream: bool) -> None:
        """Note the end of a connection, and whether the client left before its response was complete."""
        ...

    def answer(self, request: Request) -> Outgoing | bytes:
        """Decide the response: bytes for one write, or something to be delivered in steps."""
        ...

    def broken(self, error: BadHTTP) -> None:
        """Note bytes that are not HTTP."""
        ...


class Connection(asyncio.Protocol):
    """The server side of one socket."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._waiting: deque[Request] = deque()
        self._delivering: asyncio.Task[None] | None = None
        self._dropped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start reading. asyncio has set TCP_NODELAY."""
        self._transport = cast("asyncio.Transport", transport)
        self._reader = RequestReader(self._desk.opened(self))

    def data_received(self, data: bytes) -> None:
        """Answer each request that is complete."""
        try:
            self._waiting.extend(self._reader.feed(data))
        except BadHTTP as error:
            self._desk.broken(error)
            self._transport.write(head(400, [("connection", "close")], length=0))
            self._close()
            return
        if self._reader.wants_continue():
            self._transport.write(_CONTINUE)
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        """Stop writing to a client that is gone."""
        mid_stream = self._delivering is not None and not self._dropped
        if self._delivering is not None:
            self._delivering.cancel()
        self._desk.closed(self, mid_stream=mid_stream)

    def abort(self) -> None:
        """Close at once, without counting it as the client's doing."""
        self._dropped = True
        self._transport.abort()

    def _go_on(self) -> None:
        while self._delivering is None and self._waiting and not self._dropped:
            request = self._waiting.popleft()
            out = self._desk.answer(request)
            if isinstance(out, Outgoing):
                self._delivering = asyncio.get_running_loop().create_task(self._deliver(out, request))
                return
            self._transport.write(out)
            self._finish(request, keep=True)

    async def _deliver(self, out: Outgoing, request: Request) -> None:
        complete = await deliver(out, self._transport.write, self._desk.held)
        self._delivering = None
        self._finish(request, keep=complete)
        self._go_on()

    def _finish(self, request: Request, *, keep: bool) -> None:
        if not (keep and request.keep_alive):
            self._close()

    def _close(self) -> None:
        self._dropped = True
        self._transport.close()
