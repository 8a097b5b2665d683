"""What a memory needs of a search through stored messages.

Invariant: a search names messages and never copies them: a run records their ids and reads them again where it goes
on. Neither method ever fails or delays a run: a search that cannot be made finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from tenuto.memory.config import SemanticRecall
from tenuto.messages.stored import Message
from tenuto.store.ports import RunStore


class Query(Struct, frozen=True):
    """What is looked for, and where.

    Attributes:
        text: What the user says now.
        known: Ids of messages that the run reads anyway.
        warn: Told why nothing could be looked for.
    """

    text: str
    thread: str
    resource: str
    config: SemanticRecall
    known: frozenset[str] = frozenset()
    warn: Callable[[str], object] | None = None


class Recaller(Protocol):
    """Finds messages worth reading again, and keeps its index."""

    async def find(self, store: RunStore, query: Query) -> tuple[str, ...]:
        """Ids of the messages found and of those around them, in any thread of the resource."""
        ...

    def saved(self, store: RunStore, thread: str, resource: str, messages: Sequence[Message]) -> None:
        """These messages of a thread are stored now; returns at once."""
        ...

    async def settled(self) -> None:
        """Wait for what is under way."""
        ...
