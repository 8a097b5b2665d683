"""What is written to the threads, vectors and scores of a SQLite file, inside a transaction of whoever calls.

Invariant: whatever raises here has left nothing that the caller's savepoint does not take back. A thread's messages lie
at `threads.n * 2^32 + seq`; what an append costs does not depend on how many there are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tenuto.core import faults
from tenuto.messages.stored import Message
from tenuto.store.ports import (
    CopyOf,
    Fence,
    Posted,
    RunRow,
    ScoreRow,
    ThreadEdit,
    ThreadRow,
    VectorRow,
    Write,
)
from tenuto.store.rules import encoded, stale
from tenuto.store.sqlite_rows import FORMAT, SQL, StoredThread, check_format, decoded, place_of, thread_of
from tenuto.store.thread_rules import check_edit, check_owned, makes_thread, written_thread

SEQS: Final = 32
"""Bits of a place that are the seq."""


class Said(Struct, frozen=True):
    """What is to be stored of a thread, encoded: the metadata of its row, and its messages by id."""

    metadata: bytes
    messages: list[tuple[str, bytes]]


def said_of(thread: ThreadRow | None, messages: Sequence[Message]) -> Said:
    """Encode a thread and messages.

    Raises:
        StoreError: `STORE_NOT_JSON`.
    """
    metadata = encoded({} if thread is None else thread.metadata)
    return Said(metadata, [(message.id, encoded(message)) for message in messages])


def find(connection: sqlite3.Connection, thread_id: str | None) -> StoredThread | None:
    """The thread of that id, whoever it belongs to."""
    row = None if thread_id is None else connection.execute(SQL["thread"], (thread_id,)).fetchone()
    return None if row is None else thread_of(row)


def check_scope_owned(connection: sqlite3.Connection, thread_id: str, resource: str) -> None:
    """Whether the thread may be `resource`'s.

    Raises:
        StoreError: `THREAD_RESOURCE_MISMATCH`.
    """
    found = connection.execute(SQL["thread_owner"], (thread_id,)).fetchone()
    check_owned(thread_id, resource, None if found is None else found[0])


def check_takes(connection: sqlite3.Connection, thread_id: str, resource: str) -> None:
    """Whether `resource` may take the thread, or make it: no run of another that is not over may make it, either.

    Raises:
        StoreError: `THREAD_RESOURCE_MISMATCH`.
    """
    check_scope_owned(connection, thread_id, resource)
    for (owner,) in connection.execute(SQL["run_owners"], (thread_id,)).fetchall():
        check_owned(thread_id, resource, owner)


def say(connection: sqlite3.Connection, now: float, run: RunRow, write: Write, said: Said) -> None:
    """Store the thread and the messages of a run's write; of the run scope, thread and resource count."""
    known = find(connection, run.thread_id)
    thread = written_thread(write, run, None if known is None else known.row)
    faults.hit("store.messages.mid")
    _put(connection, now, known or _make(connection, now, thread, said.metadata), said.messages)


def edit(connection: sqlite3.Connection, now: float, fence: Fence, asked: ThreadEdit, said: Said) -> ThreadRow | None:
    """See `ThreadStore.edit`."""
    if connection.execute(SQL["holds"], (*place_of(fence.scope), fence.epoch)).fetchone() is None:
        raise stale(fence)
    known = find(connection, asked.thread.id)
    source = None if asked.copy is None else find(connection, asked.copy.thread)
    check_edit(asked, fence.scope, None if known is None else known.row, None if source is None else source.row)
    if asked.delete:
        delete(connection, asked.thread if known is None else known.row, None if known is None else known.n)
        return None
    if known is None and makes_thread(asked):
        known = _make(connection, now, asked.thread, said.metadata)
    if known is None:
        return None
    if asked.copy is not None and source is not None:
        known = _copy(connection, known, source.n, asked.copy)
    _put(connection, now, known, said.messages)
    for message_id in asked.drop:
        _drop(connection, known.n, message_id)
    found = find(connection, asked.thread.id)
    return None if found is None else found.row


def delete(connection: sqlite3.Connection, thread: ThreadRow, n: int | None) -> None:
    """Drop a thread (number `n`, if it is there) and the sub-threads of its scope, with all that is in them."""
    numbers = [] if n is None else [n]
    if thread.root is None:
        numbers += [each for (each,) in connection.execute(SQL["sub_threads"], place_of(thread.scope)).fetchall()]
    for each in numbers:
        for drop in ("drop_vectors", "drop_messages", "drop_thread"):
            connection.execute(SQL[drop], (each,))


def swap(connection: sqlite3.Connection, now: float, row: ThreadRow, metadata: bytes, expect: int) -> bool:
    """See `RunStore.swap`; `metadata` are the row's, encoded."""
    known = find(connection, row.id)
    check_takes(connection, row.id, row.resource)
    if (0 if known is None else known.row.version) != expect:
        return False
    if known is None:
        _make(connection, now, row, metadata)
    else:
        connection.execute(SQL["retitle_thread"], (FORMAT, row.title, expect + 1, now, metadata, known.n))
    return True


def index(connection: sqlite3.Connection, rows: Sequence[VectorRow]) -> int:
    """See `VectorStore.index`."""
    places: dict[tuple[str, str, str], int | None] = {}
    emptied: set[tuple[int, str]] = set()
    stored = 0
    for row in rows:
        key = (row.resource, row.thread, row.message_id)
        if key not in places:
            places[key] = _owned_place(connection, *key)
        place = places[key]
        if place is None:
            continue
        if (place, row.space) not in emptied:
            emptied.add((place, row.space))
            connection.execute(SQL["unindex_message"], (place, row.resource, row.space, row.space))
        values = (row.resource, row.space, place, row.message_id, row.part, FORMAT, row.vector)
        connection.execute(SQL["add_vector"], values)
        stored += 1
    return stored


def unindex(
    connection: sqlite3.Connection, resource: str, thread: str | None, ids: Sequence[str] | None, space: str | None
) -> int:
    """See `VectorStore.unindex`."""
    known = find(connection, thread)
    if thread is not None and (known is None or known.row.resource != resource):
        return 0
    if ids is None:
        if known is not None:
            return connection.execute(SQL["unindex_thread"], (known.n, space)).rowcount
        return connection.execute(SQL["unindex_resource"], (resource, space, space)).rowcount
    dropped = 0
    for message_id in ids:
        for (place,) in connection.execute(SQL["message_places"], (message_id,)).fetchall():
            if known is None or place >> SEQS == known.n:
                dropped += connection.execute(SQL["unindex_message"], (place, resource, space, space)).rowcount
    return dropped


def score(connection: sqlite3.Connection, now: float, row: ScoreRow) -> Posted:
    """Store a score; see `RunStore.post`."""
    known = connection.execute(SQL["score"], (row.id,)).fetchone()
    if known is None:
        made = row if row.created_at is not None else replace(row, created_at=now)
        owner = (made.resource_id, made.run_id, made.scorer_id, made.entity_id, made.created_at)
        connection.execute(SQL["add_score"], (made.id, FORMAT, *owner, encoded(made)))
        return Posted("stored")
    form, raw = known
    check_format(form)
    stored = decoded(raw, ScoreRow)
    given = row if row.created_at is not None else replace(row, created_at=stored.created_at)
    return Posted("duplicate" if stored == decoded(encoded(given), ScoreRow) else "conflict")


def _owned_place(connection: sqlite3.Connection, resource: str, thread_id: str, message_id: str) -> int | None:
    known = find(connection, thread_id)
    if known is None or known.row.resource != resource:
        return None
    found = connection.execute(SQL["message_place"], (message_id, known.n)).fetchone()
    return None if found is None else found[0]


def _make(connection: sqlite3.Connection, now: float, row: ThreadRow, metadata: bytes) -> StoredThread:
    root = (None, None, None) if row.root is None else place_of(row.root)
    created = now if row.created_at is None else row.created_at
    values = (row.id, FORMAT, row.resource, row.title, *root, created, now, metadata)
    n = connection.execute(SQL["add_thread"], values).lastrowid
    assert n is not None  # noqa: S101 - an INSERT of one row has one
    return StoredThread(n, replace(row, version=1, messages=0))


def _put(connection: sqlite3.Connection, now: float, thread: StoredThread, messages: list[tuple[str, bytes]]) -> None:
    seq = thread.row.messages
    for message_id, raw in messages:
        found = connection.execute(SQL["message_place"], (message_id, thread.n)).fetchone() if seq else None
        if found is not None:
            connection.execute(SQL["replace_message"], (FORMAT, raw, *found))
            continue
        connection.execute(SQL["add_message"], ((thread.n << SEQS) + seq, message_id, FORMAT, raw))
        seq += 1
    connection.execute(SQL["touch_thread"], (seq, now, thread.n))


def _drop(connection: sqlite3.Connection, n: int, message_id: str) -> None:
    found = connection.execute(SQL["message_place"], (message_id, n)).fetchone()
    if found is not None:
        connection.execute(SQL["drop_vectors_of_message"], found)
        connection.execute(SQL["drop_message"], found)


def _copy(connection: sqlite3.Connection, thread: StoredThread, source: int, copy: CopyOf) -> StoredThread:
    last = (1 << SEQS) - 1
    first, end = min(max(copy.start, 0), last), last if copy.end is None else min(max(copy.end, 0), last)
    begin = (source << SEQS) + first
    span = (begin, (source << SEQS) + end, (thread.n << SEQS) - begin)
    connection.execute(SQL["copy_messages"], span)
    connection.execute(SQL["copy_vectors"], (*span, thread.row.resource))
    (place,) = connection.execute(SQL["last_place"], (thread.n,)).fetchone()
    count = 0 if place is None else place - (thread.n << SEQS) + 1
    return StoredThread(thread.n, replace(thread.row, messages=count))
