"""The log as its driver writes it: order, flushing, and publish after commit."""

from __future__ import annotations

import asyncio

import pytest

from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.core.ids import CountingIds
from tenuto.core.request_context import RequestContext
from tenuto.errors import StaleLease, StoreError
from tenuto.machine.records import Prepared, RunStarted
from tenuto.runs.journal import FLUSH_EVENTS, FLUSH_SECONDS, Journal, Position
from tenuto.steps.run import Definition, Options, Run
from tenuto.store import InMemoryStore
from tenuto.store.ports import RunRow, Scope
from tenuto.testing import Gate, VirtualClock, run_virtual

SCOPE = Scope("run", "r")
START = c.Start("r", "AGENT", p.StartPayload("a", "m"))
STARTED = RunStarted("r", "a", "m", 5)
PREPARED = Prepared((), (), ())


def deltas(count, first=0):
    return [c.TextDelta("r", "AGENT", p.TextDeltaPayload("t", str(n))) for n in range(first, first + count)]


TEXT_START = c.TextStart("r", "AGENT", p.TextStartPayload("t"))
TEXT_END = c.TextEnd("r", "AGENT", p.TextEndPayload("t"))


class Watched(InMemoryStore):
    """A store that a test can hold, break and look into; `log` is shared with the viewers."""

    def __init__(self, clock):
        super().__init__(clock=clock)
        self.log, self.gate, self.broken = [], Gate(), False
        self.gate.open()

    async def commit(self, fence, write):
        await self.gate.take()
        if self.broken:
            raise StoreError("disk full")
        committed = await super().commit(fence, write)
        self.log.append(("stored", [event.index for event in write.events]))
        return committed


class Opened:
    """A journal over a watched store, and what its viewers were shown."""

    def __init__(self, store, journal, shown):
        self.store, self.journal, self.shown = store, journal, shown

    async def stored(self):
        return [event.chunk for event in await self.store.events("r", resource=None)]


async def opened(clock, *, kept=True):
    store = Watched(clock)
    shown = []

    def show(chunks):
        shown.extend(chunks)
        store.log.append(("shown", [chunk.type for chunk in chunks]))

    run = Run("r", "m", Definition("a", "a", None), Options(5), "hi", RequestContext(), clock, CountingIds())
    fence = await store.claim(SCOPE, "me", run=RunRow(run_id="r", agent_id="a", scope=SCOPE, durable=kept))
    return Opened(store, Journal(run, store, fence, show, position=Position(kept=kept)), shown)


def test_a_commit_is_shown_after_it_is_stored():
    async def main():
        one = await opened(VirtualClock())
        await one.journal.commit(STARTED, chunks=[START])
        assert one.store.log == [("stored", [0]), ("shown", ["start"])]
        assert (one.journal.state.phase, one.journal.next_event) == ("starting", 1)

    run_virtual(main())


def test_deltas_are_shown_at_once_and_stored_soon():
    async def main():
        loop = asyncio.get_running_loop()
        one = await opened(loop.clock)
        await one.journal.commit(STARTED, chunks=[START, TEXT_START])
        await one.journal.stream(deltas(2), deltas=2)
        assert one.store.log[-1] == ("shown", ["text-delta"] * 2)
        await asyncio.sleep(FLUSH_SECONDS * 0.9)
        assert len(await one.stored()) == 2
        await asyncio.sleep(FLUSH_SECONDS * 0.2)
        assert one.store.log[-1] == ("stored", [2, 3])
        await one.journal.aclose()
        assert await one.stored() == one.shown

    run_virtual(main())


def test_the_first_delta_after_a_pause_is_stored_at_once():
    async def main():
        one = await opened(asyncio.get_running_loop().clock)
        await one.journal.commit(STARTED, chunks=[START, TEXT_START])
        await asyncio.sleep(1)
        await one.journal.stream(deltas(1), deltas=1)
        assert one.store.log[-1] == ("stored", [2])

    run_virtual(main())


def test_many_deltas_are_stored_in_packs():
    async def main():
        one = await opened(asyncio.get_running_loop().clock)
        await one.journal.commit(STARTED, chunks=[START, TEXT_START])
        for first in range(1_000):
            await one.journal.stream(deltas(1, first), deltas=1)
        packs = [places for what, places in one.store.log if what == "stored"]
        assert len(packs) <= 1_000 / FLUSH_EVENTS + 2
        await one.journal.stream([TEXT_END], deltas=0)
        assert await one.stored() == one.shown

    run_virtual(main())


def test_any_other_chunk_is_preceded_by_the_deltas_before_it():
    async def main():
        one = await opened(asyncio.get_running_loop().clock)
        await one.journal.commit(STARTED, chunks=[START])
        await one.journal.stream([*deltas(2), TEXT_END, *deltas(1)], deltas=3)
        stored, shown = [place for what, places in one.store.log if what == "stored" for place in places], one.shown
        assert stored == list(range(len(stored)))
        assert shown == [START, *deltas(2), TEXT_END, *deltas(1)]

    run_virtual(main())


def test_a_plain_run_stores_no_event():
    async def main():
        one = await opened(asyncio.get_running_loop().clock, kept=False)
        await one.journal.commit(STARTED, chunks=[START])
        await one.journal.stream(deltas(100), deltas=100)
        await one.journal.commit(PREPARED, chunks=[TEXT_END])
        assert len(one.shown) == 102
        assert one.store.log == [("shown", ["start"]), ("shown", ["text-delta"] * 100), ("shown", ["text-end"])]

    run_virtual(main())


def test_what_a_failed_commit_held_is_shown_with_the_next_that_stores_it():
    async def main():
        one = await opened(VirtualClock())
        one.store.broken = True
        with pytest.raises(StoreError):
            await one.journal.commit(STARTED, chunks=[START])
        assert one.shown == []
        one.store.broken = False
        await one.journal.commit(PREPARED, chunks=[TEXT_START])
        assert one.shown == await one.stored() == [START, TEXT_START]

    run_virtual(main())


def test_a_cancelled_commit_is_waited_for():
    async def main():
        one = await opened(VirtualClock())
        one.store.gate = Gate()
        task = asyncio.create_task(one.journal.commit(STARTED, chunks=[START]))
        await one.store.gate.wait_blocked()
        task.cancel()
        await asyncio.sleep(0)
        one.store.gate.open()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert one.shown == await one.stored() == [START]

    run_virtual(main())


def test_one_commit_at_a_time():
    async def main():
        one = await opened(VirtualClock())
        one.store.gate = Gate()
        first = asyncio.create_task(one.journal.commit(STARTED, chunks=[START]))
        await one.store.gate.wait_blocked()
        second = asyncio.create_task(one.journal.commit(PREPARED, chunks=[TEXT_START]))
        await asyncio.sleep(0)
        assert one.store.log == []
        one.store.gate.open()
        await asyncio.gather(first, second)
        assert one.store.log == [("stored", [0]), ("shown", ["start"]), ("stored", [1]), ("shown", ["text-start"])]

    run_virtual(main())


def test_a_stale_fence_shows_nothing():
    async def main():
        one = await opened(VirtualClock())
        await one.store.claim(SCOPE, "me")
        with pytest.raises(StaleLease):
            await one.journal.commit(STARTED, chunks=[START])
        assert one.shown == []

    run_virtual(main())


def test_closing_stops_the_timer():
    async def main():
        one = await opened(asyncio.get_running_loop().clock)
        await one.journal.commit(STARTED, chunks=[START])
        await one.journal.stream(deltas(1), deltas=1)
        await one.journal.aclose()
        count = len(one.store.log)
        await asyncio.sleep(1)
        assert len(one.store.log) == count

    run_virtual(main())
