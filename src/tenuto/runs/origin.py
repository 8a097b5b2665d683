"""How a driver comes to a run that is not its own from the claim on: one that goes on, or the child of another.

Invariant: values; who makes them holds the fence that they name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from msgspec import Struct

from tenuto.core.chunks import AnyChunk
from tenuto.runs.journal import Journal, Position
from tenuto.runs.turns import Line
from tenuto.store.ports import Fence, RunRow


class Continued(Struct, frozen=True):
    """A run that somebody has driven before: the fence under which this process goes on, and from where.

    Attributes:
        line: Of its thread, whose turn it has; it gives it on.
    """

    fence: Fence
    position: Position
    cause: Literal["resume", "recover"]
    line: Line | None = None


class Nested(Struct, frozen=True):
    """What a child run has of its parent's driver: it claims nothing, and gives nothing back.

    Attributes:
        parent: The log of the parent's run: its fence is the root's, and a run that is kept keeps its children.
        row: Of a new child, which its first write adds.
        waits: The store has it as suspended; the first write says that it runs again.
        relay: Shows the parent's viewers what the child's are shown, from this index on.
    """

    parent: Journal
    row: RunRow | None
    waits: bool
    relay: Callable[[Sequence[AnyChunk], int], Awaitable[None]]
