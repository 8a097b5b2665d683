"""The one place where chunks and log events become bytes and come back.

Invariant: `decode_chunk(encode(x)) == x` for every chunk, and an unknown type is an error, never a silent drop.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from tenuto.core.chunks import AnyChunk, Data, TaggedChunk
from tenuto.core.errors import StoreError


class _Peek(msgspec.Struct):
    type: str


_encode = msgspec.json.Encoder().encode
_peek = msgspec.json.Decoder(_Peek)


@cache
def _tagged() -> msgspec.json.Decoder[TaggedChunk]:
    """Made at the first use: it looks at every chunk type, which is a tenth of what importing us costs."""
    return msgspec.json.Decoder(TaggedChunk)


@cache
def _data() -> msgspec.json.Decoder[Data]:
    return msgspec.json.Decoder(Data)


def encode(value: Any) -> bytes:
    """The JSON bytes of a chunk, a record, a payload or any plain value.

    Raises:
        TypeError: The value holds something JSON cannot: an object of some other class, half of a character, itself.
    """
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        message = f"JSON cannot hold this {type(value).__name__}: {_why(error)}."
        raise TypeError(message) from error


def decode_chunk(raw: bytes) -> AnyChunk:
    """The chunk that `raw` encodes.

    Raises:
        StoreError: It is not a chunk this version knows; the message names its type and nothing else of it.
    """
    kind = ""
    try:
        kind = _peek.decode(raw).type
        return _data().decode(raw) if kind.startswith("data-") else _tagged().decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        message = (
            f"Not a chunk this version of tenuto knows (type {kind!r}); update tenuto to the version that wrote it."
        )
        raise StoreError(message, id="CHUNK_UNKNOWN", details={"type": kind}) from error


def _why(error: Exception) -> str:
    return "a text in it is not valid Unicode" if isinstance(error, UnicodeError) else str(error).rstrip(".")
