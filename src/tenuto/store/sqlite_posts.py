"""What anyone may write to a SQLite file: posts and versioned rows, each inside a transaction."""

from __future__ import annotations

import sqlite3

from tenuto.store.ports import TERMINAL_STATUS, Decide, Inbox, PendingCall, Post, Posted, Versioned
from tenuto.store.rules import address, answers
from tenuto.store.sqlite_rows import FORMAT, SQL, check_format, decoded, post_of, queue_of
from tenuto.store.sqlite_threads import check_scope_owned


def post(connection: sqlite3.Connection, now: float, item: Post, raw: bytes) -> Posted:
    """See `RunStore.post`; `raw` is the item, encoded."""
    if isinstance(item, Inbox) and item.scope.kind == "thread":
        check_scope_owned(connection, item.scope.id, item.scope.resource)
    target, key = address(item)
    queue = queue_of(target)
    known = connection.execute(SQL["posted"], (*queue, key)).fetchone()
    if known is not None:
        form, stored, seq = known
        check_format(form)
        same = stored == raw or post_of(stored, key, queue[0]) == post_of(raw, key, queue[0])
        return Posted("duplicate" if same else "conflict", seq)
    if not isinstance(item, Inbox) and not _decidable(connection, item.run_id, item):
        return Posted("conflict")
    (seq,) = connection.execute(SQL["queue_length"], queue).fetchone()
    connection.execute(SQL["add_post"], (*queue, seq, key, FORMAT, now, raw))
    return Posted("stored", seq)


def swap(connection: sqlite3.Connection, now: float, row: Versioned, raw: bytes, expect: int) -> bool:
    """See `RunStore.swap`; `raw` is the row, encoded."""
    known = connection.execute(SQL["versioned"], (row.kind, row.key)).fetchone()
    if (0 if known is None else known[2]) != expect:
        return False
    connection.execute(SQL["put_versioned"], (row.kind, row.key, expect + 1, FORMAT, now, raw))
    return True


def _decidable(connection: sqlite3.Connection, run_id: str, item: Post) -> bool:
    call_id = item.call_id if isinstance(item, Decide) else ""
    run = connection.execute(SQL["asked"], (call_id, run_id)).fetchone()
    if run is None or run[0] in TERMINAL_STATUS:
        return False
    if not isinstance(item, Decide):
        return True
    _, form, raw = run
    if raw is None:
        return False
    check_format(form)
    return answers(item, decoded(raw, PendingCall))
