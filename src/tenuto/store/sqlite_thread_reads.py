"""What is read of the threads, vectors and scores of a SQLite file, on a connection that only reads.

Invariant: as in `sqlite_reads`; a thread that is another's is not there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from msgspec.structs import replace

from tenuto.messages.stored import Message
from tenuto.store.ports import ANYONE, Owner, ScoreRow, ThreadMessage, ThreadPage, ThreadRow, VectorRow
from tenuto.store.scopes import owns
from tenuto.store.sqlite_rows import LAST, SQL, StoredThread, check_format, decoded, metadata_of, place_of, thread_of
from tenuto.store.sqlite_threads import SEQS, find
from tenuto.store.threads import ThreadQuery


def thread(connection: sqlite3.Connection, thread_id: str, resource: Owner) -> ThreadRow | None:
    """See `ThreadStore.thread`."""
    known = _owned(connection, thread_id, resource)
    return None if known is None else known.row


def threads(connection: sqlite3.Connection, asked: ThreadQuery) -> ThreadPage:
    """See `ThreadStore.threads`."""
    place = (None, None, None) if asked.root is None else place_of(asked.root)
    if asked.resource is ANYONE:
        rows = connection.execute(SQL["thread_times_of_anyone"], place).fetchall()
    else:
        rows = connection.execute(SQL["thread_times"], (asked.resource, *place)).fetchall()
    if asked.metadata:
        rows = [row for row in rows if _fits(asked, row[0], row[4])]
    rows.sort(key=itemgetter(2 if asked.order_by == "created_at" else 3))
    if asked.descending:
        rows.reverse()
    page = [connection.execute(SQL["thread_by_n"], (row[1],)).fetchone() for row in asked.page(rows)]
    return ThreadPage(tuple(thread_of(row).row for row in page if row is not None), len(rows))


def messages(
    connection: sqlite3.Connection,
    thread_id: str,
    resource: Owner,
    window: tuple[int | None, int | None],
    most: tuple[int | None, int | None],
) -> list[ThreadMessage]:
    """See `ThreadStore.messages`; `window` is after and before, `most` is last and first."""
    known = _owned(connection, thread_id, resource)
    if known is None:
        return []
    (after, before), (last, first) = window, most
    begin = _place(known, 0 if after is None else after + 1)
    end = _place(known, known.row.messages if before is None else before)
    if last is None:
        rows = connection.execute(SQL["messages_after"], (begin, end, _most(first))).fetchall()
    else:
        rows = connection.execute(SQL["messages_before"], (begin, end, _most(last))).fetchall()[::-1]
        rows = rows if first is None else rows[: max(first, 0)]
    return [_message(known, row) for row in rows]


def near(
    connection: sqlite3.Connection, thread_id: str, resource: Owner, ids: Sequence[str], around: tuple[int, int]
) -> list[ThreadMessage]:
    """Messages by id, with their neighbours."""
    known = _owned(connection, thread_id, resource)
    if known is None:
        return []
    found: dict[int, Any] = {}
    for message_id in ids:
        at = connection.execute(SQL["message_place"], (message_id, known.n)).fetchone()
        if at is None:
            continue
        (place,) = at
        span = (_place(known, 0), place, _most(around[0]))
        rows = connection.execute(SQL["messages_before"], span).fetchall()
        span = (place, _place(known, known.row.messages), _most(around[1]) + 1)
        rows += connection.execute(SQL["messages_after"], span).fetchall()
        found.update((row[1], row) for row in rows)
    return [_message(known, found[place]) for place in sorted(found)]


def find_messages(connection: sqlite3.Connection, ids: Sequence[str], resource: Owner) -> list[ThreadMessage]:
    """See `ThreadStore.find_messages`."""
    places = {
        place for message_id in ids for (place,) in connection.execute(SQL["message_places"], (message_id,)).fetchall()
    }
    found: list[ThreadMessage] = []
    for place in sorted(places):
        owner = connection.execute(SQL["thread_by_n"], (place >> SEQS,)).fetchone()
        row = connection.execute(SQL["message"], (place,)).fetchone()
        if owner is None or row is None:  # dropped since
            continue
        known = thread_of(owner)
        if owns(resource, known.row.resource):
            found.append(_message(known, row))
    return found


def vectors(
    connection: sqlite3.Connection, resource: Owner, space: str, thread_id: str | None, span: tuple[int, int]
) -> list[VectorRow]:
    """See `VectorStore.vectors`; `span` is after and limit."""
    after, limit = min(max(span[0], 0), LAST), _most(span[1])
    if thread_id is not None:
        known = _owned(connection, thread_id, resource)
        values = None if known is None else (known.n, space, after, limit)
        rows = [] if values is None else connection.execute(SQL["vectors_of_thread"], values).fetchall()
    elif resource is ANYONE:
        rows = connection.execute(SQL["vectors_of_anyone"], (space, after, limit)).fetchall()
    else:
        rows = connection.execute(SQL["vectors"], (resource, space, after, limit)).fetchall()
    return [_vector(row) for row in rows]


def scores(
    connection: sqlite3.Connection,
    resource: Owner,
    run_id: str | None,
    narrow: tuple[str | None, str | None],
    span: tuple[int, int],
) -> list[ScoreRow]:
    """See `ScoreStore.scores`; `narrow` is scorer and entity, `span` offset and limit."""
    values: tuple[Any, ...] = (*narrow, min(max(span[0], 0), LAST), _most(span[1]))
    if run_id is not None:
        owner = (True, None) if resource is ANYONE else (False, resource)
        rows = connection.execute(SQL["scores_of_run"], (run_id, *owner, *values)).fetchall()
    elif resource is ANYONE:
        rows = connection.execute(SQL["scores_of_anyone"], values).fetchall()
    else:
        rows = connection.execute(SQL["scores"], (resource, *values)).fetchall()
    for form, _ in rows:
        check_format(form)
    return [decoded(raw, ScoreRow) for _, raw in rows]


def _owned(connection: sqlite3.Connection, thread_id: str, resource: Owner) -> StoredThread | None:
    known = find(connection, thread_id)
    return known if known is not None and owns(resource, known.row.resource) else None


def _place(thread: StoredThread, seq: int) -> int:
    """Where a seq of the thread is; of one it cannot have, the nearest."""
    return (thread.n << SEQS) + min(max(seq, 0), thread.row.messages)


def _most(limit: int | None) -> int:
    return LAST - 1 if limit is None else min(max(limit, 0), LAST - 1)


def _fits(asked: ThreadQuery, form: int, raw: bytes) -> bool:
    check_format(form)
    return asked.fits(metadata_of(raw))


def _message(thread: StoredThread, row: Sequence[Any]) -> ThreadMessage:
    form, place, message_id, raw = row
    check_format(form)
    message = replace(decoded(raw, Message), id=message_id, thread_id=thread.row.id, resource_id=thread.row.resource)
    return ThreadMessage(place & (1 << SEQS) - 1, message)


def _vector(row: Sequence[Any]) -> VectorRow:
    form, place, thread_id, resource, message_id, part, space, vector = row
    check_format(form)
    return VectorRow(
        resource=resource, thread=thread_id, message_id=message_id, part=part, space=space, vector=vector, place=place
    )
