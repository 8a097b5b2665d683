"""The driver: asks the machine what comes next, has it executed, and sees the run to its end.

Invariant: one driver per run and process, holding the run's fence; commands returned together are all started, in
order, and joined before the machine is asked again. An abort ends a model call at once and a tool after the grace;
whatever happens, the run gets its terminal chunk and status if the store can still be written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from tenuto.core import chunks as c
from tenuto.core import faults
from tenuto.core import payloads as p
from tenuto.core.chunks import AnyChunk
from tenuto.core.errors import RunError, StaleLease, TenutoError
from tenuto.core.foreign import contained
from tenuto.core.spans import running
from tenuto.machine import commands as m
from tenuto.machine.decisions import next_commands
from tenuto.machine.records import Parked, RunStarted, SegmentStarted
from tenuto.machine.state import RunState
from tenuto.runs import live
from tenuto.runs.afterwards import begin_afterwards
from tenuto.runs.hold import Hold, new_row
from tenuto.runs.journal import Journal, Position
from tenuto.runs.lease import Held, Renewer
from tenuto.runs.origin import Continued, Nested
from tenuto.runs.output import RunOutput
from tenuto.runs.posted import abort_posted, decisions_posted, take_decisions
from tenuto.runs.recovery import BACKOFF_SECONDS
from tenuto.runs.result import build_result
from tenuto.runs.scoring import Aside
from tenuto.runs.spent import has_progressed
from tenuto.runs.troubles import closed, exhausted, internal, never_begun, preparation_failed
from tenuto.runs.turns import Settle
from tenuto.runs.work import Work
from tenuto.steps.assess import assess_calls
from tenuto.steps.callbacks import call_back
from tenuto.steps.deadlines import passed
from tenuto.steps.failure import error_info
from tenuto.steps.finish import STATUS, finalise, finish, open_calls, record_abort
from tenuto.steps.judge import judge_step
from tenuto.steps.model_step import call_model
from tenuto.steps.prepare import bind, prepare
from tenuto.steps.prepare_step import enter_step, name_lost
from tenuto.steps.run import Callback, Run
from tenuto.steps.tool_step import refuse_call, run_call, settle_call
from tenuto.steps.tracing import Trace
from tenuto.store.ports import Fence, RunRow, RunStore

_log = logging.getLogger("tenuto")


class Driver:
    """Drives one run from its claim until it has ended or waits for a decision. Made and used on one event loop.

    Args:
        run: What to do.
        store: Where it is kept.
        owner: Names this driver to the store; no other driver has the same.
        continued: Set when the run goes on; its fence is the driver's from then on.
        wake: Told the run id and the index of its last stored event.
        renewer: Keeps the lease of a durable run alive.
        follow: Feeds an output that stays open beyond a suspension, from the index given.
        nested: Set for a child run, which its parent's step drives.
        aside: Takes work that is about the run once it has ended.
        settle: Has a run recovered that stands before this one on its thread.

    Attributes:
        store: Where the run is kept.
        output: For readers; there before the run starts.
        task: Drives it; set by the supervisor that owns it.
        prepared: Done once the prompt is assembled; holds what kept the run from starting.
        leaving: It may not see a decision that is posted now; whoever posted it drives the run on.
        journal: Once it has claimed the run.
    """

    task: asyncio.Task[None]

    def __init__(
        self,
        run: Run,
        store: RunStore,
        owner: str,
        *,
        continued: Continued | None = None,
        wake: Callable[[str, int], None] | None = None,
        renewer: Renewer | None = None,
        follow: Callable[[RunOutput[Any], int], None] | None = None,
        nested: Nested | None = None,
        aside: Aside | None = None,
        settle: Settle | None = None,
    ) -> None:
        self.run: Run = run
        first = 0 if continued is None else continued.position.events
        self.output: RunOutput[Any] = RunOutput(run.run_id, run.message_id, self.abort, first_index=first)
        self.output.on_thread(run.thread_id, run.resource_id)
        self.output.watch(run.options.on_chunk)
        self.store: RunStore = store
        self._owner = owner
        self._continued = continued
        self.wake: Callable[[str, int], None] | None = wake
        self._loop = asyncio.get_running_loop()
        self.prepared: asyncio.Future[None] = self._loop.create_future()
        self._renewer = renewer
        self._held: Held | None = None
        self.leaving = False
        self._parked = self._given_back = False
        self._follow = follow
        self._nested = nested
        self.journal: Journal | None = None
        self.aside = aside
        self._settle = settle
        self._scope = Hold(store, owner, None if continued is None else continued.line)
        self._work = Work(self._loop, run.definition.abort_grace)

    def abort(self, reason: object = None) -> None:
        """Ask the run to stop; thread-safe, and harmless when it has ended."""
        if not self.run.aborted and not self._loop.is_closed():
            self.run.abort.abort(reason)
            self._loop.call_soon_threadsafe(self._work.interrupt)

    async def drive(self) -> None:
        """Drive the run to its end. Never raises for a failed run; its readers hear of it.

        Cancelled (the loop is closing), it saves what there is and re-raises: a plain run is aborted, a durable one
        is left where it stands, its lease free, for another driver to recover. The same `KeyboardInterrupt` or
        `SystemExit` that leaves it is raised to its readers, who may be on a loop that outlives it.
        """
        run, on = self.run, self._continued
        run.trace = Trace(run.options.tracing)
        try:
            with running(run.trace.begin(run, before=run.traced, resumed=on is not None)):
                await self._claimed()
            self._is_prepared()
        except asyncio.CancelledError:
            self._lost(closed(self.run.run_id))
            raise
        except StaleLease as error:
            _log.warning("Run %s is driven by another process now; this driver has let go of it.", self.run.run_id)
            self._lost(error)
        except Exception as error:  # noqa: BLE001 - the store's or our own fault; the readers must hear of it
            self._lost(error)
        except BaseException as error:
            self._lost(error)
            raise
        finally:
            live.leave(self, parked=self._parked)

    async def _claimed(self) -> None:
        journal = self.journal = await self._open()
        live.enter(self)
        self._held = self._hold(journal)
        limit = self._limit()
        try:
            await self._whole_run(journal)
        finally:
            if limit is not None:
                limit.cancel()
            await self._let_go(journal)

    def _limit(self) -> asyncio.TimerHandle | None:
        """The timer of the run's time limit, which counts what this driver does: a run that waits has no timer."""
        limit = self.run.options.model_settings.timeout.total_ms
        return None if limit is None else self._loop.call_later(limit / 1000, self._time_out, limit)

    def _time_out(self, limit: float) -> None:
        if not self.run.aborted:
            self.run.timed_out = passed("total", limit)
            self.abort(self.run.timed_out)

    def _hold(self, journal: Journal) -> Held | None:
        task = asyncio.current_task()
        fence = journal.fence
        if self._renewer is None or task is None or not (journal.kept or fence.scope.kind == "thread"):
            return None
        return self._renewer.hold(
            fence, self.run.run_id, lambda: self._has_lost(fence, task), lambda: self.abort("requested")
        )

    def _has_lost(self, fence: Fence, task: asyncio.Task[Any]) -> None:
        """Somebody else has the scope; unless this comes late, for a fence that was dropped meanwhile."""
        if self._held is not None and self._held.fence is fence:
            task.cancel()

    async def _open(self) -> Journal:
        run, on, nested = self.run, self._continued, self._nested
        if on is not None:
            self._scope.enter(on.fence)
            return self._journal(on.fence, on.position)
        if nested is not None:
            return self._journal(nested.parent.fence, Position(kept=nested.parent.kept))
        fence = await self._scope.take(run, self._work, self._settle)
        return self._journal(fence, Position(kept=run.durable))

    def _journal(self, fence: Fence, position: Position) -> Journal:
        wake = self.wake
        stored = None if wake is None else partial(wake, self.run.run_id)
        nested = self._nested
        if nested is None:
            return Journal(self.run, self.store, fence, self.output.show, position=position, stored=stored)
        show = partial(self._show_all, nested.relay)
        return Journal(
            self.run, self.store, fence, show, position=position, stored=stored, row=nested.row, parent=nested.parent
        )

    async def _show_all(
        self, relay: Callable[[Sequence[AnyChunk], int], Awaitable[None]], chunks: Sequence[AnyChunk]
    ) -> None:
        """Show chunks to the child's own viewers, then to those of its parent."""
        first = self.output.last_index + 1
        if (shown := self.output.show(chunks)) is not None:
            await shown
        await relay(chunks, first)

    async def _whole_run(self, journal: Journal) -> None:
        try:
            if journal.state.phase == "new":
                self._start(journal)
            elif self._continued is not None:
                await self._go_on(journal, self._continued)
            await self._steps(journal)
        except asyncio.CancelledError:
            if not self.run.durable or (self._nested is not None and self.run.aborted):
                self.run.abort.abort("the event loop ended")
                self._work.interrupt()
                await self._steps(journal)
            raise
        except StaleLease:
            raise
        except Exception as error:  # noqa: BLE001 - a fault outside every step: end the run with it
            await self._close_failed(journal, error)

    def _start(self, journal: Journal) -> None:
        """Begin the log; it is stored together with the input, so that what is there can be taken up."""
        run = self.run
        start = c.Start(run.run_id, "AGENT", p.StartPayload(run.definition.id, run.message_id))
        record = RunStarted(
            run.run_id,
            run.definition.id,
            run.message_id,
            run.options.max_steps,
            run.persisted,
            run.request_context.to_json() if run.durable or run.persisted is not None else None,
            run.fragile,
            run.trace.root.link,
        )
        journal.note(record, chunks=[start])
        if self._continued is not None:
            raise never_begun(run.run_id)

    async def _go_on(self, journal: Journal, on: Continued) -> None:
        name_lost(self.run, journal.state)
        status = "running" if self._nested is not None and self._nested.waits else None
        progress = on.cause == "recover" and await has_progressed(self.store, self.run.run_id)
        record = SegmentStarted(on.cause, self.run.degraded, self.run.trace.root.link, progress)
        await journal.commit(record, status=status)
        if journal.state.phase == "closing":
            return  # only its end is missing: nothing is decided any more, and nothing is too late for it
        if journal.state.recoveries > len(BACKOFF_SECONDS):
            raise exhausted(self.run.run_id, journal.state.recoveries)
        if (on.cause == "recover" or self._nested is not None) and journal.state.phase != "starting":
            await self._work.alone(bind(self.run))
        await self._work.alone(enter_step(self.run, journal.state.step))
        await take_decisions(self.run, journal, self.store)

    async def _steps(self, journal: Journal) -> None:
        while True:
            if journal.kept or self.run.aborted:
                await self._heed_abort(journal)
            commands = next_commands(journal.state)
            if commands:
                await self._execute(journal, commands)
            elif journal.state.phase == "parked" and not self.leaving:
                await self._wait(journal)  # another driver has taken the decision for which this one came
            else:
                break
        await self._end(journal)

    async def _heed_abort(self, journal: Journal) -> None:
        if journal.kept and await abort_posted(self.run, self.store):
            self.run.abort.abort("requested")
        state = journal.state
        over = state.phase in {"closing", "done"} or _has_failed(state)
        if not self.run.aborted or state.aborted or over:
            return
        if self.run.timed_out is None:
            await record_abort(self.run, journal)
        else:
            await self._fail(journal, self.run.timed_out)
            await self._call_back(self.run.options.on_error, self.run.timed_out, "on_error")

    async def _execute(self, journal: Journal, commands: Sequence[m.Command]) -> None:
        run, alone = self.run, self._work.alone
        command = commands[0] if len(commands) == 1 else None
        match command:
            case m.Prepare():
                await alone(self._prepare(journal))
            case m.CallModel():
                await alone(call_model(run, journal, command), lambda: run.listening)
            case m.AssessCalls():
                await alone(assess_calls(run, journal, command))
            case m.Park():
                await self._park(journal, command)
            case m.JudgeStep():
                await alone(judge_step(run, journal, command), lambda: run.listening)
            case m.Finalise():
                await alone(finalise(run, journal, command))
            case m.Finish():
                if run.memory is not None and run.memory.config.generate_title is not None:
                    from tenuto.runs.titling import announce_title

                    await alone(announce_title(run, journal), lambda: True)
                await alone(finish(run, journal))
            case _:
                await self._answer_calls(journal, commands)

    async def _park(self, journal: Journal, command: m.Park) -> None:
        """Wait for decisions without holding anything, unless one has been posted already."""
        if await take_decisions(self.run, journal, self.store):
            return
        faults.hit("run.before_park")
        await self._wait(journal, Parked(command.call_ids))

    async def _wait(self, journal: Journal, *records: Parked) -> None:
        self.leaving = True  # before it looks for the last time: what is posted from now on may come too late
        await journal.commit(*records, status="suspended")
        faults.hit("run.after_park")
        if self._nested is not None or not await decisions_posted(self.run, self.store):
            return
        self._drop_lease()  # while it is claimed anew, a renewal would take the old fence for a lost one
        fence = await self.store.claim(journal.fence.scope, self._owner, run=self._row(journal), expect="suspended")
        if isinstance(fence, Fence):
            self.leaving = False
            journal.fence = fence
            self._held = self._hold(journal)
            await take_decisions(self.run, journal, self.store)

    def _row(self, journal: Journal) -> RunRow:
        return replace(new_row(self.run), scope=journal.fence.scope)

    async def _answer_calls(self, journal: Journal, commands: Sequence[m.Command]) -> None:
        jobs = [partial(self._answer, journal, command) for command in commands]
        await self._work.together(jobs, self.run.concurrency)

    async def _answer(self, journal: Journal, command: m.Command) -> None:
        match command:
            case m.RunTool():
                await run_call(self.run, journal, command)
            case m.RefuseCall():
                await refuse_call(self.run, journal, command)
            case m.SettleUnknown():
                await settle_call(self.run, journal, command)
            case _:
                message = f"{type(command).__name__} is no command that stands beside others."
                raise RunError(message, id="RUN_COMMAND_UNEXPECTED")

    async def _prepare(self, journal: Journal) -> None:
        try:
            await prepare(self.run, journal)
        except Exception as given:  # noqa: BLE001 - the user's functions run in it
            error = preparation_failed(given)
            await self._fail(journal, error)
            await call_back(self.run.options.on_error, error, "on_error")
            self._not_prepared(error)
        else:
            await journal.commit()
            self.run.trace.prepared(self.run)
            self._is_prepared()

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _end(self, journal: Journal) -> None:
        run, state = self.run, journal.state
        if state.phase == "parked":
            self._parked = True
            live.park(self)
            await self._give_back(journal)  # before anybody is told: who answers at once must not wait for whom we tell
            result = build_result(run, "suspended")
            run.trace.ended(run, "suspended")
            await self._call_back(run.options.on_suspended, result, "on_suspended")
            if run.options.close_on_suspend or self._follow is None:
                self.output.end(result, "suspended")
            else:
                self._follow(self.output, journal.next_event)
            return
        result = build_result(run, state.reason)
        run.trace.ended(run, state.reason)
        if state.reason not in {"aborted", "error"}:
            await self._call_back(run.options.on_finish, result, "on_finish")
        self.output.end(result, STATUS.get(state.reason, "success"))
        if self.aside is not None:
            begin_afterwards(run, state.reason, self.store, self.aside)

    async def _call_back(self, callback: Callback | None, event: object, name: str) -> None:
        if callback is not None:
            await self._work.alone(call_back(callback, event, name))

    async def _close_failed(self, journal: Journal, error: Exception) -> None:
        phase = journal.state.phase
        if phase in {"closing", "done"}:
            raise error  # the end itself could not be written: it must not be followed by another one
        if phase == "parked" and journal.stored:
            raise error  # it waits for a decision; that nobody could look for one does not end it
        _log.exception("Run %s failed outside its steps.", self.run.run_id)
        failure = error if isinstance(error, TenutoError) else internal(error)
        await self._work.alone(self._fail(journal, failure))
        await self._call_back(self.run.options.on_error, failure, "on_error")
        await self._steps(journal)

    async def _fail(self, journal: Journal, error: TenutoError) -> None:
        """Show the error in the commit that records it: whoever takes the run up then does not fail it once more."""
        chunks = [*open_calls(self.run, journal), c.Error(self.run.run_id, "AGENT", p.ErrorPayload(error_info(error)))]
        if _has_failed(journal.state):
            chunks = []  # its model call had failed, and readers know
        else:
            self.run.error = error
        await finalise(self.run, journal, m.Finalise("error"))
        await journal.commit(chunks=chunks)

    async def _let_go(self, journal: Journal) -> None:
        try:
            await journal.aclose()
        finally:
            self._drop_lease()
        try:
            with contained():
                await self.run.closing.aclose()
        except Exception:  # noqa: BLE001 - a user's object
            _log.exception("Closing the dependencies of run %s failed.", self.run.run_id)
        if not self._given_back and self._nested is None:
            await self._scope.give_back(journal.fence)

    async def _give_back(self, journal: Journal) -> None:
        """Let others claim the run."""
        await journal.aclose()
        self._drop_lease()
        if self._nested is None:
            await self._scope.give_back(journal.fence)
        self._given_back = True

    def _drop_lease(self) -> None:
        if self._held is not None and self._renewer is not None:
            self._renewer.drop(self._held)
        self._held = None

    def _lost(self, error: BaseException) -> None:
        """What keeps the run from its end; after its end there is only the log to tell."""
        if self.output.status == "running":
            self.output.fail(error)
        elif not isinstance(error, RunError):
            _log.error("Run %s has ended, but its store or its scope did not let go.", self.run.run_id, exc_info=error)
        self._not_prepared(error)

    def _is_prepared(self) -> None:
        """There is something to read: also when an abort came before the preparation."""
        if not self.prepared.done():
            self.prepared.set_result(None)

    def _not_prepared(self, error: BaseException) -> None:
        if not self.prepared.done():
            self.prepared.set_exception(error)
            self.prepared.exception()


def _has_failed(state: RunState) -> bool:
    return state.phase == "judged" and state.reason == "error"
