"""The time limits of one model call: of the call as a whole, and of the wait for its first content.

Invariant: at most one timer for each limit, never one for each chunk; a limit cuts short only what waits for the model
(or for another try), never the log; an abort that comes at the same time wins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Literal, TypeVar

from tenuto.core.errors import Limit, ModelTimeout

if TYPE_CHECKING:
    from tenuto.models.settings import Timeouts
    from tenuto.steps.run import Run

T = TypeVar("T")


class Deadlines:
    """The limits of a call that this task makes; close it when the call has ended.

    Args:
        run: Its `listening` says when the task may be interrupted.
        limits: In milliseconds.
    """

    def __init__(self, run: Run, limits: Timeouts) -> None:
        self._run = run
        self._limits = limits
        self._task = asyncio.current_task()
        self._before = 0 if self._task is None else self._task.cancelling()
        self._passed: ModelTimeout | None = None
        self._interrupted = False
        self._step: asyncio.TimerHandle | None = self._timer("step", limits.step_ms)
        self._first: asyncio.TimerHandle | None = None

    def asked(self) -> None:
        """The model is asked, for the first time or again."""
        self.answered()
        self._first = self._timer("first_chunk", self._limits.first_chunk_ms)

    def answered(self) -> None:
        """The first content is there, or this try is over."""
        if self._first is not None:
            self._first.cancel()
            self._first = None

    def close(self) -> None:
        """Nothing is limited any more."""
        self.answered()
        if self._step is not None:
            self._step.cancel()

    def check(self) -> None:
        """See that no limit passed while the log was busy.

        Raises:
            ModelTimeout: One has.
        """
        if self._passed is not None:
            raise self._passed

    async def within(self, waiting: Awaitable[T]) -> T:
        """Wait for the model: an abort or a limit ends the wait.

        Raises:
            ModelTimeout: A limit passed.
        """
        run = self._run
        run.listening = True
        try:
            result = await waiting
        except asyncio.CancelledError:
            self._raise_if_interrupted()
            raise
        except Exception:
            self._raise_if_interrupted()  # the model turned the interruption into something of its own
            raise
        finally:
            run.listening = False
        if self._interrupted:
            self._raise_if_interrupted()
        return result

    def _raise_if_interrupted(self) -> None:
        """Take back the interruption that was ours; unless somebody else's came too, the limit is what ended it."""
        if not self._interrupted or self._passed is None or self._task is None:
            return
        self._interrupted = False
        if self._task.uncancel() <= self._before and not self._run.aborted:
            raise self._passed from None

    def _timer(self, kind: Literal["step", "first_chunk"], limit: float | None) -> asyncio.TimerHandle | None:
        if limit is None:
            return None
        return asyncio.get_running_loop().call_later(limit / 1000, self._pass, kind, limit)

    def _pass(self, kind: Literal["step", "first_chunk"], limit: float) -> None:
        model = self._run.model
        self._passed = passed(kind, limit, self._run.model_name, None if model is None else model.provider)
        if self._run.listening and not self._interrupted and self._task is not None:
            self._interrupted = self._task.cancel()


_WIRE = {"total": "total", "step": "step", "first_chunk": "firstChunk"}


def passed(kind: Limit, limit: float, model: str = "", provider: str | None = None) -> ModelTimeout:
    """The error for a limit of `limit` ms that has passed."""
    what = {
        "total": "The run was not over",
        "step": f"{model} had not answered",
        "first_chunk": f"{model} had sent nothing of its answer",
    }[kind]
    return ModelTimeout(
        f"{what} after {limit:g} ms, the '{kind}_ms' of model_settings['timeout'].",
        provider=provider,
        details={"timeoutType": _WIRE[kind], "timeoutMs": limit},
        timeout_type=kind,
        timeout_ms=limit,
    )
