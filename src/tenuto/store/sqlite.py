"""The store in a SQLite file: survives the process, and makes several processes on one machine safe.

Invariant: what was answered as stored is in the file. One thread of the store writes, and merges what many runs want
written into one transaction; any thread reads. SQLite keeps a write-ahead log (`FILE-wal`, `FILE-shm`) beside the
file; the three belong together. The file must be on a local file system.

With `synchronous="normal"` what was answered survives a killed process; the last transactions before a power loss may
be gone, but the file is sound. With `"full"` they survive that too, for one flush of the disk per transaction.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from functools import partial
from pathlib import Path
from typing import Final, Literal

from tenuto.core.clock import Clock, SystemClock
from tenuto.core.errors import ConfigurationError
from tenuto.core.events import Event
from tenuto.store import sqlite_posts, sqlite_prune, sqlite_reads, sqlite_threads
from tenuto.store.migrate import migrate, migrations, missing
from tenuto.store.ports import (
    LEASE_SECONDS,
    Committed,
    EffectRow,
    Fence,
    HeldBy,
    Owner,
    PendingCall,
    Post,
    Posted,
    RunRow,
    RunStatus,
    Scope,
    ScoreRow,
    ThreadEdit,
    ThreadRow,
    Versioned,
    Write,
)
from tenuto.store.rules import encoded
from tenuto.store.settling import Settled, Settling
from tenuto.store.sqlite_calls import ThreadCalls
from tenuto.store.sqlite_connect import Readers, connect, prepare_writer
from tenuto.store.sqlite_owner import Prepared, Terms, Transaction
from tenuto.store.sqlite_prune import Pruned
from tenuto.store.sqlite_rows import lives
from tenuto.store.sqlite_watch import Holder, Watcher
from tenuto.store.sqlite_writer import Writer
from tenuto.store.waiting import Waiters

OFF_LOOP_EVENTS: Final = 256
"""A read of more events than this, a millisecond's worth, goes to a thread."""

_OPEN_ATTEMPTS: Final = 100
_OPEN_PAUSE: Final = 0.02


class SQLiteStore(ThreadCalls):
    """A `RunStore` in one file. Made without touching it; the first call opens it, and makes it if it is missing.

    One store serves all event loops and threads of its process. A store that was opened before a fork refuses to work
    in the child (`STORE_FORKED`); each process makes its own.

    Args:
        path: The file; its directory exists.
        synchronous: `"normal"` or `"full"`, see above.
        busy_timeout: How many seconds to wait while another process writes.
        clock: The store's time.
        lease_seconds: How long a claim holds without renewal; the same in all processes that share the file.
        keep_finished: How many rows of finished runs that are not durable are kept.

    Raises:
        ConfigurationError: There is no such option, or the path is no file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["normal", "full"] = "normal",
        busy_timeout: float = 10.0,
        clock: Clock | None = None,
        lease_seconds: float = LEASE_SECONDS,
        keep_finished: int = 1_000,
    ) -> None:
        if synchronous not in {"normal", "full"}:
            message = f"synchronous={synchronous!r} is no way to store; take 'normal' or 'full'."
            raise ConfigurationError(message)
        name = os.fspath(path)
        if not name or name.startswith((":", "file:")):
            message = f"{name!r} is no path of a file; for a store in memory take InMemoryStore()."
            raise ConfigurationError(message)
        self._path = Path(name)
        self._synchronous = synchronous
        self._busy_timeout = busy_timeout
        self._clock = clock or SystemClock()
        self._terms = Terms(lease_seconds, keep_finished)
        self._readers = Readers(self._path, busy_timeout)
        self._writer = Writer(self._path, self._open, self._clock.now)
        self._waiters = Waiters()
        self._watcher = Watcher(self._path, self._waiters, self._holder, self._is_free)

    # -- the owner ---------------------------------------------------------------------------------------------

    async def claim(
        self, scope: Scope, owner: str, *, run: RunRow | None = None, expect: RunStatus | None = None
    ) -> Fence | HeldBy:
        """See `RunStore.claim`. An owner named by `owner_id` whose process is gone holds nothing any more."""
        terms = self._terms
        return await self._writer.do(lambda c, now: Transaction(c, now, terms).claim(scope, owner, run, expect))

    async def renew(self, fence: Fence) -> bool:
        """See `RunStore.renew`."""
        return await self._writer.do(lambda c, now: Transaction(c, now, self._terms).renew(fence))

    async def release(self, fence: Fence, *, handover: str | None = None) -> None:
        """See `RunStore.release`."""
        try:
            await self._writer.do(lambda c, now: Transaction(c, now, self._terms).release(fence, handover))
        finally:  # a caller that was cancelled has released it all the same
            self._waiters.tell(fence.scope)

    async def freed(self, scope: Scope, timeout: float | None = None, *, owner: str | None = None) -> bool:
        """See `RunStore.freed`. A scope whose owner's process is gone is free within a moment."""
        await self._writer.open()

        def is_free() -> bool:
            self._watcher.watch()
            lease = self._holder(scope)
            return self._is_free(lease) or (lease is not None and not lease[3] and lease[0] == owner)

        return await self._waiters.wait(scope, timeout, is_free)

    def commit(self, fence: Fence, write: Write) -> Settling[Committed]:
        """See `RunStore.commit`."""
        return Settling(partial(self._begin, fence, write))

    def _begin(self, fence: Fence, write: Write) -> Settled[Committed]:
        self._writer.check()
        prepared = Prepared.of(write)
        terms = self._terms
        return self._writer.begin(
            lambda c, now: Transaction(c, now, terms).commit(fence, prepared),
            quick=(lambda c: Transaction(c, 0.0, terms).append(fence, prepared)) if prepared.only_events else None,
        )

    async def edit(self, fence: Fence, edit: ThreadEdit) -> ThreadRow | None:
        """See `ThreadStore.edit`."""
        self._writer.check()
        said = sqlite_threads.said_of(edit.thread, edit.messages)
        return await self._writer.do(lambda c, now: sqlite_threads.edit(c, now, fence, edit, said))

    # -- anyone ------------------------------------------------------------------------------------------------

    async def post(self, item: Post | ScoreRow) -> Posted:
        """See `RunStore.post`."""
        self._writer.check()
        raw = encoded(item)
        if isinstance(item, ScoreRow):
            return await self._writer.do(lambda c, now: sqlite_threads.score(c, now, item))
        return await self._writer.do(lambda c, now: sqlite_posts.post(c, now, item, raw))

    async def swap(self, row: Versioned | ThreadRow, expect: int) -> bool:
        """See `RunStore.swap`."""
        self._writer.check()
        if isinstance(row, ThreadRow):
            metadata = encoded(row.metadata)
            return await self._writer.do(lambda c, now: sqlite_threads.swap(c, now, row, metadata, expect))
        raw = encoded(row)
        return await self._writer.do(lambda c, now: sqlite_posts.swap(c, now, row, raw, expect))

    # -- reads -------------------------------------------------------------------------------------------------

    async def run(self, run_id: str, *, resource: Owner) -> RunRow | None:
        """See `RunStore.run`."""
        await self._writer.open()
        return self._readers.read(lambda c: sqlite_reads.run(c, run_id, resource))

    async def runs(self, *, resource: Owner, status: RunStatus | None = None, limit: int = 100) -> list[RunRow]:
        """See `RunStore.runs`."""
        await self._writer.open()
        return self._readers.read(lambda c: sqlite_reads.runs(c, resource, status, limit))

    async def children(self, run_id: str, *, resource: Owner) -> list[RunRow]:
        """See `RunStore.children`."""
        await self._writer.open()
        return self._readers.read(lambda c: sqlite_reads.children(c, run_id, resource))

    async def recoverable(self, limit: int = 100) -> list[RunRow]:
        """See `RunStore.recoverable`. A lease whose owner's process is gone keeps nobody off."""
        await self._writer.open()
        now = self._clock.now()
        return await self._readers.read_aside(lambda c: sqlite_reads.recoverable(c, now, limit))

    async def forget_events(self, run_id: str, *, resource: Owner) -> bool:
        """See `RunStore.forget_events`."""
        return await self._writer.do(lambda c, _: sqlite_prune.forget_events(c, run_id, resource))

    async def records(self, run_id: str, *, resource: Owner) -> list[bytes]:
        """See `RunStore.records`."""
        await self._writer.open()
        return await self._readers.read_aside(lambda c: sqlite_reads.records(c, run_id, resource))

    async def events(self, run_id: str, *, resource: Owner, start: int = 0, limit: int | None = None) -> list[Event]:
        """See `RunStore.events`."""
        await self._writer.open()
        place = self._readers.read(lambda c: sqlite_reads.span(c, run_id, resource, start, limit))
        if place.end - place.start <= OFF_LOOP_EVENTS:
            return self._readers.read(lambda c: sqlite_reads.events(c, place))
        return await self._readers.read_aside(lambda c: sqlite_reads.events(c, place))

    async def event_count(self, run_id: str, *, resource: Owner) -> int:
        """See `RunStore.event_count`."""
        await self._writer.open()
        return self._readers.read(lambda c: sqlite_reads.event_count(c, run_id, resource))

    async def pending(self, run_id: str, *, resource: Owner) -> list[PendingCall]:
        """See `RunStore.pending`."""
        await self._writer.open()
        return self._readers.read(lambda c: sqlite_reads.pending(c, run_id, resource))

    async def effect(self, key: str) -> EffectRow | None:
        """See `RunStore.effect`."""
        await self._writer.open()
        return self._readers.read(lambda c: sqlite_reads.effect(c, key))

    async def posts(self, target: Scope | str, *, start: int = 0) -> list[Post]:
        """See `RunStore.posts`."""
        await self._writer.open()
        return self._readers.read(lambda c: sqlite_reads.posts(c, target, start))

    async def versioned(self, kind: str, key: str) -> Versioned | None:
        """See `RunStore.versioned`."""
        await self._writer.open()
        return self._readers.read(lambda c: sqlite_reads.versioned(c, kind, key))

    # -- upkeep ------------------------------------------------------------------------------------------------

    async def prune(
        self,
        *,
        events_older_than: float,
        runs_older_than: float | None = None,
        threads_older_than: float | None = None,
        scores_older_than: float | None = None,
    ) -> Pruned:
        """Drop what is no longer wanted of durable runs that are over, old threads and scores; then write the log back.

        Plain runs that nobody drives any more, because their process was killed, become `interrupted` first. Of each
        durable run its last event stays, and its row says that the others are gone (`RunRow.first_event`). Suspended
        runs and effects are never dropped; child runs go with their root. Space that becomes free is used again; the
        file does not shrink.

        Args:
            events_older_than: Seconds since a run's end after which its events are dropped.
            runs_older_than: Seconds after which its row, journal and posts are dropped too, not sooner than its
                events; None: never.
            threads_older_than: Seconds after its last change after which a thread goes, with its messages, vectors
                and sub-threads, unless a run is driven or suspended in it; None: never.
            scores_older_than: Seconds after which a score goes; None: never.

        Raises:
            ConfigurationError: Runs would be dropped before their events.
        """
        if runs_older_than is not None and runs_older_than < events_older_than:
            message = "runs_older_than is shorter than events_older_than; a run cannot go before its events."
            raise ConfigurationError(message)
        await self._writer.do(lambda c, now: Transaction(c, now, self._terms).settle_lost())
        now = self._clock.now()
        events, runs = await self._in_batches(sqlite_prune.drop_events, now - events_older_than), 0
        if runs_older_than is not None:
            runs = await self._in_batches(sqlite_prune.drop_runs, now - runs_older_than)
        threads = 0 if threads_older_than is None else await self._drop_threads(now - threads_older_than)
        scores = 0
        if scores_older_than is not None:
            scores = await self._in_batches(sqlite_prune.drop_scores, now - scores_older_than)
        await self._writer.do(lambda c, _: c.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall(), alone=True)
        return Pruned(events, runs, threads, scores)

    async def aclose(self) -> None:
        """See `RunStore.aclose`. Every call that was made before is carried out."""
        try:
            await self._writer.aclose()
        finally:
            self._readers.close()
            self._waiters.tell_all()
            await asyncio.to_thread(self._watcher.close)

    async def _in_batches(self, drop: sqlite_prune.Drop, ended_by: float) -> int:
        dropped = 0
        while (batch := await self._writer.do(lambda c, _: drop(c, ended_by))) > 0:
            dropped += batch
        return dropped

    async def _drop_threads(self, untouched_since: float) -> int:
        found = await self._readers.read_aside(lambda c: sqlite_prune.untouched(c, untouched_since))
        dropped = 0
        for first in range(0, len(found), sqlite_prune.BATCH):
            batch = found[first : first + sqlite_prune.BATCH]
            dropped += await self._writer.do(
                lambda c, now, batch=batch: sqlite_prune.drop_threads(c, now, batch, untouched_since)
            )
        return dropped

    def _holder(self, scope: Scope) -> Holder:
        return self._readers.read(lambda c: sqlite_reads.holder(c, scope))

    def _is_free(self, lease: Holder) -> bool:
        return lease is None or not lives(lease[0], lease[2], self._clock.now())

    def _open(self) -> sqlite3.Connection:
        connection = connect(self._path, busy_timeout=self._busy_timeout, mode="rwc")
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        known = migrations()
        missing(connection, known)  # before anything is changed: it may be somebody else's file
        for attempt in range(_OPEN_ATTEMPTS):
            try:
                prepare_writer(connection, self._synchronous)
                break
            except sqlite3.OperationalError as error:
                # Two that set a new file to WAL at once: SQLite does not wait here, whatever its timeout is.
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or attempt == _OPEN_ATTEMPTS - 1:
                    raise
                threading.Event().wait(_OPEN_PAUSE)
        migrate(connection, known, now=self._clock.now())
