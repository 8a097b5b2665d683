import asyncio
import contextlib
import os
import re
import sqlite3
import sys
import threading
import warnings
from pathlib import Path

import pytest
from msgspec.structs import replace

from tenuto.core import faults
from tenuto.core.errors import ConfigurationError, StaleLease, StoreError
from tenuto.store import SQLiteStore
from tenuto.store.owners import owner_id
from tenuto.store.ports import Committed, Fence, HeldBy, Inbox, Scope, Versioned, Write
from tenuto.store.sqlite_connect import meaning
from tenuto.store.sqlite_jobs import Job
from tenuto.store.sqlite_rows import SQL
from tests.store.conformance import (
    FULL,
    LONG,
    OTHER_THREAD,
    THREAD,
    ManualClock,
    Note,
    RunStoreConformance,
    contents,
    decide,
    delta,
    effect,
    in_threads,
    pending,
    refused,
    row,
    started,
    taken,
)
from tests.store.conformance_threads import ThreadConformance


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
async def store(clock, path):
    store = SQLiteStore(path, clock=clock, busy_timeout=5)
    yield store
    await store.aclose()


@pytest.fixture
def hook():
    yield faults.install
    faults.install(None)


class TestSQLiteStore(RunStoreConformance, ThreadConformance):
    pass


async def alone(store, sql):
    """The rows of a statement on the connection that writes, outside any transaction."""
    return await store._writer.do(lambda c, _: c.execute(sql).fetchall(), alone=True)


@contextlib.asynccontextmanager
async def blocked(store):
    """The writer stands still inside a transaction; what is asked meanwhile waits."""
    gate, there = threading.Event(), threading.Event()

    def stand(connection, now):
        there.set()
        assert gate.wait(30)

    standing = asyncio.ensure_future(store._writer.do(stand))
    await asyncio.to_thread(there.wait, 30)
    try:
        yield
        await turns()
    finally:
        gate.set()
        await standing


async def turns():
    """Let every task that can run come to where it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


async def traced(store):
    """The list that every statement of the writer is added to."""
    seen = []
    await store._writer.do(lambda c, _: c.set_trace_callback(seen.append), alone=True)
    return seen


async def runs_started(store, number):
    return [await started(store, row(f"r{n}", Scope("run", f"r{n}")), f"o{n}") for n in range(number)]


def step(fence, place=0):
    run_id = fence.scope.id
    entry = effect(f"{run_id}.{place}", run_id=run_id)
    return Write(run_id=run_id, records=(Note(place),), first_seq=place, events=(delta(place),), effects=(entry,))


def forked(work):
    """How a child process ends that does `work`: 0 if nothing was raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads: this is what is tested
        pid = os.fork()
    if not pid:
        code = 1
        with contextlib.suppress(BaseException):
            asyncio.run(work)
            code = 0
        os._exit(code)
    work.close()
    return os.waitpid(pid, 0)[1]


class TestGroupCommit:
    async def test_what_waits_is_merged_into_one_transaction(self, store):
        fences = await runs_started(store, 40)
        seen = await traced(store)
        async with blocked(store):
            writes = [asyncio.ensure_future(store.commit(fence, step(fence))) for fence in fences]
            claim = asyncio.ensure_future(store.claim(THREAD, "o", run=row("t")))
            post = asyncio.ensure_future(store.post(Inbox(scope=THREAD, id="m", body=1)))
            swap = asyncio.ensure_future(store.swap(Versioned("a", "b", 1), 0))
        assert await asyncio.gather(*writes) == [Committed(1, 1)] * 40
        taken(await claim)
        assert (await post).outcome == "stored"
        assert await swap
        assert [seen.count(word) for word in ("BEGIN IMMEDIATE", "COMMIT")] == [2, 2]  # the blocker's and this one

    async def test_one_that_is_refused_does_not_hurt_its_neighbours(self, store, clock):
        good, stale, disordered, other = await runs_started(store, 4)
        await store.release(stale)
        async with blocked(store):
            answers = [
                asyncio.ensure_future(store.commit(good, step(good))),
                asyncio.ensure_future(store.commit(stale, step(stale))),
                asyncio.ensure_future(store.commit(disordered, replace(step(disordered), first_seq=1))),
                asyncio.ensure_future(
                    store.commit(other, replace(step(other), effects=(effect("r0.0", run_id="r3"),)))
                ),
                asyncio.ensure_future(store.commit(good, step(good, 1))),
            ]
        found = await asyncio.gather(*answers, return_exceptions=True)
        assert (found[0], found[4]) == (Committed(1, 1), Committed(2, 2))
        ids = ["STORE_STALE_LEASE", "STORE_OUT_OF_ORDER", "EFFECT_TAKEN"]
        assert [getattr(each, "id", None) for each in found[1:4]] == ids
        assert [await store.event_count(f"r{n}", resource="ann") for n in range(4)] == [2, 0, 0, 0]

    async def test_a_commit_that_fails_fails_them_all_and_stores_nothing(self, store, hook):
        fences = await runs_started(store, 3)

        def fail(name):
            if name == "store.group_commit.before":
                raise OSError(name)

        async with blocked(store):
            answers = [asyncio.ensure_future(store.commit(fence, step(fence))) for fence in fences]
            hook(lambda name: name.endswith("after") and hook(fail))  # after the blocker's own
        found = await asyncio.gather(*answers, return_exceptions=True)
        assert [type(each) for each in found] == [StoreError] * 3
        assert len(set(map(id, found))) == 3
        hook(None)
        assert [await store.commit(fence, step(fence)) for fence in fences] == [Committed(1, 1)] * 3

    async def test_a_failure_after_the_commit_leaves_it_stored(self, store, hook):
        fence = await started(store)

        def fail(name):
            if name == "store.group_commit.after":
                raise OSError(name)

        hook(fail)
        await refused(store.commit(fence, FULL), "STORE_FAILED")
        hook(None)
        assert [len(part) for part in (await contents(store))[1:4]] == [2, 2, 1]

    async def test_one_that_ends_the_transaction_fails_alone(self, store):
        fences = await runs_started(store, 3)

        def end(connection, now):
            connection.execute("ROLLBACK")
            connection.execute("SELECT * FROM nowhere")

        async with blocked(store):
            first = asyncio.ensure_future(store.commit(fences[0], step(fences[0])))
            await turns()
            broken = asyncio.ensure_future(store._writer.do(end))
            await turns()
            rest = [asyncio.ensure_future(store.commit(fence, step(fence))) for fence in fences[1:]]
        await refused(broken, "STORE_FAILED")
        assert await asyncio.gather(first, *rest) == [Committed(1, 1)] * 3
        assert await store.commit(fences[0], step(fences[0], 1)) == Committed(2, 2)

    async def test_events_alone_are_one_statement(self, store):
        fence = await started(store)
        seen = await traced(store)
        assert await store.commit(fence, Write(run_id="r1", events=(delta(0), delta(1)))) == Committed(0, 2)
        assert len(set(seen)) == 1  # it is told again after each trigger
        await store.commit(fence, Write(run_id="r1", records=(Note(1),)))
        assert await store.commit(fence, Write(run_id="r1", first_seq=1, events=(delta(2),))) == Committed(1, 3)
        # What was said of the records is not read when there are none.
        assert await store.commit(fence, Write(run_id="r1", first_seq=9, events=(delta(3),))) == Committed(1, 4)
        assert await store.events("r1", resource="ann") == [delta(0), delta(1, "y")][:1] + [delta(n) for n in (1, 2, 3)]

    @pytest.mark.parametrize("together", [1, 2])
    async def test_events_alone_are_refused_like_any_write(self, store, clock, together):
        plain = await started(store, row("plain", OTHER_THREAD, durable=False))
        fence = await started(store)
        only = Write(run_id="r1", events=(delta(0),))

        async def refusal(write, by, id):
            async with blocked(store):
                calls = [asyncio.ensure_future(store.commit(by, write)) for _ in range(together)]
            for call in calls:
                await refused(call, id)

        await refusal(replace(only, events=(delta(1),)), fence, "STORE_OUT_OF_ORDER")
        await refusal(replace(only, events=(delta(0), delta(2))), fence, "STORE_OUT_OF_ORDER")
        await refusal(only, plain, "RUN_NOT_IN_SCOPE")
        await refusal(only, replace(fence, epoch=99), "STORE_STALE_LEASE")
        assert await store.commit(plain, replace(only, run_id="plain")) == Committed(0, 1)
        assert await store.events("plain", resource="ann") == []
        await store.commit(fence, Write(run_id="r1", status="success"))
        await refusal(only, fence, "RUN_NOT_OPEN")
        assert await store.event_count("r1", resource="ann") == 0

    async def test_a_cancelled_call_comes_back_when_it_is_settled(self, store):
        fence = await started(store)
        async with blocked(store):
            call = asyncio.ensure_future(store.commit(fence, FULL))
            await turns()
            for _ in range(3):
                call.cancel()
                await turns()
                assert not call.done()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert [len(part) for part in (await contents(store))[1:4]] == [2, 2, 1]

    async def test_a_cancelled_call_that_is_refused_is_just_cancelled(self, store):
        async with blocked(store):
            call = asyncio.ensure_future(store.commit(Fence(THREAD, 7, "o1"), FULL))
            await turns()
            call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    async def test_a_loop_that_is_closed_before_its_answer_hurts_nobody(self, store):
        fence = await started(store)

        async def ask():
            store._writer._submit(Job(lambda c, now: 1, asyncio.get_running_loop()))

        async with blocked(store):
            await asyncio.to_thread(asyncio.run, ask())
        assert await store.commit(fence, FULL) == Committed(2, 2)

    async def test_many_loops_at_once(self, store):
        fences = await runs_started(store, 8)

        def drive(fence):
            async def commit():
                return [await store.commit(fence, step(fence, place)) for place in range(10)]

            return commit

        answers = in_threads(*map(drive, fences))
        assert answers == [[Committed(n, n) for n in range(1, 11)]] * 8


class TestOpening:
    async def test_making_a_store_touches_nothing(self, path):
        store = SQLiteStore(path)
        assert not path.exists()
        assert await store.runs(resource=None) == []
        assert path.exists()
        await store.aclose()

    async def test_a_store_that_was_never_used_closes(self, path):
        await SQLiteStore(path).aclose()
        assert not path.exists()

    @pytest.mark.parametrize("name", ["", ":memory:", "file:x.db?mode=memory"])
    def test_a_name_that_is_no_file_is_refused(self, name):
        with pytest.raises(ConfigurationError, match="InMemoryStore"):
            SQLiteStore(name)

    def test_an_unknown_way_to_store_is_refused(self, path):
        with pytest.raises(ConfigurationError, match="'normal' or 'full'"):
            SQLiteStore(path, synchronous="off")

    @pytest.mark.parametrize(("option", "level"), [("normal", 1), ("full", 2)])
    async def test_it_writes_a_log_and_syncs_as_asked(self, path, option, level):
        store = SQLiteStore(path, synchronous=option)
        assert await alone(store, "PRAGMA synchronous") == [(level,)]
        assert await alone(store, "PRAGMA journal_mode") == [("wal",)]
        await store.aclose()

    async def test_everything_is_there_after_opening_it_again(self, store, path, clock):
        fence = await started(store)
        await store.commit(fence, FULL)
        await store.post(decide())
        await store.swap(Versioned("a", "b", {"n": 1}), 0)
        before = await contents(store)
        await store.aclose()
        again = SQLiteStore(path, clock=clock)
        assert await contents(again) == before
        assert await again.posts("r1") == [decide()]
        assert await again.versioned("a", "b") == Versioned("a", "b", {"n": 1}, 1)
        await again.release(fence)
        fence_2 = taken(await again.claim(THREAD, "o2", run=row(), expect="suspended"))
        assert fence_2.epoch > fence.epoch
        assert await again.commit(fence_2, Write(run_id="r1", records=(Note(1),), first_seq=2)) == Committed(3, 2)
        await again.aclose()

    async def test_two_stores_on_one_file(self, store, path, clock):
        other = SQLiteStore(path, clock=clock)
        fence = await started(store)
        assert isinstance(await other.claim(THREAD, "o2"), HeldBy)
        await store.commit(fence, Write(run_id="r1", events=(delta(0),)))
        assert await other.events("r1", resource="ann") == [delta(0)]
        clock.advance(LONG)
        assert taken(await other.claim(THREAD, "o2", run=row(), expect="running")).epoch > fence.epoch
        with pytest.raises(StaleLease):
            await store.commit(fence, Write(run_id="r1", events=(delta(1),)))
        await other.aclose()
        assert await store.event_count("r1", resource="ann") == 1

    async def test_closing_carries_out_all_that_was_accepted(self, store, path, clock):
        fences = await runs_started(store, 30)
        async with blocked(store):
            calls = [asyncio.ensure_future(store.commit(fence, step(fence))) for fence in fences]
            await turns()
            closing = asyncio.ensure_future(store.aclose())
            await turns()
            await refused(store.commit(fences[0], step(fences[0], 1)), "STORE_CLOSED")
        assert await asyncio.gather(*calls) == [Committed(1, 1)] * 30
        await closing
        assert not path.with_name("runs.db-wal").exists()
        again = SQLiteStore(path, clock=clock)
        assert {await again.event_count(f"r{n}", resource="ann") for n in range(30)} == {1}
        await again.aclose()

    async def test_two_may_close_it_at_once(self, store):
        await started(store)
        await asyncio.gather(store.aclose(), store.aclose())

    @pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
    def test_after_a_fork_the_child_is_refused(self, path):
        store = SQLiteStore(path)
        asyncio.run(started(store))

        async def child():
            await refused(store.run("r1", resource="ann"), "STORE_FORKED")
            await refused(store.post(Inbox(scope=THREAD, id="m", body=1)), "STORE_FORKED")
            await store.aclose()

        assert forked(child()) == 0
        assert asyncio.run(store.run("r1", resource="ann")) is not None
        asyncio.run(store.aclose())

    @pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
    def test_a_store_that_is_not_open_yet_may_be_forked(self, path):
        store = SQLiteStore(path)

        async def child():
            await started(store)
            await store.aclose()

        assert forked(child()) == 0
        assert asyncio.run(store.run("r1", resource="ann")) is not None
        asyncio.run(store.aclose())


class TestFailing:
    async def test_a_file_that_another_writes_to_is_locked_until_it_ends(self, path, clock):
        store = SQLiteStore(path, clock=clock, busy_timeout=0)
        fence = await started(store)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            error = await refused(store.commit(fence, FULL), "STORE_LOCKED")
            assert "end that process" in str(error)
            await refused(store.commit(fence, Write(run_id="r1", events=(delta(0),))), "STORE_LOCKED")
            assert await store.records("r1", resource="ann") == []
            other.execute("ROLLBACK")
        assert await store.commit(fence, FULL) == Committed(2, 2)
        await store.aclose()

    async def test_an_open_file_may_be_read_while_another_writes(self, store, path, clock):
        await started(store)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            second = SQLiteStore(path, clock=clock, busy_timeout=0)
            assert (await second.run("r1", resource="ann")).run_id == "r1"
            other.execute("ROLLBACK")
            await second.aclose()

    async def test_a_full_disk_refuses_what_does_not_fit_and_nothing_else(self, store):
        fences = await runs_started(store, 3)
        ((pages,),) = await alone(store, "PRAGMA page_count")
        await alone(store, f"PRAGMA max_page_count = {pages + 4}")
        big = replace(step(fences[1]), records=(Note("x" * 100_000),))
        async with blocked(store):
            calls = [asyncio.ensure_future(store.commit(fence, step(fence))) for fence in fences[::2]]
            calls.insert(1, asyncio.ensure_future(store.commit(fences[1], big)))
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert found[0] == found[2] == Committed(1, 1)
        assert found[1].id == "STORE_DISK_FULL"
        assert "free some space" in str(found[1])
        await alone(store, "PRAGMA max_page_count = 100000")
        assert await store.commit(fences[1], big) == Committed(1, 1)

    async def test_a_file_that_is_no_database(self, path):
        path.write_bytes(b"hello, this is a text file and no database\n" * 100)
        store = SQLiteStore(path)
        await refused(store.runs(resource=None), "STORE_NOT_A_DATABASE")
        await store.aclose()
        assert path.read_bytes().startswith(b"hello")

    async def test_a_directory_that_is_missing_is_named_and_the_next_call_tries_again(self, tmp_path):
        path = tmp_path / "later" / "runs.db"
        store = SQLiteStore(path)
        error = await refused(store.runs(resource=None), "STORE_CANNOT_OPEN")
        assert str(path) in str(error)
        path.parent.mkdir()
        assert await store.runs(resource=None) == []
        await store.aclose()

    async def test_a_damaged_file(self, store, path, clock):
        fence = await started(store)
        for place in range(60):
            write = Write(run_id="r1", records=(Note("x" * 2000),), first_seq=place)
            await store.commit(fence, write)
        await store.aclose()
        content = bytearray(path.read_bytes())
        middle = len(content) // 2 // 4096 * 4096
        content[middle : middle + 40_960] = b"\x99" * 40_960
        path.write_bytes(content)
        again = SQLiteStore(path, clock=clock)
        error = await refused(again.records("r1", resource="ann"), "STORE_CORRUPT")
        assert "restore a backup" in str(error)
        await again.aclose()

    @pytest.mark.parametrize(
        ("code", "id"),
        [
            (sqlite3.SQLITE_BUSY_SNAPSHOT, "STORE_LOCKED"),
            (sqlite3.SQLITE_LOCKED, "STORE_LOCKED"),
            (sqlite3.SQLITE_READONLY_DIRECTORY, "STORE_READ_ONLY"),
            (sqlite3.SQLITE_PERM, "STORE_READ_ONLY"),
            (sqlite3.SQLITE_CANTOPEN_ISDIR, "STORE_CANNOT_OPEN"),
            (sqlite3.SQLITE_IOERR_WRITE, "STORE_IO_FAILED"),
            (sqlite3.SQLITE_FULL, "STORE_DISK_FULL"),
            (sqlite3.SQLITE_TOOBIG, "STORE_TOO_BIG"),
            (sqlite3.SQLITE_NOMEM, "STORE_NO_MEMORY"),
            (sqlite3.SQLITE_CONSTRAINT, "STORE_FAILED"),
        ],
    )
    def test_what_sqlite_says_comes_with_a_remedy(self, code, id):
        error = sqlite3.OperationalError("said")
        error.sqlite_errorcode = code
        told = meaning(error, Path("runs.db"))
        assert told.id == id
        assert "said" in str(told)
        assert re.search(r"[;.] ?\w+", str(told))

    async def test_texts_and_numbers_that_sqlite_cannot_hold(self, store):
        fence = await started(store)
        await refused(store.commit(fence, Write(run_id="\ud800")), "STORE_NOT_JSON")
        await refused(store.run("\ud800", resource="ann"), "STORE_NOT_JSON")
        newer = replace(row("r2", OTHER_THREAD), loop_version=2**70)
        await refused(store.claim(OTHER_THREAD, "o", run=newer), "STORE_NOT_JSON")
        assert await store.events("r1", resource="ann", start=2**90, limit=2**90) == []
        assert await store.posts("r1", start=2**90) == []
        assert len(await store.runs(resource="ann", limit=2**90)) == 1
        taken(await store.claim(OTHER_THREAD, "o"))

    @pytest.mark.parametrize(
        ("table", "read"),
        [
            ("runs", lambda store: store.run("r1", resource="ann")),
            ("runs", lambda store: store.runs(resource="ann")),
            ("runs", lambda store: store.events("r1", resource="ann")),
            ("runs", lambda store: store.commit(Fence(THREAD, 1, "o1"), Write(run_id="r1", events=(delta(2),)))),
            ("records", lambda store: store.records("r1", resource="ann")),
            ("events", lambda store: store.events("r1", resource="ann")),
            ("pending", lambda store: store.pending("r1", resource="ann")),
            ("pending", lambda store: store.post(decide())),
            ("effects", lambda store: store.effect("k1")),
            ("posts", lambda store: store.posts(THREAD)),
            ("posts", lambda store: store.post(Inbox(scope=THREAD, id="m", body=2))),
            ("versioned", lambda store: store.versioned("a", "b")),
        ],
    )
    async def test_a_row_of_another_format_is_refused(self, store, table, read):
        fence = await started(store)
        await store.commit(fence, FULL)
        await store.post(Inbox(scope=THREAD, id="m", body=1))
        await store.swap(Versioned("a", "b", 1), 0)
        await alone(store, f"UPDATE {table} SET format = 2")
        error = await refused(read(store), "STORE_FORMAT_UNKNOWN")
        assert "update tenuto" in str(error)

    async def test_a_row_that_makes_no_sense_is_refused(self, store):
        fence = await started(store)
        await store.commit(fence, FULL)
        await alone(store, "UPDATE effects SET effect = x'7b7d'")
        await refused(store.effect("k1"), "STORE_ROW_INVALID")


class TestKeepingAndForgetting:
    @pytest.mark.parametrize("keep", [0, 1, 3])
    async def test_rows_of_finished_plain_runs_are_kept_up_to_a_number(self, path, clock, keep):
        store = SQLiteStore(path, clock=clock, keep_finished=keep)
        for name in ("r1", "r2", "r3", "r4"):
            fence = await started(store, row(name, Scope("run", name), durable=False))
            await store.commit(fence, Write(run_id=name, pending=(pending(run_id=name),)))
            await store.post(decide(run_id=name))
            await store.commit(fence, Write(run_id=name, status="success"))
            await store.release(fence)
        assert [found.run_id for found in await store.runs(resource="ann")] == ["r4", "r3", "r2", "r1"][:keep]
        kept = [name for name in ("r1", "r2", "r3", "r4") if await store.posts(name)]
        assert kept == ["r1", "r2", "r3", "r4"][4 - keep :]
        assert await alone(store, "SELECT COUNT(*) FROM leases") == [(0,)]
        await store.aclose()

    async def test_a_kept_run_is_not_forgotten(self, path, clock):
        store = SQLiteStore(path, clock=clock, keep_finished=0)
        fence = await started(store, row(durable=False))
        await store.commit(fence, Write(run_id="r1", keep=True, status="suspended"))
        await store.commit(fence, Write(run_id="r1", status="success"))
        await started(store, row("r2", OTHER_THREAD, durable=False))
        assert [found.run_id for found in await store.runs(resource="ann")] == ["r2", "r1"]
        await store.aclose()

    @pytest.mark.parametrize("chunks", [1, 5])
    async def test_pruning_keeps_the_last_event_and_says_so(self, store, clock, chunks):
        fence = await started(store)
        writes = [
            tuple(delta(n, str(n)) for n in range(first, first + chunks)) for first in range(0, 4 * chunks, chunks)
        ]
        for events in writes[:-1]:
            await store.commit(fence, Write(run_id="r1", events=events))
        await store.commit(fence, Write(run_id="r1", records=(Note(1),), events=writes[-1], status="success"))
        clock.advance(100)
        assert (await store.prune(events_older_than=101)).events == 0
        assert (await store.prune(events_older_than=100)).events == 1
        assert (await store.prune(events_older_than=100)).events == 0
        last = 4 * chunks - 1
        assert (await store.run("r1", resource="ann")).first_event == last
        assert await store.events("r1", resource="ann") == [delta(last, str(last))]
        assert await store.event_count("r1", resource="ann") == last + 1
        assert await store.records("r1", resource="ann") == [b'{"type":"note","text":1}']

    async def test_pruning_drops_old_runs_with_all_that_is_theirs_but_their_effects(self, store, clock):
        fence = await started(store)
        await store.commit(fence, FULL)
        await store.post(decide())
        await store.commit(fence, Write(run_id="r1", status="failed"))
        await started(store, row("r2", OTHER_THREAD))
        clock.advance(50)
        done = await store.prune(events_older_than=10, runs_older_than=50)
        assert (done.events, done.runs) == (1, 1)
        assert [found.run_id for found in await store.runs(resource="ann")] == ["r2"]
        assert await store.posts("r1") == []
        assert (await store.effect("k1")).run_id == "r1"
        for table in ("records", "events", "pending", "posts"):
            assert await alone(store, f"SELECT COUNT(*) FROM {table}") == [(0,)]

    async def test_pruning_settles_plain_runs_that_nobody_drives_any_more(self, store, clock):
        await started(store, row("lost", Scope("run", "lost"), durable=False))
        await started(store, row("durable", Scope("run", "durable")))
        clock.advance(LONG)
        held = await started(store, row("held", Scope("run", "held"), durable=False))
        await store.prune(events_older_than=0)
        status = {found.run_id: found.status for found in await store.runs(resource="ann")}
        assert status == {"lost": "interrupted", "durable": "running", "held": "running"}
        assert await store.renew(held)
        assert await alone(store, "SELECT COUNT(*) FROM leases") == [(2,)]

    @pytest.mark.parametrize("status", ["suspended", None])
    async def test_pruning_never_touches_a_run_that_is_not_over(self, store, clock, status):
        fence = await started(store)
        await store.commit(fence, replace(FULL, status=status))
        clock.advance(10_000_000)
        done = await store.prune(events_older_than=0, runs_older_than=0)
        assert (done.events, done.runs) == (0, 0)
        assert len(await store.events("r1", resource="ann")) == 2

    async def test_pruning_goes_on_batch_by_batch(self, store, clock, monkeypatch):
        monkeypatch.setattr("tenuto.store.sqlite_prune.BATCH", 2)
        for fence in await runs_started(store, 5):
            await store.commit(fence, replace(step(fence), status="success"))
        done = await store.prune(events_older_than=0, runs_older_than=0)
        assert (done.events, done.runs) == (5, 5)

    async def test_a_run_cannot_go_before_its_events(self, store):
        with pytest.raises(ConfigurationError, match="runs_older_than"):
            await store.prune(events_older_than=10, runs_older_than=5)

    async def test_what_is_stored_grows_by_what_is_new(self, store):
        fence = await started(store)

        async def steps(first, number):
            for place in range(first, first + number):
                write = Write(
                    run_id="r1", records=(Note("x" * 1000),), first_seq=place, events=(delta(place, "y" * 500),)
                )
                await store.commit(fence, write)
            ((pages,),) = await alone(store, "PRAGMA page_count")
            return pages

        at_100, at_200, at_300 = [await steps(first, 100) for first in (0, 100, 200)]
        assert at_300 - at_200 <= 1.05 * (at_200 - at_100) + 1
        assert (at_300 - at_200) * 4096 <= 100 * 1500 * 1.5

    async def test_a_chunk_that_was_written_over_several_lines_comes_back(self, store):
        from msgspec import Raw

        from tenuto.core.chunks import ToolResult
        from tenuto.core.events import Event
        from tenuto.core.payloads import ToolResultPayload

        result = Event(1, ToolResult("r1", "AGENT", ToolResultPayload("c", "t", Raw(b'{\n "a": [1,\n 2]\n}'))))
        fence = await started(store)
        await store.commit(fence, Write(run_id="r1", events=(delta(0), result, delta(2))))
        found = await store.events("r1", resource="ann")
        assert [event.index for event in found] == [0, 1, 2]
        assert found[1].chunk.payload.result == {"a": [1, 2]}

    async def test_many_events_are_read_from_any_place(self, store):
        fence = await started(store)
        for first in range(0, 600, 60):
            events = tuple(delta(n, str(n)) for n in range(first, first + 60))
            await store.commit(fence, Write(run_id="r1", events=events))
        for start, limit in [(0, None), (1, 1), (59, 2), (60, 60), (599, None), (300, 1000), (600, None)]:
            found = await store.events("r1", resource="ann", start=start, limit=limit)
            end = 600 if limit is None else min(600, start + limit)
            assert [event.index for event in found] == list(range(start, end))
            assert all(event.chunk.payload.text == str(event.index) for event in found)


class TestOwners:
    def gone(self):
        host, pid, started, mark = owner_id().split(":")
        return f"{host}:{pid}:{int(started) + 1}:{mark}"  # this process, but it began later

    async def test_whose_process_is_gone_holds_nothing(self, store):
        first = await started(store, owner=self.gone())
        assert [found.run_id for found in await store.recoverable()] == ["r1"]
        second = taken(await store.claim(THREAD, "o2", run=row(), expect="running"))
        assert second.epoch > first.epoch
        with pytest.raises(StaleLease):
            await store.commit(first, FULL)

    async def test_a_reservation_for_one_that_is_gone_holds_nothing(self, store):
        await store.release(await started(store), handover=self.gone())
        taken(await store.claim(THREAD, "o2"))

    async def test_whose_process_lives_holds(self, store):
        await started(store, owner=owner_id())
        assert isinstance(await store.claim(THREAD, owner_id()), HeldBy)
        assert await store.recoverable() == []


class TestStatements:
    async def test_each_is_used_and_none_looks_through_a_table(self, store):
        await store.runs(resource=None)
        directory = Path(sys.modules["tenuto.store.sqlite"].__file__).parent
        source = "".join(file.read_text(encoding="utf-8") for file in directory.glob("sqlite*.py"))
        assert [name for name in SQL if f'"{name}"' not in source] == []
        scans = {}
        for name, statement in SQL.items():
            holes = len(set(re.findall(r"\?\d+", statement))) or statement.count("?")
            plan = await store._writer.do(
                lambda c, _, s=statement, n=holes: c.execute(f"EXPLAIN QUERY PLAN {s}", [1] * n).fetchall(), alone=True
            )
            scans[name] = [line[3] for line in plan if re.fullmatch(r"SCAN \w+", line[3])]
        assert {name: found for name, found in scans.items() if found} == {}
