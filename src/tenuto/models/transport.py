"""HTTP to providers and to others: a small port, and its aiohttp implementation, imported at the first request.

Invariant: bytes are handed over as they arrive; one client session per event loop, closed by that loop; closing a
response, or its abort signal, drops the connection at once. Whatever goes wrong is a `ModelError` without a secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Literal, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from tenuto.core.abort import AbortSignal
from tenuto.core.errors import ModelError
from tenuto.models.sessions import SessionSlot, close_session, session_slot

if TYPE_CHECKING:
    import aiohttp

Callback = Callable[[], object]
CONNECT_TIMEOUT = 15.0
IDLE_TIMEOUT = 600.0
_LINGER = 1.0


class HttpRequest(Struct, frozen=True, kw_only=True):
    """A request whose answer is streamed; redirects are answers.

    Attributes:
        body: Of a POST.
        provider: For error messages.
        headers: As sent; values are never logged.
        idle_timeout: Seconds without a byte, before and within the answer, until the call fails.
        abort: Drops the connection when it fires, from any thread.
        address: Of a GET: connect to this IP address, whatever the host's name resolves to, without a proxy; the
            connection is used for nothing else, and the answer is handed over as it was sent, compressed or not.
    """

    url: str
    body: bytes
    provider: str
    headers: Mapping[str, str] = {}
    connect_timeout: float = CONNECT_TIMEOUT
    idle_timeout: float = IDLE_TIMEOUT
    abort: AbortSignal | None = None
    method: Literal["POST", "GET"] = "POST"
    address: str | None = None

    def __repr__(self) -> str:
        """Where it goes: the key in the headers stays out of logs and tracebacks."""
        return f"HttpRequest({origin_of(self.url)!r}, {len(self.body)} bytes)"


class HttpResponse(Protocol):
    """An answer whose body is still arriving: an async iterator of what each read of the socket gave."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """With lower-case names."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over the body, once.

        Raises:
            ModelError: The connection was cut, was silent for too long, or the signal fired.
        """
        ...

    def close(self, *, ended: bool = False) -> None:
        """Drop the connection; with `ended` (the provider said it is done) keep it if the body ends in a second."""
        ...


class Transport(Protocol):
    """How requests get out."""

    async def open(self, request: HttpRequest) -> HttpResponse:
        """Send the request and wait for status and headers; an HTTP error status is not an error here.

        Raises:
            ModelError: No answer: refused, unreachable, timed out, aborted.
        """
        ...


class AiohttpTransport:
    """The transport of all dialects; it has no state of its own."""

    async def open(self, request: HttpRequest) -> HttpResponse:
        """See `Transport.open`."""
        if request.abort is not None and request.abort.aborted:
            raise aborted_error(request)
        slot = await session_slot()
        loop = asyncio.get_running_loop()
        watch = _Watch(request, loop)
        try:
            async with asyncio.timeout(request.connect_timeout + request.idle_timeout) as scope:
                watch.on_stop(lambda: scope.reschedule(loop.time()))
                response = await _send(slot, request)
        except Exception as error:
            watch.close()
            raise watch.translate(error) from error
        except BaseException:
            watch.close()
            raise
        return _AiohttpResponse(response, watch, slot)


async def _send(slot: SessionSlot, request: HttpRequest) -> aiohttp.ClientResponse:
    if request.method == "POST":
        return await slot.post(request.url, request.body, request.headers, request.connect_timeout)
    return await slot.get(request.url, request.address, request.headers, request.connect_timeout)


async def close_transport() -> None:
    """Close this loop's client session; the next request opens a new one.

    Not needed under `asyncio.run`, whose end closes the session; a loop that is stopped in another way calls this.
    """
    await close_session()


class _Watch:
    """What may stop one call from outside: the abort signal and one idle timer, moved on by a timestamp per read."""

    __slots__ = ("_forget", "_loop", "_stop", "_timer", "last", "request", "stopped")

    def __init__(self, request: HttpRequest, loop: asyncio.AbstractEventLoop) -> None:
        self.request = request
        self.stopped: ModelError | None = None
        self.last = loop.time()
        self._loop = loop
        self._stop = _nothing
        self._timer: asyncio.TimerHandle | None = None
        self._forget = request.abort.listen(self._abort_from_anywhere) if request.abort else _nothing

    def on_stop(self, stop: Callback) -> None:
        """What drops the connection; called at once when already stopped."""
        self._stop = stop
        if self.stopped is not None:
            stop()

    def start_timer(self) -> None:
        self.last = self._loop.time()
        self._timer = self._loop.call_at(self.last + self.request.idle_timeout, self._tick)

    def close(self) -> None:
        self._forget()
        self._stop = _nothing
        if self._timer is not None:
            self._timer.cancel()

    def translate(self, error: Exception) -> ModelError:
        if self.stopped is not None:
            return self.stopped
        return connection_error(self.request, error)

    def _tick(self) -> None:
        due = self.last + self.request.idle_timeout
        if self._loop.time() < due:
            self._timer = self._loop.call_at(due, self._tick)
        else:
            self._halt(idle_error(self.request))

    def _abort_from_anywhere(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._halt, aborted_error(self.request))

    def _halt(self, error: ModelError) -> None:
        if self.stopped is None:
            self.stopped = error
            self._stop()


class _AiohttpResponse:
    __slots__ = ("_content", "_loop", "_response", "_slot", "_watch", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse, watch: _Watch, slot: SessionSlot) -> None:
        self.status: int = response.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self._response = response
        self._content = response.content
        self._watch = watch
        self._slot = slot
        self._loop = asyncio.get_running_loop()
        watch.on_stop(response.close)
        watch.start_timer()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        watch = self._watch
        try:
            data = await self._content.readany()
        except Exception as error:
            raise watch.translate(error) from error
        if watch.stopped is not None:
            raise watch.stopped
        if not data:
            raise StopAsyncIteration
        watch.last = self._loop.time()
        return data

    def close(self, *, ended: bool = False) -> None:
        self._watch.close()
        if not ended or self._content.is_eof() or self._response.closed:
            self._response.close()
        else:
            self._slot.close_later(self._response, _LINGER)


async def read_body(http: HttpResponse, limit: int) -> bytes:
    """The body, up to about `limit` bytes.

    Raises:
        ModelError: As in reading `http`.
    """
    pieces: list[bytes] = []
    size = 0
    async for data in http:
        pieces.append(data)
        size += len(data)
        if size >= limit:
            break
    return b"".join(pieces)[:limit]


def connection_error(request: HttpRequest, error: Exception) -> ModelError:
    """The typed error for what the network did."""
    origin = origin_of(request.url)
    if isinstance(error, ValueError):
        return ModelError(
            f"The request to {request.provider} at {origin} cannot be sent ({type(error).__name__}). "
            "Check the base URL, the key and the headers.",
            id="MODEL_REQUEST_INVALID",
            provider=request.provider,
            category="USER",
        )
    if isinstance(error, TimeoutError):
        fact = f"{request.provider} did not accept a connection at {origin} in time"
    else:
        fact = f"The connection to {request.provider} at {origin} failed ({_reason(error)})"
    return ModelError(
        f"{fact}. {_remedy(origin)}",
        id="MODEL_CONNECTION_FAILED",
        provider=request.provider,
        retryable=True,
    )


def idle_error(request: HttpRequest) -> ModelError:
    """The typed error for silence."""
    return ModelError(
        f"{request.provider} sent nothing for {request.idle_timeout:g} s; the connection was closed.",
        id="MODEL_IDLE_TIMEOUT",
        provider=request.provider,
        retryable=True,
    )


def aborted_error(request: HttpRequest) -> ModelError:
    """The typed error for a fired abort signal."""
    return ModelError(
        f"The call of {request.provider} was aborted by its caller.",
        id="MODEL_CALL_ABORTED",
        provider=request.provider,
        category="USER",
    )


def origin_of(url: str) -> str:
    """Scheme, host and port of `url`: no path, no query, no credentials."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an invalid URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _reason(error: Exception) -> str:
    """The kind of failure; an operating system's text, but no URL, for that may hold a key."""
    text = getattr(error, "strerror", None) or getattr(getattr(error, "os_error", None), "strerror", None)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _remedy(origin: str) -> str:
    host = urlsplit(origin).hostname
    if host in {"localhost", "127.0.0.1", "::1"}:
        return f"Is the server running at {origin}?"
    return "Check the network and the base URL."


def _nothing() -> None:
    """The callback of a watch with nothing to do."""
