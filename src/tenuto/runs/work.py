"""The part of a driver that can be interrupted: one model call, or the tool calls of a step.

Invariant: work is joined before it is left, whatever happens. `interrupt` ends a model call at once; tool calls get the
grace, then they are cancelled. A cancellation from outside is never mistaken for an interruption.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

Job = Callable[[], Coroutine[Any, Any, None]]


class Work:
    """What one driver is doing.

    Args:
        loop: The driver's loop; all methods are called on it.
        grace: Seconds that tool calls get after an interruption.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, grace: float) -> None:
        self._loop = loop
        self._grace_seconds = grace
        self._alone: asyncio.Task[Any] | None = None
        self._waiting: Callable[[], bool] = bool
        self._cut_short = False
        self._together: list[asyncio.Task[Any]] = []
        self._cancelled = False
        self._grace: asyncio.TimerHandle | None = None
        self._interrupted = False

    async def alone(self, job: Coroutine[Any, Any, None], waiting: Callable[[], bool]) -> None:
        """Run `job` in this task; it takes the cancellation of an interruption as its end and returns.

        Only while `waiting()` holds is it cancelled; at any other time it looks at the run's abort signal itself.
        """
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - drivers run as tasks
        self._alone, self._waiting = task, waiting
        try:
            await job
        finally:
            self._alone = None
        if self._cut_short:
            self._cut_short = False
            if task.uncancel() > 0:
                raise asyncio.CancelledError

    async def together(self, jobs: Sequence[Job], limit: int) -> None:
        """Run `jobs`, at most `limit` at once and begun in order, and join them: several as tasks, one in this task."""
        try:
            if len(jobs) == 1:
                await self._here(jobs[0])
            else:
                await self._as_tasks(jobs, limit)
        finally:
            self._together = []
            if self._grace is not None:
                self._grace.cancel()
                self._grace = None

    async def _here(self, job: Job) -> None:
        """Most steps make one call, and a task for it would be two more turns of the loop."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - drivers run as tasks
        self._together, self._cancelled = [task], False
        if self._interrupted:
            self.interrupt()
        try:
            await job()
        except asyncio.CancelledError:
            if not self._cancelled or task.uncancel() > 0:
                raise
        else:
            if self._cancelled and task.uncancel() > 0:
                raise asyncio.CancelledError

    async def _as_tasks(self, jobs: Sequence[Job], limit: int) -> None:
        slots = asyncio.Semaphore(limit)
        try:
            async with asyncio.TaskGroup() as group:
                self._together = [group.create_task(_in_turn(slots, job)) for job in jobs]
                if self._interrupted:
                    self.interrupt()
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None

    def interrupt(self) -> None:
        """End what is going on, and what begins later; see the module."""
        self._interrupted = True
        if self._alone is not None:
            if self._waiting():
                self._cut_short = self._alone.cancel() or self._cut_short
        elif self._together and self._grace is None:
            self._grace = self._loop.call_later(self._grace_seconds, self._cancel)

    def _cancel(self) -> None:
        self._cancelled = True
        for task in self._together:
            task.cancel()


async def _in_turn(slots: asyncio.Semaphore, job: Job) -> None:
    async with slots:
        await job()
