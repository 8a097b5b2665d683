"""What others posted to a run: decisions and aborts, taken up by its driver at its boundaries.

Invariant: a decision is taken into the journal once, in the commit that closes the pending call it answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tenuto.core import faults
from tenuto.machine.records import Decision
from tenuto.store.ports import AbortRequest, Decide

if TYPE_CHECKING:
    from tenuto.runs.journal import Journal
    from tenuto.steps.run import Run
    from tenuto.store.ports import PendingCall, RunStore


async def take_decisions(run: Run, journal: Journal, store: RunStore) -> bool:
    """Record the decisions posted for pending calls; returns whether there were any."""
    found = await _matching(run, store)
    for posted, row in found:
        record = Decision(
            posted.call_id,
            posted.approved,
            posted.reason,
            posted.args,
            posted.resume_data,
            inner=run.draft is not None and posted.call_id in run.draft.inner,
        )
        await journal.commit(record, pending=[replace(row, closed=True)])
        del run.pending[posted.call_id]
        faults.hit("run.after_decision")
    return bool(found)


async def decisions_posted(run: Run, store: RunStore) -> bool:
    """Whether a decision waits to be taken."""
    return bool(await _matching(run, store))


async def abort_posted(run: Run, store: RunStore) -> bool:
    """Whether somebody asked for the end of the run."""
    return any(isinstance(post, AbortRequest) for post in await store.posts(run.run_id))


async def _matching(run: Run, store: RunStore) -> list[tuple[Decide, PendingCall]]:
    if not run.pending:
        return []
    return [
        (post, row)
        for post in await store.posts(run.run_id)
        if isinstance(post, Decide)
        and (row := run.pending.get(post.call_id)) is not None
        and (row.attempt, row.args_hash) == (post.attempt, post.args_hash)
    ]
