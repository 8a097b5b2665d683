"""Connections to a SQLite file, and what its errors mean to a user.

Invariant: no error of `sqlite3` leaves the store; each becomes a `StoreError` with a remedy. A connection is used by
one thread at a time, and every one that was opened is closed.

Reads run on the thread that asks. In WAL mode a reader waits for no writer, and a point read costs 10 to 25 us, where
the way to another thread and back costs 80 or more; only reads that may return much go to one (a journal, a sweep,
more than `OFF_LOOP_EVENTS` events).
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from tenuto.core.errors import StoreError
from tenuto.store.rules import closed

_T = TypeVar("_T")

IDLE_READERS: Final = 4
"""How many read connections are kept open between reads."""

_WAL_KEPT_BYTES: Final = 64 * 1024 * 1024

_MEANINGS: Final[dict[int, tuple[str, str]]] = {
    sqlite3.SQLITE_BUSY: (
        "STORE_LOCKED",
        "another process has held its write lock for longer than `busy_timeout`; end that process or its transaction",
    ),
    sqlite3.SQLITE_FULL: ("STORE_DISK_FULL", "the disk is full; free some space"),
    sqlite3.SQLITE_READONLY: (
        "STORE_READ_ONLY",
        "it cannot be written; give this user the right to write to the file and its directory",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "STORE_CANNOT_OPEN",
        "it cannot be opened; its directory must exist, and this user must have the right to write there",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "STORE_CORRUPT",
        "it is damaged; stop its processes and restore a backup, or save what can be read with `sqlite3 FILE .recover`",
    ),
    sqlite3.SQLITE_NOTADB: ("STORE_NOT_A_DATABASE", "it is not an SQLite database; give the path of another file"),
    sqlite3.SQLITE_IOERR: (
        "STORE_IO_FAILED",
        "the disk reported an error; check the disk, its free space, and that the file is on a local file system",
    ),
    sqlite3.SQLITE_TOOBIG: ("STORE_TOO_BIG", "SQLite holds at most a billion bytes in one value; store less at once"),
    sqlite3.SQLITE_NOMEM: ("STORE_NO_MEMORY", "there is no memory left; give the process more"),
}
_SAME: Final = {
    sqlite3.SQLITE_LOCKED: sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_PROTOCOL: sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_PERM: sqlite3.SQLITE_READONLY,
}


def meaning(error: Exception, path: Path) -> StoreError:
    """What an exception of `sqlite3` means to whoever uses the store in `path`; to be raised from it."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, UnicodeError | OverflowError):
        message = f"Nothing was stored: a text that is not valid Unicode, or a number over 64 bits ({error})."
        return StoreError(message, id="STORE_NOT_JSON", category="USER")
    code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest tells variants of an error apart
    known = _MEANINGS.get(_SAME.get(code, code))
    if known is None:
        return StoreError(f"The store {str(path)!r} failed: {error}. Report it if a retry does not help.")
    name, remedy = known
    return StoreError(f"The store {str(path)!r}: {remedy} ({error}).", id=name, details={"path": str(path)})


def connect(path: Path, *, busy_timeout: float, mode: str = "rw", any_thread: bool = False) -> sqlite3.Connection:
    """Open the file; transactions are the caller's own.

    Args:
        path: The file.
        busy_timeout: Seconds to wait for a lock.
        mode: `rwc` makes a file that is missing.
        any_thread: It goes from thread to thread.
    """
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        timeout=busy_timeout,
        isolation_level=None,
        check_same_thread=not any_thread,
        cached_statements=128,
        uri=True,
    )


def prepare_writer(connection: sqlite3.Connection, synchronous: str) -> None:
    """Set the file to WAL and this connection to what a writer needs."""
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        message = f"SQLite cannot keep a write-ahead log here (it uses {mode!r}); put the file on a local file system."
        raise StoreError(message, id="STORE_NO_WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_BYTES}")


class Readers:
    """Connections that only read, shared by all threads.

    Args:
        path: The file; it exists.
        busy_timeout: Seconds to wait for a lock; a reader meets one only while another process restores the log.
    """

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self._path = path
        self._busy_timeout = busy_timeout
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    def read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """What `work` returns; it must fetch all rows of a statement before it may raise.

        Raises:
            StoreError: The file could not be read, or the readers are closed.
        """
        try:
            connection = self._take()
            try:
                return work(connection)
            finally:
                self._give_back(connection)
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            raise meaning(error, self._path) from error

    async def read_aside(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """See `read`; in a worker thread, for what may look through much."""
        return await asyncio.to_thread(self.read, work)

    def close(self) -> None:
        """Close all that is idle now, and the others when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise closed()
            if self._idle:
                return self._idle.pop()
        connection = connect(self._path, busy_timeout=self._busy_timeout, any_thread=True)
        connection.execute("PRAGMA query_only = 1")
        return connection

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < IDLE_READERS:
                self._idle.append(connection)
                return
        connection.close()
