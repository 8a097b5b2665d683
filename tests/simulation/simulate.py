"""Runs a plan to its end, and says what did not hold.

Invariant: after the plan's blows the world is calm, and then every run ends within `BOUND` virtual seconds, if people
decide what waits for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from tenuto.core import faults
from tenuto.core.ids import RandomIds
from tenuto.core.request_context import RequestContext
from tenuto.machine.decisions import fold
from tenuto.runs import driver, observe
from tenuto.runs.journal import Journal
from tenuto.runs.replay import take_in
from tenuto.steps.results import RequestInfo
from tenuto.steps.run import Definition, Options, Run
from tenuto.testing import VirtualClock, run_virtual
from tests.simulation.cast import agent
from tests.simulation.clients import Clients
from tests.simulation.judge import judge
from tests.simulation.plan import Plan
from tests.simulation.world import World, here

BOUND = 900.0
POLL_SECONDS = 1.5


class Simulated(Struct):
    """What became of a plan."""

    plan: Plan
    violations: list[str]
    trace: list[str]
    seconds: float
    deaths: int
    effects: int
    requests: int
    statuses: tuple[str, ...] = ()

    def report(self) -> str:
        """What a person needs to see of a failure."""
        plan = msgspec.json.encode(self.plan).decode()
        return "\n".join([f"seed {self.plan.seed}: {plan}", *self.trace[-400:], "", *self.violations])


def simulate(plan: Plan) -> Simulated:
    """Run `plan`; never raises for what does not hold."""
    clock = VirtualClock()
    with _rigged():
        return run_virtual(_simulate(plan, clock), clock=clock)


async def _simulate(plan: Plan, clock: VirtualClock) -> Simulated:
    world = World(plan, asyncio.get_running_loop(), clock, agent)
    clients = Clients(world)
    world.start(0)
    world.start(1)
    try:
        async with asyncio.timeout(3 * BOUND):
            busy = asyncio.create_task(clients.everything())
            await asyncio.wait([busy], timeout=BOUND / 6)
            await _calm_down(world, clients)
            await busy
    except TimeoutError:
        world.fail(
            f"nothing ends within {BOUND} virtual seconds: {[world.row(f'run-{n}') for n in range(len(plan.runs))]}"
        )
        busy.cancel()
        await asyncio.gather(busy, return_exceptions=True)
    await _close(world)
    await judge(world, clients)
    rows = [world.row(f"run-{number}") for number in range(len(plan.runs))]
    return Simulated(
        plan,
        world.wrong,
        world.trace,
        clock.monotonic(),
        world.deaths,
        len(world.effects),
        len(world.requests),
        tuple("none" if row is None else row.status for row in rows),
    )


async def _calm_down(world: World, clients: Clients) -> None:
    """No more blows; people decide everything; all runs end."""
    world.calm = True
    world.note("calm")
    end = world.clock.monotonic() + BOUND
    run_ids = [f"run-{number}" for number in range(len(world.plan.runs))]
    while world.clock.monotonic() < end:
        waiting = [run_id for run_id in run_ids if world.row(run_id) is not None and not world.over(run_id)]
        if not waiting:
            return
        for run_id in waiting:
            for call in await world.store.pending(run_id, resource=None):
                await clients.decide(call, {"approval": "approve"}.get(call.kind, "unknown" if _asks(call) else "yes"))
        await asyncio.sleep(3)


def _asks(call: Any) -> bool:
    return call.resume_schema is not None and "not-applied" in call.resume_schema


async def _close(world: World) -> None:
    world.closing = True
    for process in list(world.slots):
        if process is not None:
            process.frozen_until = 0.0
            await asyncio.wait([world.loop.create_task(process.stop(), context=process.context)])
    await asyncio.sleep(20)  # what is dead has been reaped, what waits to be started is not


@contextmanager
def _rigged() -> Iterator[None]:
    """The failpoints, a slower poll, and journals that are compared with what they store."""
    poll, made = observe.POLL_SECONDS, driver.Journal
    logger = logging.getLogger("tenuto")
    level = logger.level
    observe.POLL_SECONDS, driver.Journal = POLL_SECONDS, CheckedJournal  # type: ignore[misc]
    faults.install(_hit)
    logger.setLevel(logging.CRITICAL + 1)  # what fails here fails on purpose
    try:
        yield
    finally:
        observe.POLL_SECONDS, driver.Journal = poll, made  # type: ignore[misc]
        faults.install(None)
        logger.setLevel(level)


def _hit(point: str) -> None:
    process = here.get()
    if process is not None:
        process.hit(point)


class CheckedJournal(Journal):
    """A journal whose state is, after each commit, what the stored records lead to; and so is its run's data."""

    async def commit(self, *records: Any, **parts: Any) -> None:
        await super().commit(*records, **parts)
        process = here.get()
        if process is None or not process.alive or self._records or not self._kept:
            return
        run_id = self._run.run_id
        stored = await process.world.records(run_id)
        if len(stored) != self._state.seq:
            return  # another driver has it
        if fold(stored) != self._state:
            process.world.fail(f"{run_id}: {fold(stored)} is stored, and {self._state} drives")
        if parts.get("status") is not None and not _same(self._run, stored, process):
            process.world.fail(f"{run_id}: its records do not lead to the data it is driven with")


def _same(run: Run, stored: list[Any], process: Any) -> bool:
    other = Run(
        run_id=run.run_id,
        message_id=run.message_id,
        definition=Definition(id="agent", name="agent", model=None),
        options=Options(max_steps=1),
        messages=(),
        request_context=RequestContext(),
        clock=process.world.clock,
        ids=RandomIds(),
    )
    take_in(other, stored)
    return _data(run) == _data(other)


def _data(run: Run) -> bytes:
    steps = [replace(step, request=RequestInfo()) for step in run.steps]
    draft = None if run.draft is None else asdict(run.draft)
    error = None if run.error is None else (run.error.id, str(run.error))
    whole = (run.message_id, run.prompt.system, run.prompt.turns, steps, run.parts, run.usage, draft, error)
    return msgspec.json.encode(whole, order="sorted", enc_hook=sorted)
