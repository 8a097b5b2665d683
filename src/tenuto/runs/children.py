"""Drives the child runs of a run: started, resumed and recovered by their parent's tool step, and by nobody else.

Invariant: a child is driven by a `Driver` like any run, under the fence of its root; it has a journal of its own, and
what is known of it is read from there. A decision on a call of it is posted to it, once, before it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from tenuto.core.chunks import AnyChunk, ToolOutput
from tenuto.core.errors import RunError
from tenuto.machine.records import LOOP_VERSION
from tenuto.runs.driver import Driver
from tenuto.runs.nested import wrapped
from tenuto.runs.origin import Continued, Nested
from tenuto.runs.replay import Host, position_of, read_journal, read_thread, rebuild, take_in
from tenuto.runs.spent import spent_by
from tenuto.steps.budget import budget_of
from tenuto.steps.ports import Brief, Child, Delegating
from tenuto.steps.run import UNSET, Run
from tenuto.steps.sub_memory import sub_memory_again
from tenuto.store.ports import ANYONE, TERMINAL_STATUS, Decide, RunRow, RunStore
from tenuto.store.rules import answers

if TYPE_CHECKING:
    from tenuto.core.abort import AbortSignal
    from tenuto.core.payloads import FinishReason
    from tenuto.runs.journal import Journal, Position

BATCH = 512
"""Events read at once."""


class Delegate(Protocol):
    """What an agent's `delegate()` gives: the runs that a supervisor's calls start."""

    async def child_run(self, parent: Run, child_id: str, brief: Brief) -> Run:
        """A run of the agent for `brief`, not started."""
        ...

    def child_host(self, parent: Run) -> Host:
        """What the agent brings to such a run that goes on here."""
        ...


class ChildRuns:
    """See `steps.ports.Children`.

    Args:
        driver: Of the parent.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._parent: Run = driver.run
        self._store: RunStore = driver.store
        self._found: dict[str, tuple[RunRow, Position]] = {}

    async def find(self, call: Delegating) -> Child | None:
        """See `Children.find`."""
        row = await self._store.run(call.child_id, resource=ANYONE)
        if row is None:
            return None
        records = await read_journal(self._store, row)
        if not records:
            return None
        run = await child_again(self._parent, row, call.agent, records)
        await read_thread(run, records)
        state = take_in(run, records)
        pending = await self._store.pending(row.run_id, resource=ANYONE)
        run.pending = {each.call_id: each for each in pending}
        if run.budget is not None and run.budget is not self._parent.budget:
            run.budget.before(await spent_by(self._store, row.run_id, records))
        position = await position_of(self._store, row, records, state)
        self._found[row.run_id] = row, position
        reason: FinishReason | None = "suspended" if row.status == "suspended" else None
        if row.status in TERMINAL_STATUS:
            reason = state.reason
            await self._catch_up(call, position.events)
        return Child(run=run, reason=reason, began=row.created_at or run.clock.now(), events=position.events)

    async def start(self, call: Delegating, brief: Brief) -> Child:
        """See `Children.start`."""
        run = await _delegate(call.agent).child_run(self._parent, call.child_id, brief)
        journal = self._journal
        row = RunRow(
            run_id=run.run_id,
            agent_id=run.definition.id,
            scope=journal.fence.scope,
            durable=journal.kept,
            parent_id=self._parent.run_id,
            parent_call_id=call.call_id,
            thread_id=run.thread_id,
            resource_id=run.resource_id,
            loop_version=LOOP_VERSION,
        )
        nested = Nested(journal, row, waits=False, relay=partial(self._relay, call))
        return await self._driven(self._driver_of(run, nested), run.clock.now())

    async def go_on(self, call: Delegating, child: Child, decision: Decide | None) -> Child:
        """See `Children.go_on`."""
        row, position = self._found[child.run.run_id]
        await self._catch_up(call, position.events)
        waits = row.status == "suspended"
        if decision is not None and answers(decision, child.run.pending.get(decision.call_id)):
            await self._store.post(decision)
        elif waits:
            return child
        journal = self._journal
        continued = Continued(journal.fence, position, "resume" if waits else "recover")
        nested = Nested(journal, None, waits=waits, relay=partial(self._relay, call))
        return await self._driven(self._driver_of(child.run, nested, continued), child.began)

    @property
    def _journal(self) -> Journal:
        journal = self._driver.journal
        assert journal is not None  # noqa: S101 - the parent's driver runs the step that asks
        return journal

    def _driver_of(self, run: Run, nested: Nested, continued: Continued | None = None) -> Driver:
        driver = Driver(
            run,
            self._store,
            self._journal.fence.owner,
            continued=continued,
            wake=self._driver.wake,
            nested=nested,
            aside=self._driver.aside,
        )
        run.children = ChildRuns(driver)
        return driver

    async def _driven(self, driver: Driver, began: float) -> Child:
        run = driver.run
        forget = [_pass_on(signal, driver) for signal in self._signals(run)]
        try:
            await driver.drive()
        except asyncio.CancelledError:
            if not self._parent.aborted:
                raise
        finally:
            for each in forget:
                each()
        if self._parent.aborted and driver.output.status == "running":
            return Child(run=run, reason="aborted", began=began, events=0)
        result = await driver.output.get_full_output()
        events = 0 if driver.journal is None else driver.journal.next_event
        return Child(run=run, reason=result.finish_reason, began=began, events=events)

    def _signals(self, run: Run) -> list[AbortSignal]:
        own: AbortSignal | None = (run.asked or {}).get("abort_signal")
        return [self._parent.abort.signal, *([] if own is None else [own])]

    async def _relay(self, call: Delegating, chunks: Sequence[AnyChunk], first: int) -> None:
        """Show a child's chunks on the parent's stream."""
        shown = wrapped(self._parent.run_id, call.call_id, call.tool_name, chunks, first)
        await self._journal.relay(shown)

    async def _catch_up(self, call: Delegating, events: int) -> None:
        """Show what the child's log has and the parent's has not: its driver died in between."""
        if not self._journal.kept:
            return
        at = await self._shown(call)
        while at < events:
            found = await self._store.events(call.child_id, resource=ANYONE, start=at, limit=BATCH)
            if not found:
                return
            await self._relay(call, [event.chunk for event in found], found[0].index)
            at = found[-1].index + 1

    async def _shown(self, call: Delegating) -> int:
        """Index of the first event of the child that the parent's log does not have."""
        draft = self._parent.draft
        inner = None if draft is None else draft.inner.get(call.call_id)
        shown = 0 if inner is None else inner.events
        at = self._journal.state.first_event
        while found := await self._store.events(self._parent.run_id, resource=ANYONE, start=at, limit=BATCH):
            for event in found:
                chunk = event.chunk
                if isinstance(chunk, ToolOutput) and chunk.payload.tool_call_id == call.call_id:
                    shown = max(shown, -1 if chunk.payload.index is None else chunk.payload.index + 1)
            at = found[-1].index + 1
        return shown


async def child_again(parent: Run, row: RunRow, agent: Any, records: list[Any]) -> Run:
    """A child of `parent` that goes on here, before any record is taken into it."""
    host = _delegate(agent).child_host(parent)
    if host.definition.id != row.agent_id:
        message = (
            f"Run {row.run_id!r}, a child of {parent.run_id!r}, is one of agent {row.agent_id!r}, and "
            f"{host.definition.id!r} stands in its place now; bring that agent back."
        )
        raise RunError(message, id="DURABLE_AGENT_RESUME_AGENT_MISMATCH", category="USER")
    run = await rebuild(host, row, records)
    run.durable = parent.durable
    run.memory = await sub_memory_again(parent, run)
    return adopted(run, parent)


def adopted(run: Run, parent: Run) -> Run:
    """A run as a child of `parent`: with what it has of it."""
    run.lineage = (*parent.lineage, parent.definition.id)
    run.budget = budget_of(run.options.cost_limit, run.options.token_limit, parent.budget)
    if run.definition.deps is UNSET and run.call_deps is UNSET:
        run.deps = parent.deps
    return run


def _delegate(agent: Any) -> Delegate:
    return cast("Delegate", agent.delegate())


def _pass_on(signal: AbortSignal, driver: Driver) -> Any:
    return signal.listen(lambda: driver.abort(signal.reason))
