"""The port of scores: what scorers said about runs.

Invariant: a score is posted once and never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from tenuto.core.payloads import Json
from tenuto.store.scopes import Owner


class ScoreRow(Struct, frozen=True, kw_only=True):
    """One score of one run; unique by `id`.

    Attributes:
        entity_id: What was scored, an agent's id.
        source: `LIVE`, or `TEST` for an evaluation.
        details: What the steps of the scorer found, to explain the score.
        created_at: Seconds since the epoch; set by the store when None.
    """

    id: str
    scorer_id: str
    run_id: str
    score: float
    entity_id: str
    entity_type: str = "AGENT"
    source: str = "LIVE"
    reason: str | None = None
    resource_id: str | None = None
    thread_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    input: Json = None
    output: Json = None
    metadata: Mapping[str, Json] | None = None
    details: Mapping[str, Json] | None = None
    created_at: float | None = None


class ScoreStore(Protocol):
    """The part of `RunStore` that reads scores; they are written by `RunStore.post`."""

    async def scores(
        self,
        *,
        resource: Owner,
        run_id: str | None = None,
        scorer_id: str | None = None,
        entity_id: str | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> list[ScoreRow]:
        """Scores of runs of `resource` (None: of runs without an owner), the one stored last first."""
        ...
