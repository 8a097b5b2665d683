"""The simulated world: two processes, one store that outlives them, one clock, and a record of what took effect.

Invariant: whatever a process does to the outside goes through its port, where it may be delayed, frozen or end. Once
it is dead nothing of it reaches the store or the outside any more, and what it had committed is there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tenuto import Tenuto, create_durable_agent
from tenuto.core.errors import StoreError
from tenuto.core.ids import CountingIds
from tenuto.machine.records import AnyRecord, decode_record
from tenuto.runs import live
from tenuto.runs.lease import RENEW_SECONDS, Held
from tenuto.store import InMemoryStore
from tenuto.store.ports import TERMINAL_STATUS, AbortRequest, Fence, RunRow
from tenuto.testing import VirtualClock
from tests.simulation.plan import Blow, Plan

here: ContextVar[Process | None] = ContextVar("the simulated process", default=None)
RESTART_SECONDS = 8.0
LOOKS = 5
"""Looks for a posted abort between two renewals."""


class Killed(BaseException):
    """The process is gone."""


class Gone(Exception):
    """What a client sees of a process that died while it was asked."""


class Effect(Struct, frozen=True):
    """Something that a tool did to the outside. `what` is what may happen once: a call, an order, a step."""

    tool: str
    run_id: str
    call_id: str
    what: str
    key: str
    args: dict[str, Any]


class Asked(Struct, frozen=True):
    """A request to the model; `late` when the outcome of that step was stored, by or before the one who asks."""

    run_id: str
    step: int
    late: bool


class Task(asyncio.Task[Any]):
    """A task that sets hold in the order of creation, so that a simulation is the same each time."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class World:
    """Where the processes live."""

    def __init__(self, plan: Plan, loop: asyncio.AbstractEventLoop, clock: VirtualClock, define: Any) -> None:
        self.plan = plan
        self.loop = loop
        self.clock = clock
        self.define = define
        self.ids = CountingIds()
        self.store = InMemoryStore(clock=clock)
        self.slots: list[Process | None] = [None, None]
        self.lives: Counter[int] = Counter()
        self.ports: Counter[int] = Counter()
        self.points: Counter[int] = Counter()
        self.blows = list(plan.blows)
        self.calm = False
        self.closing = False
        self.trace: list[str] = []
        self.wrong: list[str] = []
        self.effects: list[Effect] = []
        self.requests: list[Asked] = []
        self.forgiven: Counter[str] = Counter()
        self.deaths = 0
        self.owners: dict[str, Process] = {}
        self.epochs: dict[Any, int] = {}
        self.tasks: list[Task] = []
        self.chance = Random(f"world {plan.seed}")
        self.context = copy_context()
        loop.set_task_factory(self._new_task)
        loop.set_exception_handler(self._complaint)

    def note(self, what: str) -> None:
        process = here.get()
        who = "      " if process is None else process.name
        self.trace.append(f"{self.clock.monotonic():9.3f} {who} {what}")

    def fail(self, what: str) -> None:
        self.note(f"VIOLATION {what}")
        self.wrong.append(what)

    # -- processes ---------------------------------------------------------------------------------------------------

    def start(self, slot: int) -> Process:
        self.lives[slot] += 1
        process = self.slots[slot] = Process(self, slot)
        return process

    @property
    def alive(self) -> list[Process]:
        return [process for process in self.slots if process is not None and process.alive and not process.stopping]

    async def any_process(self) -> Process:
        """One that lives, once there is one."""
        while not (alive := self.alive):  # noqa: ASYNC110 - the time of waiting is the simulation's
            await asyncio.sleep(1)
        return self.chance.choice(alive)

    def died(self, process: Process, why: str) -> None:
        self.deaths += 1
        self.note(f"{process.name} dies: {why}")
        if self.slots[process.slot] is process:
            self.slots[process.slot] = None
            wait = self.chance.uniform(0.1, RESTART_SECONDS)
            self.loop.call_later(wait, self._again, process.slot, context=self.context)

    def _again(self, slot: int) -> None:
        if self.slots[slot] is None and not self.closing:
            self.start(slot)

    # -- the outside -------------------------------------------------------------------------------------------------

    def acted(self, effect: Effect) -> None:
        self.note(f"EFFECT {effect.tool} {effect.what}")
        self.effects.append(effect)

    async def asked(self, process: Process, run_id: str, step: int) -> None:
        """The model is asked; whether this process may still drive the run decides if a repetition counts."""
        ended = {record.step for record in await self.records(run_id) if type(record).__name__ == "ModelEnded"}
        lease = self.store._leases.get(self.scope_of(run_id))
        drives = lease is not None and self.owners.get(lease.owner) is process
        self.note(f"asks the model for step {step} of {run_id}")
        self.requests.append(Asked(run_id, step, step in ended and drives))

    def lost(self, fence: Fence) -> None:
        self.note(f"has lost {fence.scope.id}, epoch {fence.epoch}")
        lease = self.store._leases.get(fence.scope)
        if lease is not None and lease.owner == fence.owner:
            self.fail(f"a driver is told that it has lost {fence.scope.id}, which it holds")

    # -- what is stored, behind the processes' backs -----------------------------------------------------------------

    def row(self, run_id: str) -> RunRow | None:
        return self.store._runs.get(run_id)

    def scope_of(self, run_id: str) -> Any:
        row = self.row(run_id)
        return None if row is None else row.scope

    async def records(self, run_id: str) -> list[AnyRecord]:
        return [decode_record(raw) for raw in await self.store.records(run_id, resource=None)]

    def over(self, run_id: str) -> bool:
        row = self.row(run_id)
        return row is not None and row.status in TERMINAL_STATUS

    # -- tasks -------------------------------------------------------------------------------------------------------

    def _new_task(self, loop: Any, coro: Any, context: Any = None, **more: Any) -> Task:
        task = Task(coro, loop=loop, context=context, **more)
        task.number = len(self.tasks)
        self.tasks.append(task)
        owner = here.get() if context is None else context.get(here)
        if owner is not None:
            owner.tasks.append(task)
            if not owner.alive:
                task.cancel()
        return task

    def _complaint(self, _loop: Any, given: dict[str, Any]) -> None:
        error = given.get("exception")
        if not isinstance(error, Killed):
            self.fail(f"asyncio complains: {given.get('message')}: {error!r}")


class Process:
    """One process: its own app, agent, drivers and leases, and its view of the store."""

    def __init__(self, world: World, slot: int) -> None:
        self.world = world
        self.slot = slot
        self.name = f"{'AB'[slot]}{world.lives[slot]:<3} "
        self.alive = True
        self.stopping = False
        self.frozen_until = 0.0
        self.tasks: list[Task] = []
        self.chance = Random(f"{world.plan.seed} {self.name}")
        self.store = StoreView(self)
        self.context = copy_context()
        self.context.run(here.set, self)
        renewer = LoopRenewer(self)
        self.own = live.Process(lambda _store: renewer)
        self.context.run(live.process.set, self.own)
        self.agent: Any = None
        self.app: Any = None
        self.context.run(self._build)
        world.loop.create_task(self._begin(), context=self.context)

    def _build(self) -> None:
        world = self.world
        agent = create_durable_agent(world.define())
        object.__setattr__(agent, "_base", replace(agent._base, clock=world.clock, ids=world.ids))
        self.agent = agent
        self.app = Tenuto(agents={"agent": agent}, store=self.store, clock=world.clock)  # type: ignore[arg-type]

    async def _begin(self) -> None:
        self.world.note("starts")
        await self.app.start()

    def begin(self, work: Callable[[Any], Awaitable[Any]]) -> asyncio.Task[Any]:
        """Begin `work(agent)` in this process."""

        async def run() -> Any:
            return await work(self.agent)

        return self.world.loop.create_task(run(), context=self.context)

    async def call(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        """`work(agent)`, as a client of this process sees it.

        Raises:
            Gone: The process died, or closed.
        """
        task = self.begin(work)
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
        if not self.alive or task.cancelled() or isinstance(task.exception(), Killed):
            raise Gone
        return task.result()

    # -- the port ----------------------------------------------------------------------------------------------------

    async def port(self) -> Blow | None:
        """Pass the port: late, or never; returns what befalls a call of the store there."""
        if not self.alive:
            raise Killed
        world = self.world
        world.ports[self.slot] += 1
        blow = self._blow(world.ports[self.slot], {"crash", "freeze", "stop", "refuse", "keep and raise"})
        if blow is not None:
            self._struck(blow)
        await self._delay()
        return blow

    async def back(self) -> None:
        """The way back from the outside."""
        await self._delay()

    def hit(self, point: str) -> None:
        """A failpoint."""
        if not self.alive:
            return
        world = self.world
        world.points[self.slot] += 1
        if self._blow(world.points[self.slot], {"crash at a failpoint"}) is not None:
            self.die(f"at {point}")
            raise Killed

    def _blow(self, at: int, kinds: set[str]) -> Blow | None:
        if self.world.calm:
            return None
        for blow in self.world.blows:
            if blow.slot == self.slot and blow.at <= at and blow.kind in kinds:
                self.world.blows.remove(blow)
                return blow
        return None

    def _struck(self, blow: Blow) -> None:
        match blow.kind:
            case "crash":
                self.die("at its port")
                raise Killed
            case "freeze":
                self.frozen_until = self.world.clock.monotonic() + self.chance.uniform(1, 40)
                self.world.note(f"freezes until {self.frozen_until:.3f}")
            case "stop":
                self.stop_soon()
            case _:
                pass

    async def _delay(self) -> None:
        """Mostly none; now and then others get a turn, and now and then the answer takes its time."""
        dice = 0.0 if self.world.calm else self.chance.random()
        if dice > 0.85:
            await asyncio.sleep(self.chance.uniform(0, 4) if dice > 0.97 else self.chance.uniform(0, 0.2))
        elif dice > 0.6:
            for _ in range(int(dice * 4)):
                await asyncio.sleep(0)
        while self.frozen_until > (now := self.world.clock.monotonic()) and self.alive:  # noqa: ASYNC110 - see any_process
            await asyncio.sleep(self.frozen_until - now)  # again: it may have been frozen anew
        if not self.alive:
            raise Killed

    # -- the end -----------------------------------------------------------------------------------------------------

    def die(self, why: str) -> None:
        """End here and now: nothing is released, saved or told."""
        if self.alive:
            self.alive = False
            self.world.died(self, why)
            self.world.loop.create_task(self._reap(), context=self.world.context)

    async def _reap(self) -> None:
        me = asyncio.current_task()
        for _ in range(50):
            left = [task for task in self.tasks if not task.done() and task is not me]
            for task in left:
                task.cancel()
            if not left:
                break
            await asyncio.sleep(0)
        else:
            self.world.fail(f"tasks of the dead process {self.name} go on: {left}")
        for task in self.tasks:
            if not task.cancelled():
                task.exception()

    def stop_soon(self) -> None:
        """Be asked to end in order."""
        if not self.stopping:
            self.stopping = True
            self.world.loop.create_task(self.stop(), context=self.context)

    async def stop(self) -> None:
        """End in order: durable runs are let go where they stand."""
        self.stopping = True
        self.world.note("is stopped")
        try:
            await self.app.aclose()
            if self.own.drivers:
                self.world.fail(f"{self.name} has ended in order and still drives {sorted(self.own.drivers)}")
        except StoreError as error:
            self.world.note(f"could not stop in order: {error}")
        finally:
            self.die("stopped")


class StoreView:
    """A process's way to the store."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._closed = False

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **options: self._call(name, args, options)

    async def aclose(self) -> None:
        self._closed = True

    async def _call(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        process = self._process
        if self._closed:
            raise StoreError("This store is closed.", id="STORE_CLOSED")
        blow = await process.port()
        kind = None if blow is None else blow.kind
        if kind == "refuse":
            process.world.note(f"store.{name} raises")
            raise StoreError(f"store.{name} failed.")
        answer = await getattr(process.world.store, name)(*args, **options)
        self._watch(name, args, answer)
        await process.back()
        if kind == "keep and raise":
            process.world.note(f"store.{name} is carried out and raises")
            raise StoreError(f"store.{name} gave no answer.")
        return answer

    def _watch(self, name: str, args: tuple[Any, ...], answer: Any) -> None:
        world = self._process.world
        if name == "claim" and isinstance(answer, Fence):
            world.owners[answer.owner] = self._process
            world.epochs[answer.scope] = answer.epoch
            world.note(f"claims {answer.scope.id} as epoch {answer.epoch}")
        elif name == "commit":
            fence, write = args
            names = " ".join(type(record).__name__ for record in write.records)
            world.note(f"commits {write.run_id}: {names or '-'} +{len(write.events)} {write.status or ''}")
            if world.epochs.get(fence.scope) != fence.epoch:
                world.fail(f"a commit of {write.run_id} under the stale epoch {fence.epoch}")


class LoopRenewer:
    """Keeps leases alive on the loop: a `runs.lease.Renewer` whose time is the simulation's."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._tasks: dict[Held, asyncio.Task[None]] = {}

    def hold(self, fence: Fence, run_id: str, lost: Callable[[], None], abort: Callable[[], None]) -> Held:
        held = Held(fence, run_id, self._process.world.loop, lost, abort)
        self._tasks[held] = self._process.world.loop.create_task(self._keep(held), context=self._process.context)
        return held

    def drop(self, held: Held) -> None:
        task = self._tasks.pop(held, None)
        if task is not None:
            task.cancel()

    async def _keep(self, held: Held) -> None:
        while True:
            for _ in range(LOOKS):
                await asyncio.sleep(RENEW_SECONDS / LOOKS)
                await self._look_for_abort(held)
            try:
                kept = await self._process.store.renew(held.fence)
            except StoreError:
                continue
            if not kept:
                self._process.world.lost(held.fence)
                self._tasks.pop(held, None)
                held.lost()
                return

    async def _look_for_abort(self, held: Held) -> None:
        try:
            posts = await self._process.store.posts(held.run_id)
        except StoreError:
            return
        if any(isinstance(post, AbortRequest) for post in posts):
            held.abort()
