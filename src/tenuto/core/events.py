"""The event envelope: a chunk and its place in its run's log."""

from __future__ import annotations

from msgspec import Struct

from tenuto.core.chunks import AnyChunk


class Event(Struct, frozen=True):
    """A stored chunk.

    Attributes:
        index: 0-based place in the run's log; contiguous over what is stored.
        chunk: What was streamed.
    """

    index: int
    chunk: AnyChunk
