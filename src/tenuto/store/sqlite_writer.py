"""The one thread that writes to a SQLite file, and how it merges what many callers want written.

Invariant: every piece of work is stored whole or not at all, and is answered only after the COMMIT that holds it. Work
that comes in while a transaction runs is merged into the next one, each piece in a savepoint of its own: one that is
refused leaves no trace and does not hurt the others. A COMMIT that fails fails them all.

Nobody's event loop is needed for that: the thread goes on when a caller is cancelled or its loop is closed.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from tenuto.core import faults
from tenuto.core.errors import StoreError
from tenuto.store.rules import closed
from tenuto.store.settling import Settled
from tenuto.store.sqlite_connect import meaning
from tenuto.store.sqlite_jobs import Answer, Job, deliver

_T = TypeVar("_T")

GROUP_LIMIT: Final = 512
"""So many pieces of work share a transaction at most."""


class Writer:
    """Owns the write connection. Its thread starts with the first piece of work.

    Args:
        path: The file; errors name it.
        connect: Opens the connection, in the thread that will use it.
        now: The store's time, in seconds since the epoch.
    """

    def __init__(self, path: Path, connect: Callable[[], sqlite3.Connection], now: Callable[[], float]) -> None:
        self._path = path
        self._connect = connect
        self._now = now
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._closed = False
        self.opened = False

    def check(self) -> None:
        """Whether this process may use the store.

        Raises:
            StoreError: `STORE_CLOSED`, `STORE_FORKED`.
        """
        if self._pid and self._pid != os.getpid():
            message = "This store was opened before the process forked; make a new one in the child process."
            raise StoreError(message, id="STORE_FORKED", category="USER")
        if self._closed:
            raise closed()

    async def do(self, work: Callable[[sqlite3.Connection, float], _T], *, alone: bool = False) -> _T:
        """What `work` returned, once it is stored.

        Args:
            work: What to do in a transaction; it may be done more than once, but is stored once.
            alone: It wants no transaction around it.

        Raises:
            StoreError: What `work` raised, or what SQLite says; nothing was stored.
        """
        return await self._submit(Job(work, asyncio.get_running_loop(), alone=alone)).future

    def begin(
        self,
        work: Callable[[sqlite3.Connection, float], _T],
        *,
        quick: Callable[[sqlite3.Connection], _T | None] | None = None,
    ) -> Settled[_T]:
        """`do`, begun at once.

        Args:
            work: See `do`.
            quick: The same in one statement, if it can be; tried first, and it answers None when it did nothing.

        Raises:
            StoreError: The store takes no more work.
        """
        return self._submit(Job(work, asyncio.get_running_loop(), quick=quick)).future

    async def open(self) -> None:
        """Wait until the file is open.

        Raises:
            StoreError: It cannot be opened; the next call tries again.
        """
        if self.opened:
            self.check()
        else:
            await self._submit(Job(None, asyncio.get_running_loop(), alone=True)).future

    async def aclose(self) -> None:
        """Write what was accepted, then let go of the file. In a forked child it only marks the store as closed."""
        if self._pid and self._pid != os.getpid():
            self._closed = True
            return
        with self._lock:
            thread = self._thread
            if not self._closed and thread is not None:
                self._queue.put(None)
            self._closed = True
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(None, thread.join)

    def _submit(self, job: Job) -> Job:
        if self._pid and self._pid != os.getpid():
            self.check()  # before the lock: a fork may have copied it locked
        with self._lock:
            self.check()
            if self._thread is None:
                self._pid = os.getpid()
                self._thread = threading.Thread(target=self._serve, name="tenuto store writer", daemon=True)
                self._thread.start()
            self._queue.put(job)
        return job

    # -- in the thread -----------------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            connection = self._connect()
        except BaseException as error:  # noqa: BLE001 - whoever waits must hear of it
            self._refuse(error)
            return
        self.opened = True
        try:
            while (group := self._next_group()) is not None:
                self._serve_group(connection, group)
        finally:
            self.opened = False
            connection.close()

    def _refuse(self, error: BaseException) -> None:
        """Answer all that waits with `error`; the next piece of work makes another attempt."""
        with self._lock:
            self._thread = None
            self._pid = 0
            answers: list[Answer] = []
            while not self._queue.empty():
                job = self._queue.get()
                if job is not None:
                    answers.append((job, None, self._told(error)))
        deliver(answers)

    def _next_group(self) -> list[Job] | None:
        """Everything that waits, up to the limit; None: the end."""
        first = self._queue.get()
        if first is None:
            return None
        group = [first]
        while len(group) < GROUP_LIMIT:
            try:
                job = self._queue.get_nowait()
            except Empty:
                break
            if job is None:
                self._queue.put(None)  # nothing comes after it: it ends the next round
                break
            group.append(job)
        return group

    def _serve_group(self, connection: sqlite3.Connection, group: list[Job]) -> None:
        merged: list[Job] = []
        for job in group:
            if not job.alone:
                merged.append(job)
                continue
            self._transact(connection, merged)
            merged = []
            self._do_alone(connection, job)
        self._transact(connection, merged)

    def _do_alone(self, connection: sqlite3.Connection, job: Job) -> None:
        answer: Answer = (job, None, None)
        try:
            if job.work is not None:
                answer = (job, job.work(connection, self._now()), None)
        except BaseException as error:  # noqa: BLE001 - whoever waits must hear of it
            answer = (job, None, self._told(error))
        deliver([answer])

    def _transact(self, connection: sqlite3.Connection, jobs: list[Job]) -> None:
        """Do all jobs in one transaction; when one breaks it, that one fails and the others get one each."""
        try:
            broken = self._try_all(connection, jobs)
        except BaseException as error:  # noqa: BLE001 - whoever waits must hear of it
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            deliver([(job, None, self._told(error)) for job in jobs])
            return
        if broken is not None:
            deliver([broken])
            for job in jobs:
                if job is not broken[0]:
                    self._transact(connection, [job])

    def _try_all(self, connection: sqlite3.Connection, jobs: list[Job]) -> Answer | None:
        """Do and answer all; or nothing, and return the one that ended the transaction."""
        if not jobs:
            return None
        if len(jobs) == 1 and (value := self._quickly(connection, jobs[0])) is not None:
            deliver([(jobs[0], value, None)])
            return None
        connection.execute("BEGIN IMMEDIATE")
        now = self._now()
        answers: list[Answer] = []
        for job in jobs:
            answer = self._in_savepoint(connection, job, now) if len(jobs) > 1 else self._attempt(connection, job, now)
            if answer[2] is not None and not connection.in_transaction:
                return answer
            answers.append(answer)
        if all(error is not None for _, _, error in answers):
            connection.execute("ROLLBACK")
        else:
            faults.hit("store.group_commit.before")
            connection.execute("COMMIT")
            faults.hit("store.group_commit.after")
        deliver(answers)
        return None

    def _quickly(self, connection: sqlite3.Connection, job: Job) -> Any:
        """The answer of a statement that is a transaction by itself."""
        if job.quick is None:
            return None
        faults.hit("store.group_commit.before")
        try:
            value = job.quick(connection)
        except sqlite3.Error:  # the long way meets it too, and tells
            return None
        if value is not None:
            faults.hit("store.group_commit.after")
        return value

    def _in_savepoint(self, connection: sqlite3.Connection, job: Job, now: float) -> Answer:
        if job.quick is not None:
            try:
                if (value := job.quick(connection)) is not None:
                    return job, value, None
            except sqlite3.Error as error:
                if not connection.in_transaction:
                    return job, None, self._told(error)
        connection.execute("SAVEPOINT job")
        answer = self._attempt(connection, job, now)
        if answer[2] is not None:
            if not connection.in_transaction:
                return answer
            connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        return answer

    def _attempt(self, connection: sqlite3.Connection, job: Job, now: float) -> Answer:
        try:
            return job, None if job.work is None else job.work(connection, now), None
        except Exception as error:  # noqa: BLE001 - it is this job's alone
            return job, None, self._told(error)

    def _told(self, error: BaseException) -> StoreError:
        """What a caller is told; a new error each time, for many may share its cause."""
        if isinstance(error, StoreError):
            return error
        if isinstance(error, sqlite3.Error | UnicodeError | OverflowError):
            told = meaning(error, self._path)
        else:
            told = StoreError(f"The store {str(self._path)!r} failed: {type(error).__name__}: {error}. Report it.")
        told.__cause__ = error
        return told
