"""What an owner writes to a SQLite file: claims, renewals, releases and commits, each inside a transaction.

Invariant: a commit reads the epoch of its scope in the transaction that stores it; whatever raises here has left
nothing that the caller's savepoint does not take back.
"""

from __future__ import annotations

import sqlite3

from msgspec import Struct

from tenuto.core.errors import StoreError
from tenuto.store.ports import TERMINAL_STATUS, Committed, Fence, HeldBy, RunRow, RunStatus, Scope, Write
from tenuto.store.rules import check_claimed, check_effect, check_open, check_order, encoded, stale
from tenuto.store.sqlite_prune import drop_run, tree
from tenuto.store.sqlite_rows import FORMAT, SQL, check_format, lives, packed, place_of, run_of
from tenuto.store.sqlite_threads import Said, check_takes, said_of, say
from tenuto.store.thread_rules import as_child, check_child


class Terms(Struct, frozen=True):
    """The options of a store that its transactions need: see `SQLiteStore`."""

    lease_seconds: float
    keep_finished: int


class Prepared(Struct, frozen=True):
    """A write whose parts are encoded, before its transaction.

    Attributes:
        log: Records and chunks; or, for a run that keeps neither, why they cannot be encoded.
    """

    write: Write
    log: tuple[list[bytes], list[bytes]] | StoreError
    pending: list[tuple[str, bool, bytes]]
    effects: list[bytes]
    error: bytes | None
    said: Said | None

    @classmethod
    def of(cls, write: Write) -> Prepared:
        """Encode `write`.

        Raises:
            StoreError: `STORE_NOT_JSON`.
        """
        return cls(
            write,
            _log_of(write),
            [(call.call_id, call.closed, encoded(call)) for call in write.pending],
            [encoded(effect) for effect in write.effects],
            None if write.error is None else encoded(write.error),
            said_of(write.thread, write.messages) if write.messages or write.thread is not None else None,
        )

    @property
    def only_events(self) -> bool:
        """Whether the write holds events and nothing else."""
        write = self.write
        others = write.records or write.pending or write.effects or write.status or write.keep or write.run
        return bool(write.events) and not others and self.said is None

    def encoded_log(self) -> tuple[list[bytes], list[bytes]]:
        """Records and chunks.

        Raises:
            StoreError: `STORE_NOT_JSON`.
        """
        if isinstance(self.log, StoreError):
            raise self.log
        return self.log


def _log_of(write: Write) -> tuple[list[bytes], list[bytes]] | StoreError:
    try:
        return [encoded(record) for record in write.records], [encoded(event.chunk) for event in write.events]
    except StoreError as error:
        return error


class OpenRun(Struct, frozen=True):
    """The row of a run that is written to; `n` is its number in the file."""

    n: int
    durable: bool
    seq: int
    events: int


class Transaction:
    """An open transaction, or a savepoint in one.

    Args:
        connection: Where it is open.
        now: When it began; the one reading of the clock in it.
        terms: The options of the store.
    """

    __slots__ = ("_connection", "_execute", "_executemany", "_now", "_terms")

    def __init__(self, connection: sqlite3.Connection, now: float, terms: Terms) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._executemany = connection.executemany
        self._now = now
        self._terms = terms

    def claim(self, scope: Scope, owner: str, run: RunRow | None, expect: RunStatus | None) -> Fence | HeldBy:
        """See `RunStore.claim`."""
        place = place_of(scope)
        lease = self._execute(SQL["lease"], place).fetchone()
        if lease is not None and lease[0] != owner and lives(lease[0], lease[2], self._now):
            return HeldBy(scope, *lease[:3])
        if scope.kind == "thread":
            check_takes(self._connection, scope.id, scope.resource)
        known = None if run is None else self._execute(SQL["run"], (run.run_id,)).fetchone()
        check_claimed(scope, run, None if known is None else run_of(known), expect)
        self._execute(SQL["count"], (1, "epoch"))
        (epoch,) = self._execute(SQL["counter"], ("epoch",)).fetchone()
        self._execute(SQL["take_lease"], (*place, owner, epoch, self._now + self._terms.lease_seconds))
        unfinished = self._settle(place, None if run is None else run.run_id)
        if run is not None and unfinished is None:
            self._start(run, known=known is not None)
        return Fence(scope, epoch, owner, unfinished)

    def renew(self, fence: Fence) -> bool:
        """See `RunStore.renew`."""
        values = (self._now + self._terms.lease_seconds, *place_of(fence.scope), fence.epoch)
        return self._execute(SQL["renew_lease"], values).rowcount == 1

    def release(self, fence: Fence, handover: str | None) -> None:
        """See `RunStore.release`."""
        place = (*place_of(fence.scope), fence.epoch)
        if handover is None:
            self._execute(SQL["drop_lease"], place)
        else:
            self._execute(SQL["reserve_lease"], (handover, self._now + self._terms.lease_seconds, *place))

    def commit(self, fence: Fence, prepared: Prepared) -> Committed:
        """See `RunStore.commit`."""
        write = prepared.write
        if write.run is not None:
            self._add_child(fence, write, write.run)
        run = self._open_run(fence, write)
        check_order(write, durable=run.durable, seq=run.seq, events=run.events)
        for effect in write.effects:
            if effect.status == "intended" and (
                holder := self._execute(SQL["effect_holder"], (effect.key,)).fetchone()
            ):
                check_effect(effect, *holder)
        stored = self._store_log(run, prepared)
        for call_id, closed, raw in prepared.pending:
            self._execute(SQL["put_pending"], (run.n, call_id, FORMAT, closed, raw))
        for effect, raw in zip(write.effects, prepared.effects, strict=True):
            values = (effect.key, FORMAT, effect.run_id, effect.call_id, effect.status, self._now, raw)
            self._execute(SQL["put_effect"], values)
        if prepared.said is not None:
            say(self._connection, self._now, self._speaker(fence, write, run.n), write, prepared.said)
        if write.status is not None:
            outcome = (write.status, write.reason, prepared.error)
            self._set_status((run.n, write.run_id), outcome, durable=run.durable or write.keep)
        return stored

    def append(self, fence: Fence, prepared: Prepared) -> Committed | None:
        """`commit` of a write that holds nothing but events, in one statement; None: it does not fit, ask `commit`."""
        write = prepared.write
        if isinstance(prepared.log, StoreError):
            return None
        first = write.events[0].index
        if any(event.index != place for place, event in enumerate(write.events, first)):
            return None
        chunks = prepared.log[1]
        values = (FORMAT, len(chunks), packed(chunks), write.run_id, *place_of(fence.scope), fence.epoch)
        added = self._execute(SQL["append_events"], (*values, write.first_seq, first)).rowcount
        return Committed(write.first_seq, first + len(chunks)) if added == 1 else None

    def settle_lost(self) -> int:
        """Do to every plain run that nobody drives any more what a claim of its scope would; returns how many."""
        lost = 0
        for n, run_id, *place, owner, expires_at, epoch in self._execute(SQL["plain_running"]).fetchall():
            if owner is not None and lives(owner, expires_at, self._now):
                continue
            self._set_status((n, run_id), ("interrupted", None, None), durable=False)
            self._execute(SQL["drop_lease"], (*place, epoch))
            lost += 1
        return lost

    def _open_run(self, fence: Fence, write: Write) -> OpenRun:
        values = (*place_of(fence.scope), fence.epoch, write.run_id)
        epoch, *row = self._execute(SQL["open_run"], values).fetchone()
        if epoch is None:
            raise stale(fence)
        n, form, *scope, status, durable, seq, events = row
        parent = None
        if write.status == "running" != status:  # a child that goes on
            found = self._execute(SQL["parent_status"], (write.run_id,)).fetchone()
            parent = None if found is None else found[0]
        check_open(fence, write, None if status is None else Scope(*scope), status, parent)
        check_format(form)
        return OpenRun(n, bool(durable), seq, events)

    def _store_log(self, run: OpenRun, prepared: Prepared) -> Committed:
        write = prepared.write
        seq, events = run.seq, run.events
        if write.keep and not run.durable:
            seq, events = 0, write.events[0].index if write.events else events
            self._execute(SQL["keep_run"], (events, run.n))
        if run.durable or write.keep:
            records, chunks = prepared.encoded_log()
            if records:
                rows = [(run.n, place, FORMAT, record) for place, record in enumerate(records, seq)]
                self._executemany(SQL["add_record"], rows)
            if chunks:
                self._execute(SQL["add_events"], (run.n, events, FORMAT, len(chunks), packed(chunks)))
        stored = Committed(seq + len(write.records), events + len(write.events))
        if not (run.durable or write.keep or stored == Committed(seq, events)):
            self._execute(SQL["advance_run"], (stored.seq, stored.events, run.n))
        return stored

    def _settle(self, place: tuple[str, str, str], claiming: str | None) -> str | None:
        for n, run_id, durable in self._execute(SQL["left_running"], place).fetchall():
            if run_id == claiming:
                continue
            if durable:
                return run_id
            self._set_status((n, run_id), ("interrupted", None, None), durable=False)
        return None

    def _speaker(self, fence: Fence, write: Write, n: int) -> RunRow:
        """The run, as far as it says which thread it may write to."""
        thread_id, resource = self._execute(SQL["thread_of_run"], (n,)).fetchone()
        return RunRow(run_id=write.run_id, agent_id="", scope=fence.scope, thread_id=thread_id, resource_id=resource)

    def _add_child(self, fence: Fence, write: Write, child: RunRow) -> None:
        if self._execute(SQL["holds"], (*place_of(fence.scope), fence.epoch)).fetchone() is None:
            raise stale(fence)
        known = self._execute(SQL["run"], (write.run_id,)).fetchone()
        found = self._execute(SQL["run"], (child.parent_id,)).fetchone()
        parent = None if found is None else run_of(found)
        check_child(write, fence.scope, parent, known=known is not None)
        self._start(as_child(child, parent), known=False)

    def _start(self, run: RunRow, *, known: bool) -> None:
        now = self._now
        if known:
            self._execute(SQL["wake_run"], (run.loop_version, now, run.run_id))
            return
        created = now if run.created_at is None else run.created_at
        who = (run.resource_id, run.thread_id, run.parent_id, run.parent_call_id, run.root_id or run.run_id)
        values = (run.run_id, FORMAT, run.agent_id, *place_of(run.scope), run.durable, *who, run.loop_version)
        self._execute(SQL["add_run"], (*values, created, now))

    def _set_status(
        self, run: tuple[int, str], outcome: tuple[RunStatus, str | None, bytes | None], *, durable: bool
    ) -> None:
        self._close(run, outcome)
        if outcome[0] in TERMINAL_STATUS and not durable:
            self._forget_oldest(run[0])

    def _close(self, run: tuple[int, str], outcome: tuple[RunStatus, str | None, bytes | None]) -> None:
        """Set the status of a run; an end is also that of what is open below it."""
        n, run_id = run
        self._execute(SQL["end_segment"], (*outcome, self._now, n))
        if outcome[0] not in TERMINAL_STATUS:
            return
        self._execute(SQL["drop_pending"], (n,))
        for child, child_id, _, status in self._execute(SQL["children_of"], (run_id,)).fetchall():
            if status not in TERMINAL_STATUS:
                self._close((child, child_id), ("interrupted", None, None))

    def _forget_oldest(self, ended: int) -> None:
        """Count a plain run that ended, unless it is a child; of too many, drop the oldest with those below it."""
        if self._execute(SQL["is_child"], (ended,)).fetchone() is not None:
            return
        name = "finished plain runs"
        self._execute(SQL["count"], (1, name))
        (finished,) = self._execute(SQL["counter"], (name,)).fetchone()
        for _ in range(finished - self._terms.keep_finished):
            for n, run_id in tree(self._connection, *self._execute(SQL["oldest_forgettable"]).fetchone()):
                drop_run(self._connection, n, run_id)
            self._execute(SQL["count"], (-1, name))
