"""Folds a model's parts into chunks for viewers and one assistant turn for the transcript.

Invariant: chunks keep the order of the parts; the turn holds the same content in order of its beginning; nothing but
`Finish` completes it. Runs once per chunk of every stream, so it does no more than it must.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.core.errors import ModelError
from tenuto.messages.turns import (
    AssistantPart,
    AssistantTurn,
    CallPart,
    Custom,
    FilePart,
    ProviderResult,
    Reasoning,
    Text,
)
from tenuto.models.ports import Finish, Part, RawEvent, RequestStart


class _Open:
    """A text or reasoning part being written."""

    __slots__ = ("kind", "metadata", "pieces", "signature")

    def __init__(self, kind: str, metadata: p.ProviderMetadata | None, signature: str | None = None) -> None:
        self.kind = kind
        self.metadata = metadata
        self.pieces: list[str] = []
        self.signature = signature

    def close(self) -> AssistantPart | None:
        text = "".join(self.pieces)
        if self.kind == "text":
            return Text(text, self.metadata) if text or self.metadata else None
        return Reasoning(text, self.signature, self.metadata) if text or self.signature or self.metadata else None


class TurnBuilder:
    """Takes the batches of one model call.

    Attributes:
        start: What was sent, once the model said so.
        finish: The model's own end, once it came.
        metadata: What the provider said of its response.
        sources: What the provider used.
        files: What the model made.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._content: list[_Open | AssistantPart] = []
        self._open: dict[str, _Open] = {}
        self._calls: set[str] = set()
        self._turn: AssistantTurn | None = None
        self.start: RequestStart | None = None
        self.finish: Finish | None = None
        self.metadata: p.ResponseMetadataPayload = p.ResponseMetadataPayload()
        self.sources: list[p.SourcePayload] = []
        self.files: list[p.FilePayload] = []

    def take(self, batch: Sequence[Part]) -> tuple[list[c.AnyChunk], int]:
        """Fold a batch in; returns its chunks and how many of them are deltas.

        Raises:
            ModelError: The model broke its port's rules: something after the end, a delta of a part that is not open.
        """
        run_id = self._run_id
        opened = self._open
        chunks: list[c.AnyChunk] = []
        deltas = 0
        for part in batch:
            if type(part) is p.TextDeltaPayload:
                try:
                    opened[part.id].pieces.append(part.text)
                except KeyError:
                    raise _out_of_order(part) from None
                chunks.append(c.TextDelta(run_id, "AGENT", part))
                deltas += 1
            elif type(part) is p.ToolInputDeltaPayload:
                chunks.append(c.ToolInputDelta(run_id, "AGENT", part))
                deltas += 1
            elif type(part) is p.ReasoningDeltaPayload:
                self._reasoning(part)
                chunks.append(c.ReasoningDelta(run_id, "AGENT", part))
                deltas += 1
            elif type(part) is RawEvent:
                chunks.append(c.Raw(run_id, "AGENT", part.value))
                deltas += 1
            elif (chunk := self._solid(part)) is not None:
                chunks.append(chunk)
        return chunks, deltas

    @property
    def turn(self) -> AssistantTurn:
        """What the model has said so far."""
        if self._turn is not None:
            return self._turn
        parts = [part.close() if isinstance(part, _Open) else part for part in self._content]
        turn = AssistantTurn(tuple([part for part in parts if part is not None]))
        if self.finish is not None:
            self._turn = turn  # nothing comes after the end
        return turn

    @property
    def empty(self) -> bool:
        """Whether nothing was said that a user or a tool could use."""
        return not self.files and not any(_is_said(part) for part in self.turn.content)

    def _solid(self, part: Part) -> c.AnyChunk | None:
        if self.finish is not None:
            raise _out_of_order(part)
        handle = self._HANDLERS.get(type(part))
        if handle is None:
            raise _out_of_order(part)
        return handle(self, part)

    def _reasoning(self, part: p.ReasoningDeltaPayload) -> None:
        if part.id not in self._open:
            raise _out_of_order(part)
        self._open[part.id].pieces.append(part.text)

    def _request(self, part: RequestStart) -> None:
        self.start = part

    def _finished(self, part: Finish) -> None:
        self.finish = part

    def _response(self, part: p.ResponseMetadataPayload) -> c.AnyChunk:
        self.metadata = part
        return c.ResponseMetadata(self._run_id, "AGENT", part)

    def _begin(self, part_id: str, opened: _Open, part: Any) -> None:
        if part_id in self._open:
            raise _out_of_order(part)
        self._open[part_id] = opened
        self._content.append(opened)

    def _text_start(self, part: p.TextStartPayload) -> c.AnyChunk:
        self._begin(part.id, _Open("text", part.provider_metadata), part)
        return c.TextStart(self._run_id, "AGENT", part)

    def _reasoning_start(self, part: p.ReasoningStartPayload) -> c.AnyChunk:
        self._begin(part.id, _Open("reasoning", part.provider_metadata, part.signature), part)
        return c.ReasoningStart(self._run_id, "AGENT", part)

    def _end(self, part: p.TextEndPayload | p.ReasoningEndPayload) -> None:
        opened = self._open.pop(part.id, None)
        if opened is None:
            raise _out_of_order(part)
        opened.metadata = part.provider_metadata or opened.metadata
        opened.signature = getattr(part, "signature", None) or opened.signature

    def _text_end(self, part: p.TextEndPayload) -> c.AnyChunk:
        self._end(part)
        return c.TextEnd(self._run_id, "AGENT", part)

    def _reasoning_end(self, part: p.ReasoningEndPayload) -> c.AnyChunk:
        self._end(part)
        return c.ReasoningEnd(self._run_id, "AGENT", part)

    def _signature(self, part: p.ReasoningSignaturePayload) -> c.AnyChunk:
        if (opened := self._open.get(part.id)) is not None:
            opened.signature = part.signature
        return c.ReasoningSignature(self._run_id, "AGENT", part)

    def _redacted(self, part: p.RedactedReasoningPayload) -> c.AnyChunk:
        self._content.append(Reasoning("", None, part.provider_metadata, part.data))
        return c.RedactedReasoning(self._run_id, "AGENT", part)

    def _source(self, part: p.SourcePayload) -> c.AnyChunk:
        self.sources.append(part)
        return c.Source(self._run_id, "AGENT", part)

    def _file(self, part: p.FilePayload) -> c.AnyChunk:
        self.files.append(part)
        data = part.base64
        url = part.data if data is None else None
        self._content.append(FilePart(part.mime_type, url, data, part.filename, part.provider_metadata))
        return c.File(self._run_id, "AGENT", part)

    def _result(self, part: p.ToolResultPayload) -> c.AnyChunk:
        """A tool that the provider ran itself; the loop runs the others."""
        if not part.provider_executed:
            raise _out_of_order(part)
        self._content.append(
            ProviderResult(part.tool_call_id, part.tool_name, part.result, part.is_error, part.provider_metadata)
        )
        return c.ToolResult(self._run_id, "AGENT", part)

    def _custom(self, part: p.CustomPayload) -> c.AnyChunk:
        self._content.append(Custom(part.kind, part.provider_metadata))
        return c.Custom(self._run_id, "AGENT", part)

    def _input_start(self, part: p.ToolInputStartPayload) -> c.AnyChunk:
        return c.ToolInputStart(self._run_id, "AGENT", part)

    def _input_end(self, part: p.ToolInputEndPayload) -> c.AnyChunk:
        return c.ToolInputEnd(self._run_id, "AGENT", part)

    def _call(self, part: p.ToolCallPayload) -> c.AnyChunk:
        if part.tool_call_id in self._calls:
            raise _out_of_order(part)
        self._calls.add(part.tool_call_id)
        self._content.append(
            CallPart(
                part.tool_call_id,
                part.tool_name,
                part.args,
                part.raw_args,
                part.provider_executed,
                part.provider_metadata,
            )
        )
        return c.ToolCall(self._run_id, "AGENT", part)

    _HANDLERS: ClassVar[Mapping[type, Callable[..., c.AnyChunk | None]]] = {
        RequestStart: _request,
        Finish: _finished,
        p.ResponseMetadataPayload: _response,
        p.TextStartPayload: _text_start,
        p.TextEndPayload: _text_end,
        p.ReasoningStartPayload: _reasoning_start,
        p.ReasoningEndPayload: _reasoning_end,
        p.ReasoningSignaturePayload: _signature,
        p.RedactedReasoningPayload: _redacted,
        p.SourcePayload: _source,
        p.FilePayload: _file,
        p.CustomPayload: _custom,
        p.ToolInputStartPayload: _input_start,
        p.ToolInputEndPayload: _input_end,
        p.ToolCallPayload: _call,
        p.ToolResultPayload: _result,
    }
    """What becomes of each part that is no delta; one table for all calls."""


def _is_said(part: AssistantPart) -> bool:
    """Whether a part is more than reasoning, or a text that is there for its signature alone."""
    return bool(part.text) if isinstance(part, Text) else not isinstance(part, Reasoning)


def _out_of_order(part: Any) -> ModelError:
    message = f"The model's stream broke its rules at {type(part).__name__}: {part!r:.200}."
    return ModelError(message, id="MODEL_STREAM_INVALID")
