"""Several processes on one file, and what is left of one that was killed."""

import asyncio
import json
import subprocess
import sys

import pytest

from tenuto.store import SQLiteStore
from tenuto.store.migrate import migrations
from tenuto.store.ports import Committed, Fence, HeldBy, Scope, Write
from tests.store.conformance import Note, delta, row, started, taken
from tests.store.conformance_threads import numbers, texts

pytestmark = pytest.mark.slow

PRELUDE = """
import asyncio, json, os, signal, sys, threading
from tenuto.core import faults
from tenuto.store import SQLiteStore
from tenuto.store.ports import Fence, Scope, Write
from tests.store.conformance import Note, delta, effect, row, started

def tell(*words):
    print(*words, flush=True)

def die_at(name, times=1):
    left = [times]
    def hook(hit):
        if hit == name:
            left[0] -= 1
            if not left[0]:
                tell("dead at", name)
                os.kill(os.getpid(), signal.SIGKILL)
    faults.install(hook)

path = sys.argv[1]
"""


def child(script, *args):
    command = [sys.executable, "-c", PRELUDE + script, *map(str, args)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ended(process, go=""):
    output, _ = process.communicate(go, timeout=60)
    return output.splitlines()


def together(script, path, number=2):
    """What each of some processes says that are let go at once."""
    processes = [child(script, path, n) for n in range(number)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    lines = [ended(process) for process in processes]
    assert [process.returncode for process in processes] == [0] * number
    return [json.loads(said[-1]) for said in lines]


async def opened(path):
    store = SQLiteStore(path)
    await store.runs(resource=None)
    return store


def test_of_two_processes_that_claim_at_once_one_gets_each_scope(tmp_path):
    script = """
async def main():
    store = SQLiteStore(path)
    me = f"o{sys.argv[2]}"
    await store.runs(resource=None)
    tell("ready"); input()
    mine = {}
    for n in range(100):
        scope = Scope("run", f"r{n}")
        answer = await store.claim(scope, me, run=row(f"r{n}", scope))
        if isinstance(answer, Fence):
            mine[n] = answer.epoch
    await store.aclose()
    tell(json.dumps(mine))
asyncio.run(main())
"""
    path = tmp_path / "runs.db"
    asyncio.run(closed_after(path))
    first, second = together(script, path)
    assert not set(first) & set(second)
    assert len(first) + len(second) == 100
    epochs = [*first.values(), *second.values()]
    assert len(set(epochs)) == 100


async def closed_after(path, *work):
    store = await opened(path)
    answers = [await each(store) for each in work]
    await store.aclose()
    return answers


def test_of_two_processes_that_commit_at_once_nothing_is_lost_or_mixed(tmp_path):
    script = """
async def main():
    store = SQLiteStore(path)
    name = f"own{sys.argv[2]}"
    scope = Scope("run", name)
    own = await started(store, row(name, scope), name)
    shared = Fence(Scope("run", "shared"), int(open(path + ".epoch").read()), "o")
    tell("ready"); input()
    won = 0
    for n in range(60):
        await store.commit(own, Write(run_id=name, records=(Note(name),), first_seq=n, events=(delta(n, name),)))
        try:
            await store.commit(shared, Write(run_id="shared", records=(Note(name),), first_seq=n, events=(delta(n),)))
            won += 1
        except Exception as error:
            assert error.id == "STORE_OUT_OF_ORDER", error
            while await store.event_count("shared", resource="ann") <= n:
                await asyncio.sleep(0)
    await store.aclose()
    tell(json.dumps(won))
asyncio.run(main())
"""
    path = tmp_path / "runs.db"
    scope = Scope("run", "shared")
    (fence,) = asyncio.run(closed_after(path, lambda store: started(store, row("shared", scope), "o")))
    (tmp_path / "runs.db.epoch").write_text(str(fence.epoch))
    assert sum(together(script, path)) == 60

    async def check(store):
        for name in ("own0", "own1", "shared"):
            records = await store.records(name, resource="ann")
            events = await store.events(name, resource="ann")
            assert (len(records), [event.index for event in events]) == (60, list(range(60)))
            if name != "shared":
                assert {event.chunk.payload.text for event in events} == {name}

    asyncio.run(closed_after(path, check))


@pytest.mark.parametrize("point", ["store.group_commit.before", "store.group_commit.after"])
def test_a_process_killed_in_a_group_commit_leaves_all_of_it_or_nothing(tmp_path, point):
    script = """
def write(fence, step):
    run_id = fence.scope.id
    first = 2 * step
    return Write(run_id=run_id, records=(Note(step), Note("b")), first_seq=first,
                 events=(delta(first), delta(first + 1)), effects=(effect(f"{run_id}.{step}", run_id=run_id),))

async def main():
    store = SQLiteStore(path)
    scopes = [Scope("run", f"r{n}") for n in range(20)]
    fences = [await started(store, row(scope.id, scope), scope.id) for scope in scopes]
    for fence in fences:
        await store.commit(fence, write(fence, 0))
    gate, there = threading.Event(), threading.Event()
    blocker = asyncio.ensure_future(store._writer.do(lambda c, now: (there.set(), gate.wait(30)) and None))
    await asyncio.to_thread(there.wait)
    group = [asyncio.ensure_future(store.commit(fence, write(fence, 1))) for fence in fences]
    for _ in range(5):
        await asyncio.sleep(0)
    die_at(sys.argv[2], 2)  # the blocker's own commit, then that of the group
    gate.set()
    await asyncio.gather(blocker, *group)
    tell("survived")
asyncio.run(main())
"""
    path = tmp_path / "runs.db"
    process = child(script, path, point)
    assert ended(process) == [f"dead at {point}"]
    assert process.returncode == -9
    steps = 2 if point.endswith("after") else 1

    async def check(store):
        for n in range(20):
            name = f"r{n}"
            assert len(await store.records(name, resource="ann")) == 2 * steps
            assert len(await store.events(name, resource="ann")) == 2 * steps
            assert await store.event_count(name, resource="ann") == 2 * steps
            assert (await store.effect(f"{name}.1") is not None) == (steps == 2)
        # The dead process named its owners after nothing that can be looked up: its leases run out.
        fence = taken(await store.claim(Scope("run", "r0"), "r0", run=row("r0", Scope("run", "r0")), expect="running"))
        write = Write(run_id="r0", records=(Note(1),), first_seq=2 * steps, events=(delta(2 * steps),))
        assert await store.commit(fence, write) == Committed(2 * steps + 1, 2 * steps + 1)

    asyncio.run(closed_after(path, check))


@pytest.mark.parametrize("point", ["store.group_commit.before", "store.group_commit.after"])
def test_a_process_killed_while_it_stores_events_alone(tmp_path, point):
    script = """
async def main():
    store = SQLiteStore(path)
    fence = await started(store)
    die_at(sys.argv[2], 3)
    for n in range(5):
        await store.commit(fence, Write(run_id="r1", events=(delta(2 * n), delta(2 * n + 1))))
        tell("stored", n)
asyncio.run(main())
"""
    path = tmp_path / "runs.db"
    process = child(script, path, point)
    assert ended(process) == ["stored 0", "stored 1", f"dead at {point}"]
    kept = 6 if point.endswith("after") else 4

    async def check(store):
        assert [event.index for event in await store.events("r1", resource="ann")] == list(range(kept))
        assert await store.event_count("r1", resource="ann") == kept

    asyncio.run(closed_after(path, check))


def test_a_process_that_was_killed_holds_nothing_any_more(tmp_path):
    script = """
from tenuto.store.owners import owner_id
async def main():
    store = SQLiteStore(path)
    await started(store, owner=owner_id())
    tell("held"); os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    path = tmp_path / "runs.db"
    process = child(script, path)
    assert ended(process) == ["held"]

    async def check(store):
        assert [found.run_id for found in await store.recoverable()] == ["r1"]
        assert isinstance(await store.claim(row().scope, "o2"), Fence)

    asyncio.run(closed_after(path, check))


def test_a_process_killed_between_a_log_and_its_messages_leaves_neither(tmp_path):
    script = """
from tests.store.conformance_threads import T1, many
async def main():
    store = SQLiteStore(path)
    fence = await started(store)
    die_at("store.messages.mid", 2)
    for n in range(3):
        messages = many(2, 2 * n)
        await store.commit(fence, Write(run_id="r1", records=(Note(n),), first_seq=n, thread=T1, messages=messages))
        tell("stored", n)
asyncio.run(main())
"""
    path = tmp_path / "runs.db"
    assert ended(child(script, path)) == ["stored 0", "dead at store.messages.mid"]

    async def check(store):
        assert len(await store.records("r1", resource="ann")) == 1
        assert await texts(store) == numbers(0, 1)
        assert (await store.thread("t1", resource="ann")).messages == 2

    asyncio.run(closed_after(path, check))


def test_a_killed_holder_of_a_thread_frees_it_at_once_for_who_waits(tmp_path):
    script = """
from tenuto.store.owners import owner_id
async def main():
    store = SQLiteStore(path)
    await started(store, owner=owner_id())
    tell("held"); input()
asyncio.run(main())
"""
    path = tmp_path / "runs.db"
    process = child(script, path)
    assert process.stdout.readline() == "held\n"

    async def check(store):
        assert isinstance(await store.claim(row().scope, "o2"), HeldBy)
        waiting = asyncio.ensure_future(store.freed(row().scope, 60))
        assert not await store.freed(row().scope, 0)
        process.kill()
        assert await waiting
        fence = taken(await store.claim(row().scope, "o2", run=row("r2")))
        assert fence.unfinished == "r1"

    asyncio.run(closed_after(path, check))
    ended(process)


def test_turns_of_two_processes_on_one_thread_are_all_kept_in_order(tmp_path):
    script = """
from tests.store.conformance_threads import said
from tenuto.store.ports import ThreadEdit, ThreadRow
thread = ThreadRow(id="t1", resource="ann")
async def turn(store, name):
    while not isinstance(fence := await store.claim(thread.scope, name), Fence):
        await store.freed(thread.scope, 60)
    await store.edit(fence, ThreadEdit(thread=thread, messages=(said(name + "?", name),)))
    await store.edit(fence, ThreadEdit(thread=thread, messages=(said(name + "!", name),)))
    await store.release(fence)
async def main():
    store = SQLiteStore(path)
    await store.runs(resource=None)
    tell("ready"); input()
    await asyncio.gather(*[turn(store, f"{sys.argv[2]}.{n}") for n in range(4)])
    await store.aclose()
    tell("null")
asyncio.run(main())
"""
    path = tmp_path / "runs.db"
    asyncio.run(closed_after(path))
    together(script, path)

    async def check(store):
        found = await texts(store)
        assert [seq for seq, _ in found] == list(range(16))
        asked, answered = [text for _, text in found[::2]], [text for _, text in found[1::2]]
        assert asked == answered
        assert sorted(asked) == sorted(f"{process}.{n}" for process in range(2) for n in range(4))

    asyncio.run(closed_after(path, check))


def test_a_process_killed_between_two_migrations(tmp_path):
    script = """
die_at("store.migrate.mid")
asyncio.run(SQLiteStore(path).runs(resource=None))
"""
    path = tmp_path / "runs.db"
    process = child(script, path)
    assert ended(process) == ["dead at store.migrate.mid"]

    async def check(store):
        done = await store._writer.do(lambda c, _: c.execute("SELECT number FROM migrations").fetchall(), alone=True)
        assert done == [(each.number,) for each in migrations()]
        await started(store)

    asyncio.run(closed_after(path, check))


def test_processes_that_open_a_new_file_at_once(tmp_path):
    script = """
async def main():
    tell("ready"); input()
    for n in range(15):
        store = SQLiteStore(f"{path}.{n}")
        me = f"r{sys.argv[2]}"
        await started(store, row(me, Scope("run", me)), me)
        await store.aclose()
    tell(json.dumps("done"))
asyncio.run(main())
"""
    assert together(script, tmp_path / "runs.db", 3) == ["done"] * 3

    async def names(store):
        return sorted(found.run_id for found in await store.runs(resource="ann"))

    for n in range(15):
        (found,) = asyncio.run(closed_after(tmp_path / f"runs.db.{n}", names))
        assert found == ["r0", "r1", "r2"]


def test_importing_the_room_does_not_load_sqlite():
    script = "import sys, tenuto.store as s; assert 'sqlite3' not in sys.modules; assert s.SQLiteStore"
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0
