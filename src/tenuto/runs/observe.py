"""Follows a run from the store: from any index, in any process, whoever drives it.

Invariant: a viewer reads the log and nothing else; a wake-up only shortens its next wait. It ends when the log has a
terminal chunk and the run's row says so, never merely because nothing comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tenuto.bus.ports import PubSub
from tenuto.core.chunks import Error, Gap
from tenuto.core.clock import Clock
from tenuto.core.errors import RunError, TenutoError
from tenuto.core.ids import RandomIds
from tenuto.core.payloads import ErrorPayload, GapPayload
from tenuto.core.request_context import RequestContext
from tenuto.machine.records import RunStarted, SegmentStarted
from tenuto.runs.output import RunOutput
from tenuto.runs.replay import Host, Restored, begun, read_journal, read_thread, rebuild, take_in
from tenuto.runs.result import build_result
from tenuto.steps.failure import error_info
from tenuto.steps.finish import STATUS
from tenuto.steps.run import Definition, Options
from tenuto.store.ports import TERMINAL_STATUS, RunRow, RunStore
from tenuto.structured.output import StructuredOutput

POLL_SECONDS = 0.05
"""Longest wait between two looks into the store, for runs that another process drives."""

BATCH = 512
"""Events read at once."""

LIVENESS_SECONDS = 5.0
"""How often a viewer of a quiet run looks whether it has a driver; twice without one, and the viewer is told."""

SCAN = 10_000
"""Runs without a driver that are looked through, at the most."""

Own = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]


def topic_of(run_id: str) -> str:
    """The wake-up topic of a run."""
    return f"run:{run_id}"


class Observer:
    """Feeds one `RunOutput` from the store.

    Args:
        store: Where the run is kept.
        row: The run.
        offset: Index of the first event to show.
        bus: Carries wake-ups within this process; None: polling only.
        close_on_suspend: End when the run waits for a decision; else go on with what follows the decision.
        output: What it feeds.
        own: Runs it as a task.
        typed: What this process reads the structured output with.
    """

    def __init__(
        self,
        store: RunStore,
        clock: Clock,
        row: RunRow,
        *,
        offset: int,
        bus: PubSub | None,
        close_on_suspend: bool,
        output: RunOutput[Any],
        own: Own,
        typed: Callable[[RunStarted], StructuredOutput[Any] | None] = lambda _: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._row = row
        self._next = offset
        self._bus = bus
        self._close_on_suspend = close_on_suspend
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._own = own
        self._typed = typed
        self._task: asyncio.Task[None] | None = None
        self._looked = clock.monotonic()
        self._alone = False
        self.output: RunOutput[Any] = output

    def start(self) -> None:
        """See `Feed.start`."""
        if self._task is None or self._task.done():
            self._task = self._own(self._follow(), f"viewer of {self._row.run_id}")

    def stop(self) -> None:
        """See `Feed.stop`."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _follow(self) -> None:
        """Show what is stored and what comes, until the run has ended; cancelled, it just stops."""
        unsubscribe = None if self._bus is None else self._bus.subscribe(topic_of(self._row.run_id), self._wake)
        try:
            await self._until_ended()
        except TenutoError as error:
            self.output.fail(error)
        finally:
            if unsubscribe is not None:
                unsubscribe()

    async def _until_ended(self) -> None:
        while True:
            self._woken.clear()
            row = await self._store.run(self._row.run_id, resource=self._row.resource_id)
            if row is None:
                message = f"Run {self._row.run_id!r} is no longer in the store."
                raise RunError(message, id="DURABLE_AGENT_RUN_NOT_FOUND")
            shown = await self._show_stored()
            over = row.status in TERMINAL_STATUS or (row.status == "suspended" and self._close_on_suspend)
            if over and not shown:
                if await self._is_beyond_the_end(row):
                    continue
                await self._end(row)
                return
            if not shown:
                if row.status == "running" and await self._is_abandoned():
                    await self._interrupt()
                    return
                await self._wait()

    async def _go_to(self, first: int) -> None:
        """Go on at another index than was asked for, and say so."""
        shown = self.output.skip(Gap(self._row.run_id, "SYSTEM", GapPayload(self._next, first)), first)
        self._next = first
        if shown is not None:
            await shown

    async def _is_beyond_the_end(self, row: RunRow) -> bool:
        """Whether an index was asked for that never came: then the viewer gets the last event instead."""
        count = await self._store.event_count(row.run_id, resource=row.resource_id)
        if self._next <= count:
            return False
        await self._go_to(max(count - 1, 0))
        return True

    async def _show_stored(self) -> bool:
        events = await self._store.events(
            self._row.run_id, resource=self._row.resource_id, start=self._next, limit=BATCH
        )
        if events:
            if events[0].index > self._next:  # those before it are not kept
                await self._go_to(events[0].index)
            self._alone = False
            self._next = events[-1].index + 1
            shown = self.output.show([event.chunk for event in events])
            if shown is not None:
                await shown
        return bool(events)

    async def _is_abandoned(self) -> bool:
        """Whether nobody drives the run, and nobody has taken it up since this was asked before."""
        now = self._clock.monotonic()
        if now - self._looked < LIVENESS_SECONDS:
            return False
        self._looked, was = now, self._alone
        self._alone = any(row.run_id == self._row.run_id for row in await self._store.recoverable(limit=SCAN))
        return was and self._alone

    async def _interrupt(self) -> None:
        run_id, offset = self._row.run_id, self.output.last_index + 1
        message = (
            f"Nobody drives run {run_id!r} any more: its process is gone. An app with recovery='auto', or recover(), "
            f"goes on with it; observe(offset={offset}) then goes on here."
        )
        error = RunError(message, id="RUN_INTERRUPTED")
        shown = self.output.aside(Error(run_id, "SYSTEM", ErrorPayload(error_info(error))))
        if shown is not None:
            await shown
        self.output.fail(error)

    async def _end(self, row: RunRow) -> None:
        records = await read_journal(self._store, row)
        run = await rebuild(self._host(), row, records)
        await read_thread(run, records)
        state = take_in(run, records)
        run.degraded = next((each.degraded for each in reversed(records) if isinstance(each, SegmentStarted)), ())
        self.output.message_id = begun(row, records).message_id
        if row.status == "suspended":
            pending = await self._store.pending(row.run_id, resource=row.resource_id)
            run.pending = {each.call_id: each for each in pending}
            self.output.end(build_result(run, "suspended"), "suspended")
        else:
            self.output.end(build_result(run, state.reason), STATUS.get(state.reason, row.status))

    def _host(self) -> Host:
        return Host(
            definition=Definition(id=self._row.agent_id, name=self._row.agent_id, model=None),
            store=self._store,
            clock=self._clock,
            ids=RandomIds(),
            options=lambda first: Restored(Options(max_steps=1, structured_output=self._typed(first))),
            request_context=RequestContext(),
            deps=None,
        )

    async def _wait(self) -> None:
        waiting = asyncio.ensure_future(self._woken.wait())
        pausing = asyncio.ensure_future(self._clock.sleep(POLL_SECONDS))
        try:
            await asyncio.wait((waiting, pausing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            pausing.cancel()

    def _wake(self, _index: int) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)
