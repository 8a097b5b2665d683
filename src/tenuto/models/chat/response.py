"""The answer of a chat completions call: events in, parts out.

Invariant: it ends with `Finish` only when the provider gave a finish reason; an error event, an event that is not JSON
and a stream that stops early raise. Usage is the last value sent.

Source: OpenAI API reference, "Chat completion chunk object".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from tenuto.core.errors import ModelError
from tenuto.core.payloads import FilePayload, Usage
from tenuto.models.answering import Answering
from tenuto.models.assemble import ToolDelta, parse_arguments
from tenuto.models.chat.wire import NO_DELTA, CallDelta, ChatChunk, Choice, Delta, Head, WireUsage
from tenuto.models.http_errors import broken_stream, read_error
from tenuto.models.ports import Finish, Part, ProviderReason

DONE = b"[DONE]"
_REASONS: Mapping[str, ProviderReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content-filter",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "tool_use": "tool-calls",
}
_chunk = msgspec.json.Decoder(ChatChunk).decode
_head = msgspec.json.Decoder(Head).decode
_any = msgspec.json.Decoder().decode


class ChatResponse:
    """Decodes one answer; see `wire_format.Reader`."""

    __slots__ = (
        "_answering", "_assembler", "_called", "_logprobs", "_named", "_provider", "_reason", "_refusal",
        "_urls", "_usage", "finished",
    )  # fmt: skip

    def __init__(self, answering: Answering) -> None:
        self.finished: bool = False
        self._answering = answering
        self._provider = answering.provider
        self._assembler = answering.assembler
        self._called = b""
        self._named = False
        self._reason: str | None = None
        self._usage: Any = None
        self._refusal: list[str] = []
        self._logprobs: list[Any] = []
        self._urls: set[str] = set()

    def feed(self, events: list[bytes]) -> list[Part]:
        """The parts that these events make; after the end marker the last one is `Finish`.

        Raises:
            ModelError: An error event, or one that cannot be read.
        """
        assembler = self._assembler
        for data in events:
            try:
                chunk = _chunk(data)
            except (msgspec.DecodeError, RecursionError) as error:
                if data.strip() == DONE:
                    return self.end()
                if not data.strip():
                    continue
                raise self._unreadable(data, error) from error
            choices = chunk.choices
            if self._named and choices and len(choices) == 1:
                choice = choices[0]
                delta = choice.delta
                if delta is not None and _is_plain(choice, delta, chunk):
                    assembler.text(cast("str", delta.content))
                    continue
            self._slowly(chunk, data)
        return assembler.take()

    def end(self) -> list[Part]:
        """The last parts: at the end marker or at the end of the stream.

        Raises:
            ModelError: The answer was cut off, for there was no finish reason.
        """
        if self.finished:
            return []
        if self._reason is None:
            raise self._answering.cut_off("a finish reason")
        self._assembler.end()
        if not self._assembler.calls and _REASONS.get(self._reason) == "tool-calls":
            raise broken_stream(self._provider, f"it ends with {self._reason} and holds no tool call")
        self.finished = True
        self._assembler.parts.append(self._finish(self._reason))
        return self._assembler.take()

    def whole(self, body: bytes) -> list[Part]:
        """See `Reader.whole`."""
        return [*self.feed([body]), *self.end()]

    def _finish(self, reason: str) -> Finish:
        known = _REASONS.get(reason, "other")
        if self._assembler.calls and known == "stop":
            known = "tool-calls"
        return Finish(known, usage_of(self._usage), reason, self._metadata())

    def _metadata(self) -> Mapping[str, Any] | None:
        found: dict[str, Any] = {}
        if self._refusal:
            found["refusal"] = "".join(self._refusal)
        if self._logprobs:
            found["logprobs"] = self._logprobs
        return {self._provider: found} if found else None

    def _slowly(self, chunk: ChatChunk, data: bytes) -> None:
        if not self._named:
            self._name(data)
        if chunk.error is not None or not (chunk.choices or chunk.usage):
            self._check_error(data)
        if chunk.usage is not None:
            self._usage = chunk.usage
        elif chunk.x_groq is not None and chunk.x_groq.usage is not None:
            self._usage = chunk.x_groq.usage
        for choice in chunk.choices or ():
            if not choice.index and not self._is_repeat(choice, data):
                self._choice(choice)
        for citation in chunk.citations or ():
            self._cite(citation)

    def _name(self, data: bytes) -> None:
        """Say which response this is, once its first event with an id, or with anything else, is there."""
        try:
            head = _head(data)
        except (msgspec.DecodeError, RecursionError):
            head = Head()
        if not head.id and b'"delta"' not in data:
            return
        self._named = True
        self._answering.name(head.id, head.model, head.created)

    def _is_repeat(self, choice: Choice, data: bytes) -> bool:
        """Whether an event of whole calls came before, byte for byte: nobody else tells calls without ids apart."""
        calls = choice.delta.tool_calls if choice.delta is not None else None
        if not calls:
            return False
        before, self._called = self._called, data
        return before == data and all(_is_whole(call) for call in calls)

    def _check_error(self, data: bytes) -> None:
        if (error := read_error(_any(data))) is not None:
            raise self._answering.failed(error)

    def _choice(self, choice: Choice) -> None:
        if choice.error is not None or choice.finish_reason == "error":
            error = read_error({"error": choice.error or "the provider ended the answer with an error"})
            if error is not None:
                raise self._answering.failed(error)
        if choice.logprobs is not None:
            self._logprobs += choice.logprobs.content or ()
        self._delta(choice.delta or choice.message or NO_DELTA)
        if choice.finish_reason:
            self._reason = choice.finish_reason

    def _delta(self, delta: Delta) -> None:
        assembler = self._assembler
        reasoning = delta.reasoning_content or delta.reasoning
        if isinstance(reasoning, str):
            assembler.reasoning(reasoning)
        if isinstance(delta.content, str):
            assembler.text(delta.content)
        elif delta.content:
            self._content_parts(delta.content)
        if delta.refusal:
            self._refusal.append(delta.refusal)
            assembler.text(delta.refusal)
        if delta.tool_calls:
            assembler.tools([self._tool_delta(call) for call in delta.tool_calls])
        elif delta.function_call is not None:
            assembler.tools([self._tool_delta(CallDelta(0, None, delta.function_call))])
        for annotation in delta.annotations or ():
            self._cite(annotation)
        for image in delta.images or ():
            self._image(image)

    def _content_parts(self, parts: list[Any]) -> None:
        """Content as a list: Mistral's text and thinking parts, OpenAI's text and refusal parts."""
        for part in parts:
            if isinstance(part, str):
                self._assembler.text(part)
                continue
            record = _record(part)
            if "thinking" in record:
                self._assembler.reasoning(_joined_text(record["thinking"]))
            else:
                text = record.get("text") or record.get("refusal")
                self._assembler.text(text if isinstance(text, str) else "")

    def _tool_delta(self, call: CallDelta) -> ToolDelta:
        function = call.function
        arguments = function.arguments if function else None
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        extra = {self._provider: {"extra_content": call.extra_content}} if call.extra_content else None
        return ToolDelta(call.index, call.id, function.name if function else None, arguments, extra)

    def _cite(self, citation: Any) -> None:
        outer = _record(citation) or {"url": citation}
        record = _record(outer.get("url_citation")) or outer
        url = record.get("url")
        if isinstance(url, str) and url not in self._urls:
            self._urls.add(url)
            self._assembler.source(url, str(record.get("title") or ""))

    def _image(self, image: Any) -> None:
        url = _record(_record(image).get("image_url")).get("url")
        if not isinstance(url, str):
            return
        head, _, data = url.partition(";base64,")
        if data and head.startswith("data:"):
            self._assembler.file(FilePayload(data, head[5:], data))
        else:
            self._assembler.file(FilePayload(url, "image/*"))

    def _unreadable(self, data: bytes, error: Exception) -> ModelError:
        return self._answering.unreadable(data, error, "a chat completion chunk")


def _is_plain(choice: Choice, delta: Delta, chunk: ChatChunk) -> bool:
    """Whether an event is text and nothing else: nearly all are."""
    return (
        delta.content.__class__ is str
        and choice.finish_reason is None
        and delta.tool_calls is None
        and delta.reasoning_content is None
        and delta.reasoning is None
        and delta.refusal is None
        and delta.function_call is None
        and delta.annotations is None
        and delta.images is None
        and choice.logprobs is None
        and choice.error is None
        and not choice.index
        and chunk.usage is None
        and chunk.error is None
        and chunk.citations is None
    )


def _is_whole(call: CallDelta) -> bool:
    arguments = call.function.arguments if call.function is not None else None
    return isinstance(arguments, dict) or parse_arguments(arguments or "-")[0] is not None


def usage_of(raw: Any) -> Usage:
    """Normalised usage; what a provider left out or mistyped counts as nothing."""
    if raw is None:
        return Usage()
    try:
        wire = msgspec.convert(raw, WireUsage, strict=False)
    except msgspec.ValidationError:
        return Usage(raw=raw)
    prompt = wire.prompt_tokens_details
    output = wire.completion_tokens_details
    reasoning = output.reasoning_tokens if output else None
    total_in, total_out = wire.prompt_tokens or 0, wire.completion_tokens or 0
    if reasoning and wire.total_tokens == total_in + total_out + reasoning:
        total_out += reasoning  # xAI counts it beside the completion, where others count it within
    return Usage(
        total_in,
        total_out,
        wire.total_tokens or total_in + total_out,
        reasoning,
        prompt.cached_tokens if prompt else wire.prompt_cache_hit_tokens,
        prompt.cache_write_tokens if prompt else None,
        raw,
    )


def _joined_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    parts = cast("list[Any]", value) if isinstance(value, list) else []
    return "".join(str(_record(part).get("text") or "") for part in parts)


def _record(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
