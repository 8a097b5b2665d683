"""Retention: what is dropped of durable runs that are over, a batch of runs per transaction.

Invariant: runs that are running are never touched, suspended ones only when asked by name, and effects never: a later
run that asks for the same effect must find it. The last event, which says how the run ended, stays as long as its row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from tenuto.store.sqlite_rows import FORMAT, SQL, check_format

BATCH: Final = 100
"""Runs per transaction, so that nobody else waits long."""


Drop = Callable[[sqlite3.Connection, float], int]


class Pruned(Struct, frozen=True):
    """How many runs lost their events, and how many were dropped altogether."""

    events: int = 0
    runs: int = 0


def drop_events(connection: sqlite3.Connection, ended_by: float) -> int:
    """Drop the events of at most `BATCH` runs that had ended by then; returns how many it were."""
    found = connection.execute(SQL["ended_before"], (0, ended_by, BATCH)).fetchall()
    for n, _ in found:
        last = connection.execute(SQL["last_events"], (n,)).fetchone()
        connection.execute(SQL["drop_events"], (n,))
        connection.execute(SQL["mark_pruned"], (_keep_last(connection, n, last), n))
    return len(found)


def forget_events(connection: sqlite3.Connection, run_id: str, resource: str | None) -> bool:
    """Drop the events of one run that is not running; returns whether there is such a run."""
    found = connection.execute(SQL["at_rest"], (run_id, resource)).fetchone()
    if found is None:
        return False
    (n,) = found
    last = connection.execute(SQL["last_events"], (n,)).fetchone()
    if last is not None:
        connection.execute(SQL["drop_events"], (n,))
        connection.execute(SQL["move_first"], (_keep_last(connection, n, last), n))
    return True


def drop_runs(connection: sqlite3.Connection, ended_by: float) -> int:
    """Drop at most `BATCH` runs without events that had ended by then, with all that is theirs but their effects."""
    found = connection.execute(SQL["ended_before"], (1, ended_by, BATCH)).fetchall()
    for n, run_id in found:
        for drop in ("drop_events", "drop_records", "drop_pending", "drop_run"):
            connection.execute(SQL[drop], (n,))
        connection.execute(SQL["drop_posts"], (run_id,))
    return len(found)


def _keep_last(connection: sqlite3.Connection, n: int, last: tuple[int, int, bytes] | None) -> int:
    """Store the last event alone; returns its index."""
    if last is None:
        return 0
    form, first, lines = last
    check_format(form)
    index = first + lines.count(b"\n")
    connection.execute(SQL["add_events"], (n, index, FORMAT, 1, lines.rpartition(b"\n")[2]))
    return index
