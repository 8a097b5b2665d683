"""Retention: what is dropped of durable runs that are over and of old threads, a batch per transaction.

Invariant: a tree of runs goes together, by its root. Runs that are running are never touched, suspended ones only when
asked by name, and effects never: a later run that asks for the same effect must find it. The last event, which says how
the run ended, stays as long as its row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from tenuto.store.ports import Owner
from tenuto.store.sqlite_rows import FORMAT, SQL, check_format, lives, owner_of, thread_of
from tenuto.store.sqlite_threads import delete

BATCH: Final = 100
"""Runs per transaction, so that nobody else waits long."""


SCORES: Final = 1_000
"""Scores per transaction."""

Drop = Callable[[sqlite3.Connection, float], int]


class Pruned(Struct, frozen=True):
    """How many runs, children not counted, lost their events or were dropped; how many threads and scores were."""

    events: int = 0
    runs: int = 0
    threads: int = 0
    scores: int = 0


def drop_events(connection: sqlite3.Connection, ended_by: float) -> int:
    """Drop the events of at most `BATCH` runs that had ended by then; returns how many it were."""
    found = connection.execute(SQL["ended_before"], (0, ended_by, BATCH)).fetchall()
    for root in found:
        for n, _ in tree(connection, *root):
            last = connection.execute(SQL["last_events"], (n,)).fetchone()
            connection.execute(SQL["drop_events"], (n,))
            connection.execute(SQL["mark_pruned"], (_keep_last(connection, n, last), n))
    return len(found)


def forget_events(connection: sqlite3.Connection, run_id: str, resource: Owner) -> bool:
    """Drop the events of one run that is not running; returns whether there is such a run."""
    found = connection.execute(SQL["at_rest"], (run_id, *owner_of(resource))).fetchone()
    if found is None:
        return False
    (root,) = found
    for n, _ in tree(connection, root, run_id):
        last = connection.execute(SQL["last_events"], (n,)).fetchone()
        if last is not None:
            connection.execute(SQL["drop_events"], (n,))
            connection.execute(SQL["move_first"], (_keep_last(connection, n, last), n))
    return True


def drop_runs(connection: sqlite3.Connection, ended_by: float) -> int:
    """Drop at most `BATCH` runs without events that had ended by then, with all that is theirs but their effects."""
    found = connection.execute(SQL["ended_before"], (1, ended_by, BATCH)).fetchall()
    for root in found:
        for n, run_id in tree(connection, *root):
            drop_run(connection, n, run_id)
    return len(found)


def drop_run(connection: sqlite3.Connection, n: int, run_id: str) -> None:
    """Drop a run with all that is its own but its effects."""
    for drop in ("drop_events", "drop_records", "drop_pending", "drop_run"):
        connection.execute(SQL[drop], (n,))
    connection.execute(SQL["drop_posts"], (run_id,))


def tree(connection: sqlite3.Connection, n: int, run_id: str) -> list[tuple[int, str]]:
    """Number and id of a run and of all runs below it."""
    found = [(n, run_id)]
    for _, parent in found:
        found += [(child[0], child[1]) for child in connection.execute(SQL["children_of"], (parent,)).fetchall()]
    return found


def drop_scores(connection: sqlite3.Connection, stored_by: float) -> int:
    """Drop a batch of scores that were stored by then; returns how many."""
    return connection.execute(SQL["drop_scores"], (stored_by, SCORES)).rowcount


def untouched(connection: sqlite3.Connection, since: float) -> list[int]:
    """The numbers of threads, sub-threads apart, that did not change after that."""
    return [n for (n,) in connection.execute(SQL["threads_untouched"], (since,)).fetchall()]


def drop_threads(connection: sqlite3.Connection, now: float, numbers: list[int], untouched_since: float) -> int:
    """Drop those of these threads in which nothing goes on or waits, with their sub-threads; returns how many."""
    dropped = 0
    for n in numbers:
        at_rest = connection.execute(SQL["thread_at_rest"], (n, untouched_since)).fetchone()
        if at_rest is None or (at_rest[2] is not None and lives(at_rest[2], at_rest[3], now)):
            continue
        row = connection.execute(SQL["thread_by_n"], (n,)).fetchone()
        delete(connection, thread_of(row).row, n)
        dropped += 1
    return dropped


def _keep_last(connection: sqlite3.Connection, n: int, last: tuple[int, int, bytes] | None) -> int:
    """Store the last event alone; returns its index."""
    if last is None:
        return 0
    form, first, lines = last
    check_format(form)
    index = first + lines.count(b"\n")
    connection.execute(SQL["add_events"], (n, index, FORMAT, 1, lines.rpartition(b"\n")[2]))
    return index
