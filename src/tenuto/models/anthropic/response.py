"""The answer of a messages call: events in, parts out.

Invariant: it ends with `Finish` only at `message_stop` and with a stop reason; an error event, an event that is not
JSON, a piece of a block that never began and a stream that stops early raise. Usage is the last value of each field.

Source: Anthropic API reference, "Streaming messages", "Errors", "Handling stop reasons".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from tenuto.core.errors import ModelError
from tenuto.core.payloads import Usage
from tenuto.models.answering import Answering
from tenuto.models.anthropic.content import Content
from tenuto.models.anthropic.request import CONTAINER
from tenuto.models.anthropic.wire import Event, Message, Whole, WireUsage
from tenuto.models.http_errors import ProviderError, broken_stream, read_error
from tenuto.models.ports import Finish, Part, ProviderReason

_REASONS: Mapping[str, ProviderReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "refusal": "content-filter",
}
"""`pause_turn` and `compaction` are `other`: the provider wants the answer back to go on with it, and gets it."""

_STATUS: Mapping[str, int] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_FINAL = ("stop_sequence", "stop_details", "container", "context_management")
_event = msgspec.json.Decoder(Event).decode
_whole = msgspec.json.Decoder(Whole).decode
_any = msgspec.json.Decoder().decode


class AnthropicResponse:
    """Decodes one answer; see `wire_format.Reader`."""

    __slots__ = (
        "_answering", "_assembler", "_content", "_final", "_named", "_provider", "_reason", "_usage",
        "finished",
    )  # fmt: skip

    def __init__(self, answering: Answering) -> None:
        self.finished: bool = False
        self._answering = answering
        self._provider = answering.provider
        self._assembler = answering.assembler
        self._content = Content(answering.provider, answering.assembler)
        self._named = False
        self._reason: str | None = None
        self._usage: dict[str, Any] = {}
        self._final: dict[str, Any] = {}

    def feed(self, events: list[bytes]) -> list[Part]:
        """See `Reader.feed`."""
        assembler = self._assembler
        content = self._content
        for data in events:
            try:
                event = _event(data)
            except (msgspec.DecodeError, RecursionError) as error:
                if not data.strip():
                    continue
                raise self._unreadable(data, error) from error
            delta = event.delta
            if (
                delta is not None
                and delta.type == "text_delta"
                and event.index == content.text_index
                and delta.text
                and event.error is None
            ):
                assembler.text(delta.text)
            elif self._slowly(event, data):
                return assembler.take()
        return assembler.take()

    def end(self) -> list[Part]:
        """See `Reader.end`."""
        if self.finished:
            return []
        raise self._answering.cut_off("message_stop")

    def whole(self, body: bytes) -> list[Part]:
        """See `Reader.whole`."""
        try:
            message = _whole(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._unreadable(body, error) from error
        if message.error is not None or message.type == "error":
            raise self._failed(_any(body))
        self._begin(message)
        self._take_final(message)
        self._finish()
        return self._assembler.take()

    def _slowly(self, event: Event, data: bytes) -> bool:
        """Take any event; True when it is the last one."""
        if event.error is not None or event.type == "error":
            raise self._failed(_any(data))
        match event.type:
            case "content_block_delta":
                index = event.index if event.index is not None else -1
                if event.delta is not None and not self._content.add(index, event.delta, data):
                    raise self._broken(f"a piece of block {index}, which is not open")
            case "content_block_start" if event.content_block is not None and event.index is not None:
                if not self._named:
                    raise self._broken("a block before message_start")
                self._content.begin(event.index, event.content_block)
            case "content_block_stop" if event.index is not None:
                if not self._content.has_begun(event.index):
                    raise self._broken(f"the end of block {event.index}, which never began")
                self._content.end(event.index)
            case "message_start" if event.message is not None:
                self._name(event.message, data)
            case "message_delta":
                self._delta(event)
            case "message_stop":
                self._finish()
                return True
            case _:
                pass  # ping, and what nobody knows yet
        return False

    def _name(self, message: dict[str, Any], data: bytes) -> None:
        if self._named:
            return  # told twice
        try:
            self._begin(msgspec.convert(message, Message))
        except msgspec.ValidationError as error:
            raise self._unreadable(data, error) from error

    def _begin(self, message: Message) -> None:
        """Say which response this is; it may have content already."""
        self._named = True
        self._answering.name(message.id, message.model)
        self._count(message.usage)
        self._reason = message.stop_reason or None
        for index, block in enumerate(message.content or ()):
            self._content.begin(index, block)
            self._content.end(index)

    def _delta(self, event: Event) -> None:
        self._count(event.usage)
        if event.delta is not None:
            self._reason = event.delta.stop_reason or self._reason
            self._take_final(event.delta)
        if event.context_management is not None:
            self._final["context_management"] = event.context_management

    def _take_final(self, said: Any) -> None:
        """What a message says of itself at its end, by the vendor's names."""
        for name in _FINAL:
            if (value := getattr(said, name, None)) is not None:
                self._final[name] = value

    def _count(self, usage: Mapping[str, Any] | None) -> None:
        """The counts so far; each is of the whole answer, so the last one stands."""
        if usage:
            self._usage.update((name, value) for name, value in usage.items() if value is not None)

    def _finish(self) -> None:
        if self._reason is None:
            raise self._broken("message_stop without a stop reason")
        if not self._named:
            raise self._broken("message_stop without message_start")
        self._content.close()
        if (container := self._final.get("container")) is not None:
            self._assembler.custom(f"{self._provider}.{CONTAINER}", {self._provider: container})
        self._assembler.end()
        reason = _REASONS.get(self._reason, "other")
        if self._assembler.calls and reason == "stop":
            reason = "tool-calls"
        elif not self._assembler.calls and reason == "tool-calls":
            raise self._broken(f"it ends with {self._reason} and holds no tool call")
        self.finished = True
        metadata = {self._provider: self._final} if self._final else None
        self._assembler.parts.append(Finish(reason, usage_of(self._usage), self._reason, metadata))

    def _failed(self, said: Any) -> ModelError:
        error = read_error(said) or ProviderError("the provider gave no message")
        return self._answering.failed(error, _STATUS.get(error.type or ""))

    def _broken(self, what: str) -> ModelError:
        return broken_stream(self._provider, what)

    def _unreadable(self, data: bytes, error: Exception) -> ModelError:
        return self._answering.unreadable(data, error, "one of a message", read=_error_in, statuses=_STATUS)


def _error_in(value: Any) -> ProviderError | None:
    """The error that an event holds; `message` alone is none, for message_start has one."""
    record = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return read_error(record) if "error" in record or record.get("type") == "error" else None


def usage_of(raw: dict[str, Any]) -> Usage:
    """Normalised usage: `input_tokens` holds all of the input, cached or not; a mistyped count is nothing."""
    if not raw:
        return Usage()
    try:
        wire = msgspec.convert(raw, WireUsage, strict=False)
    except msgspec.ValidationError:
        return Usage(raw=raw)
    read, written = wire.cache_read_input_tokens, wire.cache_creation_input_tokens
    total_in = (wire.input_tokens or 0) + (read or 0) + (written or 0)
    total_out = wire.output_tokens or 0
    kept = wire.cache_creation
    return Usage(
        total_in,
        total_out,
        total_in + total_out,
        wire.output_tokens_details.thinking_tokens if wire.output_tokens_details else None,
        read,
        written,
        cast("Any", raw),
        cache_creation_input_tokens_5m=kept.ephemeral_5m_input_tokens if kept else None,
        cache_creation_input_tokens_1h=kept.ephemeral_1h_input_tokens if kept else None,
    )
