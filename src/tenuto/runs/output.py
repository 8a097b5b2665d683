"""`RunOutput`: what a run has streamed so far, for any number of readers, early, late or none.

Invariant: readers replay one shared buffer from its start and then follow it; none of them drives the run, holds it
up or ends it. Once the terminal chunk is in the buffer nothing is added to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, Generic, Protocol, cast

from typing_extensions import TypeVar

from tenuto.core.chunks import (
    AnyChunk,
    File,
    Object,
    ObjectResult,
    ReasoningDelta,
    Source,
    TextDelta,
    ToolCall,
    ToolResult,
)
from tenuto.core.errors import RunError, TenutoError
from tenuto.core.foreign import contained
from tenuto.core.payloads import FinishReason, Json, TripwirePayload, Usage
from tenuto.messages.stored import Message
from tenuto.runs.result import Response, Result, failure_of, stream_text
from tenuto.runs.waiting import Waiters
from tenuto.steps.results import PendingCall, RequestInfo, StepResult
from tenuto.store.ports import RunStatus

OutputT = TypeVar("OutputT", default=str)
T = TypeVar("T")

_NOTHING: Any = object()
_log = logging.getLogger("tenuto")


class Later(Generic[T]):
    """A field of the result that is there once the run has ended: `await stream.text`, any number of times."""

    __slots__ = ("_wait",)

    def __init__(self, wait: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._wait = wait

    def __await__(self) -> Generator[Any, Any, T]:
        return self._wait().__await__()

    def __repr__(self) -> str:
        return "<a value that is there when the run has ended: await it>"


class Feed(Protocol):
    """Brings a viewer its chunks from elsewhere."""

    def start(self) -> None:
        """Go on bringing them; does nothing when it does already."""
        ...

    def stop(self) -> None:
        """Hold nothing any more; `start` goes on where it was."""
        ...


class RunOutput(Generic[OutputT]):
    """A running or finished run, as its readers see it.

    Leaving it (breaking out of a loop, dropping it, closing the `async with`) detaches; the run goes on and ends by
    itself. Only `abort()` or the call's `abort_signal` stops it.
    """

    def __init__(self, run_id: str, message_id: str, abort: Callable[[object], None], *, first_index: int = 0) -> None:
        self.run_id: str = run_id
        self._thread: tuple[str | None, str | None] = (None, None)
        self._first_index: int = first_index
        self.message_id: str = message_id
        self.status: RunStatus = "running"
        self._abort = abort
        self._chunks: list[AnyChunk] = []
        self._ended: bool = False
        self._result: Result[OutputT] | None = None
        self._failure: BaseException | None = None
        self._waiters = Waiters()
        self._end_waiters = Waiters()
        self._on_chunk: Callable[[AnyChunk], object] | None = None
        self._feed: Feed | None = None
        self._readers = 0
        self._cleanup: Callable[[], None] | None = None
        self._cleaned = False

    @property
    def thread_id(self) -> str | None:
        """The thread the run is on; None: on none."""
        return self._thread[0]

    @property
    def resource_id(self) -> str | None:
        """Whose thread that is."""
        return self._thread[1]

    def on_thread(self, thread_id: str | None, resource_id: str | None) -> None:
        """Say where the run is; for the runtime."""
        self._thread = thread_id, resource_id

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    def full_stream(self) -> AsyncIterator[AnyChunk]:
        """A reader of all chunks: those that are there, then each as it comes. Every access is a new reader."""
        return self._read()

    @property
    def text_stream(self) -> AsyncIterator[str]:
        """A reader of the answer's text, piece by piece."""
        return self._read_text()

    @property
    def object_stream(self) -> AsyncIterator[Any]:
        """A reader of the structured output as it grows: plain JSON, not validated, each value instead of the last.

        The last one is the object itself, as JSON. Nothing comes when none was asked for.
        """
        return self._read_objects()

    @property
    def element_stream(self) -> AsyncIterator[Any]:
        """A reader of the elements of a structured output that is a list: plain JSON, each whole and once, in order."""
        return self._read_elements()

    def __aiter__(self) -> AsyncIterator[AnyChunk]:
        return self._read()

    @property
    def last_index(self) -> int:
        """Index in the run's log of the last chunk here; -1 before any. `observe(offset=last_index + 1)` goes on."""
        return self._first_index + len(self._chunks) - 1

    async def read_from(self, place: int) -> list[AnyChunk]:
        """The chunks from `place` on, at least one unless the run has ended there; for readers that take batches."""
        with self._reading():
            while place >= len(self._chunks) and not self._ended:
                await self._next(place)
        return self._chunks[place:]

    async def get_full_output(self) -> Result[OutputT]:
        """Wait for the end; the whole result, also of a failed run (`finish_reason` `error`, `error` set)."""
        await self._until_ended()
        if self._result is None:
            raise self._failure or _lost(self.run_id)
        return self._result

    async def consume_stream(self, on_error: Callable[[BaseException], object] | None = None) -> None:
        """Wait for the end without looking at the chunks; any number of times.

        Args:
            on_error: Gets the error of a failed run; without it a failure is not reported here.
        """
        await self._until_ended()
        if self._failure is not None and on_error is not None:
            on_error(self._failure)

    def abort(self, reason: object = None) -> None:
        """Stop the run: its model call ends at once, its tools get `abort_grace` seconds. From the run's own loop."""
        self._abort(reason)

    def detach(self) -> None:
        """End this viewer; the run goes on, and so do the readers of the process that drives it.

        Its readers come to their end, and its result is the error `RUN_DETACHED`. A viewer all of whose readers have
        gone away holds nothing either; it goes on when somebody reads it again.
        """
        if self._feed is None or self._ended:
            return
        self._feed.stop()
        message = f"This viewer of run {self.run_id!r} was detached; observe(offset={self.last_index + 1}) goes on."
        self._failure = RunError(message, id="RUN_DETACHED")
        self._close("running")

    def cleanup(self) -> None:
        """Drop the run's events from the store, but for the last one, once it is not running; never raises.

        Journal, row and messages stay: the run can still be resumed. A later viewer gets `gap`, then the last event.
        Idempotent; while the run is running it waits for the end.
        """
        if self._cleanup is not None and not self._cleaned:
            self._cleaned = True
            self._cleanup()

    @property
    def output(self) -> RunOutput[OutputT]:
        """The output itself: what `stream` of a durable agent returns has the fields of the contract's result."""
        return self

    # -- the result, field by field; each raises what the run failed with --------------------------------------------

    @property
    def text(self) -> Later[str]:
        """The last step's text if the run used tools, else all text; `result.text` is always all text."""
        return self._later(stream_text)

    @property
    def reasoning(self) -> Later[tuple[ReasoningDelta, ...]]:
        """Reasoning chunks of the whole run, one per part."""
        return self._later(lambda result: result.reasoning)

    @property
    def reasoning_text(self) -> Later[str | None]:
        """All reasoning, joined; None when there was none."""
        return self._later(lambda result: result.reasoning_text)

    @property
    def tool_calls(self) -> Later[tuple[ToolCall, ...]]:
        """Calls of the whole run."""
        return self._later(lambda result: result.tool_calls)

    @property
    def tool_results(self) -> Later[tuple[ToolResult, ...]]:
        """Results of the whole run, failed ones included."""
        return self._later(lambda result: result.tool_results)

    @property
    def sources(self) -> Later[tuple[Source, ...]]:
        """Sources of the whole run."""
        return self._later(lambda result: result.sources)

    @property
    def files(self) -> Later[tuple[File, ...]]:
        """Files of the whole run."""
        return self._later(lambda result: result.files)

    @property
    def steps(self) -> Later[tuple[StepResult, ...]]:
        """The steps."""
        return self._later(lambda result: result.steps)

    @property
    def finish_reason(self) -> Later[FinishReason]:
        """Why the run ended."""
        return self._later(lambda result: result.finish_reason)

    @property
    def tripwire(self) -> Later[TripwirePayload | None]:
        """Why a processor blocked the run, else None."""
        return self._later(lambda result: result.tripwire)

    @property
    def usage(self) -> Later[Usage]:
        """Tokens of the whole run."""
        return self._later(lambda result: result.usage)

    @property
    def total_usage(self) -> Later[Usage]:
        """The same as `usage`."""
        return self.usage

    @property
    def warnings(self) -> Later[tuple[Json, ...]]:
        """What the provider or the dialect warned of in the last step."""
        return self._later(lambda result: result.warnings)

    @property
    def request(self) -> Later[RequestInfo]:
        """The last request."""
        return self._later(lambda result: result.request)

    @property
    def response(self) -> Later[Response]:
        """The last response, and the run's own messages."""
        return self._later(lambda result: result.response)

    @property
    def provider_metadata(self) -> Later[Any]:
        """The provider's metadata of the last step."""
        return self._later(lambda result: result.provider_metadata)

    @property
    def object(self) -> Later[OutputT]:
        """The structured output; raises `OutputInvalid` when there is none."""
        return self._later(lambda result: result.object)

    @property
    def suspend_payload(self) -> Later[Json]:
        """What the first pending call asks for; None when the run is not suspended."""
        return self._later(lambda result: result.suspend_payload)

    @property
    def resume_schema(self) -> Later[Json]:
        """JSON text of the schema that an answer to the first pending call must fit; None when there is none."""
        return self._later(lambda result: result.resume_schema)

    @property
    def pending(self) -> Later[tuple[PendingCall, ...]]:
        """The calls that wait for a decision."""
        return self._later(lambda result: result.pending)

    @property
    def messages(self) -> Later[tuple[Message, ...]]:
        """Every message of the run that is not a system message."""
        return self._later(lambda result: result.messages)

    @property
    def degraded(self) -> Later[tuple[str, ...]]:
        """Options of the call that the process which ended the run did not have."""
        return self._later(lambda result: result.degraded)

    @property
    def trace_id(self) -> Later[str | None]:
        """Of the run's trace; None without a tracer."""
        return self._later(lambda result: result.trace_id)

    @property
    def span_id(self) -> Later[str | None]:
        """Of the span around the run's last segment; None without a tracer."""
        return self._later(lambda result: result.span_id)

    @property
    def error(self) -> TenutoError | None:
        """Why the run failed; None while it runs and when it did not fail."""
        return None if self._result is None else self._result.error

    # -- writing, by the driver --------------------------------------------------------------------------------------

    def fed_by(self, feed: Feed) -> None:
        """Let `feed` bring the chunks, while somebody reads them or has not begun to."""
        self._feed = feed
        feed.start()

    def on_cleanup(self, cleanup: Callable[[], None]) -> None:
        """Set what `cleanup()` does."""
        self._cleanup = cleanup

    def watch(self, on_chunk: Callable[[AnyChunk], object] | None) -> None:
        """Set the call's `on_chunk`."""
        self._on_chunk = on_chunk

    def aside(self, chunk: AnyChunk) -> Coroutine[Any, Any, None] | None:
        """Let this viewer's readers see a chunk that is not in the log."""
        self._first_index -= 1
        return self.show([chunk])

    def skip(self, gap: AnyChunk, first: int) -> Coroutine[Any, Any, None] | None:
        """Let readers see that what they asked for is not there; the next chunk has the index `first`."""
        self._first_index = first - len(self._chunks) - 1
        return self.show([gap])

    def show(self, chunks: Sequence[AnyChunk]) -> Coroutine[Any, Any, None] | None:
        """Let readers see `chunks`; returns what is to be awaited when a callback wants them too."""
        self._chunks.extend(chunks)
        if self._waiters:
            self._waiters.wake()
        return None if self._on_chunk is None else self._tell(chunks, self._on_chunk)

    def end(self, result: Result[OutputT], status: RunStatus) -> None:
        """The run has ended; `result` is final."""
        self._result = result
        self._failure = failure_of(result)
        self._close(status)

    def fail(self, error: BaseException) -> None:
        """The driver itself failed: there is no result."""
        self._failure = error
        self._close("failed")

    def _close(self, status: RunStatus) -> None:
        self.status = status
        self._ended = True
        self._waiters.wake()
        self._end_waiters.wake()

    async def _tell(self, chunks: Sequence[AnyChunk], on_chunk: Callable[[AnyChunk], object]) -> None:
        """Call `on_chunk`; one that had to be cancelled, since the run or its loop ends, is not called again."""
        for chunk in chunks:
            try:
                with contained():
                    told = on_chunk(chunk)
                    if inspect.isawaitable(told):
                        await told
            except asyncio.CancelledError:
                self._on_chunk = None
                _log.warning("The callback on_chunk was still going on when its run had to end; it was cancelled.")
                raise
            except Exception:  # noqa: BLE001 - a user's function
                _log.exception("The callback on_chunk failed; the run goes on.")

    # -- readers -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _reading(self) -> Generator[None]:
        """Whoever reads keeps the feed going; without readers it holds nothing, unless a callback wants the chunks."""
        self._readers += 1
        if self._feed is not None and not self._ended:
            self._feed.start()
        try:
            yield
        finally:
            self._readers -= 1
            if self._feed is not None and not (self._readers or self._ended or self._on_chunk):
                self._feed.stop()

    async def _read(self) -> AsyncIterator[AnyChunk]:
        chunks = self._chunks
        place = 0
        with self._reading():
            while True:
                while place < len(chunks):
                    yield chunks[place]
                    place += 1
                if self._ended:
                    return
                await self._next(place)

    async def _read_text(self) -> AsyncIterator[str]:
        chunks = self._chunks
        place = 0
        with self._reading():
            while True:
                while place < len(chunks):
                    chunk = chunks[place]
                    place += 1
                    if type(chunk) is TextDelta:
                        yield chunk.payload.text
                if self._ended:
                    return
                await self._next(place)

    async def _read_objects(self) -> AsyncIterator[Any]:
        last: Any = _NOTHING
        async for chunk in self._read():
            if isinstance(chunk, Object | ObjectResult) and (last is _NOTHING or chunk.object != last):
                last = chunk.object
                yield last

    async def _read_elements(self) -> AsyncIterator[Any]:
        given = 0
        async for chunk in self._read():
            elements: list[Any] = []
            if isinstance(chunk, Object):
                elements = _elements(chunk.object)[:-1]  # the last one may still be growing
            elif isinstance(chunk, ObjectResult) and not (given and _is_fallback(chunk)):
                elements = _elements(chunk.object)
            for element in elements[given:]:
                yield element
            given = max(given, len(elements))

    async def _next(self, place: int) -> None:
        """Wait for a chunk at `place`, or the end."""
        await self._waiters.wait(lambda: place < len(self._chunks) or self._ended)

    async def _until_ended(self) -> None:
        with self._reading():
            while not self._ended:
                await self._end_waiters.wait(lambda: self._ended)

    def _later(self, pick: Callable[[Result[OutputT]], T]) -> Later[T]:
        async def wait() -> T:
            await self._until_ended()
            if self._failure is not None:
                raise self._failure
            if self._result is None:
                raise _lost(self.run_id)
            return pick(self._result)

        return Later(wait)


def _elements(value: Json) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _is_fallback(chunk: ObjectResult) -> bool:
    """Whether its elements are others than those that came."""
    metadata: Mapping[str, Any] = chunk.metadata or {}
    return bool(metadata.get("fallback"))


def _lost(run_id: str) -> RunError:
    message = f"Run {run_id!r} ended without a result in this process."
    return RunError(message, id="RUN_RESULT_LOST")
