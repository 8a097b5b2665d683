"""Live scores: after a run ended well, scorers look at it, and what they say is stored.

Invariant: a score never changes, delays or fails the run it is about; which runs are scored depends on the run alone;
a score is stored once per run and scorer name.

Source: live scorers of Mastra: order of the decisions, facts of a filter, contents of a stored score.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from tenuto.steps.scoring import scoring_data
from tenuto.store.scores import ScoreRow

if TYPE_CHECKING:
    from tenuto.evals.declared import Declared
    from tenuto.evals.sample import ScoringData
    from tenuto.evals.scorer import Scorer, ScorerResult
    from tenuto.steps.run import Run
    from tenuto.store.ports import RunStore

_log = logging.getLogger("tenuto")

Aside = Callable[[Callable[[], Coroutine[Any, Any, None]], str], object]
"""Takes work that nobody waits for, and its name."""

_DEPTH = 8
"""Nested mappings of a request context whose values a filter sees."""


class Scored(Struct, frozen=True):
    """A run that is scored, as it was when it ended."""

    run: Run
    data: ScoringData
    row: ScoreRow


def begin_scoring(run: Run, store: RunStore, aside: Aside) -> None:
    """Have `run`, which has just ended well, scored by `aside`."""
    try:
        work = live_scoring(run, store)
    except Exception:  # noqa: BLE001 - its result is out
        _log.exception("Run %s cannot be scored.", run.run_id)
        return
    if work is not None:
        aside(work, f"scores of {run.run_id}")


def live_scoring(run: Run, store: RunStore) -> Callable[[], Coroutine[Any, Any, None]] | None:
    """What scores `run`, which has just ended well; None when nobody scores it."""
    root = run.trace.root
    link = root.link
    if not run.scorers or (link is not None and not root.recording):
        return None  # a trace that is not kept has no scores
    context = run.request_context.to_json()
    facts = {
        "requestContext": dict(flat(context)),
        "entity": {"id": run.definition.id, "name": run.definition.name},
        "entityType": "AGENT",
        "source": "LIVE",
        "threadId": run.thread_id,
        "resourceId": run.resource_id,
    }
    key = run.run_id if link is None else link.trace_id
    chosen = [each for each in run.scorers if each.takes(key, facts)]
    if not chosen:
        return None
    data = scoring_data(run)
    plain = data.to_dict()
    row = ScoreRow(
        id="",
        scorer_id="",
        run_id=run.run_id,
        score=0.0,
        entity_id=run.definition.id,
        thread_id=run.thread_id,
        resource_id=run.resource_id,
        trace_id=None if link is None else link.trace_id,
        span_id=None if link is None else link.span_id,
        input=plain["input"],
        output=plain["output"],
        metadata={"structuredOutput": run.options.structured_output is not None, "requestContext": dict(flat(context))},
    )
    return partial(_score, chosen, Scored(run, data, row), store)


async def _score(chosen: list[Declared], scored: Scored, store: RunStore) -> None:
    async with asyncio.TaskGroup() as group:
        for each in chosen:
            group.create_task(_score_one(each, scored, store))


async def _score_one(declared: Declared, scored: Scored, store: RunStore) -> None:
    run = scored.run
    scorer: Scorer = declared.scorer  # pyright: ignore[reportAssignmentType] - `bind_scorers` looked it up
    from tenuto.evals.scorer import ask_scorer

    try:
        result = await ask_scorer(scorer, scored.data.input, scored.data.output, run.request_context)
    except Exception:  # noqa: BLE001 - a user's code, or a judge's model
        _log.warning("Scorer %r could not score run %s.", scorer.id, run.run_id, exc_info=True)
        return
    if result.score is None:
        return
    try:
        await store.post(_row(declared, scorer, scored.row, result))
    except Exception:  # noqa: BLE001 - the run has ended; nobody waits for this
        _log.warning("The score of %r for run %s could not be stored.", scorer.id, run.run_id, exc_info=True)


def _row(declared: Declared, scorer: Scorer, row: ScoreRow, result: ScorerResult) -> ScoreRow:
    """The score of one scorer; its id is the same however often it is stored."""
    return replace(
        row,
        id=f"{row.run_id}-{declared.name}",
        scorer_id=scorer.id,
        score=result.score,
        reason=result.reason,
        details=result.metadata or None,
    )


def flat(values: Mapping[str, Any], *, depth: int = _DEPTH) -> Iterator[tuple[str, Any]]:
    """The texts, numbers and flags of a request context, those of mappings in it under dotted keys; no lists."""
    for key, value in values.items():
        if isinstance(value, (str, int, float, bool)):
            yield key, value
        elif isinstance(value, Mapping) and depth > 1:
            below = cast("Mapping[str, Any]", value)
            yield from ((f"{key}.{name}", each) for name, each in flat(below, depth=depth - 1))
