"""`SyncRunOutput`: a `RunOutput` for code without an event loop.

Invariant: it only waits on the portal's loop; breaking out of a loop leaves the run alone, Ctrl-C aborts it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Generic

from typing_extensions import TypeVar

from tenuto.core.chunks import AnyChunk, File, ReasoningDelta, Source, TextDelta, ToolCall, ToolResult
from tenuto.core.payloads import FinishReason, Usage
from tenuto.core.portal import Portal
from tenuto.runs.output import Later, RunOutput
from tenuto.runs.result import Result
from tenuto.steps.results import StepResult
from tenuto.store.ports import RunStatus

OutputT = TypeVar("OutputT", default=str)
T = TypeVar("T")


class SyncRunOutput(Generic[OutputT]):
    """What `stream_sync` returns: iterables of chunks, and plain attributes (which wait for the end) for the result."""

    def __init__(self, portal: Portal, output: RunOutput[OutputT]) -> None:
        self._portal = portal
        self._output = output

    @property
    def run_id(self) -> str:
        """The run."""
        return self._output.run_id

    @property
    def status(self) -> RunStatus:
        """Where the run stands now."""
        return self._output.status

    @property
    def full_stream(self) -> Iterator[AnyChunk]:
        """A reader of all chunks from the first on; every access is a new one."""
        place = 0
        try:
            while chunks := self._wait(lambda: self._output.read_from(place)):  # noqa: B023 - called before place moves
                yield from chunks
                place += len(chunks)
        except KeyboardInterrupt:  # between two waits
            self._output.abort("interrupted")
            raise

    @property
    def text_stream(self) -> Iterator[str]:
        """A reader of the answer's text."""
        return (chunk.payload.text for chunk in self.full_stream if isinstance(chunk, TextDelta))

    @property
    def object_stream(self) -> Iterator[Any]:
        """See `RunOutput.object_stream`."""
        return self._each(self._output.object_stream)

    @property
    def element_stream(self) -> Iterator[Any]:
        """See `RunOutput.element_stream`."""
        return self._each(self._output.element_stream)

    def __iter__(self) -> Iterator[AnyChunk]:
        return self.full_stream

    def get_full_output(self) -> Result[OutputT]:
        """Wait for the end; see `RunOutput.get_full_output`."""
        return self._wait(self._output.get_full_output)

    def abort(self, reason: object = None) -> None:
        """Stop the run."""
        self._output.abort(reason)

    @property
    def text(self) -> str:
        """See `RunOutput.text`."""
        return self._field(self._output.text)

    @property
    def object(self) -> OutputT:
        """See `RunOutput.object`."""
        return self._field(self._output.object)

    @property
    def reasoning(self) -> tuple[ReasoningDelta, ...]:
        """See `RunOutput.reasoning`."""
        return self._field(self._output.reasoning)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """See `RunOutput.tool_calls`."""
        return self._field(self._output.tool_calls)

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """See `RunOutput.tool_results`."""
        return self._field(self._output.tool_results)

    @property
    def sources(self) -> tuple[Source, ...]:
        """See `RunOutput.sources`."""
        return self._field(self._output.sources)

    @property
    def files(self) -> tuple[File, ...]:
        """See `RunOutput.files`."""
        return self._field(self._output.files)

    @property
    def steps(self) -> tuple[StepResult, ...]:
        """See `RunOutput.steps`."""
        return self._field(self._output.steps)

    @property
    def finish_reason(self) -> FinishReason:
        """See `RunOutput.finish_reason`."""
        return self._field(self._output.finish_reason)

    @property
    def usage(self) -> Usage:
        """See `RunOutput.usage`."""
        return self._field(self._output.usage)

    def _each(self, reader: AsyncIterator[T]) -> Iterator[T]:
        try:
            while (item := self._wait(lambda: _one(reader))) is not None:
                yield item[0]
        except KeyboardInterrupt:  # between two waits
            self._output.abort("interrupted")
            raise

    def _field(self, later: Later[T]) -> T:
        async def wait() -> T:
            return await later

        return self._wait(wait)

    def _wait(self, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            return self._portal.run(start())
        except KeyboardInterrupt:
            self._output.abort("interrupted")
            raise


async def _one(reader: AsyncIterator[T]) -> tuple[T] | None:
    async for item in reader:
        return (item,)
    return None
