"""After a run on a thread: has what has become old in it noted down, where the memory is made so.

Invariant: it is begun when the run's result is out, goes on beside whatever the thread is used for next, and touches
neither. The run of a sub-agent begins none: its thread is its root's affair.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tenuto.store.owners import owner_id

if TYPE_CHECKING:
    from tenuto.memory.bound import RunMemory
    from tenuto.memory.compaction import Desk
    from tenuto.runs.scoring import Aside
    from tenuto.steps.run import Run


def begin_compaction(run: Run, memory: RunMemory, aside: Aside) -> None:
    """Have the thread of `run`, which has just ended, compacted by `aside` if it has grown too long."""
    options = memory.config.observational_memory
    if options is None or not memory.config.saves or run.lineage:
        return
    from tenuto.memory.compaction import Desk

    desk = Desk(
        store=memory.store,
        thread=memory.thread,
        resource=memory.resource,
        options=options,
        model=run.model,
        owner=owner_id(),
        clock=run.clock,
    )
    task = aside(partial(_compact, desk), f"notes of thread {memory.thread}")
    if memory.memory is not None:
        memory.memory.asides.add(task)


async def _compact(desk: Desk) -> None:
    from tenuto.memory.compaction import compact

    await compact(desk)
