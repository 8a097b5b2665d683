"""Server-sent events from bytes, for every dialect: feed what the socket gave, get the events it completed.

Invariant: the events do not depend on how the bytes were cut; nothing is decoded to text here, so no character is
ever split. Blocks without data are not events.

Source: WHATWG HTML, "Server-sent events", 9.2.6 "Interpreting an event stream". One difference: `flush` gives the
block that the end of the stream left without a blank line, because some servers end that way.
"""

from __future__ import annotations

from typing import NamedTuple

from tenuto.core.errors import ModelError

DEFAULT_LIMIT = 16 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event: `name` is `message` when the stream gave none."""

    name: str
    data: bytes


class SseSplitter:
    """Splits one stream; `limit` bounds the bytes of an event that is not complete yet."""

    __slots__ = ("_after_cr", "_buffer", "_head", "_limit")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._after_cr = False
        self._head: bytes | None = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The data of each event that `data` completes; names are dropped.

        Raises:
            ModelError: An event is longer than the limit.
        """
        whole = self._complete(data)
        if whole.startswith(b"data: "):
            found = whole[6:-2].split(b"\n\ndata: ")
            if whole.count(b"\n") == 2 * len(found) and b"" not in found:
                return found  # nothing but `data: ...` blocks of one line
        elif whole.startswith(b"event: "):
            blocks = whole[:-2].split(b"\n\nevent: ")
            found = [block.partition(b"\ndata: ")[2] for block in blocks]
            if whole.count(b"\n") == 3 * len(found) and b"" not in found:
                return found  # nothing but blocks of a name and one line of data
        return [event.data for block in whole.split(b"\n\n") if (event := _parse(block))]

    def feed_events(self, data: bytes) -> list[Event]:
        """Like `feed`, with names."""
        return [event for block in self._complete(data).split(b"\n\n") if (event := _parse(block))]

    def flush(self) -> list[Event]:
        """The event that the end of the stream left open, if it has data; call it once, at the end."""
        block = bytes(self._head or b"") + bytes(self._buffer)
        self._head = None
        self._buffer.clear()
        event = _parse(block)
        return [event] if event else []

    def _complete(self, data: bytes) -> bytes:
        """The bytes up to the last blank line, with LF line ends; what comes after it stays in the buffer."""
        if self._head is not None:
            data = self._without_bom(data)
        if self._after_cr or b"\r" in data:
            data = self._with_lf(data)
        buffer = self._buffer
        if buffer:
            start = max(0, len(buffer) - 1)
            buffer += data
            end = buffer.rfind(b"\n\n", start) + 2
            whole = bytes(memoryview(buffer)[:end]) if end > 1 else b""
            del buffer[: len(whole)]
        else:
            end = data.rfind(b"\n\n") + 2
            whole = data[:end] if end > 1 else b""
            buffer += data[len(whole) :]
        self._check_size()
        return whole

    def _check_size(self) -> None:
        if len(self._buffer) > self._limit:
            raise ModelError(
                f"The provider sent an event of more than {self._limit} bytes; the stream was closed.",
                id="MODEL_EVENT_TOO_LARGE",
                details={"limit": self._limit},
            )

    def _without_bom(self, data: bytes) -> bytes:
        data = (self._head or b"") + data
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._head = data
            return b""
        self._head = None
        return data.removeprefix(_BOM)

    def _with_lf(self, data: bytes) -> bytes:
        """CR ends a line at once; an LF right after it, in whatever read, belongs to it."""
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
            if not data:
                return data
        self._after_cr = data.endswith(b"\r") or (self._after_cr and not data)
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _parse(block: bytes) -> Event | None:
    """The event of a block, or None when it has no data or only empty data."""
    name = b"message"
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event" and value:
            name = value
    joined = b"\n".join(data)
    return Event(name.decode("utf-8", "replace"), joined) if joined else None
