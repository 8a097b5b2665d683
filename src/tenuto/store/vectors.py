"""The port of vectors: numbers that stand for parts of messages, kept to be searched.

Invariant: a vector goes with its message. Nobody's fence is needed: what is written is only ever about a message that
is stored, and writing it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from tenuto.store.scopes import Owner


class VectorRow(Struct, frozen=True, kw_only=True):
    """One vector.

    Attributes:
        resource: Whose thread it is.
        part: Which piece of the message, from 0.
        space: Vectors of one space can be compared: names the embedder and its number of dimensions.
        vector: The numbers as little-endian float32.
        place: Where a scan goes on after this one; set by the store.
    """

    resource: str
    thread: str
    message_id: str
    part: int
    space: str
    vector: bytes
    place: int = 0


class VectorStore(Protocol):
    """The part of `RunStore` that keeps vectors."""

    async def index(self, rows: Sequence[VectorRow]) -> int:
        """Store vectors, in place of all that their messages had in their spaces; returns how many were stored.

        Those of a message that is not (any more) in that thread of that resource are left out.
        """
        ...

    async def unindex(
        self, *, resource: str, thread: str | None = None, ids: Sequence[str] | None = None, space: str | None = None
    ) -> int:
        """Drop vectors of `resource`; each further argument narrows it down. Returns how many were dropped."""
        ...

    async def vectors(
        self, *, resource: Owner, space: str, thread: str | None = None, after: int = 0, limit: int = 4096
    ) -> list[VectorRow]:
        """At most `limit` vectors of one space of `resource`, or of one of its threads, in the order they were stored.

        A scan of all goes on `after` the `place` of the last one it was given.
        """
        ...
