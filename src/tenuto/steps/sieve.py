"""The stream of one model call as output processors leave it: what viewers see, and what is kept of the answer.

Invariant: what is said, stored and traced is put together from the chunks that passed, never from the model's own.
Where processors changed a text, what the provider bound to its words (signatures, citations, log probabilities) goes
with them. A provider's raw events are not passed on: any of them may hold what was removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.core.errors import ModelError
from tenuto.messages.turns import AssistantTurn, Reasoning, Text
from tenuto.processors.hooks import ProcessorError
from tenuto.processors.tripwire import Tripwire
from tenuto.steps.process_outcome import processed_result
from tenuto.steps.turn import TurnBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenuto.messages.turns import AssistantPart
    from tenuto.processors.chain import Chain
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run

ANSWER: frozenset[type] = frozenset({
    c.ResponseMetadata, c.TextStart, c.TextDelta, c.TextEnd, c.ReasoningStart, c.ReasoningDelta, c.ReasoningEnd,
    c.ReasoningSignature, c.RedactedReasoning, c.Source, c.File, c.Custom,
    c.ToolInputStart, c.ToolInputDelta, c.ToolInputEnd, c.ToolCall, c.ToolResult,
})  # fmt: skip
"""What an answer is made of."""


class _Written:
    """A text or reasoning part: what the model wrote of it, and what passed."""

    __slots__ = ("open", "passed", "raw")

    def __init__(self) -> None:
        self.raw: list[str] = []
        self.passed: list[str] = []
        self.open = False

    @property
    def changed(self) -> bool:
        return "".join(self.raw) != "".join(self.passed)


class Sieve:
    """For one model call."""

    def __init__(self, run: Run, log: RunLog, chain: Chain) -> None:
        self._run = run
        self._log = log
        self._chain = chain
        self._parts: dict[str, _Written] = {}
        self._passed = TurnBuilder(run.run_id)

    async def take(self, chunks: Sequence[c.AnyChunk]) -> tuple[list[c.AnyChunk], Tripwire | None]:
        """The chunks of the model as they are shown; with a tripwire, those before the one that was blocked.

        Raises:
            ProcessorError: A processor failed, or what they left is no answer.
        """
        given, blocked = await self._with_results(chunks)
        for chunk in given:
            if isinstance(chunk, (c.TextDelta, c.ReasoningDelta)):
                self._part(chunk.payload.id).raw.append(chunk.payload.text)
        passed, tripwire = await self.strain(given)
        fitted = [each for chunk in passed for each in self._fitted(chunk)]
        self._keep(fitted)
        return fitted, tripwire or blocked

    async def strain(self, chunks: list[c.AnyChunk]) -> tuple[list[c.AnyChunk], Tripwire | None]:
        """What `process_output_stream` leaves of `chunks`."""
        stream = self._chain.stream
        return (chunks, None) if stream is None else await stream.strain(chunks)

    @property
    def turn(self) -> AssistantTurn:
        """What is kept of the answer so far."""
        turn = self._passed.turn
        if not self.changed:
            return turn
        whole = {"".join(part.raw) for part in self._parts.values() if not part.changed}
        return AssistantTurn(tuple(_unbound(part, whole) for part in turn.content), turn.provider_options)

    @property
    def changed(self) -> bool:
        """Whether any text is not as the model wrote it."""
        return any(part.changed for part in self._parts.values())

    @property
    def sources(self) -> tuple[p.SourcePayload, ...]:
        """The sources that passed."""
        return tuple(self._passed.sources)

    @property
    def files(self) -> tuple[p.FilePayload, ...]:
        """The files that passed."""
        return tuple(self._passed.files)

    def _part(self, part_id: str) -> _Written:
        known = self._parts.get(part_id)
        if known is None:
            known = self._parts[part_id] = _Written()
        return known

    async def _with_results(self, chunks: Sequence[c.AnyChunk]) -> tuple[list[c.AnyChunk], Tripwire | None]:
        """The chunks without raw events, and with the results of the provider's own tools as processors leave them."""
        given: list[c.AnyChunk] = []
        for chunk in chunks:
            if isinstance(chunk, c.ToolResult) and self._chain["process_tool_result"]:
                try:
                    given.append(await self._result(chunk))
                except Tripwire as tripwire:
                    return given, tripwire
            elif not isinstance(chunk, c.Raw) or self._chain.stream is None:
                given.append(chunk)
        return given, None

    async def _result(self, chunk: c.ToolResult) -> c.ToolResult:
        payload = chunk.payload
        if payload.is_error:
            return chunk
        calls = {call.tool_call_id: call.args for call in self._passed.turn.calls}
        result = await processed_result(
            self._run,
            self._log,
            (payload.tool_call_id, payload.tool_name, calls.get(payload.tool_call_id)),
            payload.result,
            of_provider=True,
        )
        return replace(chunk, payload=replace(payload, result=result))

    def _fitted(self, chunk: c.AnyChunk) -> list[c.AnyChunk]:
        """The chunk in its place: a delta behind the start of its part, no start twice, no end of what is not open."""
        run_id = self._run.run_id
        match chunk:
            case c.TextDelta(payload=payload):
                return [*self._opened(c.TextStart(run_id, "AGENT", p.TextStartPayload(payload.id)), payload), chunk]
            case c.ReasoningDelta(payload=payload):
                start = c.ReasoningStart(run_id, "AGENT", p.ReasoningStartPayload(payload.id))
                return [*self._opened(start, payload), chunk]
            case c.TextStart(payload=payload) | c.ReasoningStart(payload=payload):
                return self._opened(chunk, None)
            case c.TextEnd(payload=payload) | c.ReasoningEnd(payload=payload):
                part = self._part(payload.id)
                was_open, part.open = part.open, False
                return [_ended(chunk, part)] if was_open else []
            case _:
                return [chunk]

    def _opened(
        self, start: c.TextStart | c.ReasoningStart, delta: p.TextDeltaPayload | p.ReasoningDeltaPayload | None
    ) -> list[c.AnyChunk]:
        part = self._part(start.payload.id)
        if delta is not None:
            part.passed.append(delta.text)
        was_open, part.open = part.open, True
        return [] if was_open else [start]

    def _keep(self, chunks: Sequence[c.AnyChunk]) -> None:
        try:
            self._passed.take(parts_of([chunk for chunk in chunks if type(chunk) in ANSWER]))
        except ModelError as error:
            message = f"What process_output_stream left of the answer cannot be put together: {error}"
            raise ProcessorError(message, category="USER") from error


def parts_of(chunks: Sequence[c.AnyChunk]) -> list[Any]:
    """The parts of a model's stream that such chunks are made of."""
    return [cast("Any", chunk).payload for chunk in chunks]


def _ended(chunk: c.TextEnd | c.ReasoningEnd, part: _Written) -> c.AnyChunk:
    """The end of a part; one whose text was changed says nothing of the words that the model wrote."""
    if not part.changed:
        return chunk
    if isinstance(chunk, c.TextEnd):
        return c.TextEnd(chunk.run_id, chunk.from_, p.TextEndPayload(chunk.payload.id))
    return c.ReasoningEnd(chunk.run_id, chunk.from_, p.ReasoningEndPayload(chunk.payload.id))


def _unbound(part: AssistantPart, whole: set[str]) -> AssistantPart:
    """A part without what its provider bound to words that are not there any more."""
    if isinstance(part, Text) and part.text not in whole:
        return Text(part.text)
    if isinstance(part, Reasoning) and part.redacted is None and part.text not in whole:
        return Reasoning(part.text)
    return part
