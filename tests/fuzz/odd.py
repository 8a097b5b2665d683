"""Events that no provider should send: values of the wrong kind, endless numbers, depth, bytes that are no text.

Whatever they are, a model reads past them or says with a `ModelError` that it cannot; what it gives out can be kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.fuzz.corpus import Stream, payload_of

HUGE = "HUGE"
DEEP = "DEEP"
ODD: tuple[Any, ...] = (None, True, -1, 0, 1e300, "", "x", [], {}, [None], [[]], {"x": None}, ["x"], [{}], HUGE, DEEP)
_SPELT = {json.dumps(HUGE): "1" * 400, json.dumps(DEEP): "[" * 3_000 + "]" * 3_000}
BYTES = (
    b"\xff\xfe", b"\x00", b"\xed\xa0\x80", b"{", b'{"a":', b"[]", b"1", b'"x"', b"null", b"[" * 100_000,
    b'{"a":"\xff"}', b'{"choices":[{"delta":{"content":"\xff"}}]}', b"1e999", b"9" * 5_000,
    b'{"usage":' + b"9" * 400 + b"}",
    b'{"type":"\xff"}', b'{"error":' + b"[" * 3_000 + b"]" * 3_000 + b"}", b'{"error":{"message":"\xff"}}',
    b'{"zzz":"\xff"}', b'{"zzz":' + b"[" * 3_000 + b"]" * 3_000 + b"}",
)  # fmt: skip


def framed(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def with_odd_bytes(stream: Stream) -> Iterator[tuple[str, bytes]]:
    """Each of `BYTES` as an event of its own, after each event."""
    for place in range(len(stream.events) + 1):
        for data in BYTES:
            yield (
                f"{data!r:.40} before event {place}",
                b"".join((*stream.events[:place], framed(data), *stream.events[place:])),
            )


def with_odd_values(stream: Stream, random: Random | None = None, share: float = 1.0) -> Iterator[tuple[str, bytes]]:
    """Each value of each event put in place of by each of `ODD`, and each key left out."""
    for place, event in enumerate(stream.events):
        payload = payload_of(event)
        for path in _paths(payload):
            for value in (*ODD, _GONE):
                if random is not None and random.random() > share:
                    continue
                changed = framed(_spelt(_put(payload, path, value)))
                what = f"event {place}: {path} = {value!r}"
                yield what, b"".join((*stream.events[:place], changed, *stream.events[place + 1 :]))


_GONE = object()
Path = tuple[str | int, ...]


def _paths(value: Any, at: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict):
        items: Iterator[tuple[Any, Any]] = iter(value.items())
    elif isinstance(value, list):
        items = iter(enumerate(value))
    else:
        return
    for key, inner in items:
        yield (*at, key)
        yield from _paths(inner, (*at, key))


def _put(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    key, *rest = path
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    if new is _GONE and not rest:
        del copy[key]
    else:
        copy[key] = _put(value[key], tuple(rest), new)
    return copy


def _spelt(payload: Any) -> bytes:
    text = json.dumps(payload)
    for mark, spelling in _SPELT.items():
        text = text.replace(mark, spelling)
    return text.encode()
