"""What is looked for among stored messages.

Invariant: a search names messages and never copies them: a run records their ids and reads them again where it goes on.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from tenuto.memory.config import SemanticRecall


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
