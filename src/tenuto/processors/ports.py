"""What processors are given of a run: its steps, a writer, a model's whole response.

Invariant: values and protocols only; the rooms above fill them in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from tenuto.core.chunks import Data, TaggedChunk, ToolCall, ToolResult
from tenuto.core.payloads import FinishReason, Usage
from tenuto.models.ports import Finish


class Step(Protocol):
    """A completed step, as in `result.steps`."""

    @property
    def text(self) -> str:
        """What the model wrote."""
        ...

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Its calls."""
        ...

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """Their results, in call order."""
        ...

    @property
    def finish_reason(self) -> FinishReason:
        """Why it ended."""
        ...

    @property
    def usage(self) -> Usage:
        """What it took."""
        ...


class Writer(Protocol):
    """Where a processor shows data of its own."""

    async def custom(self, chunk: Mapping[str, Any] | Data, *, message_id: str | None = None) -> None:
        """Show `{"type": "data-<name>", "data": ...}` in the run's stream.

        Raises:
            TenutoError: `TOOL_CHUNK_INVALID`: it has another form, or holds what JSON cannot.
        """
        ...


class MemoryWriter:
    """Keeps what a processor writes that is called without a run, as in a test of it: `context.writer.written`."""

    def __init__(self) -> None:
        self.written: list[Any] = []

    async def custom(self, chunk: Mapping[str, Any] | Data, *, message_id: str | None = None) -> None:
        """See `Writer`."""
        del message_id
        self.written.append(chunk)


class ModelResponse(Struct, frozen=True):
    """What a model answered, before any processor changed it; `process_llm_request` may give one instead of a call.

    It is JSON as msgspec writes it, so a cache can keep it: `msgspec.json.encode(response)`,
    `msgspec.json.decode(raw, type=ModelResponse)`.

    Attributes:
        chunks: Of the model's stream, in order, without the step's frame.
        finish: The model's own end.
        model: As `provider/model`.
    """

    chunks: tuple[TaggedChunk, ...]
    finish: Finish
    model: str = ""


class ResultSoFar(Struct, frozen=True):
    """A run's result as `process_output_result` finds it."""

    text: str
    usage: Usage
    finish_reason: FinishReason
    steps: Sequence[Step] = ()
