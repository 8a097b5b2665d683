"""The wire format of embeddings at OpenAI and the many servers that copy it.

Invariant: an answer is taken only when it has exactly one vector for each text, all of one length, of real numbers;
their order is that of their `index`, whatever the order in the body.

Source: https://platform.openai.com/docs/api-reference/embeddings/create
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import msgspec
from msgspec import Struct

from tenuto.models.embedder import Vector

PATH = "/embeddings"


class _Request(Struct, frozen=True, omit_defaults=True):
    model: str
    input: Sequence[str]
    encoding_format: str
    dimensions: int | None = None


class _Item(Struct, frozen=True):
    embedding: tuple[float, ...]
    index: int | None = None


class _Answer(Struct, frozen=True):
    data: tuple[_Item, ...]


def encode(model: str, texts: Sequence[str], dimensions: int | None) -> bytes:
    """The body of a request; numbers come as text, which every server can write."""
    return msgspec.json.encode(_Request(model, texts, "float", dimensions))


def decode(body: bytes, count: int) -> list[Vector]:
    """The vectors of an answer to `count` texts, in the texts' order.

    Raises:
        ValueError: It is not such an answer; the message says why.
    """
    items = msgspec.json.decode(body, type=_Answer).data
    if len(items) != count:
        raise ValueError(f"{len(items)} vectors for {count} texts")
    order = [place if item.index is None else item.index for place, item in enumerate(items)]
    if sorted(order) != [*range(count)]:
        raise ValueError(f"the indexes {order[:8]} are not those of {count} texts")
    vectors: list[Vector] = [items[place].embedding for place in sorted(range(count), key=order.__getitem__)]
    lengths = {len(vector) for vector in vectors}
    if len(lengths) > 1 or 0 in lengths:
        raise ValueError(f"vectors of {sorted(lengths)} numbers")
    if not all(isfinite(sum(vector)) for vector in vectors):
        raise ValueError("a number that is none")
    return vectors
