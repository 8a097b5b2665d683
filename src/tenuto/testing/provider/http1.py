"""Reads HTTP/1.1 requests from raw bytes and frames responses.

Invariant: the split of the input into network reads never changes the requests that come out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Any

import msgspec

__all__ = ["LAST_CHUNK", "BadHTTP", "Request", "RequestReader", "frame", "head"]

LAST_CHUNK = b"0\r\n\r\n"
_BLANK_LINE = b"\r\n\r\n"
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class BadHTTP(Exception):
    """The bytes are not an HTTP/1.1 request that this server understands."""


@dataclass(frozen=True)
class Request:
    """One request as it arrived.

    Attributes:
        method: Upper-case method.
        path: Path without the query string.
        headers: Names in lower case.
        raw: The body's exact bytes.
        connection: Number of the connection it came on, from 0.
        keep_alive: The client wants to go on using the connection.
        query: The query string, without its question mark.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    connection: int = 0
    keep_alive: bool = True
    query: str = ""

    @cached_property
    def body(self) -> Any:
        """The body as parsed JSON (parsed at the first use).

        Raises:
            msgspec.DecodeError: It is not JSON.
        """
        return msgspec.json.decode(self.raw)


class RequestReader:
    """Collects bytes until they make requests. One per connection."""

    def __init__(self, connection: int) -> None:
        """Read requests of connection number `connection`."""
        self._connection = connection
        self._buffer = bytearray()
        self._wanted = 0
        self._invited = False

    def feed(self, received: bytes) -> list[Request]:
        """Add bytes and return the requests they complete.

        Raises:
            BadHTTP: The bytes cannot be a request.
        """
        self._buffer += received
        requests: list[Request] = []
        while len(self._buffer) >= max(self._wanted, 1) and (request := self._next()) is not None:
            requests.append(request)
            self._wanted, self._invited = 0, False
        return requests

    def wants_continue(self) -> bool:
        """Say once per request whether the client waits for `100 Continue` before it sends the body."""
        end = self._buffer.find(_BLANK_LINE)
        if self._invited or end < 0 or b"100-continue" not in self._buffer[:end].lower():
            return False
        self._invited = True
        return True

    def _next(self) -> Request | None:
        end = self._buffer.find(_BLANK_LINE)
        if end < 0:
            return None
        method, target, version, headers = _parse_head(bytes(self._buffer[:end]))
        found = self._body(end + len(_BLANK_LINE), headers)
        if found is None:
            return None
        raw, stop = found
        del self._buffer[:stop]
        keep = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        path, _, query = target.partition("?")
        return Request(method, path, headers, raw, self._connection, keep, query)

    def _body(self, start: int, headers: Mapping[str, str]) -> tuple[bytes, int] | None:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return _chunked_body(self._buffer, start)
        self._wanted = start + _length(headers)
        if len(self._buffer) < self._wanted:
            return None
        return bytes(self._buffer[start : self._wanted]), self._wanted


def _parse_head(block: bytes) -> tuple[str, str, str, dict[str, str]]:
    first, *lines = block.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        message = f"bad request line: {first[:80]!r}"
        raise BadHTTP(message)
    pairs = (line.partition(":") for line in lines)
    return words[0], words[1], words[2], {name.strip().lower(): text.strip() for name, _, text in pairs}


def _length(headers: Mapping[str, str]) -> int:
    declared = headers.get("content-length", "0")
    if not declared.isdecimal():
        message = f"bad content-length: {declared[:80]!r}"
        raise BadHTTP(message)
    return int(declared)


def _chunked_body(buffer: bytearray, start: int) -> tuple[bytes, int] | None:
    pieces: list[bytes] = []
    while (line_end := buffer.find(b"\r\n", start)) >= 0:
        try:
            size = int(bytes(buffer[start:line_end]).partition(b";")[0], 16)
        except ValueError:
            message = "bad chunk size"
            raise BadHTTP(message) from None
        begin, start = line_end + 2, line_end + 2 + size + 2
        if len(buffer) < start:
            return None
        if size == 0:
            return b"".join(pieces), start
        pieces.append(bytes(buffer[begin : start - 2]))
    return None


def head(status: int, headers: Iterable[tuple[str, str]], *, length: int | None) -> bytes:
    """Encode a status line and headers; `length=None` announces a chunked body."""
    phrase = _PHRASES.get(status, "Unknown")
    framing = ("transfer-encoding", "chunked") if length is None else ("content-length", str(length))
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {text}" for name, text in (*headers, framing)), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def frame(piece: bytes) -> bytes:
    """Frame bytes as one HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)
