"""The log of one run as its driver writes it: order, flushing, and publish after commit.

Invariant: an index is given to every chunk in the order of the stream; a chunk that is not a delta is shown only
after the commit that holds it; what is stored is always a prefix of what has an index. One commit is under way at a
time, and a cancelled caller waits for its commit, so that nothing is stored without being known here.

A plain run has a journal that forgets: until a call of it waits for a decision, its records stay in this process and
its events go to its viewers only. The commit that announces the first pending call stores all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from tenuto.core import faults
from tenuto.core.chunks import DELTAS, AnyChunk, Data, ToolOutput
from tenuto.core.events import Event
from tenuto.core.payloads import ErrorInfo
from tenuto.machine.decisions import apply
from tenuto.machine.records import AnyRecord, Prepared
from tenuto.machine.state import RunState
from tenuto.messages.stored import Message
from tenuto.runs.nested import is_nested_delta
from tenuto.steps.fold import absorb
from tenuto.steps.run import Run
from tenuto.store.ports import Committed, EffectRow, Fence, PendingCall, RunRow, RunStatus, RunStore, ThreadRow, Write
from tenuto.store.settling import Settling

FLUSH_SECONDS = 0.02
"""A delta is stored at most this long after it was shown."""

FLUSH_EVENTS = 64
"""So many deltas wait for a flush at most."""

Viewer = Callable[[Sequence[AnyChunk]], Awaitable[None] | None]


class Position(Struct, frozen=True):
    """Where a journal goes on: the state, how many records and events are stored, and whether the run is kept."""

    state: RunState = RunState()
    records: int = 0
    events: int = 0
    kept: bool = False


class Journal:
    """Implements `steps.ports.RunLog` on a `RunStore`.

    Args:
        run: The run; each record is taken into its data as it is given.
        store: Where it is kept.
        fence: The right to write to it.
        show: Gets every chunk, in order, once it may be seen.
        position: Where to go on.
        stored: Called after each commit of a kept run with the index of its last event.
        row: Of a child run that is not in the store: it gets there with the first write.
        parent: Of a child run: the log of its parent, whose row has to be there before.
    """

    def __init__(
        self,
        run: Run,
        store: RunStore,
        fence: Fence,
        show: Viewer,
        *,
        position: Position | None = None,
        stored: Callable[[int], None] | None = None,
        row: RunRow | None = None,
        parent: Journal | None = None,
    ) -> None:
        at = position or Position()
        self.fence: Fence = fence
        self._run = run
        self._store = store
        self._clock = run.clock
        self._show = show
        self._stored = stored
        self._row = row
        self._parent = parent
        self._lock = asyncio.Lock()
        self._state = at.state
        self._kept = at.kept
        self._records: list[AnyRecord] = []
        self._stored_records = at.records
        self._events: list[Event] = []
        self._messages: dict[str, Message] = {}
        self._thread: ThreadRow | None = None
        self._hidden: list[AnyChunk] = []  # not shown yet; longer than one commit only after one that failed
        self._next_index = at.events
        self._flushed_at = run.clock.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._late_flush: asyncio.Task[None] | None = None
        self._late: set[asyncio.Task[None]] = set()

    @property
    def state(self) -> RunState:
        """See `RunLog.state`."""
        return self._state

    @property
    def next_event(self) -> int:
        """See `RunLog.next_event`."""
        return self._next_index

    @property
    def kept(self) -> bool:
        """Whether the run can be taken up by another process."""
        return self._kept

    @property
    def stored(self) -> bool:
        """Whether every record given so far is stored, or need not be."""
        return not self._records or not self._kept

    def note(self, record: AnyRecord, *, chunks: Sequence[AnyChunk] = ()) -> None:
        """See `RunLog.note`; `chunks` are stored and shown with the next commit, before its own."""
        self._state = apply(self._state, record)
        absorb(self._run, record)
        self._records.append(record)
        if self._run.memory is not None:
            self._remember(record)
        if chunks:
            self._index(chunks, keep=self._kept)
            self._hidden.extend(chunks)

    def _remember(self, record: AnyRecord) -> None:
        """What the run's thread gets in the transaction of `record`."""
        from tenuto.steps.remember import due

        memory, messages = self._run.memory, due(self._run, record)
        if memory is not None and memory.writes and (messages or isinstance(record, Prepared)):
            self._thread = memory.row
        for message in messages:
            self._messages[message.id] = message

    async def commit(
        self,
        *records: AnyRecord,
        chunks: Sequence[AnyChunk] = (),
        status: RunStatus | None = None,
        error: ErrorInfo | None = None,
        pending: Sequence[PendingCall] = (),
        effects: Sequence[EffectRow] = (),
    ) -> None:
        """See `RunLog.commit`."""
        veil = self._run.veil
        if veil is not None and chunks:
            chunks = await veil.cover(chunks)
        await self._commit(*records, chunks=chunks, status=status, error=error, pending=pending, effects=effects)
        if veil is not None:
            veil.raise_interrupted()

    async def _commit(
        self,
        *records: AnyRecord,
        chunks: Sequence[AnyChunk] = (),
        status: RunStatus | None = None,
        error: ErrorInfo | None = None,
        pending: Sequence[PendingCall] = (),
        effects: Sequence[EffectRow] = (),
    ) -> None:
        if not (self._kept or pending or effects or status or self._lock.locked() or self._run.memory is not None):
            shown = self._pass_on(records, chunks)
            if shown is not None:
                async with self._lock:
                    await shown
            return
        async with self._lock:
            for record in records:
                self.note(record)
            self._index(chunks, keep=self._kept or bool(pending))
            self._hidden.extend(chunks)
            interrupted = await self._flush(status, error, tuple(pending), tuple(effects))
            stored, self._hidden = self._hidden, []
            if stored and (shown := self._show(stored)) is not None:
                await shown
            if interrupted is not None:
                raise interrupted

    async def exist(self) -> None:
        """See that the run is in the store; a plain child run may never have to be."""
        async with self._lock:
            if self._row is not None:
                if self._parent is not None:
                    await self._parent.exist()
                await self._store.commit(self.fence, Write(run_id=self._run.run_id, run=self._row))
                self._row = None

    async def effect(self, key: str) -> EffectRow | None:
        """See `RunLog.effect`."""
        return await self._store.effect(key)

    def late(self, effect: EffectRow) -> None:
        """See `RunLog.late`."""
        task = asyncio.get_running_loop().create_task(self.commit(effects=[effect]), name="tenuto late effect")
        self._late.add(task)
        task.add_done_callback(self._late_done)

    async def stream(self, chunks: Sequence[AnyChunk], *, deltas: int) -> None:
        """See `RunLog.stream`."""
        veil = self._run.veil
        if veil is not None:
            chunks = await veil.cover(chunks)
            deltas = sum(map(_is_delta, chunks))
        if deltas == len(chunks) and not self._hidden:
            await self._stream_deltas(chunks)
        elif deltas == len(chunks):
            await self._commit(chunks=chunks)  # what came before is not shown yet
        else:
            leading = _leading_deltas(chunks)
            if leading:
                await self._stream_deltas(chunks[:leading])
            await self._commit(chunks=chunks[leading:])
        if veil is not None:
            veil.raise_interrupted()

    async def relay(self, chunks: Sequence[AnyChunk]) -> None:
        """Show what a child run has shown, as it comes."""
        await self.stream(chunks, deltas=sum(map(_is_delta, chunks)))

    async def aclose(self) -> None:
        """Stop the flush timer and wait for a flush under way."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._late_flush is not None:
            await asyncio.gather(self._late_flush, return_exceptions=True)
        if self._late:
            await asyncio.gather(*self._late, return_exceptions=True)

    async def _stream_deltas(self, chunks: Sequence[AnyChunk]) -> None:
        self._index(chunks, keep=self._kept)
        shown = self._show(chunks)
        if shown is not None:
            await shown
        if not self._kept:
            return
        waited = self._clock.monotonic() - self._flushed_at
        if len(self._events) >= FLUSH_EVENTS or waited >= FLUSH_SECONDS:
            await self.commit()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS - waited, self._flush_later)

    def _index(self, chunks: Sequence[AnyChunk], *, keep: bool) -> None:
        index = self._next_index
        self._next_index = index + len(chunks)
        if keep:
            self._events.extend([Event(place, chunk) for place, chunk in enumerate(chunks, index)])

    def _pass_on(self, records: Sequence[AnyRecord], chunks: Sequence[AnyChunk]) -> Awaitable[None] | None:
        """A commit with nothing to store, which is most of those of a run that is not kept."""
        for record in records:
            self.note(record)
        self._next_index += len(chunks)
        shown, self._hidden = [*self._hidden, *chunks], []
        return self._show(shown) if shown else None

    async def _flush(
        self,
        status: RunStatus | None,
        error: ErrorInfo | None,
        pending: tuple[PendingCall, ...],
        effects: tuple[EffectRow, ...],
    ) -> asyncio.CancelledError | None:
        """Store what waits; returns the cancellation that arrived meanwhile."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        keeping = self._kept or bool(pending)
        records = tuple(self._records) if keeping else ()
        events = tuple(self._events)
        thread, messages = self._thread, tuple(self._messages.values())
        ends = status is not None and (keeping or self._row is None)  # of a run that nobody stored, nothing ends
        if not (records or events or pending or effects or ends or thread or messages):
            return None
        write = Write(
            run_id=self._run.run_id,
            run=self._row,
            records=records,
            first_seq=self._stored_records,
            events=events,
            pending=pending,
            effects=effects,
            status=status,
            reason=self._state.reason if status is not None else None,
            error=error,
            keep=keeping and not self._kept,
            thread=thread,
            messages=messages,
        )
        if self._row is not None and self._parent is not None:
            await self._parent.exist()
        if messages:
            faults.hit("thread.save.before")
        faults.hit("journal.commit.before")
        interrupted = await self._store_write(write)
        faults.hit("journal.commit.after")
        if messages:
            faults.hit("thread.save.after")
        self._forget_saved(thread, messages)
        self._row = None
        self._stored_records += len(records)
        del self._records[: len(records)]
        del self._events[: len(events)]
        self._kept = keeping
        self._flushed_at = self._clock.monotonic()
        if self._stored is not None and self._kept:
            self._stored(self._next_index - 1)
        return interrupted

    def _forget_saved(self, thread: ThreadRow | None, messages: Sequence[Message]) -> None:
        if self._thread is thread:
            self._thread = None
        for message in messages:
            if self._messages.get(message.id) is message:
                del self._messages[message.id]
        if messages and self._run.memory is not None:
            self._run.memory.saved(messages)

    async def _store_write(self, write: Write) -> asyncio.CancelledError | None:
        storing = self._store.commit(self.fence, write)
        if not (self._kept or write.keep or write.thread or write.messages):
            await storing
            return None
        if not isinstance(storing, Settling):
            return await _joined(asyncio.ensure_future(storing))
        try:
            await storing
        except asyncio.CancelledError as interrupted:
            storing.outcome()
            return interrupted
        return None

    def _late_done(self, task: asyncio.Task[None]) -> None:
        self._late.discard(task)
        _seen(task)

    def _flush_later(self) -> None:
        self._timer = None
        self._late_flush = asyncio.get_running_loop().create_task(
            self.commit(), name=f"tenuto flush {self._run.run_id}"
        )
        self._late_flush.add_done_callback(_seen)


async def _joined(task: asyncio.Future[Committed]) -> asyncio.CancelledError | None:
    """Wait for `task` through any cancellation; returns the last one, or raises what `task` does."""
    interrupted: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as cancelled:
            interrupted = cancelled
    task.result()
    return interrupted


def _is_delta(chunk: AnyChunk) -> bool:
    if type(chunk) is ToolOutput:
        return is_nested_delta(chunk)
    return type(chunk) in DELTAS or (isinstance(chunk, Data) and bool(chunk.transient))


def _leading_deltas(chunks: Sequence[AnyChunk]) -> int:
    for place, chunk in enumerate(chunks):
        if not _is_delta(chunk):
            return place
    return len(chunks)


def _seen(task: asyncio.Task[None]) -> None:
    """Take note of the outcome: the driver's own next commit meets the same error and reports it."""
    if not task.cancelled():
        task.exception()
