"""The `RunStore` port: four kinds of write, fenced reads of a run's log, and nothing else touches a table.

Invariant: an owner's write carries its fence, and the epoch of the fence's scope is checked in the transaction of the
write; a stale fence writes nothing. Anyone else may only `post` (unique key, the same item twice = the same answer)
or `swap` (compare-and-set on a version). Time is the store's own. What is given is copied as JSON: changing it later
changes nothing stored, a tuple comes back as a list, and what JSON cannot hold is refused (`STORE_NOT_JSON`).

Every call that reads something of somebody's takes the owner and finds nothing of another's; `recoverable`, `freed`,
`effect`, `posts` and `versioned` are the runtime's own and must not be reached with a key that a caller chose.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal, Protocol

from msgspec import Struct

from tenuto.core.events import Event
from tenuto.core.payloads import ErrorInfo, Json
from tenuto.messages.stored import Message
from tenuto.store.scopes import ANYONE, Fence, HeldBy, Owner, Scope
from tenuto.store.scores import ScoreRow, ScoreStore
from tenuto.store.threads import CopyOf, ThreadEdit, ThreadMessage, ThreadPage, ThreadRow, ThreadStore
from tenuto.store.vectors import VectorRow, VectorStore

__all__ = [
    "ANYONE",
    "LEASE_SECONDS",
    "TERMINAL_STATUS",
    "AbortRequest",
    "Committed",
    "CopyOf",
    "Decide",
    "EffectRow",
    "Fence",
    "HeldBy",
    "Inbox",
    "Owner",
    "PendingCall",
    "Post",
    "Posted",
    "RunRow",
    "RunStatus",
    "RunStore",
    "Scope",
    "ScoreRow",
    "ThreadEdit",
    "ThreadMessage",
    "ThreadPage",
    "ThreadRow",
    "VectorRow",
    "Versioned",
    "Write",
]

RunStatus = Literal["running", "suspended", "success", "failed", "canceled", "interrupted"]
TERMINAL_STATUS: frozenset[RunStatus] = frozenset({"success", "failed", "canceled", "interrupted"})

LEASE_SECONDS = 15.0
"""How long a claim holds without renewal; from that second on others may claim."""


class RunRow(Struct, frozen=True, kw_only=True):
    """One run. Times in seconds since the epoch: `created_at` set by the store when None, `updated_at` always.

    Attributes:
        scope: Where it writes; one fence of this scope is needed for each of its commits.
        durable: Its journal and events are kept; those of other runs are forgotten at commit, and the row some time
            after its end.
        parent_id: The run whose call `parent_call_id` started it. Such a child writes in the scope of its root, under
            the root's fence, and ends when its parent ends, at the latest (`interrupted`). It belongs to the resource
            of its parent, unless it names one.
        root_id: The run at the top of its tree; its own id when it has no parent. Set by the store.
        loop_version: Rules that drove it; an older process leaves it alone.
        first_event: Index of the first event that is kept, set by the store: those before it were streamed before
            the run was durable, or retention dropped them.
    """

    run_id: str
    agent_id: str
    scope: Scope
    status: RunStatus = "running"
    durable: bool = False
    resource_id: str | None = None
    thread_id: str | None = None
    parent_id: str | None = None
    parent_call_id: str | None = None
    root_id: str | None = None
    loop_version: int = 1
    first_event: int = 0
    reason: str | None = None
    error: ErrorInfo | None = None
    created_at: float | None = None
    updated_at: float | None = None


class PendingCall(Struct, frozen=True, kw_only=True):
    """A call that waits for a decision; `closed` when it was answered. The end of its run closes it too.

    Attributes:
        args_hash: Of tool and arguments: what a decision is bound to.
        attempt: How often the body had been entered when it began to wait: what tells an approval from the
            suspension after it, and one suspension from the next.
    """

    run_id: str
    call_id: str
    tool_name: str
    kind: Literal["approval", "suspension"]
    args: Json
    args_hash: str
    suspend_payload: Json = None
    resume_schema: Json = None
    closed: bool = False
    attempt: int = 0


class EffectRow(Struct, frozen=True, kw_only=True):
    """The ledger entry of one effect; the unique key is `(key)`, whatever run it comes from.

    An `intended` entry never replaces another call's that is `intended` or `ok`.

    Attributes:
        late: The body ended after this outcome had been stored.
    """

    key: str
    run_id: str
    call_id: str
    tool_name: str
    status: Literal["intended", "ok", "failed", "unknown"]
    attempt: int
    result: Json = None
    late: bool = False


class Write(Struct, frozen=True, kw_only=True):
    """One transaction of an owner; everything in it is stored, or nothing.

    Attributes:
        run_id: The run it belongs to, as do its pending calls and effects.
        records: Journal records to append: any structs `core.codec` can encode; `first_seq` is the place of the first.
        events: Events to append; their indexes go on from what is stored.
        pending: Replaces the entries of the same call ids.
        effects: Replaces the entries of the same keys.
        status: New status of the run, with its `reason` and `error`; None leaves all three. A run that is suspended
            goes back to `running` by a claim only; a child by a write, while its parent runs.
        keep: From this write on the run is durable. If it was not, the records must be all that the run has; the
            events may begin at any index that is not stored yet, and those before are not kept
            (`RunRow.first_event`).
        run: A child to add, as `running`, whose first write this is; its parent is open, in the fence's scope.
        thread: The thread of the run; made if it does not exist. Of one that exists nothing is changed.
        messages: For the thread of the run's row: each replaces the one of its id, or comes last.
    """

    run_id: str
    run: RunRow | None = None
    thread: ThreadRow | None = None
    messages: tuple[Message, ...] = ()
    records: tuple[Struct, ...] = ()
    first_seq: int = 0
    events: tuple[Event, ...] = ()
    pending: tuple[PendingCall, ...] = ()
    effects: tuple[EffectRow, ...] = ()
    status: RunStatus | None = None
    reason: str | None = None
    error: ErrorInfo | None = None
    keep: bool = False


class Committed(Struct, frozen=True):
    """What is stored now: the number of records and events of the run."""

    seq: int
    events: int


class Inbox(Struct, frozen=True, kw_only=True):
    """Something for the owner of a thread; unique by `(scope, id)`."""

    scope: Scope
    id: str
    body: Json


class Decide(Struct, frozen=True, kw_only=True):
    """A decision on a pending call; unique by `(run_id, call_id, attempt)`, bound to the hash of what was asked.

    Attributes:
        args_hash: That of the pending call.
        attempt: That of the pending call.
        args: Arguments edited at the approval; None leaves what was asked.
    """

    run_id: str
    call_id: str
    args_hash: str
    approved: bool
    reason: str | None = None
    resume_data: Json = None
    args: Json = None
    attempt: int = 0


class AbortRequest(Struct, frozen=True, kw_only=True):
    """Stop a run, wherever it is driven; unique by `run_id`."""

    run_id: str
    reason: str | None = None


Post = Inbox | Decide | AbortRequest


class Posted(Struct, frozen=True):
    """The answer to a post.

    Attributes:
        outcome: `stored`; `duplicate` (the same item, as JSON, was stored before, whatever happened since); `conflict`
            (another item has the key, or there is nothing to decide: no such run, it is over, no such call, it is
            closed, asked with other arguments or in another attempt). A conflict stores nothing.
        seq: Place in the scope's or run's queue, from 0; of the item that has the key, if one has.
    """

    outcome: Literal["stored", "duplicate", "conflict"]
    seq: int = 0


class Versioned(Struct, frozen=True):
    """A row that anyone may replace, whole, when nobody was faster."""

    kind: str
    key: str
    value: Json
    version: int = 0


class RunStore(ThreadStore, VectorStore, ScoreStore, Protocol):
    """Keeps runs, and the threads, vectors and scores that come of them. Thread-safe and bound to no event loop.

    A call that is cancelled was carried out whole or not at all, and nobody knows which. Every call may raise
    `StoreError`; after `aclose` every call does (`STORE_CLOSED`).
    """

    async def claim(
        self, scope: Scope, owner: str, *, run: RunRow | None = None, expect: RunStatus | None = None
    ) -> Fence | HeldBy:
        """Take the scope: bump its epoch, and in the same transaction settle its past and add `run`.

        A `running` run left in the scope is marked `interrupted`, unless it is durable: then the fence names it as
        `unfinished` and `run` is not added. Recover it: claim again with its row and `expect="running"`, which
        settles nothing. Either way its children share its fate: interrupted with it, or left for its steps to recover.
        Epochs of a scope only grow, over releases, expiry and restarts of the store.

        Args:
            scope: What to take.
            owner: Who asks. It names one driver, not a process: the same owner may claim again at once, and then its
                earlier fence is stale and the run it left running is settled like anyone's.
            run: A row of this scope to add, always as `running`; or (with `expect`) one that exists and goes back to
                `running`, without reason and error: of the row given, only `loop_version` is taken over.
            expect: The status the existing row of `run` must have; a run that is over never runs again.

        Returns:
            The fence; or who holds the scope (or has it reserved), and then nothing was changed.

        Raises:
            StoreError: `RUN_EXISTS`; `RUN_STATUS_CHANGED` (another status, unknown, of another scope or resource);
                `RUN_NOT_IN_SCOPE` (also a child); `THREAD_RESOURCE_MISMATCH` (the thread is another
                resource's, or a run of another's that is not over may make it).
                Nothing was taken.
        """
        ...

    async def renew(self, fence: Fence) -> bool:
        """Prolong the lease from now on, also one that has expired unnoticed; False when the fence is stale."""
        ...

    async def release(self, fence: Fence, *, handover: str | None = None) -> None:
        """Give the scope back; the fence is stale from now on. A stale fence changes nothing.

        Args:
            fence: What to give back.
            handover: The only owner who may claim for the time of one lease; None: anyone may at once.
        """
        ...

    async def freed(self, scope: Scope, timeout: float | None = None, *, owner: str | None = None) -> bool:
        """Wait until `scope` may have become free: claim again then, somebody else may be faster.

        At once when it is free already: nobody holds it, the lease has expired, or its holder's process is known to be
        gone. A lease that expires while somebody waits wakes nobody: wait no longer than to `HeldBy.expires_at`.

        Args:
            scope: What is waited for.
            timeout: Seconds; None: for ever.
            owner: Who would claim; a scope reserved for it is free to it.

        Returns:
            False when `timeout` passed.
        """
        ...

    def commit(self, fence: Fence, write: Write) -> Awaitable[Committed]:
        """Store all of `write`.

        A `Settling` is better than a coroutine: a driver awaits it as it is, and the other in a task of its own.

        Raises:
            StaleLease: The fence was released, or somebody claimed the scope since. Nothing was stored.
            StoreError: `STORE_OUT_OF_ORDER` (records or events do not go on from what is stored, or `keep` comes
                without all the records), `RUN_NOT_OPEN` (the run is over or unknown), `RUN_NOT_IN_SCOPE` (it writes
                elsewhere), `RUN_STATUS_CHANGED` (it would go from suspended to running), `WRITE_MIXES_RUNS` (also
                another thread than the run's), `RUN_EXISTS` (the child to add), `EFFECT_TAKEN`,
                `THREAD_RESOURCE_MISMATCH`, `THREAD_NOT_IN_SCOPE`, `THREAD_NOT_FOUND` (messages without a thread),
                `STORE_NOT_JSON` (also a record or event of a durable run). Nothing was stored.
        """
        ...

    async def post(self, item: Post | ScoreRow) -> Posted:
        """Store an item from anyone; the same item twice has the same effect as once.

        An `Inbox` item needs no run and no claim; a `Decide` an open pending call; an `AbortRequest` a run that is not
        over; a `ScoreRow` nothing.

        Raises:
            StoreError: `THREAD_RESOURCE_MISMATCH` (an inbox of another resource's thread), `STORE_NOT_JSON`.
        """
        ...

    async def swap(self, row: Versioned | ThreadRow, expect: int) -> bool:
        """Replace the row if its version is still `expect` (0: it does not exist); stored as version `expect + 1`.

        The version inside `row` is not read. Of a thread, title and metadata are replaced; made anew, it is empty.

        Raises:
            StoreError: `THREAD_RESOURCE_MISMATCH`, `STORE_NOT_JSON`.
        """
        ...

    async def run(self, run_id: str, *, resource: Owner) -> RunRow | None:
        """The run, if it exists and belongs to `resource` (None: only runs without an owner)."""
        ...

    async def runs(self, *, resource: Owner, status: RunStatus | None = None, limit: int = 100) -> list[RunRow]:
        """Runs of `resource` (None: only runs without an owner), the one added last first; at most `limit`."""
        ...

    async def children(self, run_id: str, *, resource: Owner) -> list[RunRow]:
        """The runs that calls of this run have started, the one added first first; `resource` is theirs."""
        ...

    async def recoverable(self, limit: int = 100) -> list[RunRow]:
        """Durable runs that nobody drives though they could go on, the one added first first.

        They are `running`, or `suspended` with an answer that no driver has taken (an abort, or a decision on a call
        that is pending), in a scope that anyone may claim now.

        For the sweep of the process that owns the store, and nobody else: it looks at the runs of every resource.
        Child runs are not among them: their parent's step recovers them.
        """
        ...

    async def forget_events(self, run_id: str, *, resource: Owner) -> bool:
        """Drop the kept events of a durable run and its children, but for each last one; all else of them stays.

        Returns:
            False for a run that is running, unknown, not durable or a child: nothing was dropped.
        """
        ...

    async def records(self, run_id: str, *, resource: Owner) -> list[bytes]:
        """The journal of a durable run, encoded, in order; of other runs nothing."""
        ...

    async def events(self, run_id: str, *, resource: Owner, start: int = 0, limit: int | None = None) -> list[Event]:
        """At most `limit` kept events of a durable run from index `start` on; of other runs nothing.

        The first one has a higher index than `start` when those before it are not kept (`RunRow.first_event`).
        """
        ...

    async def event_count(self, run_id: str, *, resource: Owner) -> int:
        """How many events the run has had: the index of its next one; 0 for an unknown run."""
        ...

    async def pending(self, run_id: str, *, resource: Owner) -> list[PendingCall]:
        """The run's calls that wait for a decision, in the order they were first stored; none once the run is over."""
        ...

    async def effect(self, key: str) -> EffectRow | None:
        """The ledger entry of an effect."""
        ...

    async def posts(self, target: Scope | str, *, start: int = 0) -> list[Post]:
        """What was posted to a thread's scope (inbox) or to a run id (decisions, aborts), in order, from `start` on.

        The place of an item is `Posted.seq`; who polls from where it stopped pays for what is new only.
        """
        ...

    async def versioned(self, kind: str, key: str) -> Versioned | None:
        """The current row."""
        ...

    async def aclose(self) -> None:
        """Flush and let go of everything; further calls raise `StoreError`, but for this one, which does nothing."""
        ...
