"""The store in memory: fast, thread-safe, gone with the process.

Invariant: every call holds one lock for its whole transaction and checks before it changes anything, so it is atomic
and isolated. What is kept is a copy, and so is what is given out. Runs that are not durable keep their row only (the
last `keep_finished` of them), as in every store. Epochs come from one counter, so a lease nobody holds can be dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tenuto.core import codec
from tenuto.core.clock import Clock, SystemClock
from tenuto.core.events import Event
from tenuto.store.memory_calls import Gate, ThreadCalls
from tenuto.store.memory_threads import Threads
from tenuto.store.ports import (
    LEASE_SECONDS,
    TERMINAL_STATUS,
    AbortRequest,
    Committed,
    EffectRow,
    Fence,
    HeldBy,
    Inbox,
    Owner,
    PendingCall,
    Post,
    Posted,
    RunRow,
    RunStatus,
    Scope,
    ScoreRow,
    ThreadEdit,
    ThreadRow,
    Versioned,
    Write,
)
from tenuto.store.rules import (
    address,
    answered,
    answers,
    check_claimed,
    check_effect,
    check_open,
    check_order,
    copied,
    encoded,
    stale,
)
from tenuto.store.scopes import owns
from tenuto.store.thread_rules import as_child, check_child, check_owned
from tenuto.store.waiting import Waiters

if TYPE_CHECKING:
    from tenuto.core.payloads import ErrorInfo


class _Lease(Struct, frozen=True):
    """Who holds a scope (`held`), or for whom it is reserved."""

    owner: str
    epoch: int
    expires_at: float
    held: bool = True


class _Log(Struct):
    """What is stored of one run beside its row; the counts also run for what was forgotten."""

    seq: int = 0
    events: int = 0
    kept_records: list[bytes] = []
    kept_events: list[bytes] = []
    pending: dict[str, PendingCall] = {}


class InMemoryStore(ThreadCalls):
    """A `RunStore` for plain agents and tests.

    Args:
        clock: The store's time.
        lease_seconds: How long a claim holds without renewal.
        keep_finished: How many rows of finished runs that are not durable are kept.
    """

    def __init__(
        self, *, clock: Clock | None = None, lease_seconds: float = LEASE_SECONDS, keep_finished: int = 1_000
    ) -> None:
        self._clock = clock or SystemClock()
        self._lease_seconds = lease_seconds
        self._keep_finished = keep_finished
        self._gate = Gate()
        self._epoch = 0
        self._runs: dict[str, RunRow] = {}
        self._logs: dict[str, _Log] = {}
        self._leases: dict[Scope, _Lease] = {}
        self._running: dict[Scope, str] = {}
        self._open: dict[str, dict[str, str]] = {}  # by thread id, the owners of the runs on it that are not over
        self._forgettable: OrderedDict[str, None] = OrderedDict()
        self._posts: dict[Scope | str, dict[str, Post]] = {}
        self._effects: dict[str, EffectRow] = {}
        self._rows: dict[tuple[str, str], Versioned] = {}
        self._children: dict[str, list[str]] = {}
        self._forgotten: dict[str, int] = {}
        self._threads = Threads()
        self._waiters = Waiters()

    # -- the owner ---------------------------------------------------------------------------------------------

    async def claim(
        self, scope: Scope, owner: str, *, run: RunRow | None = None, expect: RunStatus | None = None
    ) -> Fence | HeldBy:
        """See `RunStore.claim`."""
        with self._gate:
            now = self._clock.now()
            lease = self._leases.get(scope)
            if lease is not None and lease.owner != owner and now < lease.expires_at:
                return HeldBy(scope, lease.owner, lease.epoch, lease.expires_at)
            self._check_takes(scope)
            check_claimed(scope, run, None if run is None else self._runs.get(run.run_id), expect)
            self._epoch += 1
            self._leases[scope] = _Lease(owner, self._epoch, now + self._lease_seconds)
            unfinished = self._settle(scope, None if run is None else run.run_id)
            if run is not None and unfinished is None:
                self._start(run, now)
            return Fence(scope, self._epoch, owner, unfinished)

    async def renew(self, fence: Fence) -> bool:
        """See `RunStore.renew`."""
        with self._gate:
            if not self._holds(fence):
                return False
            self._leases[fence.scope] = _Lease(fence.owner, fence.epoch, self._clock.now() + self._lease_seconds)
            return True

    async def release(self, fence: Fence, *, handover: str | None = None) -> None:
        """See `RunStore.release`."""
        with self._gate:
            if not self._holds(fence):
                return
            if handover is None:
                del self._leases[fence.scope]
            else:
                until = self._clock.now() + self._lease_seconds
                self._leases[fence.scope] = _Lease(handover, fence.epoch, until, held=False)
        self._waiters.tell(fence.scope)

    async def freed(self, scope: Scope, timeout: float | None = None, *, owner: str | None = None) -> bool:
        """See `RunStore.freed`."""
        return await self._waiters.wait(scope, timeout, lambda: self._is_free(scope, owner))

    async def commit(self, fence: Fence, write: Write) -> Committed:
        """See `RunStore.commit`."""
        with self._gate:
            if not self._holds(fence):
                raise stale(fence)
            row = self._writable(fence, write)
            log = self._logs.get(write.run_id) or _Log()
            check_order(write, durable=row.durable, seq=log.seq, events=log.events)
            self._check_effects(write)
            pending = [copied(call) for call in write.pending]
            effects = [copied(effect) for effect in write.effects]
            error = None if write.error is None else copied(write.error)
            said = self._threads.prepare(write, row)
            encoded_log = self._encoded_log(row, write)
            now = self._clock.now()
            if write.run is not None:
                self._start(row, now)
                row, log = self._runs[row.run_id], self._logs[row.run_id]
            row = self._log(row, log, write, encoded_log)
            log.pending.update((call.call_id, call) for call in pending)
            self._effects.update((effect.key, effect) for effect in effects)
            if said is not None:
                self._threads.put(*said, now)
            if write.status is not None:
                self._set_status(row, write.status, write.reason, error)
            return Committed(log.seq, log.events)

    async def edit(self, fence: Fence, edit: ThreadEdit) -> ThreadRow | None:
        """See `ThreadStore.edit`."""
        with self._gate:
            if not self._holds(fence):
                raise stale(fence)
            return self._threads.edit(fence, edit, self._clock.now())

    # -- anyone ------------------------------------------------------------------------------------------------

    async def post(self, item: Post | ScoreRow) -> Posted:
        """See `RunStore.post`."""
        with self._gate:
            if isinstance(item, ScoreRow):
                return Posted(self._threads.score(item, self._clock.now()))
            if isinstance(item, Inbox):
                self._check_owned(item.scope)
            target, key = address(item)
            copy = copied(item)
            queue = self._posts.get(target, {})
            if (known := queue.get(key)) is not None:
                place = list(queue).index(key)
                return Posted("duplicate" if known == copy else "conflict", place)
            if not self._decidable(item):
                return Posted("conflict")
            self._posts.setdefault(target, queue)[key] = copy
            return Posted("stored", len(queue) - 1)

    async def swap(self, row: Versioned | ThreadRow, expect: int) -> bool:
        """See `RunStore.swap`."""
        with self._gate:
            if isinstance(row, ThreadRow):
                self._check_takes(Scope("thread", row.id, row.resource))
                return self._threads.swap(row, expect, self._clock.now())
            known = self._rows.get((row.kind, row.key))
            if (0 if known is None else known.version) != expect:
                return False
            self._rows[row.kind, row.key] = replace(copied(row), version=expect + 1)
            return True

    # -- reads -------------------------------------------------------------------------------------------------

    async def run(self, run_id: str, *, resource: Owner) -> RunRow | None:
        """See `RunStore.run`."""
        with self._gate:
            row = self._runs.get(run_id)
            return _shown(row) if row is not None and owns(resource, row.resource_id) else None

    async def runs(self, *, resource: Owner, status: RunStatus | None = None, limit: int = 100) -> list[RunRow]:
        """See `RunStore.runs`."""
        with self._gate:
            found = (
                _shown(row)
                for row in reversed(self._runs.values())
                if owns(resource, row.resource_id) and status in (None, row.status)
            )
            return list(islice(found, max(limit, 0)))

    async def children(self, run_id: str, *, resource: Owner) -> list[RunRow]:
        """See `RunStore.children`."""
        with self._gate:
            rows = [self._runs[each] for each in self._children.get(run_id, ())]
            return [_shown(row) for row in rows if owns(resource, row.resource_id)]

    async def recoverable(self, limit: int = 100) -> list[RunRow]:
        """See `RunStore.recoverable`."""
        with self._gate:
            found = (_shown(row) for row in self._runs.values() if self._is_recoverable(row))
            return list(islice(found, max(limit, 0)))

    async def forget_events(self, run_id: str, *, resource: Owner) -> bool:
        """See `RunStore.forget_events`."""
        with self._gate:
            row = self._runs.get(run_id)
            if row is None or not owns(resource, row.resource_id) or row.status == "running" or not row.durable:
                return False
            if row.parent_id is not None:
                return False
            for each in self._tree(run_id):
                if (log := self._logs.get(each)) is not None:
                    log.kept_events[:] = log.kept_events[-1:]
                    first = log.events - len(log.kept_events)
                    self._runs[each] = replace(self._runs[each], first_event=first)
            return True

    async def records(self, run_id: str, *, resource: Owner) -> list[bytes]:
        """See `RunStore.records`."""
        with self._gate:
            return list(self._owned_log(run_id, resource).kept_records)

    async def events(self, run_id: str, *, resource: Owner, start: int = 0, limit: int | None = None) -> list[Event]:
        """See `RunStore.events`."""
        with self._gate:
            log = self._owned_log(run_id, resource)
            before = log.events - len(log.kept_events)
            first = max(start, before)
            asked = log.kept_events[first - before : None if limit is None else first - before + max(limit, 0)]
        return [Event(index, codec.decode_chunk(raw)) for index, raw in enumerate(asked, first)]

    async def event_count(self, run_id: str, *, resource: Owner) -> int:
        """See `RunStore.event_count`."""
        with self._gate:
            return self._owned_log(run_id, resource).events

    async def pending(self, run_id: str, *, resource: Owner) -> list[PendingCall]:
        """See `RunStore.pending`."""
        with self._gate:
            return [copied(call) for call in self._owned_log(run_id, resource).pending.values() if not call.closed]

    async def effect(self, key: str) -> EffectRow | None:
        """See `RunStore.effect`."""
        with self._gate:
            known = self._effects.get(key)
            return None if known is None else copied(known)

    async def posts(self, target: Scope | str, *, start: int = 0) -> list[Post]:
        """See `RunStore.posts`."""
        with self._gate:
            return [copied(item) for item in islice(self._posts.get(target, {}).values(), max(start, 0), None)]

    async def versioned(self, kind: str, key: str) -> Versioned | None:
        """See `RunStore.versioned`."""
        with self._gate:
            known = self._rows.get((kind, key))
            return None if known is None else copied(known)

    async def aclose(self) -> None:
        """See `RunStore.aclose`."""
        self._gate.closed = True
        self._waiters.tell_all()

    # -- parts of a transaction, all under the lock --------------------------------------------------------------

    def _holds(self, fence: Fence) -> bool:
        lease = self._leases.get(fence.scope)
        return lease is not None and lease.held and lease.epoch == fence.epoch

    def _is_free(self, scope: Scope, owner: str | None) -> bool:
        with self._gate:
            lease = self._leases.get(scope)
            if lease is None or lease.expires_at <= self._clock.now():
                return True
            return not lease.held and lease.owner == owner

    def _check_owned(self, scope: Scope) -> None:
        if scope.kind == "thread":
            check_owned(scope.id, scope.resource, self._threads.owner_of(scope.id))

    def _check_takes(self, scope: Scope) -> None:
        """Also a run that is not over may make its thread."""
        self._check_owned(scope)
        for owner in self._open.get(scope.id, {}).values() if scope.kind == "thread" else ():
            check_owned(scope.id, scope.resource, owner)

    def _writable(self, fence: Fence, write: Write) -> RunRow:
        """The row that is written to, as it is or to be added."""
        row = self._runs.get(write.run_id)
        if write.run is not None:
            parent = self._runs.get(write.run.parent_id or "")
            check_child(write, fence.scope, parent, known=row is not None)
            row = replace(as_child(write.run, parent), status="running")
        parent = None if row is None else self._runs.get(row.parent_id or "")
        check_open(
            fence,
            write,
            None if row is None else row.scope,
            None if row is None else row.status,
            None if parent is None else parent.status,
        )
        assert row is not None  # noqa: S101 - check_open refuses an unknown run
        return row

    def _is_recoverable(self, row: RunRow) -> bool:
        if not row.durable or row.parent_id is not None or not (row.status == "running" or self._is_answered(row)):
            return False
        lease = self._leases.get(row.scope)
        return lease is None or lease.expires_at <= self._clock.now()

    def _is_answered(self, row: RunRow) -> bool:
        posts = self._posts.get(row.run_id, {}).values()
        return row.status == "suspended" and answered(posts, self._logs[row.run_id].pending.values())

    def _settle(self, scope: Scope, claiming: str | None) -> str | None:
        left = self._running.get(scope)
        if left is None or left == claiming:
            return None
        row = self._runs[left]
        if row.durable:
            return left
        self._set_status(row, "interrupted", None, None)
        return None

    def _tree(self, run_id: str) -> list[str]:
        found = [run_id]
        for each in found:
            found += self._children.get(each, ())
        return found

    def _start(self, run: RunRow, now: float) -> None:
        known = self._runs.get(run.run_id)
        if known is None:
            row = _shown(replace(run, root_id=run.root_id or run.run_id, first_event=0))
            row = replace(row, created_at=now if run.created_at is None else run.created_at)
            self._logs[run.run_id] = _Log()
        else:
            row = replace(known, loop_version=run.loop_version)
        self._runs[run.run_id] = replace(row, status="running", reason=None, error=None, updated_at=now)
        if run.parent_id is None:
            self._running[run.scope] = run.run_id
            if run.scope.kind == "thread":
                self._open.setdefault(run.scope.id, {})[run.run_id] = run.scope.resource
        else:
            self._children.setdefault(run.parent_id, []).append(run.run_id)

    def _check_effects(self, write: Write) -> None:
        for effect in write.effects:
            known = self._effects.get(effect.key)
            if known is not None:
                check_effect(effect, known.status, known.run_id, known.call_id)

    def _encoded_log(self, row: RunRow, write: Write) -> tuple[list[bytes], list[bytes]]:
        if not (row.durable or write.keep):
            return [], []
        return [encoded(record) for record in write.records], [encoded(event.chunk) for event in write.events]

    def _log(self, row: RunRow, log: _Log, write: Write, encoded_log: tuple[list[bytes], list[bytes]]) -> RunRow:
        keeps = write.keep and not row.durable
        log.kept_records.extend(encoded_log[0])
        log.kept_events.extend(encoded_log[1])
        if keeps:
            log.seq = 0
            log.events = write.events[0].index if write.events else log.events
            row = self._runs[row.run_id] = replace(row, durable=True, first_event=log.events)
        log.seq += len(write.records)
        log.events += len(write.events)
        return row

    def _set_status(self, row: RunRow, status: RunStatus, reason: str | None, error: ErrorInfo | None) -> None:
        now = self._clock.now()
        self._runs[row.run_id] = replace(row, status=status, reason=reason, error=error, updated_at=now)
        if row.parent_id is None:
            self._note_running(row, status)
        if status not in TERMINAL_STATUS:
            return
        for child in self._children.get(row.run_id, ()):
            if (known := self._runs[child]).status not in TERMINAL_STATUS:
                self._set_status(known, "interrupted", None, None)
        self._logs[row.run_id].pending.clear()
        if not row.durable:
            self._forget(row)

    def _note_running(self, row: RunRow, status: RunStatus) -> None:
        if status == "running":
            self._running[row.scope] = row.run_id
        elif self._running.get(row.scope) == row.run_id:
            del self._running[row.scope]
        if status in TERMINAL_STATUS and (runs := self._open.get(row.scope.id)) is not None:
            runs.pop(row.run_id, None)
            if not runs:
                del self._open[row.scope.id]

    def _forget(self, row: RunRow) -> None:
        """Forget the log of a plain run; of the oldest ones the rows too, with those of their children."""
        self._forgotten[row.run_id] = self._logs.pop(row.run_id).events
        if row.parent_id is not None:
            return
        self._forgettable[row.run_id] = None
        while len(self._forgettable) > self._keep_finished:
            oldest, _ = self._forgettable.popitem(last=False)
            for each in self._tree(oldest):
                del self._runs[each]
                self._logs.pop(each, None)
                self._forgotten.pop(each, None)
                self._children.pop(each, None)
                self._posts.pop(each, None)

    def _owned_log(self, run_id: str, resource: Owner) -> _Log:
        row = self._runs.get(run_id)
        log = self._logs.get(run_id)
        if row is None or not owns(resource, row.resource_id):
            return _Log()
        return _Log(events=self._forgotten.get(run_id, 0)) if log is None else log

    def _decidable(self, item: Post) -> bool:
        if isinstance(item, Inbox):
            return True
        row = self._runs.get(item.run_id)
        if row is None or row.status in TERMINAL_STATUS:
            return False
        if isinstance(item, AbortRequest):
            return True
        return answers(item, self._logs[item.run_id].pending.get(item.call_id))


def _shown(row: RunRow) -> RunRow:
    return row if row.error is None else replace(row, error=copied(row.error))
