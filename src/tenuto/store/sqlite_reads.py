"""What is read from a SQLite file, one statement after the other on a connection that only reads.

Invariant: all rows of a statement are fetched before anything is made of them, so an error leaves no statement open.
"""

from __future__ import annotations

import sqlite3
from operator import itemgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tenuto.core.events import Event
from tenuto.store.ports import ANYONE, EffectRow, Owner, PendingCall, Post, RunRow, RunStatus, Scope, Versioned
from tenuto.store.rules import answered
from tenuto.store.scopes import owns
from tenuto.store.sqlite_rows import (
    LAST,
    SQL,
    check_format,
    decoded,
    lives,
    owner_of,
    place_of,
    post_of,
    queue_of,
    run_of,
    unpacked,
)


class Span(Struct, frozen=True):
    """The place of events in the file: of run number `n`, from `start` up to, not including, `end`."""

    n: int
    start: int
    end: int


def run(connection: sqlite3.Connection, run_id: str, resource: Owner) -> RunRow | None:
    """See `RunStore.run`."""
    row = connection.execute(SQL["run"], (run_id,)).fetchone()
    found = None if row is None else run_of(row)
    return found if found is not None and owns(resource, found.resource_id) else None


def runs(connection: sqlite3.Connection, resource: Owner, status: RunStatus | None, limit: int) -> list[RunRow]:
    """See `RunStore.runs`."""
    most = min(max(limit, 0), LAST)
    if resource is ANYONE:
        rows = _runs_of_anyone(connection, status, most)
    elif status is None:
        rows = connection.execute(SQL["runs"], (resource, most)).fetchall()
    else:
        rows = connection.execute(SQL["runs_by_status"], (resource, status, most)).fetchall()
    return [run_of(row) for row in rows]


def _runs_of_anyone(connection: sqlite3.Connection, status: RunStatus | None, most: int) -> list[Any]:
    if status is None:
        return connection.execute(SQL["runs_of_anyone"], (LAST, most)).fetchall()
    return connection.execute(SQL["runs_of_anyone_by_status"], (LAST, status, most)).fetchall()


def children(connection: sqlite3.Connection, run_id: str, resource: Owner) -> list[RunRow]:
    """See `RunStore.children`."""
    rows = [run_of(row) for row in connection.execute(SQL["children"], (run_id,)).fetchall()]
    return [row for row in rows if owns(resource, row.resource_id)]


def holder(connection: sqlite3.Connection, scope: Scope) -> tuple[str, int, float, int] | None:
    """The lease of a scope: owner, epoch, expiry, and whether it is held, not reserved."""
    return connection.execute(SQL["lease"], place_of(scope)).fetchone()


def recoverable(connection: sqlite3.Connection, now: float, limit: int) -> list[RunRow]:
    """See `RunStore.recoverable`."""
    found: list[RunRow] = []
    left = connection.execute(SQL["running"]).fetchall() + connection.execute(SQL["suspended"]).fetchall()
    for n, owner, expires_at, waiting, resource in sorted(left, key=itemgetter(0)):
        if len(found) >= limit:
            break
        if owner is not None and lives(owner, expires_at, now):
            continue
        if waiting and not answered(posts(connection, waiting, 0), pending(connection, waiting, resource)):
            continue
        row = connection.execute(SQL["run_by_n"], (n,)).fetchone()
        if row is not None:
            found.append(run_of(row))
    return found


def records(connection: sqlite3.Connection, run_id: str, resource: Owner) -> list[bytes]:
    """See `RunStore.records`."""
    rows = connection.execute(SQL["records"], (run_id, *owner_of(resource))).fetchall()
    for form, _ in rows:
        check_format(form)
    return [record for _, record in rows]


def span(connection: sqlite3.Connection, run_id: str, resource: Owner, start: int, limit: int | None) -> Span:
    """Where the events asked for are; an empty one when there are none."""
    row = connection.execute(SQL["log"], (run_id, *owner_of(resource))).fetchone()
    if row is None:
        return Span(0, 0, 0)
    form, n, first, end = row
    check_format(form)
    start = max(start, first)
    return Span(n, start, end if limit is None else min(end, start + max(limit, 0)))


def events(connection: sqlite3.Connection, place: Span) -> list[Event]:
    """See `RunStore.events`."""
    if place.start >= place.end:
        return []
    rows = connection.execute(SQL["events"], (place.n, place.start, place.end)).fetchall()
    return unpacked(rows, place.start, place.end)


def event_count(connection: sqlite3.Connection, run_id: str, resource: Owner) -> int:
    """See `RunStore.event_count`."""
    row = connection.execute(SQL["event_count"], (run_id, *owner_of(resource))).fetchone()
    return 0 if row is None else row[0]


def pending(connection: sqlite3.Connection, run_id: str, resource: Owner) -> list[PendingCall]:
    """See `RunStore.pending`."""
    rows = connection.execute(SQL["pending"], (run_id, *owner_of(resource))).fetchall()
    for form, _ in rows:
        check_format(form)
    return [decoded(call, PendingCall) for _, call in rows]


def effect(connection: sqlite3.Connection, key: str) -> EffectRow | None:
    """See `RunStore.effect`."""
    row = connection.execute(SQL["effect"], (key,)).fetchone()
    if row is None:
        return None
    check_format(row[0])
    return decoded(row[1], EffectRow)


def posts(connection: sqlite3.Connection, target: Scope | str, start: int) -> list[Post]:
    """See `RunStore.posts`."""
    queue = queue_of(target)
    rows = connection.execute(SQL["posts"], (*queue, min(max(start, 0), LAST))).fetchall()
    for form, _, _ in rows:
        check_format(form)
    return [post_of(item, key, queue[0]) for _, item, key in rows]


def versioned(connection: sqlite3.Connection, kind: str, key: str) -> Versioned | None:
    """See `RunStore.versioned`."""
    row = connection.execute(SQL["versioned"], (kind, key)).fetchone()
    if row is None:
        return None
    form, raw, version = row
    check_format(form)
    return replace(decoded(raw, Versioned), version=version)
