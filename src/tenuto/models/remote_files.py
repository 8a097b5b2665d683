"""Fetches the files that messages link to, for models that cannot fetch them themselves.

Invariant: the URL is a stranger's: only http and https, only public addresses (`addresses`), each redirect checked
anew, no cookie, key or proxy of ours on the way, no more bytes or time than allowed. An error names the host and
nothing of the URL that may be a secret.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from urllib.parse import SplitResult, urljoin, urlsplit

from tenuto.core.abort import AbortSignal
from tenuto.core.errors import ModelError
from tenuto.messages.media import named, sniffed
from tenuto.models.addresses import AddressRefused, Resolve, checked, resolve
from tenuto.models.downloads import Downloads, RemoteFile
from tenuto.models.transport import AiohttpTransport, HttpRequest, HttpResponse, Transport

FAILED = "DOWNLOAD_ASSETS_FAILED"
_HOPS = 5
_TRIES = 3
_CONNECT = 10.0
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_MOVED = frozenset({301, 302, 303, 307, 308})
_VAGUE = frozenset({"", "application/octet-stream", "binary/octet-stream"})
_HEADERS: Mapping[str, str] = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "tenuto"}


class RemoteFiles:
    """Fetches files; holds no state.

    Args:
        limits: See `Downloads`.
        transport: Where requests go out.
        resolver: See `addresses.Resolve`.
    """

    __slots__ = ("_allowed", "_limits", "_resolver", "_transport")

    def __init__(self, limits: Downloads, *, transport: Transport | None = None, resolver: Resolve = resolve) -> None:
        self._limits = limits
        self._transport = transport or AiohttpTransport()
        self._resolver = resolver
        self._allowed = frozenset(host.lower() for host in limits.allow_hosts)

    async def fetch(self, url: str, wanted: str, abort: AbortSignal | None = None) -> RemoteFile:
        """The file at `url`; a failure that may pass is tried again.

        Args:
            url: As the message has it.
            wanted: The media type the message gives it; may be `image/*`.
            abort: Stops the fetch at once.

        Raises:
            ModelError: `DOWNLOAD_ASSETS_FAILED`, or `MODEL_CALL_ABORTED`.
        """
        try:
            async with asyncio.timeout(self._limits.timeout):
                for left in range(_TRIES - 1, -1, -1):
                    try:
                        return await self._once(url, wanted, abort)
                    except ModelError as error:
                        if not left or not error.retryable:
                            error.retryable = False  # the retries of the model call must not multiply these
                            raise
        except TimeoutError as error:
            raise _failed(url, f"did not arrive within {self._limits.timeout:g} s") from error
        raise AssertionError  # pragma: no cover - the last try returns or raises

    async def _once(self, url: str, wanted: str, abort: AbortSignal | None) -> RemoteFile:
        at = url
        for _ in range(_HOPS + 1):
            response = await self._open(at, abort)
            try:
                if response.status in _MOVED and (target := response.headers.get("location")):
                    at = _next(at, target)
                    continue
                return await self._read(at, response, wanted)
            finally:
                response.close()
        raise _failed(url, f"redirects more than {_HOPS} times")

    async def _open(self, url: str, abort: AbortSignal | None) -> HttpResponse:
        """Ask the first of the host's addresses that takes a connection."""
        try:
            addresses = await checked(_split(url), self._allowed, self._resolver)
        except AddressRefused as error:
            remedy = "Give the file's bytes, or name the host in downloads={'allow_hosts': [...]} if you trust it"
            raise _failed(url, f"is refused, for {error}. {remedy}") from error
        except (OSError, ValueError) as error:
            raise _failed(url, "cannot be fetched: there is no such host, or the URL is not valid") from error
        for place, address in enumerate(addresses):
            request = HttpRequest(
                url=url,
                body=b"",
                provider="the host of a linked file",
                headers=_HEADERS,
                connect_timeout=_CONNECT,
                idle_timeout=self._limits.timeout,
                abort=abort,
                method="GET",
                address=address,
            )
            try:
                return await self._transport.open(request)
            except ModelError as error:
                if error.id == "MODEL_CALL_ABORTED":
                    raise
                if place == len(addresses) - 1:
                    raise _failed(url, "cannot be fetched: no connection", retryable=error.retryable) from error
        raise AssertionError  # pragma: no cover - there is at least one address

    async def _read(self, url: str, response: HttpResponse, wanted: str) -> RemoteFile:
        if response.status != 200:
            again = response.status in _AGAIN
            raise _failed(url, f"cannot be fetched: the host answered {response.status}", retryable=again)
        if response.headers.get("content-encoding", "identity") not in {"", "identity"}:
            raise _failed(url, "is sent compressed, though that was not asked for")
        content = await _whole(response, self._limits.max_bytes, lambda fact: _failed(url, fact))
        return RemoteFile(_type(url, content, response.headers, wanted), base64.b64encode(content).decode())


async def _whole(response: HttpResponse, limit: int, failed: Callable[[str], ModelError]) -> bytes:
    """The body, given up as soon as it says or shows that it is longer than `limit`."""
    said = response.headers.get("content-length", "")
    if said.isdigit() and int(said) > limit:
        raise failed(f"is larger than {limit:,} bytes")
    pieces: list[bytes] = []
    size = 0
    try:
        async for data in response:
            size += len(data)
            if size > limit:
                raise failed(f"is larger than {limit:,} bytes")
            pieces.append(data)
    except ModelError as error:
        if error.id in {FAILED, "MODEL_CALL_ABORTED"}:
            raise
        broken = failed("was cut off")
        broken.retryable = True
        raise broken from error
    return b"".join(pieces)


def _type(url: str, content: bytes, headers: Mapping[str, str], wanted: str) -> str:
    """What the bytes show, else what the message says, else the header, else the ending of the URL."""
    header = headers.get("content-type", "").partition(";")[0].strip().lower()
    shown = sniffed(content)
    known = shown or ("" if header in _VAGUE else header)
    if wanted.startswith("image/") and known and not known.startswith("image/"):
        raise _failed(url, f"is no image: the host sent {known}")
    exact = "" if "*" in wanted or wanted in _VAGUE else wanted
    found = shown or exact or known or named(url)
    if not found:
        raise _failed(url, "has no media type: give media_type with the file")
    return found


def _split(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise AddressRefused("only http and https URLs with a host are fetched")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("it has a user name or a password in it")
    if not 0 < (parts.port or 80) < 65536:
        raise AddressRefused("it has no valid port")
    return parts


def _next(at: str, target: str) -> str:
    """Where a redirect leads; never from https to http."""
    url = urljoin(at, target)
    if at.startswith("https:") and not url.startswith("https:"):
        raise _failed(at, "is refused, for it redirects from https to something else")
    return url


def _failed(url: str, fact: str, *, retryable: bool = False) -> ModelError:
    try:
        host = urlsplit(url).hostname or "an unnamed host"
    except ValueError:
        host = "an invalid URL"
    return ModelError(
        f"A file that the messages link to, at {host}, {fact}.",
        id=FAILED,
        category="THIRD_PARTY" if retryable else "USER",
        retryable=retryable,
        details={"host": host},
    )
