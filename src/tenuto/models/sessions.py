"""One aiohttp client session per event loop, and how each of them is closed without a word.

Invariant: a session is used only on the loop that made it. A suspended async generator holds it open: whatever ends
a loop in order (`asyncio.run`, a runner, `loop.shutdown_asyncgens()`) closes the generator and so the session. What a
loop left behind that was closed in no order is released without warnings when the next session is made, and at exit.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import io
import threading
from collections.abc import AsyncGenerator, Coroutine, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

KEEP_ALIVE = 30.0
_LARGE = 1 << 20
_PATIENCE = 2.0
_slots: dict[asyncio.AbstractEventLoop, SessionSlot] = {}
_lock = threading.Lock()


class SessionSlot:
    """The session of one loop, and the responses that wait for their last bytes."""

    __slots__ = ("_ending", "_keeper", "_loop", "_proxies", "session")

    def __init__(self, session: aiohttp.ClientSession, loop: asyncio.AbstractEventLoop) -> None:
        self.session = session
        self._loop = loop
        self._keeper: AsyncGenerator[None, None] = self._keep()
        self._ending: dict[aiohttp.ClientResponse, asyncio.TimerHandle] = {}
        self._proxies: dict[str, str | None] = {}

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], connect_timeout: float
    ) -> aiohttp.ClientResponse:
        """Send a POST and wait for the status; redirects are not followed, for a key must not travel on."""
        return await self.session.post(
            url,
            data=body if len(body) < _LARGE else io.BytesIO(body),
            headers=headers,
            timeout=_timeout(connect_timeout),
            proxy=self._proxy(url),
            allow_redirects=False,
        )

    async def get(
        self, url: str, address: str | None, headers: Mapping[str, str], connect_timeout: float
    ) -> aiohttp.ClientResponse:
        """Send a GET and wait for the status, without following redirects; see `HttpRequest.address`."""
        host, header = _host_of(url)
        pinned = address is not None
        return await self.session.get(
            _at(url, address) if pinned else url,
            headers={**headers, "host": header, "connection": "close"} if pinned else headers,
            timeout=_timeout(connect_timeout),
            proxy=None if pinned else self._proxy(url),
            server_hostname=host if pinned and url.startswith("https:") else None,
            allow_redirects=False,
            auto_decompress=False,
        )

    def close_later(self, response: aiohttp.ClientResponse, seconds: float) -> None:
        """Drop the connection unless its answer ends within `seconds`; then it is free for the next request."""
        self._ending[response] = self._loop.call_later(seconds, self._close_now, response)

    async def start(self) -> None:
        """Tie the session to the end of the loop."""
        await anext(self._keeper)

    async def close(self) -> None:
        """Close the session; responses still open see a closed connection."""
        await self._keeper.aclose()

    def abandon(self) -> None:
        """Release what a closed loop left: no callback can run, so the sockets are closed directly."""
        self._ending.clear()
        connector: Any = self.session.connector
        self.session.detach()
        if connector is None:
            return
        pooled = [proto for protos in connector._conns.values() for proto, _ in protos]  # noqa: SLF001
        transports = [proto.transport for proto in (*pooled, *connector._acquired)]  # noqa: SLF001
        _drive(connector.close())
        for transport in transports:
            _close_socket(transport)

    async def _keep(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            with _lock:
                _slots.pop(self._loop, None)
            for response, timer in self._ending.items():
                timer.cancel()
                response.close()
            self._ending.clear()
            await self.session.close()

    def _close_now(self, response: aiohttp.ClientResponse) -> None:
        self._ending.pop(response, None)
        response.close()

    def _proxy(self, url: str) -> str | None:
        origin = url.split("/", 3)[2]
        if origin not in self._proxies:
            self._proxies[origin] = _proxy_for(url)
        return self._proxies[origin]


async def session_slot() -> SessionSlot:
    """The running loop's session, made on first use."""
    loop = asyncio.get_running_loop()
    slot = _slots.get(loop)
    if slot is None:
        slot = SessionSlot(_new_session(), loop)
        with _lock:
            gone = [_slots.pop(other) for other in list(_slots) if other.is_closed()]
            _slots[loop] = slot
        for other in gone:
            other.abandon()
        await slot.start()
    return slot


async def close_session() -> None:
    """Close the running loop's session, if there is one."""
    slot = _slots.get(asyncio.get_running_loop())
    if slot is not None:
        await slot.close()


@atexit.register
def _close_all() -> None:
    """At exit: loops that still run in other threads close their session themselves, the others are released."""
    for loop, slot in list(_slots.items()):
        if loop.is_running():
            with contextlib.suppress(Exception):
                asyncio.run_coroutine_threadsafe(slot.close(), loop).result(_PATIENCE)
        if _slots.pop(loop, None) is not None:
            slot.abandon()


def _new_session() -> aiohttp.ClientSession:
    import aiohttp

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def _host_of(url: str) -> tuple[str, str]:
    """The host's name, and the value of the header `host`."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.netloc.rpartition("@")[2]


def _at(url: str, address: str) -> URL:
    """`url` with an IP address in place of its host, otherwise unchanged."""
    from yarl import URL

    return URL(url).with_host(address)


@lru_cache(16)
def _timeout(connect: float) -> aiohttp.ClientTimeout:
    import aiohttp

    return aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=None)


def _proxy_for(url: str) -> str | None:
    """The proxy of the environment; never one for this machine itself."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in {"localhost", "127.0.0.1", "::1"} or proxy_bypass(host):
        return None
    return getproxies().get(parts.scheme)


def _drive(closing: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that has nothing to wait for, as its loop is closed; what it meets does not matter any more."""
    with contextlib.suppress(Exception):
        closing.send(None)
    closing.close()


def _close_socket(transport: Any) -> None:
    """Close a transport of a closed loop; it would warn about itself, as asyncio has no way to say this."""
    with contextlib.suppress(Exception):
        transport.abort()
    with contextlib.suppress(Exception):
        transport.get_extra_info("socket")._sock.close()  # noqa: SLF001
        transport._sock = None  # noqa: SLF001
