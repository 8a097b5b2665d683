"""Looks whether another process has freed a scope in a SQLite file, while somebody waits for one.

Invariant: its thread lives only while there are waiters, and reads nothing but the version of the data until that has
changed. What a killed process held frees nothing by a write, so every `LOOK_EVERY` turns it looks without one.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tenuto.core.errors import StoreError
from tenuto.store.scopes import Scope
from tenuto.store.sqlite_connect import connect
from tenuto.store.waiting import Waiters

TURN_SECONDS: Final = 0.025
LOOK_EVERY: Final = 8

Holder = tuple[str, int, float, int] | None
"""Owner, epoch, expiry and whether it is held, not reserved."""


class Watcher:
    """Tells waiters what other processes did.

    Args:
        path: The file; it exists.
        waiters: Whom to tell.
        holder: The lease of a scope as it is stored.
        is_free: Whether the scope of that lease is anyone's to claim.
    """

    def __init__(
        self,
        path: Path,
        waiters: Waiters,
        holder: Callable[[Scope], Holder],
        is_free: Callable[[Holder], bool],
    ) -> None:
        self._path = path
        self._waiters = waiters
        self._holder = holder
        self._is_free = is_free
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._seen: dict[Scope, Holder] = {}

    def watch(self) -> None:
        """See to it that the thread runs; somebody has begun to wait."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="tenuto store watcher", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread and wait for that; nobody waits any more."""
        self._stop.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    def _serve(self) -> None:
        try:
            connection = connect(self._path, busy_timeout=1.0)
        except sqlite3.Error:  # whoever waits asks again, and is told what is wrong with the file
            self._end()
            self._waiters.tell_all()
            return
        try:
            self._turns(connection)
        finally:
            connection.close()

    def _turns(self, connection: sqlite3.Connection) -> None:
        seen, turn = -1, 0
        while not (self._end_if_unwatched() or self._stop.is_set()):
            try:
                (version,) = connection.execute("PRAGMA data_version").fetchone()
                if version != seen or turn % LOOK_EVERY == 0:
                    self._look()
                seen = version
            except (sqlite3.Error, StoreError):
                self._waiters.tell_all()
            turn += 1
            self._stop.wait(TURN_SECONDS)

    def _look(self) -> None:
        waiting = self._waiters.waiting()
        self._seen = {scope: lease for scope, lease in self._seen.items() if scope in waiting}
        for scope, futures in waiting.items():
            lease = self._holder(scope)
            before = self._seen.setdefault(scope, lease)
            self._seen[scope] = lease
            reserved = lease is not None and not lease[3]
            if self._is_free(lease) or (reserved and _who(before) != _who(lease)):
                self._waiters.tell(scope, futures)

    def _end_if_unwatched(self) -> bool:
        with self._lock:
            if self._waiters.waiting():
                return False
            self._thread = None
            self._seen = {}
            return True

    def _end(self) -> None:
        with self._lock:
            self._thread = None


def _who(lease: Holder) -> tuple[str, int, int] | None:
    return None if lease is None else (lease[0], lease[1], lease[3])
