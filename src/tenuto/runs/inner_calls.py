"""The call of a child run that a delegation waits for, found again by whoever answers it.

Invariant: an answer is checked against the tool that will get it, at whatever depth, before anything is stored.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tenuto.machine.records import AnyRecord, ModelEnded, ToolEnded, WaitsFor
from tenuto.runs.children import child_again
from tenuto.runs.replay import read_journal
from tenuto.steps.delegates import DelegationTool
from tenuto.steps.prepare import bind
from tenuto.steps.prepare_step import enter_recorded
from tenuto.store.ports import ANYONE, RunStore

if TYPE_CHECKING:
    from tenuto.steps.run import Run


@asynccontextmanager
async def asking_run(store: RunStore, run: Run, records: Sequence[AnyRecord], call_id: str) -> AsyncGenerator[Run]:
    """The run whose own tool waits: `run`, which is bound, or the one below it that its call `call_id` waits for.

    Raises:
        RunError: Another agent stands in the place of a child's.
    """
    waits = waits_for(records, call_id)
    tool = None if waits is None else run.toolbox.get(_name_of(records, call_id))
    row = None if waits is None else await store.run(waits.run_id, resource=ANYONE)
    if waits is None or row is None or not isinstance(tool, DelegationTool):
        yield run
        return
    inner: list[Any] = await read_journal(store, row)
    child = await child_again(run, row, tool.agent, inner)
    async with child.closing:
        await bind(child)
        await enter_recorded(child, inner)
        async with asking_run(store, child, inner, waits.call_id) as found:
            yield found


def waits_for(records: Sequence[AnyRecord], call_id: str) -> WaitsFor | None:
    """What a suspended call waits for inside its child run; None for a call that is no delegation."""
    for record in reversed(records):
        if isinstance(record, ToolEnded) and record.call_id == call_id:
            return None if record.delegated is None else record.delegated.waits_for
    return None


def _name_of(records: Sequence[AnyRecord], call_id: str) -> str:
    """The tool that the model called, not the one that waits."""
    for record in reversed(records):
        if isinstance(record, ModelEnded):
            return next((call.name for call in record.calls if call.id == call_id), "")
    return ""
