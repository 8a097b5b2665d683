"""The parts of a driver that can be interrupted: a command that it executes alone, or the tool calls of a step.

Invariant: work is joined before it is left, whatever happens. `interrupt` ends a wait for the model at once; whatever
else is somebody else's code, a tool or a callback, gets the grace and is then cancelled. A cancellation from outside is
never mistaken for an interruption.
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
        grace: Seconds that tools and callbacks get after an interruption, or from their beginning if that is later.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, grace: float) -> None:
        self._loop = loop
        self._grace_seconds = grace
        self._task: asyncio.Task[Any] | None = None
        self._alone: asyncio.Task[Any] | None = None
        self._waiting: Callable[[], bool] = bool
        self._cut_short = False
        self._together: list[asyncio.Task[Any]] = []
        self._grace: asyncio.TimerHandle | None = None
        self._interrupted = False

    async def alone(self, job: Coroutine[Any, Any, Any], waiting: Callable[[], bool] = bool) -> None:
        """Run `job` in this task; it takes the cancellation of an interruption as its end and returns.

        While `waiting()` holds it is cancelled at once, at any other time after the grace.
        """
        task = self._task or asyncio.current_task()
        assert task is not None  # noqa: S101 - drivers run as tasks
        self._task = self._alone = task
        self._waiting, self._cut_short = waiting, False
        cancelled = task.cancelling()  # more than 0 when the loop ends and this is part of the clearing up
        if self._interrupted:
            self.interrupt()
        try:
            await job
        except asyncio.CancelledError:
            if not self._cut_short or task.uncancel() > cancelled:
                raise
        else:
            if self._cut_short and task.uncancel() > cancelled:
                raise asyncio.CancelledError
        finally:
            self._alone = None
            self._end_grace()

    async def together(self, jobs: Sequence[Job], limit: int) -> None:
        """Run `jobs`, at most `limit` at once and begun in order, and join them: several as tasks, one in this task.

        Most steps make one call, and a task for it would be two more turns of the loop.
        """
        if len(jobs) == 1:
            await self.alone(jobs[0]())
            return
        try:
            await self._as_tasks(jobs, limit)
        finally:
            self._together = []
            self._end_grace()

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
        if self._alone is not None and self._waiting():
            self._cancel()
        elif (self._alone is not None or self._together) and self._grace is None:
            self._grace = self._loop.call_later(self._grace_seconds, self._cancel)

    def _cancel(self) -> None:
        if self._alone is not None:
            self._cut_short = True
            self._alone.cancel()
        for task in self._together:
            task.cancel()

    def _end_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None


async def _in_turn(slots: asyncio.Semaphore, job: Job) -> None:
    async with slots:
        await job()
