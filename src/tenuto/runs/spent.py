"""What the runs below one that goes on have done, by their journals: what they spent, and whether they came on.

Invariant: a model call counts once, in whichever journal it stands; a child counts as its own journal says, until its
parent's says what it took.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenuto.core.payloads import Usage
from tenuto.machine.records import (
    AnyRecord,
    Blocked,
    ModelEnded,
    ModelFailed,
    SegmentStarted,
    StepJudged,
    StepRejected,
    ToolEnded,
)
from tenuto.runs.replay import read_journal
from tenuto.steps.delegation import child_id_of
from tenuto.store.ports import ANYONE, TERMINAL_STATUS, RunRow, RunStore

if TYPE_CHECKING:
    from collections.abc import Sequence


async def spent_by(store: RunStore, run_id: str, records: Sequence[AnyRecord] | None = None) -> Usage:
    """The usage of the run with all of its tree; `records` is its journal, if it was read before."""
    row = await store.run(run_id, resource=ANYONE) if records is None else None
    given = records if records is not None else await _journal(store, row)
    usage, calls = Usage(), dict[str, Usage]()
    step, ids = 0, tuple[str, ...]()
    for record in given:
        match record:
            case ModelEnded():
                usage = sum(calls.values(), usage) + record.said.usage
                step, ids, calls = record.step, tuple(call.id for call in record.calls), {}
            case ModelFailed() | StepRejected() | Blocked() if record.said is not None:
                usage += record.said.usage
            case ToolEnded() if record.delegated is not None and record.delegated.usage is not None:
                calls[record.call_id] = record.delegated.usage
            case StepJudged() if record.answer is not None and record.answer.usage is not None:
                usage += record.answer.usage
            case _:
                pass
    places = {child_id_of(run_id, step, place): call_id for place, call_id in enumerate(ids)}
    for child in await store.children(run_id, resource=ANYONE):
        if child.run_id in places:
            calls[places[child.run_id]] = await spent_by(store, child.run_id)
    return sum(calls.values(), usage)


async def has_progressed(store: RunStore, run_id: str) -> bool:
    """Whether a run below has completed a model call since it was taken up the last time: then it is no crash loop."""
    for child in await store.children(run_id, resource=ANYONE):
        if child.status in TERMINAL_STATUS:
            continue
        for record in reversed(await read_journal(store, child)):
            if isinstance(record, SegmentStarted):
                break
            if isinstance(record, ModelEnded):
                return True
        if await has_progressed(store, child.run_id):
            return True
    return False


async def _journal(store: RunStore, row: RunRow | None) -> list[AnyRecord]:
    return [] if row is None else await read_journal(store, row)
