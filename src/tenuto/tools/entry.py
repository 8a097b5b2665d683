"""One entry of a tool's body: the steps it records and the suspension it asks for.

Invariant: once the body has asked for a suspension or its call has its outcome, no step of this entry begins any more.
A step's intent is stored before its function runs, its outcome before the body goes on.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, ClassVar, Never, TypeVar, get_args

from tenuto.core.errors import ConfigurationError, ToolError
from tenuto.core.payloads import Json
from tenuto.tools.describe import error_text
from tenuto.tools.ending import Body, Raised, stop, threaded
from tenuto.tools.outcome import Suspended, ToolFailed
from tenuto.tools.ports import Effects, StepDone, StepFailed, StepLedger, StepOpen
from tenuto.tools.results import to_json
from tenuto.tools.shape import DataSchema, Misfit, Shape, fit

T = TypeVar("T")

_step: ContextVar[str | None] = ContextVar("tenuto_tool_step", default=None)


class StepUnknown(ToolError):
    """A `"once"` step began in an earlier entry of the body and has no outcome: it may have taken effect.

    Leaving the tool, it makes the call's outcome unknown, whatever the tool's `effects`.
    """

    default_id: ClassVar[str] = "TOOL_STEP_OUTCOME_UNKNOWN"


class SuspendSignal(BaseException):
    """Unwinds the body; only `run_tool` catches it."""

    def __init__(self, suspended: Suspended) -> None:
        super().__init__("The tool is suspended.")
        self.suspended = suspended


class Entry:
    """Made by `run_tool` for each entry of a body; a context made by hand has one that belongs to no run.

    Args:
        loop: The run's, for steps of a tool in a thread.
        suspend: The tool's `suspend_schema`.
        resume: The tool's `resume_schema`.
    """

    __slots__ = ("_closed", "_jobs", "_loop", "_names", "_resume", "_suspend", "suspended")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        suspend: Shape | None = None,
        resume: Shape | None = None,
    ) -> None:
        self._loop = loop
        self._suspend = suspend
        self._resume = resume
        self._names: set[str] = set()
        self._jobs: set[asyncio.Task[Any]] = set()
        self._closed = False
        self.suspended: Suspended | None = None

    def suspend(self, payload: Any, resume_schema: DataSchema | None) -> Never:
        """Ask for a suspension, once: of two, the first counts.

        Raises:
            SuspendSignal: Always, unless it is refused.
            ToolError: `TOOL_SUSPEND_INVALID`: the payload does not fit; or inside a step, or after the call's end.
            ConfigurationError: `resume_schema` is none.
        """
        if self._closed:
            raise _over()
        if self.suspended is None:
            step = _step.get()
            if step is not None:
                message = f"suspend() was called inside the step {step!r}; suspend before a step, or after it."
                raise ToolError(message, id="TOOL_SUSPEND_INVALID", category="USER")
            self.suspended = Suspended(self._payload(payload), self._asked(resume_schema))
        raise SuspendSignal(self.suspended)

    def _payload(self, payload: Any) -> Json:
        try:
            return fit(None, payload) if self._suspend is None else self._suspend.dump(payload)
        except Misfit as error:
            message = f"suspend() was called with a payload that does not fit the tool's suspend_schema.\n{error}"
            raise ToolError(message, id="TOOL_SUSPEND_INVALID", category="USER") from error

    def _asked(self, resume_schema: DataSchema | None) -> Json:
        shape = self._resume if resume_schema is None else Shape("suspend(resume_schema=)", resume_schema)
        return None if shape is None else shape.json_schema

    async def step(self, ledger: StepLedger, name: str, body: Body, effects: Effects, *, inline: bool) -> Json:
        """Run a step of an async tool: on the loop if `inline`, else in a thread."""
        done = await self._begin(ledger, name, effects)
        if done is not None:
            return done.result
        inside = _step.set(name)
        try:
            value = body() if inline else await _in_thread(body)
            value = await value if inspect.isawaitable(value) else value
        except ToolFailed as error:
            await ledger.end(name, StepFailed(error_text(error)))
            raise
        finally:
            _step.reset(inside)
        return await _end(ledger, name, value)

    def step_sync(self, ledger: StepLedger, name: str, body: Body, effects: Effects) -> Json:
        """Run a step of a tool in a thread: the ledger is asked on the run's loop, the function runs in this thread."""
        done = self.wait(self._begin(ledger, name, effects))
        if done is not None:
            return done.result
        inside = _step.set(name)
        try:
            value = body()
            value = self.wait(_awaiting(value)) if inspect.isawaitable(value) else value
        except ToolFailed as error:
            self.wait(ledger.end(name, StepFailed(error_text(error))))
            raise
        finally:
            _step.reset(inside)
        return self.wait(_end(ledger, name, value))

    async def close(self) -> None:
        """The call has its outcome: what a thread has under way on the loop is cancelled and joined."""
        self._closed = True
        if self._jobs:
            await stop(*self._jobs)

    async def _begin(self, ledger: StepLedger, name: str, effects: Effects) -> StepDone | None:
        """The recorded result, or None when the step's function is to run now."""
        self._enter(name, effects)
        match await ledger.begin(name, effects):
            case StepDone() as done:
                return done
            case StepFailed(text):
                raise ToolFailed(text)
            case StepOpen() if effects == "once":
                message = (
                    f"The outcome of the step {name!r} is unknown: it began in an earlier attempt of this call and "
                    "never ended. It may have taken effect and is not run again."
                )
                raise StepUnknown(message, details={"step": name})
            case StepOpen() | None:
                self._go_on()
                return None

    def _enter(self, name: str, effects: Effects) -> None:
        self._go_on()
        if effects not in get_args(Effects):
            raise ConfigurationError(f"step({name!r}, effects={effects!r}): it is none of {get_args(Effects)}.")
        if name in self._names:
            message = f"Two steps of one call are named {name!r}; their records would be one. Name each step its own."
            raise ToolError(message, id="TOOL_STEP_NAME_TWICE", category="USER", details={"step": name})
        self._names.add(name)

    def check_open(self) -> None:
        """Refuse when the call has its outcome.

        Raises:
            ToolError: `TOOL_CALL_OVER`.
        """
        if self._closed:
            raise _over()

    def _go_on(self) -> None:
        """Refuse when nothing may begin any more."""
        self.check_open()
        if self.suspended is not None:  # the body swallowed the signal
            raise SuspendSignal(self.suspended)

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine` on the run's loop and wait for it in this thread."""
        loop = self._loop
        if loop is None:
            return _driven(coroutine)
        if _running_loop() is loop:
            coroutine.close()
            raise ToolError("step_sync() would block the event loop; an async tool awaits step().", category="USER")
        job = self._job(coroutine)
        try:
            future = asyncio.run_coroutine_threadsafe(job, loop)
        except RuntimeError:  # the loop is closed
            job.close()
            coroutine.close()
            raise _over() from None
        return future.result()

    async def _job(self, coroutine: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        if self._closed or task is None:
            coroutine.close()
            raise _over()
        self._jobs.add(task)
        try:
            return await coroutine
        finally:
            self._jobs.discard(task)


async def _in_thread(body: Body) -> Any:
    ending = await threaded(body)
    if isinstance(ending, Raised):
        raise ending.error
    return ending.value


async def _end(ledger: StepLedger, name: str, value: Any) -> Json:
    result = to_json(value)
    await ledger.end(name, StepDone(result))
    return result


async def _awaiting(value: Any) -> Any:
    return await value


def _driven(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run what waits for nothing without a loop: a ledger in memory, in a tool that a test called."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    coroutine.close()
    raise ToolError("step_sync() outside of a run can wait for nothing; await step() instead.", category="USER")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _over() -> ToolError:
    return ToolError("This call is over; nothing of it begins any more.", id="TOOL_CALL_OVER")
