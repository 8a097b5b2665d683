"""The sweep: what one run does to it must not keep it from the others."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tenuto.core.errors import StoreError
from tenuto.machine.records import LOOP_VERSION, RunStarted
from tenuto.runs.recovery import SWEEP_SECONDS, RecoveryPolicy, sweep
from tenuto.store import InMemoryStore
from tenuto.store.ports import LEASE_SECONDS, RunRow, Scope, Write
from tenuto.testing import VirtualClock, run_virtual


class Swept:
    """A store whose runs have lost their drivers, and what a sweep does about them."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.store = InMemoryStore(clock=clock)
        self.begun: list[str] = []
        self.long: set[str] = set()
        self.broken: set[str] = set()

    async def left(self, run_id: str, *, agent_id: str = "mine", loop_version: int = LOOP_VERSION) -> None:
        scope = Scope("run", run_id)
        row = RunRow(run_id=run_id, agent_id=agent_id, scope=scope, durable=True, loop_version=loop_version)
        fence = await self.store.claim(scope, "gone", run=row)
        await self.store.commit(fence, Write(run_id=run_id, records=(RunStarted(run_id, agent_id, "m", 1),)))

    async def recover(self, row: RunRow) -> None:
        self.begun.append(row.run_id)
        if row.run_id in self.broken:
            raise TypeError("nobody expected this")
        if row.run_id in self.long:
            await asyncio.Event().wait()

    async def during(self, sweeps: int) -> list[str]:
        """What is begun in so many sweeps after the leases have run out."""
        await self.clock.sleep(LEASE_SECONDS)
        policy = RecoveryPolicy(self.store, self.clock, LOOP_VERSION, frozenset({"mine"}), self.recover)
        task = asyncio.ensure_future(sweep(policy))
        await self.clock.sleep(sweeps * SWEEP_SECONDS - 1)
        assert not task.done()
        task.cancel()
        await asyncio.wait([task])
        return self.begun


def swept(test):
    """Run `test(world)` in virtual time."""
    clock = VirtualClock()
    run_virtual(test(Swept(clock)), clock=clock)


def test_a_recovery_that_takes_long_keeps_no_other_run_waiting():
    async def test(world):
        await world.left("a")
        world.long.add("a")

        async def later():
            await world.clock.sleep(LEASE_SECONDS + 1)
            await world.left("b")

        waiting = asyncio.ensure_future(later())
        assert await world.during(6) == ["a", "b", "b"]
        await waiting

    swept(test)


def test_a_recovery_that_fails_is_tried_again_and_keeps_no_other_run_from_it(caplog):
    async def test(world):
        await world.left("a")
        await world.left("b")
        world.broken.add("a")
        assert await world.during(2) == ["a", "b", "a", "b"]

    swept(test)
    assert "Recovering run a failed" in caplog.text


def test_a_journal_that_cannot_be_read_keeps_no_other_run_from_it(caplog, monkeypatch):
    async def test(world):
        await world.left("a")
        await world.left("b")
        world.store._logs["a"].kept_records[0] = b'{"kind":"from-the-future"}'
        assert await world.during(2) == ["b", "b"]

    swept(test)
    assert caplog.text.count("Run a is left alone") == 1


@pytest.mark.parametrize("other", [{"agent_id": "another's"}, {"loop_version": LOOP_VERSION + 1}])
def test_what_this_process_cannot_drive_is_left_alone(other):
    async def test(world):
        for number in range(150):
            await world.left(f"other-{number}", **other)
        await world.left("mine")
        assert await world.during(1) == ["mine"]

    swept(test)


def test_a_store_that_fails_for_a_while(caplog):
    async def test(world):
        await world.left("a")
        read, failures = world.store.recoverable, [StoreError("no"), StoreError("no")]

        async def recoverable(limit=100):
            if failures:
                raise failures.pop()
            return await read(limit)

        world.store.recoverable = recoverable
        assert await world.during(3) == ["a"]

    swept(test)
    assert caplog.text.count("could not read the store") == 2
    assert caplog.records[0].levelno == logging.ERROR
