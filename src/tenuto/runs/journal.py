"""The log of one run as its driver writes it: order, flushing, and publish after commit.

Invariant: an index is given to every chunk in the order of the stream; a chunk that is not a delta is shown only
after the commit that holds it; what is stored is always a prefix of what has an index. One commit is under way at a
time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tenuto.core import faults
from tenuto.core.chunks import DELTAS, AnyChunk
from tenuto.core.events import Event
from tenuto.core.payloads import ErrorInfo
from tenuto.machine.decisions import apply
from tenuto.machine.records import AnyRecord
from tenuto.machine.state import RunState
from tenuto.steps.fold import absorb
from tenuto.steps.run import Run
from tenuto.store.ports import Fence, RunStatus, RunStore, Write

FLUSH_SECONDS = 0.02
"""A delta is stored at most this long after it was shown."""

FLUSH_EVENTS = 64
"""So many deltas wait for a flush at most."""

Viewer = Callable[[Sequence[AnyChunk]], Awaitable[None] | None]


class Journal:
    """Implements `steps.ports.RunLog` on a `RunStore`.

    Args:
        run: The run; each record is taken into its data as it is given.
        store: Where it is kept.
        fence: The right to write to it.
        show: Gets every chunk, in order, once it may be seen.
    """

    def __init__(self, run: Run, store: RunStore, fence: Fence, show: Viewer) -> None:
        self._run = run
        self._run_id = run.run_id
        self._store = store
        self._fence = fence
        self._clock = run.clock
        self._show = show
        self._lock = asyncio.Lock()
        self._records: list[AnyRecord] = []
        self._stored_records = 0
        self._events: list[Event] = []
        self._next_index = 0
        self._flushed_at = run.clock.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._late_flush: asyncio.Task[None] | None = None
        self._state = RunState()

    @property
    def state(self) -> RunState:
        """See `RunLog.state`."""
        return self._state

    def note(self, record: AnyRecord) -> None:
        """See `RunLog.note`."""
        self._state = apply(self._state, record)
        absorb(self._run, record)
        self._records.append(record)

    async def commit(
        self,
        *records: AnyRecord,
        chunks: Sequence[AnyChunk] = (),
        status: RunStatus | None = None,
        error: ErrorInfo | None = None,
    ) -> None:
        """See `RunLog.commit`."""
        async with self._lock:
            for record in records:
                self.note(record)
            self._index(chunks)
            await self._flush(status, error)
            if chunks:
                await self._publish(chunks)

    async def stream(self, chunks: Sequence[AnyChunk], *, deltas: int) -> None:
        """See `RunLog.stream`."""
        if deltas != len(chunks):
            leading = _leading_deltas(chunks)
            if leading:
                await self._stream_deltas(chunks[:leading])
            await self.commit(chunks=chunks[leading:])
        else:
            await self._stream_deltas(chunks)

    async def aclose(self) -> None:
        """Stop the flush timer and wait for a flush under way."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._late_flush is not None:
            await asyncio.gather(self._late_flush, return_exceptions=True)

    async def _stream_deltas(self, chunks: Sequence[AnyChunk]) -> None:
        self._index(chunks)
        shown = self._show(chunks)
        if shown is not None:
            await shown
        waited = self._clock.monotonic() - self._flushed_at
        if len(self._events) >= FLUSH_EVENTS or waited >= FLUSH_SECONDS:
            await self.commit()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS - waited, self._flush_later)

    def _index(self, chunks: Sequence[AnyChunk]) -> None:
        index = self._next_index
        self._events.extend([Event(place, chunk) for place, chunk in enumerate(chunks, index)])
        self._next_index = index + len(chunks)

    async def _flush(self, status: RunStatus | None, error: ErrorInfo | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        records, events = tuple(self._records), tuple(self._events)
        if not records and not events and status is None:
            return
        faults.hit("journal.commit.before")
        await self._store.commit(
            self._fence,
            Write(
                run_id=self._run_id,
                records=records,
                first_seq=self._stored_records,
                events=events,
                status=status,
                reason=self._state.reason if status is not None else None,
                error=error,
            ),
        )
        faults.hit("journal.commit.after")
        self._stored_records += len(records)
        del self._records[: len(records)]
        del self._events[: len(events)]
        self._flushed_at = self._clock.monotonic()

    async def _publish(self, chunks: Sequence[AnyChunk]) -> None:
        shown = self._show(chunks)
        if shown is not None:
            await shown

    def _flush_later(self) -> None:
        self._timer = None
        self._late_flush = asyncio.get_running_loop().create_task(self.commit(), name=f"tenuto flush {self._run_id}")
        self._late_flush.add_done_callback(_seen)


def _leading_deltas(chunks: Sequence[AnyChunk]) -> int:
    for place, chunk in enumerate(chunks):
        if type(chunk) not in DELTAS:
            return place
    return len(chunks)


def _seen(task: asyncio.Task[None]) -> None:
    """Take note of the outcome: the driver's own next commit meets the same error and reports it."""
    if not task.cancelled():
        task.exception()
