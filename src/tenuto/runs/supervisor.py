"""The supervisor: owns every driver task of its event loop.

Invariant: no task outlives its owner: when the loop ends in order, the drivers are cancelled and have saved what
there is before it closes. Nobody else creates a task for a run.
"""

from __future__ import annotations

import asyncio
import os
from secrets import token_hex
from typing import Any
from weakref import WeakKeyDictionary

from tenuto.runs.driver import Driver
from tenuto.steps.run import Run
from tenuto.store.ports import RunStore

_supervisors: WeakKeyDictionary[asyncio.AbstractEventLoop, Supervisor]


class Supervisor:
    """Starts drivers and waits for them; one per event loop, see `current`."""

    def __init__(self) -> None:
        self._owner = f"{os.getpid()}-{token_hex(6)}"
        self._tasks: dict[asyncio.Task[None], Driver] = {}

    @classmethod
    def current(cls) -> Supervisor:
        """The supervisor of the running event loop."""
        loop = asyncio.get_running_loop()
        supervisor = _supervisors.get(loop)
        if supervisor is None:
            supervisor = _supervisors[loop] = cls()
        return supervisor

    def start(self, run: Run, store: RunStore) -> Started:
        """Start driving `run`; it goes on whether or not anybody looks."""
        driver = Driver(run, store, self._owner)
        task = asyncio.get_running_loop().create_task(driver.drive(), name=f"tenuto run {run.run_id}")
        self._tasks[task] = driver
        task.add_done_callback(self._forget)
        return Started(driver, task)

    @property
    def running(self) -> int:
        """How many drivers are at work."""
        return len(self._tasks)

    async def aclose(self) -> None:
        """Abort all runs of this loop and wait until each has saved what there is."""
        for driver in self._tasks.values():
            driver.abort("shutdown")
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled():
            task.exception()


class Started:
    """A driver at work."""

    __slots__ = ("driver", "task")

    def __init__(self, driver: Driver, task: asyncio.Task[None]) -> None:
        self.driver = driver
        self.task = task

    async def ended(self) -> None:
        """Wait for the driver's end; cancelling the wait leaves the driver alone."""
        await asyncio.wait([self.task])


_supervisors = WeakKeyDictionary[Any, Supervisor]()
