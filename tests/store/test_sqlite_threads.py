"""Threads and child runs in a SQLite file: retention, waiting for another process, migration of older files."""

import asyncio
import sqlite3

import pytest
from msgspec.structs import replace

from tenuto.core import faults
from tenuto.store import SQLiteStore
from tenuto.store.migrate import migrate, migrations
from tenuto.store.owners import owner_id
from tenuto.store.ports import ANYONE, Fence, HeldBy, Scope, ThreadEdit, ThreadRow, Write
from tenuto.store.sqlite_connect import connect
from tests.store.conformance import FULL, LONG, THREAD, ManualClock, Note, delta, pending, row, started, taken
from tests.store.conformance_threads import CHILD, T1, filled, many, numbers, said, score, texts, vector


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
async def store(clock, path):
    store = SQLiteStore(path, clock=clock)
    yield store
    await store.aclose()


@pytest.fixture
async def other(clock, path):
    """Another process, as far as the file can tell."""
    store = SQLiteStore(path, clock=clock)
    yield store
    await store.aclose()


async def counts(store, *tables):
    return [
        (await store._writer.do(lambda c, _, t=table: c.execute(f"SELECT COUNT(*) FROM {t}").fetchone(), alone=True))[0]
        for table in tables
    ]


class TestRetention:
    async def test_old_threads_go_with_all_that_is_in_them(self, store, clock):
        fence = await filled(store)
        await store.edit(fence, ThreadEdit(thread=ThreadRow(id="sub", resource="ann", root=THREAD), messages=many(2)))
        await store.index([vector("m0"), vector("m1", thread="sub")])
        await store.release(fence)
        clock.advance(50)
        young = ThreadRow(id="young", resource="ann")
        await store.release(await filled(store, 1, young))
        clock.advance(50)
        assert (await store.prune(events_older_than=0, threads_older_than=101)).threads == 0
        assert (await store.prune(events_older_than=0, threads_older_than=100)).threads == 1
        assert (await store.prune(events_older_than=0)).threads == 0
        assert await texts(store, "young") == numbers(0)
        assert await counts(store, "threads", "messages", "vectors") == [1, 1, 0]

    async def test_a_thread_in_which_something_goes_on_or_waits_stays(self, store, clock):
        held = taken(await store.claim(Scope("thread", "held", "ann"), "o1"))
        for name, status in (("suspended", "suspended"), ("running", None), ("over", "success")):
            scope = Scope("thread", name, "ann")
            fence = await started(store, row(name, scope, resource="ann"))
            write = Write(run_id=name, thread=ThreadRow(id=name, resource="ann"), messages=many(1), status=status)
            await store.commit(fence, write)
            await store.release(fence)
        await store.edit(held, ThreadEdit(thread=ThreadRow(id="held", resource="ann")))
        assert (await store.prune(events_older_than=0, threads_older_than=0)).threads == 1
        left = (await store.threads(resource="ann")).threads
        assert {each.id for each in left} == {"suspended", "running", "held"}
        clock.advance(LONG)
        assert (await store.prune(events_older_than=0, threads_older_than=0)).threads == 1

    async def test_threads_go_batch_by_batch(self, store, monkeypatch):
        monkeypatch.setattr("tenuto.store.sqlite_prune.BATCH", 2)
        for name in "abcde":
            await store.swap(ThreadRow(id=name, resource="ann"), 0)
        assert (await store.prune(events_older_than=0, threads_older_than=0)).threads == 5

    async def test_scores_go_batch_by_batch(self, store, clock, monkeypatch):
        monkeypatch.setattr("tenuto.store.sqlite_prune.SCORES", 2)
        for number in range(5):
            await store.post(score(f"s{number}"))
        clock.advance(50)
        await store.post(score("young"))
        done = await store.prune(events_older_than=0, scores_older_than=50)
        assert done.scores == 5
        assert [each.id for each in await store.scores(resource="ann")] == ["young"]

    async def test_a_tree_loses_its_events_and_goes_by_its_root(self, store, clock):
        fence = await started(store)
        child = Write(run_id="r2", run=CHILD, records=(Note(1),), events=(delta(0), delta(1)), status="success")
        await store.commit(fence, child)
        clock.advance(50)
        await store.commit(fence, replace(FULL, status="success"))
        assert (await store.prune(events_older_than=10, runs_older_than=20)).events == 0
        clock.advance(10)
        assert (await store.prune(events_older_than=10, runs_older_than=20)).events == 1
        for name in ("r1", "r2"):
            assert [each.index for each in await store.events(name, resource="ann")] == [1]
        clock.advance(10)
        assert (await store.prune(events_older_than=10, runs_older_than=20)).runs == 1
        assert await counts(store, "runs", "records", "events", "pending") == [0, 0, 0, 0]

    async def test_a_suspended_tree_is_never_dropped(self, store, clock):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r2", run=CHILD, pending=(pending(run_id="r2"),), status="suspended"))
        await store.commit(fence, Write(run_id="r3", run=replace(CHILD, run_id="r3"), status="success"))
        await store.commit(fence, Write(run_id="r1", status="suspended"))
        clock.advance(10_000)
        done = await store.prune(events_older_than=0, runs_older_than=0, threads_older_than=0)
        assert (done.events, done.runs) == (0, 0)
        assert await counts(store, "runs") == [3]

    async def test_plain_trees_are_counted_and_forgotten_by_their_roots(self, path, clock):
        store = SQLiteStore(path, clock=clock, keep_finished=1)
        for name in ("a", "b"):
            fence = await started(store, row(name, Scope("run", name), durable=False))
            for number in range(3):
                child = replace(
                    CHILD, run_id=f"{name}{number}", parent_id=name, scope=Scope("run", name), durable=False
                )
                await store.commit(fence, Write(run_id=child.run_id, run=child, status="success"))
            await store.commit(fence, Write(run_id=name, status="success"))
            clock.advance(1)
        assert [each.run_id for each in await store.runs(resource="ann")] == ["b2", "b1", "b0", "b"]
        await store.aclose()

    async def test_plain_trees_that_nobody_drives_are_settled_whole(self, store, clock):
        fence = await started(store, row(durable=False))
        await store.commit(fence, Write(run_id="r2", run=replace(CHILD, durable=False)))
        clock.advance(LONG)
        await store.prune(events_older_than=0)
        assert {each.status for each in await store.runs(resource="ann")} == {"interrupted"}


async def until_watched(store):
    """The store's waiter is entered and its watcher has looked once."""
    for _ in iter(lambda: bool(store._waiters.waiting() and store._watcher._seen), True):
        await asyncio.sleep(0)


class TestWaitingForAnotherProcess:
    async def test_a_release_there_is_seen_here(self, store, other):
        fence = await started(other)
        task = asyncio.ensure_future(store.freed(THREAD, 60))
        await until_watched(store)
        await other.release(fence)
        assert await task
        assert isinstance(await store.claim(THREAD, "o2"), Fence)

    async def test_a_lease_that_went_on_to_another_frees_nothing(self, store, other):
        fence = await started(other)
        task = asyncio.ensure_future(store.freed(THREAD, 60))
        await until_watched(store)
        again = taken(await other.claim(THREAD, "o1"))
        await other.renew(again)
        assert not await store.freed(THREAD, 0)
        assert not task.done()
        assert not await other.renew(fence)
        await other.release(again, handover="o2")
        assert await task, "it may be reserved for who waits"
        assert isinstance(await store.claim(THREAD, "o3"), HeldBy)
        assert not await store.freed(THREAD, 0, owner="o3")
        assert await store.freed(THREAD, 0, owner="o2")

    async def test_its_thread_ends_with_the_last_waiter(self, store, other):
        await started(other)
        tasks = [asyncio.ensure_future(store.freed(THREAD)) for _ in range(2)]
        await until_watched(store)
        watcher = store._watcher._thread
        assert watcher.is_alive()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await asyncio.to_thread(watcher.join, 30)
        assert store._watcher._thread is None

    async def test_a_closed_store_has_no_thread_left(self, store, other):
        await started(other)
        task = asyncio.ensure_future(store.freed(THREAD))
        await until_watched(store)
        watcher = store._watcher._thread
        await store.aclose()
        assert not watcher.is_alive()
        assert await task

    async def test_a_holder_that_is_gone_frees_its_scope_without_a_write(self, store, monkeypatch):
        gone = set()
        monkeypatch.setattr("tenuto.store.sqlite_rows.is_gone", lambda owner: owner in gone)
        owner = owner_id()
        await started(store, owner=owner)
        task = asyncio.ensure_future(store.freed(THREAD, 60))
        await until_watched(store)
        gone.add(owner)
        assert await task


class TestOlderFiles:
    async def test_a_file_of_the_version_before_keeps_its_runs_and_gets_the_tables(self, path, clock):
        before = connect(path, busy_timeout=1, mode="rwc")
        migrate(before, [each for each in migrations() if each.number < 4], now=1.0)
        values = "'old', 1, 'a', 'run', 'old', '', '{}', 1, 'ann', NULL, NULL, NULL, 'old', 1, NULL, NULL, 1.0, 1.0"
        columns = (
            "run_id, format, agent_id, scope_kind, scope_id, scope_resource, status, durable, resource_id, thread_id, "
            "parent_id, parent_call_id, root_id, loop_version, reason, error, created_at, updated_at"
        )
        before.execute(f"INSERT INTO runs ({columns}) VALUES ({values.format('success')})")
        before.close()
        store = SQLiteStore(path, clock=clock)
        assert [each.run_id for each in await store.runs(resource="ann")] == ["old"]
        await filled(store)
        assert (await store.prune(events_older_than=0, runs_older_than=0)).runs == 1
        await store.aclose()

    async def test_a_row_of_a_newer_format_is_refused(self, store):
        await filled(store)
        await store.index([vector("m0")])
        await store.post(score())
        for table, read in {
            "threads": lambda: store.thread("t1", resource="ann"),
            "messages": lambda: store.messages("t1", resource="ann"),
            "vectors": lambda: store.vectors(resource="ann", space="s"),
            "scores": lambda: store.scores(resource="ann"),
        }.items():
            await store._writer.do(lambda c, _, t=table: c.execute(f"UPDATE {t} SET format = 9").fetchall(), alone=True)
            with pytest.raises(Exception, match="format 9"):
                await read()
            await store._writer.do(lambda c, _, t=table: c.execute(f"UPDATE {t} SET format = 1").fetchall(), alone=True)

    @pytest.mark.parametrize(("table", "column"), [("messages", "message"), ("threads", "metadata")])
    async def test_a_row_that_cannot_be_read_says_so(self, store, table, column):
        await filled(store)
        sql = f"UPDATE {table} SET {column} = x'00'"
        await store._writer.do(lambda c, _: c.execute(sql).fetchall(), alone=True)
        with pytest.raises(Exception, match="restore a backup"):
            await store.messages("t1", resource="ann")


class TestGrowing:
    async def test_a_group_of_writes_to_many_threads_keeps_each_apart(self, store):
        fences = {}
        for n in range(20):
            thread = ThreadRow(id=f"t{n}", resource="ann")
            fences[n] = (thread, taken(await store.claim(thread.scope, f"o{n}")))

        async def turns(n):
            thread, fence = fences[n]
            for place in range(5):
                await store.edit(fence, ThreadEdit(thread=thread, messages=(said(f"m{place}", f"{n}.{place}"),)))

        await asyncio.gather(*map(turns, fences))
        for n in fences:
            assert [text for _, text in await texts(store, f"t{n}")] == [f"{n}.{place}" for place in range(5)]

    async def test_an_append_and_a_window_cost_the_same_whatever_the_length(self, store):
        """Counted in steps of SQLite's machine, which do not depend on the load of this one."""
        fence = await filled(store, 50)

        async def steps():
            count = [0]

            def counting(connection, _):
                connection.set_progress_handler(lambda: count.__setitem__(0, count[0] + 1), 1)

            await store._writer.do(counting, alone=True)
            place = (await store.thread("t1", resource="ann")).messages
            await store.edit(fence, ThreadEdit(thread=T1, messages=many(1, place)))
            await store._writer.do(lambda c, _: c.set_progress_handler(None, 1), alone=True)
            written = count[0]
            count[0] = 0

            def reading(connection):
                connection.set_progress_handler(lambda: count.__setitem__(0, count[0] + 1), 1)

            store._readers.read(reading)
            assert len(await store.messages("t1", resource="ann", last=40)) == 40
            store._readers.read(lambda c: c.set_progress_handler(None, 1))
            return written, count[0]

        short = await steps()
        for first in range(51, 5051, 500):
            await store.edit(fence, ThreadEdit(thread=T1, messages=many(500, first)))
        assert await steps() == short


class TestAtomicity:
    @pytest.fixture(autouse=True)
    def hook(self):
        yield
        faults.install(None)

    async def test_a_failure_between_log_and_messages_stores_neither(self, store):
        fence = await started(store)

        def fail(name):
            if name == "store.messages.mid":
                raise sqlite3.OperationalError("disk I/O error")

        faults.install(fail)
        write = Write(run_id="r1", records=(Note(1),), thread=T1, messages=many(2))
        with pytest.raises(Exception, match="disk I/O error"):
            await store.commit(fence, write)
        faults.install(None)
        assert await store.records("r1", resource="ann") == []
        assert await store.thread("t1", resource=ANYONE) is None
        await store.commit(fence, write)
        assert await texts(store) == numbers(0, 1)
