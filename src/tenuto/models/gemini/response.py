"""The answer of a Gemini call: events in, parts out.

Invariant: there is no end marker, so `Finish` comes at the end of the stream, and only when the provider gave a finish
reason or blocked the prompt; a stream without either was cut off. Usage and grounding are the last values sent.

Source: Gemini API reference, "GenerateContentResponse", "FinishReason" and "BlockReason".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from tenuto.core.errors import ModelError
from tenuto.core.payloads import Usage
from tenuto.models.answering import Answering
from tenuto.models.gemini.answer_parts import AnswerParts
from tenuto.models.gemini.grounding import Sources
from tenuto.models.gemini.parts import KEY
from tenuto.models.gemini.wire import NOTHING, Candidate, Event, PartIn, PromptFeedback, UsageMetadata
from tenuto.models.http_errors import ProviderError, read_error
from tenuto.models.ports import Finish, Part, ProviderReason

_REASONS: Mapping[str, ProviderReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content-filter",
    "RECITATION": "content-filter",
    "BLOCKLIST": "content-filter",
    "PROHIBITED_CONTENT": "content-filter",
    "SPII": "content-filter",
    "MODEL_ARMOR": "content-filter",
    "IMAGE_SAFETY": "content-filter",
    "IMAGE_PROHIBITED_CONTENT": "content-filter",
    "IMAGE_RECITATION": "content-filter",
    "MALFORMED_FUNCTION_CALL": "error",
    "MALFORMED_RESPONSE": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "MISSING_THOUGHT_SIGNATURE": "error",
}
_UNSAID = ("FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED")
_KEPT = (
    ("grounding_metadata", "groundingMetadata"),
    ("url_context_metadata", "urlContextMetadata"),
    ("safety_ratings", "safetyRatings"),
    ("citation_metadata", "citationMetadata"),
    ("finish_message", "finishMessage"),
    ("logprobs_result", "logprobsResult"),
    ("avg_logprobs", "avgLogprobs"),
)
_event = msgspec.json.Decoder(Event).decode
_feedback = msgspec.json.Decoder(PromptFeedback).decode
_any = msgspec.json.Decoder().decode


class GeminiResponse:
    """Decodes one answer; see `wire_format.Reader`."""

    __slots__ = (
        "_answering", "_assembler", "_blocked", "_kept", "_named", "_parts", "_provider", "_reason",
        "_sources", "_usage", "finished",
    )  # fmt: skip

    def __init__(self, answering: Answering) -> None:
        self.finished: bool = False
        self._answering = answering
        self._provider = answering.provider
        self._assembler = answering.assembler
        self._parts = AnswerParts(answering.provider, answering.assembler)
        self._sources = Sources()
        self._named = False
        self._reason: str | None = None
        self._blocked: str | None = None
        self._usage = NOTHING
        self._kept: dict[str, Raw] = {}

    def feed(self, events: list[bytes]) -> list[Part]:
        """The parts that these events make; there is no last one.

        Raises:
            ModelError: An error event, or one that cannot be read.
        """
        assembler = self._assembler
        for data in events:
            try:
                event = _event(data)
            except (msgspec.DecodeError, RecursionError) as error:
                if data.strip() in (b"", b"[DONE]"):  # of proxies
                    continue
                raise self._unreadable(data, error) from error
            candidates = event.candidates
            if self._named and candidates and len(candidates) == 1:
                candidate = candidates[0]
                parts = candidate.content.parts if candidate.content is not None else None
                if parts and len(parts) == 1 and _is_plain(parts[0], candidate, event):
                    if event.usage_metadata is not NOTHING:
                        self._usage = event.usage_metadata
                    assembler.text(cast("str", parts[0].text))
                    continue
            self._slowly(event, data)
        return assembler.take()

    def end(self) -> list[Part]:
        """The last parts, at the end of the stream.

        Raises:
            ModelError: The answer was cut off, for there was no finish reason.
        """
        if self.finished:
            return []
        raw_reason = self._blocked or self._reason
        if raw_reason is None:
            raise self._answering.cut_off("a finish reason")
        self._parts.end()
        self.finished = True
        reason = "content-filter" if self._blocked else self._normalised(raw_reason)
        self._assembler.parts.append(Finish(reason, usage_of(self._usage), raw_reason, self._metadata()))
        return self._assembler.take()

    def whole(self, body: bytes) -> list[Part]:
        """An answer that was not streamed, or all events of one as a list."""
        if body.lstrip()[:1] != b"[":
            return [*self.feed([body]), *self.end()]
        try:
            events = msgspec.json.decode(body, type=list[Raw])
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._unreadable(body, error) from error
        return [*self.feed([bytes(each) for each in events]), *self.end()]

    def _normalised(self, reason: str) -> ProviderReason:
        known = _REASONS.get(reason, "other")
        return "tool-calls" if known == "stop" and self._assembler.calls else known

    def _metadata(self) -> Mapping[str, Any] | None:
        found = {name: _any(raw) for name, raw in self._kept.items()}
        tier = _record(_any(self._usage)).get("serviceTier") if self._usage is not NOTHING else None
        if tier is not None:
            found["serviceTier"] = tier
        said = {name: value for name, value in found.items() if value is not None}
        return {KEY: said} if said else None

    def _slowly(self, event: Event, data: bytes) -> None:
        if event.error is not None:
            raise self._failed(event.error)
        if not self._named and (event.candidates or event.response_id):
            self._name(event)
        if event.usage_metadata is not NOTHING:
            self._usage = event.usage_metadata
        if event.prompt_feedback is not NOTHING:
            self._take_feedback(event.prompt_feedback)
        for candidate in event.candidates or ():
            if not candidate.index:
                self._candidate(candidate, data)

    def _name(self, event: Event) -> None:
        self._named = True
        self._answering.name(event.response_id, event.model_version)

    def _take_feedback(self, raw: Raw) -> None:
        self._kept["promptFeedback"] = raw
        feedback = _any(raw) and _feedback(raw)
        if feedback and feedback.block_reason and feedback.block_reason not in _UNSAID:
            self._blocked = feedback.block_reason

    def _candidate(self, candidate: Candidate, data: bytes) -> None:
        for field, name in _KEPT:
            raw = getattr(candidate, field)
            if raw is not NOTHING:
                self._kept[name] = raw
        parts = candidate.content.parts if candidate.content is not None else None
        for place, part in enumerate(parts or ()):
            if not self._parts.take(part):
                self._unknown(data, place)
        if candidate.grounding_metadata is not NOTHING:
            self._sources.take(candidate.grounding_metadata, self._assembler)
        if candidate.finish_reason and candidate.finish_reason not in _UNSAID:
            self._reason = candidate.finish_reason

    def _unknown(self, data: bytes, place: int) -> None:
        """A part of a kind that we do not know: kept whole, for the provider may want it back."""
        candidates = _any(data)["candidates"]
        first = next(each for each in candidates if not each.get("index"))
        part = first["content"]["parts"][place]
        if any(value is not None for value in part.values()):
            self._parts.opaque(part)

    def _failed(self, error: Any) -> ModelError:
        said = read_error({"error": error}) or ProviderError("the provider ended the answer with an error")
        return self._answering.failed(said)

    def _unreadable(self, data: bytes, error: Exception) -> ModelError:
        return self._answering.unreadable(data, error, "a Gemini response")


def _is_plain(part: PartIn, candidate: Candidate, event: Event) -> bool:
    """Whether an event is text and usage and nothing else: nearly all are."""
    return (
        part.text.__class__ is str
        and part.thought is None
        and part.thought_signature is None
        and part.function_call is None
        and candidate.finish_reason is None
        and candidate.grounding_metadata is NOTHING
        and candidate.safety_ratings is NOTHING
        and candidate.citation_metadata is NOTHING
        and candidate.url_context_metadata is NOTHING
        and candidate.logprobs_result is NOTHING
        and not candidate.index
        and event.prompt_feedback is NOTHING
        and event.error is None
    )


def usage_of(raw: Raw) -> Usage:
    """Normalised usage: tokens of tools' results are input, thoughts are output. What is mistyped counts as nothing."""
    if raw is NOTHING or (said := _any(raw)) is None:
        return Usage()
    try:
        wire = msgspec.convert(said, UsageMetadata, strict=False)
    except msgspec.ValidationError:
        return Usage(raw=said)
    read = (wire.prompt_token_count or 0) + (wire.tool_use_prompt_token_count or 0)
    written = (wire.candidates_token_count or 0) + (wire.thoughts_token_count or 0)
    return Usage(
        read,
        written,
        wire.total_token_count or read + written,
        wire.thoughts_token_count,
        wire.cached_content_token_count,
        None,
        said,
    )


def _record(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
