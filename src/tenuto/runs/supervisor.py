"""The supervisor: owns every driver task of its event loop.

Invariant: no task outlives its owner: when the loop ends in order, the drivers are cancelled and have saved what
there is before it closes. Nobody else creates a task for a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from weakref import WeakValueDictionary

from tenuto.core.background import Background
from tenuto.runs import live
from tenuto.runs.children import ChildRuns
from tenuto.runs.driver import Driver
from tenuto.runs.lease import Renewer
from tenuto.runs.observe import Observer
from tenuto.runs.origin import Continued
from tenuto.runs.output import RunOutput
from tenuto.runs.turns import Settle
from tenuto.steps.run import Run
from tenuto.store.owners import owner_id
from tenuto.store.ports import ANYONE, RunRow, RunStore


class Supervisor:
    """Starts drivers and waits for them; one per event loop, see `current`."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], Driver] = {}
        self._others: set[asyncio.Task[Any]] = set()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @classmethod
    def current(cls) -> Supervisor:
        """The supervisor of the running event loop."""
        loop, known = asyncio.get_running_loop(), live.process.get().supervisors
        supervisor = known.get(loop)
        if supervisor is None:
            supervisor = known[loop] = cls()
        return supervisor

    def new_owner(self) -> str:
        """A name for one driver, by which a store can tell whether its process still exists."""
        return owner_id()

    def start(
        self,
        run: Run,
        store: RunStore,
        *,
        wake: Callable[[str, int], None] | None = None,
        settle: Settle | None = None,
    ) -> Started:
        """Start driving `run`; it goes on whether or not anybody looks. `settle`: see `Driver`."""
        follow, renewer = self._follower(run, store), _renewer(run, store)
        owner, aside = self.new_owner(), self.aside
        driver = Driver(run, store, owner, wake=wake, renewer=renewer, follow=follow, aside=aside, settle=settle)
        return self._drive(driver)

    def go_on(
        self,
        run: Run,
        store: RunStore,
        owner: str,
        continued: Continued,
        *,
        wake: Callable[[str, int], None] | None = None,
    ) -> Started:
        """Drive a run on that this process has claimed as `owner`."""
        follow = self._follower(run, store)
        renewer = _renewer_of(store)
        driver = Driver(
            run, store, owner, continued=continued, wake=wake, renewer=renewer, follow=follow, aside=self.aside
        )
        live.enter(driver)  # at once: who decides something else in this moment finds it
        return self._drive(driver)

    def turn(self, run_id: str) -> asyncio.Lock:
        """Held by whoever takes a run up on this loop; the next one finds what came of it."""
        return self._turns.setdefault(run_id, asyncio.Lock())

    @property
    def running(self) -> int:
        """How many drivers are at work."""
        return len(self._tasks)

    def own(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run something that serves runs (a viewer, a sweep) as a task that ends with the supervisor."""
        task = asyncio.get_running_loop().create_task(work, name=f"tenuto {name}")
        self._others.add(task)
        task.add_done_callback(self._others.discard)
        return task

    def aside(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[Any]:
        """Do something about a run that nobody waits for; see `Background.begin`."""
        return Background.current().begin(work, name)

    async def aclose(self) -> None:
        """End all drivers of this loop: plain runs are aborted and saved, durable ones let go where they stand.

        Then it waits a while for what goes on aside, and ends that, too; see `Background.aclose`.
        """
        while self._tasks or self._others:  # meanwhile a call that is under way may start another one
            for task, driver in list(self._tasks.items()):
                if driver.run.durable:
                    task.cancel()
                else:
                    driver.abort("shutdown")
            for task in self._others:
                task.cancel()
            await asyncio.gather(*self._tasks, *self._others, return_exceptions=True)
        await Background.current().aclose()

    def _follower(self, run: Run, store: RunStore) -> Callable[[RunOutput[Any], int], None]:
        def follow(output: RunOutput[Any], offset: int) -> None:
            row = RunRow(run_id=run.run_id, agent_id=run.definition.id, scope=run.scope, resource_id=run.resource_id)
            viewer = Observer(
                store, run.clock, row, offset=offset, bus=None, close_on_suspend=False, output=output, own=self.own
            )
            output.fed_by(viewer)

        return follow

    def _drive(self, driver: Driver) -> Started:
        driver.run.children = ChildRuns(driver)
        task = asyncio.get_running_loop().create_task(driver.drive(), name=f"tenuto run {driver.run.run_id}")
        driver.task = task
        self._tasks[task] = driver
        task.add_done_callback(self._forget)
        if driver.run.durable:
            driver.output.on_cleanup(lambda: self.clean_up(driver.store, driver.run.run_id, task))
        return Started(driver, task)

    def clean_up(self, store: RunStore, run_id: str, driving: asyncio.Task[None] | None = None) -> None:
        """Drop a run's events from its store, after the task that drives it."""

        async def forget() -> None:
            if driving is not None:
                await asyncio.wait([driving])
            await store.forget_events(run_id, resource=ANYONE)

        self.own(forget(), f"cleanup of {run_id}")

    def _forget(self, task: asyncio.Task[None]) -> None:
        driver = self._tasks.pop(task, None)
        if driver is not None and live.driver_of(driver.run.run_id) is driver:  # it was cancelled before it began
            live.leave(driver, parked=False)
        if not task.cancelled():
            task.exception()


class Started:
    """A driver at work."""

    __slots__ = ("driver", "task")

    def __init__(self, driver: Driver, task: asyncio.Task[None]) -> None:
        self.driver: Driver = driver
        self.task: asyncio.Task[None] = task

    async def ended(self) -> None:
        """Wait for the driver's end; cancelling the wait leaves the driver alone."""
        await asyncio.wait([self.task])


def _renewer(run: Run, store: RunStore) -> Renewer | None:
    return _renewer_of(store) if run.durable or run.memory is not None else None


def _renewer_of(store: RunStore) -> Renewer:
    return live.process.get().renewer_of(store)
