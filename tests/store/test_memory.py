import pytest

from tenuto.store.memory import InMemoryStore
from tenuto.store.ports import Write
from tests.store.conformance import (
    ManualClock,
    RunStoreConformance,
    Scope,
    decide,
    pending,
    row,
    started,
)
from tests.store.conformance_threads import ThreadConformance


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
async def store(clock):
    store = InMemoryStore(clock=clock)
    yield store
    await store.aclose()


class TestInMemoryStore(RunStoreConformance, ThreadConformance):
    pass


async def finished(store, name):
    scope = Scope("run", name)
    fence = await started(store, row(name, scope, durable=False))
    call = pending(run_id=name)
    await store.commit(fence, Write(run_id=name, pending=(call,)))
    await store.post(decide(run_id=name))
    await store.commit(fence, Write(run_id=name, status="success"))
    return fence


@pytest.mark.parametrize("keep", [0, 1, 3])
async def test_rows_of_finished_plain_runs_are_kept_up_to_a_number(clock, keep):
    store = InMemoryStore(clock=clock, keep_finished=keep)
    for name in ("r1", "r2", "r3", "r4"):
        await store.release(await finished(store, name))
    rows = await store.runs(resource="ann")
    assert [found.run_id for found in rows] == ["r4", "r3", "r2", "r1"][:keep]
    kept = [name for name in ("r1", "r2", "r3", "r4") if await store.posts(name)]
    assert kept == ["r1", "r2", "r3", "r4"][4 - keep :]


async def test_durable_suspended_and_running_runs_are_never_forgotten(clock):
    store = InMemoryStore(clock=clock, keep_finished=0)
    fence = await started(store, row("durable", Scope("run", "durable")))
    await store.commit(fence, Write(run_id="durable", status="success"))
    fence = await started(store, row("suspended", Scope("run", "suspended"), durable=False))
    await store.commit(fence, Write(run_id="suspended", status="suspended"))
    await started(store, row("running", Scope("run", "running"), durable=False))
    await finished(store, "plain")
    assert [found.run_id for found in await store.runs(resource="ann")] == ["running", "suspended", "durable"]


async def test_a_finished_plain_run_leaves_nothing_but_its_row(clock):
    store = InMemoryStore(clock=clock)
    fence = await finished(store, "r1")
    await store.release(fence)
    assert not store._logs
    assert not store._leases
    assert not store._running


async def test_a_refused_post_leaves_nothing(store):
    await store.post(decide(run_id="nobody"))
    assert not store._posts


async def test_the_lease_time_is_an_option(clock):
    store = InMemoryStore(clock=clock, lease_seconds=2)
    await started(store)
    clock.advance(2)
    assert not hasattr(await store.claim(row().scope, "o2"), "expires_at")


async def test_without_a_clock_it_keeps_the_machine_s_time():
    store = InMemoryStore()
    await started(store)
    assert (await store.run("r1", resource="ann")).created_at > 1_600_000_000
