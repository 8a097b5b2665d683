"""The driver: asks the machine what comes next, has it executed, and sees the run to its end.

Invariant: one driver per run and process, holding the run's fence; commands returned together are all started, in
order, and joined before the machine is asked again. An abort ends a model call at once and a tool after the grace;
whatever happens, the run gets its terminal chunk and status if the store can still be written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.core.errors import RunError, TenutoError
from tenuto.machine import commands as m
from tenuto.machine.decisions import next_commands
from tenuto.machine.records import RunStarted
from tenuto.runs.journal import Journal
from tenuto.runs.output import RunOutput
from tenuto.runs.result import build_result
from tenuto.steps.callbacks import call_back
from tenuto.steps.failure import error_info
from tenuto.steps.finish import STATUS, finalise, finish, record_abort
from tenuto.steps.judge import judge_step
from tenuto.steps.model_step import call_model
from tenuto.steps.prepare import prepare
from tenuto.steps.run import Run
from tenuto.steps.tool_step import assess_calls, refuse_call, run_call
from tenuto.store.ports import Fence, HeldBy, RunRow, RunStore, Scope

_log = logging.getLogger("tenuto")


class Driver:
    """Drives one run from its claim to its terminal chunk. Made and used on one event loop.

    Args:
        run: What to do.
        store: Where it is kept.
        owner: Who drives it: unique per process.

    Attributes:
        output: For readers; there before the run starts.
        prepared: Done once the prompt is assembled; holds what kept the run from starting.
    """

    def __init__(self, run: Run, store: RunStore, owner: str) -> None:
        self.run: Run = run
        self.output: RunOutput[Any] = RunOutput(run.run_id, run.message_id, self.abort)
        self.output.watch(run.options.on_chunk)
        self._store = store
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self.prepared: asyncio.Future[None] = self._loop.create_future()
        self._working: list[asyncio.Task[None]] = []
        self._modelling: asyncio.Task[Any] | None = None
        self._cut_short = False
        self._grace: asyncio.TimerHandle | None = None

    def abort(self, reason: object = None) -> None:
        """Ask the run to stop; thread-safe, and harmless when it has ended."""
        if not self.run.aborted and not self._loop.is_closed():
            self.run.abort.abort(reason)
            self._loop.call_soon_threadsafe(self._interrupt_work)

    async def drive(self) -> None:
        """Drive the run to its end. Never raises for a failed run; its readers hear of it.

        Cancelled (the loop is closing), it aborts the run, saves what there is and re-raises.
        """
        try:
            await self._claimed()
        except asyncio.CancelledError:
            self.output.fail(_closed(self.run.run_id))
            raise
        except Exception as error:  # noqa: BLE001 - the store's or our own fault; the readers must hear of it
            self.output.fail(error)
            self._not_prepared(error)
        finally:
            self._not_prepared(_closed(self.run.run_id))

    async def _claimed(self) -> None:
        run, scope = self.run, Scope("run", self.run.run_id)
        row = RunRow(run_id=run.run_id, agent_id=run.definition.id, scope=scope)
        fence = await self._store.claim(scope, self._owner, run=row)
        if isinstance(fence, HeldBy):
            message = f"Run {run.run_id!r} is driven by {fence.owner}; it cannot be started here."
            raise RunError(message, id="RUN_HELD")
        journal = Journal(run, self._store, fence, self.output.show)
        try:
            await self._whole_run(journal)
        finally:
            await self._let_go(journal, fence)

    async def _whole_run(self, journal: Journal) -> None:
        try:
            await self._start(journal)
            await self._steps(journal)
        except asyncio.CancelledError:
            self.run.abort.abort("the event loop ended")
            await self._steps(journal)
            raise
        except Exception as error:  # noqa: BLE001 - a fault outside every step: end the run with it
            await self._close_failed(journal, error)

    async def _start(self, journal: Journal) -> None:
        run = self.run
        start = c.Start(run.run_id, "AGENT", p.StartPayload(run.definition.id, run.message_id))
        record = RunStarted(run.run_id, run.definition.id, run.message_id, run.options.max_steps)
        await journal.commit(record, chunks=[start])

    async def _steps(self, journal: Journal) -> None:
        while commands := next_commands(journal.state):
            if self.run.aborted and not journal.state.aborted and journal.state.phase != "closing":
                await record_abort(self.run, journal)
            else:
                await self._execute(journal, commands)
        await self._end(journal)

    async def _execute(self, journal: Journal, commands: Sequence[m.Command]) -> None:
        run = self.run
        match commands:
            case [m.Prepare()]:
                await self._prepare(journal)
            case [m.CallModel() as command]:
                await self._call_model(journal, command)
            case [m.AssessCalls() as command]:
                assess_calls(run, journal, command)
            case [m.JudgeStep() as command]:
                await judge_step(run, journal, command)
            case [m.Finalise() as command]:
                await finalise(run, journal, command)
            case [m.Finish()]:
                await finish(run, journal)
            case _:
                await self._answer_calls(journal, commands)

    async def _call_model(self, journal: Journal, command: m.CallModel) -> None:
        """Make the call in this task; an abort cancels the task, and `call_model` takes the cancellation as its end."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - drive() runs as a task
        self._modelling = task
        try:
            await call_model(self.run, journal, command)
        finally:
            self._modelling = None
        if self._cut_short:
            self._cut_short = False
            if task.uncancel() > 0:
                raise asyncio.CancelledError

    async def _answer_calls(self, journal: Journal, commands: Sequence[m.Command]) -> None:
        limit = asyncio.Semaphore(self.run.options.tool_call_concurrency)
        jobs = [_limited(limit, partial(self._answer, journal, command)) for command in commands]
        await self._work(jobs)

    def _answer(self, journal: Journal, command: m.Command) -> Coroutine[Any, Any, None]:
        match command:
            case m.RunTool():
                return run_call(self.run, journal, command)
            case m.RefuseCall():
                return refuse_call(self.run, journal, command)
            case _:
                message = f"The machine asked for {type(command).__name__}, which a run without a past never needs."
                raise RunError(message, id="RUN_COMMAND_UNEXPECTED")

    async def _prepare(self, journal: Journal) -> None:
        try:
            await prepare(self.run, journal)
        except Exception as given:  # noqa: BLE001 - the user's functions run in it
            error = _preparation_failed(given)
            self.run.error = error
            await finalise(self.run, journal, m.Finalise("error"))
            await call_back(self.run.options.on_error, error, "on_error")
            self._not_prepared(error)
        else:
            self.prepared.set_result(None)

    # -- work that can be interrupted ------------------------------------------------------------------------------

    async def _work(self, jobs: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Run jobs as tasks and join them; they get `abort_grace` seconds after an abort."""
        try:
            async with asyncio.TaskGroup() as group:
                self._working = [group.create_task(job) for job in jobs]
                if self.run.aborted:
                    self._interrupt_work()
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            self._working = []
            if self._grace is not None:
                self._grace.cancel()
                self._grace = None

    def _interrupt_work(self) -> None:
        if self._modelling is not None:
            self._cut_short = self._modelling.cancel() or self._cut_short
        elif self._working and self._grace is None:
            self._grace = self._loop.call_later(self.run.definition.abort_grace, self._cancel_work)

    def _cancel_work(self) -> None:
        for task in self._working:
            task.cancel()

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _end(self, journal: Journal) -> None:
        run, reason = self.run, journal.state.reason
        result = build_result(run, reason)
        if reason not in {"aborted", "error"}:
            await call_back(run.options.on_finish, result, "on_finish")
        status = STATUS.get(reason, "success")
        self.output.end(result, status)

    async def _close_failed(self, journal: Journal, error: Exception) -> None:
        self.run.error = error if isinstance(error, TenutoError) else _internal(error)
        _log.exception("Run %s failed outside its steps.", self.run.run_id)
        await journal.commit(chunks=[c.Error(self.run.run_id, "AGENT", p.ErrorPayload(error_info(error)))])
        await finalise(self.run, journal, m.Finalise("error"))
        await self._steps(journal)

    async def _let_go(self, journal: Journal, fence: Fence) -> None:
        await journal.aclose()
        try:
            await self.run.closing.aclose()
        except Exception:  # noqa: BLE001 - a user's object
            _log.exception("Closing the dependencies of run %s failed.", self.run.run_id)
        await self._store.release(fence)

    def _not_prepared(self, error: Exception) -> None:
        if not self.prepared.done():
            self.prepared.set_exception(error)
            self.prepared.exception()


async def _limited(limit: asyncio.Semaphore, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async with limit:
        await work()


def _preparation_failed(error: Exception) -> TenutoError:
    if isinstance(error, TenutoError):
        return error
    message = f"Preparing the run failed: {type(error).__name__}: {error}"
    wrapped = TenutoError(message, id="AGENT_STREAM_FAILED", domain="AGENT", category="USER")
    wrapped.__cause__ = error
    return wrapped


def _internal(error: Exception) -> TenutoError:
    wrapped = RunError(f"The run failed: {type(error).__name__}: {error}", id="RUN_INTERNAL_ERROR")
    wrapped.__cause__ = error
    return wrapped


def _closed(run_id: str) -> RunError:
    message = f"The event loop of run {run_id!r} ended before the run did."
    return RunError(message, id="RUN_LOOP_CLOSED")
