"""Stored messages, format 2: what `result.messages` holds, what a memory keeps and what may be passed in again.

Invariant: a stored message is complete in itself; a tool's result lives in the assistant message that called it, and
one assistant message holds a whole response, its steps divided by `step-start` parts.

Source: the stored message format "v2" of Mastra (field and state names).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from tenuto.core.payloads import Json, wire_name

if TYPE_CHECKING:
    from tenuto.messages.ui import UIMessage

OWN = "mastra"
"""Where the metadata of a stored part keep what is not a provider's, such as `modelOutput`."""

TRANSFORMS = "toolPayloadTransform"
"""Where they keep what a transcript shows of a tool's payloads."""

HIDDEN: Mapping[str, Any] = {"hidden": True}
"""Stands for a payload that nobody gave a form for."""

InvocationState = Literal[
    "partial-call", "call", "result", "output-error", "output-denied", "approval-requested", "approval-responded"
]


class TextPart(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="text"):
    """Text."""

    text: str
    provider_metadata: Mapping[str, Any] | None = None


class ReasoningDetail(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """A piece of reasoning as its provider wants it back: `text` with a `signature`, or `redacted` `data`."""

    type: Literal["text", "redacted"]
    text: str | None = None
    signature: str | None = None
    data: str | None = None


class ReasoningPart(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="reasoning"):
    """Reasoning of the model."""

    reasoning: str
    details: tuple[ReasoningDetail, ...] = ()
    provider_metadata: Mapping[str, Any] | None = None


class Approval(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """A request for somebody's decision on a call, and the decision once there is one."""

    id: str
    approved: bool | None = None
    reason: str | None = None


class ToolInvocation(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """A call and what came of it."""

    state: InvocationState
    tool_call_id: str
    tool_name: str
    args: Json = None
    step: int | None = None
    result: Json = None
    is_error: bool | None = None
    error_text: str | None = None
    raw_input: str | None = None
    approval: Approval | None = None


class ToolInvocationPart(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="tool-invocation"):
    """A tool call inside an assistant message; a `preliminary` result is one that the tool will replace."""

    tool_invocation: ToolInvocation
    provider_executed: bool | None = None
    title: str | None = None
    provider_metadata: Mapping[str, Any] | None = None
    preliminary: bool | None = None


class StoredFilePart(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="file"):
    """A file: `url`, or `data` as base64 text."""

    mime_type: str
    url: str | None = None
    data: str | None = None
    filename: str | None = None
    provider_metadata: Mapping[str, Any] | None = None


class CustomPart(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="custom"):
    """A part only its provider knows, to be sent back unchanged; `kind` is `provider.type`."""

    kind: str
    provider_metadata: Mapping[str, Any] | None = None


class SourcePart(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="source"):
    """A page the provider used: `id`, `sourceType`, `title`, `url`."""

    source: Mapping[str, Any]
    provider_metadata: Mapping[str, Any] | None = None


class SourceDocumentPart(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="source-document"):
    """A document the provider used."""

    source_id: str
    media_type: str
    title: str
    filename: str | None = None
    provider_metadata: Mapping[str, Any] | None = None


class DataPart(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="data"):
    """Data for the user's interface; its type on the wire is `data-<name>`. A model never sees it."""

    name: str
    data: Json = None
    id: str | None = None


class StepStartPart(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="step-start"):
    """The boundary before a step's parts; `model` is `provider/model`."""

    model: str | None = None


class ErrorText(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """Identity of an error."""

    name: str
    message: str


class ErrorPart(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="error"):
    """The failure that ended the response."""

    error: ErrorText


MessagePart = (
    TextPart
    | ReasoningPart
    | ToolInvocationPart
    | StoredFilePart
    | CustomPart
    | SourcePart
    | SourceDocumentPart
    | DataPart
    | StepStartPart
    | ErrorPart
)


class Content(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """The content of a message; `format` is always 2 and always written."""

    parts: tuple[MessagePart, ...]
    format: int = 2
    metadata: Mapping[str, Any] | None = None
    provider_metadata: Mapping[str, Any] | None = None


class Message(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """One stored message; `created_at` orders a conversation and never repeats in it."""

    id: str
    role: Literal["user", "assistant", "system", "signal"]
    created_at: datetime
    content: Content
    thread_id: str | None = None
    resource_id: str | None = None
    type: str | None = None

    @property
    def text(self) -> str:
        """All text parts, joined."""
        return "".join(part.text for part in self.content.parts if isinstance(part, TextPart))

    def to_dict(self) -> dict[str, Any]:
        """The stored form as plain values: camelCase names, `createdAt` in ISO 8601."""
        plain = to_builtins(self)
        plain["content"]["format"] = self.content.format
        plain["content"]["parts"] = [_data_named(part) for part in plain["content"]["parts"]]
        return plain

    def to_transcript(self) -> Message:
        """The message as users may see it: of a tool whose payloads are transformed, what was put in their place."""
        parts = tuple(for_transcript(p) if isinstance(p, ToolInvocationPart) else p for p in self.content.parts)
        return replace(self, content=replace(self.content, parts=parts))

    def to_ui(self) -> UIMessage:
        """The form a user interface shows, of what `to_transcript` leaves: a `UIMessage` of the AI SDK."""
        from tenuto.messages.ui import to_ui

        return to_ui(self)


def for_transcript(part: ToolInvocationPart) -> ToolInvocationPart:
    """The part as users may see it; see `Message.to_transcript`."""
    own: Mapping[str, Any] = (part.provider_metadata or {}).get(OWN) or {}
    kept: Mapping[str, Any] = own.get(TRANSFORMS) or {}
    entries: Mapping[str, Mapping[str, Any]] | None = kept.get("transcript")
    if entries is None:
        return part

    def shown(phase: str) -> Any:
        entry = entries.get(phase)
        return HIDDEN if entry is None else entry.get("transformed", HIDDEN)

    call = replace(part.tool_invocation, args=shown("input-available"), raw_input=None)
    if call.state == "result":
        call = replace(call, result=shown("output-available"))
    elif call.state == "output-error":
        error = shown("error")
        call = replace(call, result=None, error_text=error if isinstance(error, str) else "[hidden]")
    return replace(part, tool_invocation=call, provider_metadata={OWN: {TRANSFORMS: {"transcript": entries}}})


def _data_named(part: dict[str, Any]) -> dict[str, Any]:
    """A part of data under the type it has on the wire."""
    if part["type"] != "data":
        return part
    kept = {name: value for name, value in part.items() if name not in {"type", "name"}}
    return {"type": f"data-{part['name']}", **kept}


def read_message(given: Mapping[str, Any]) -> Message:
    """A message from its stored form.

    Raises:
        msgspec.ValidationError: It is none.
    """
    content = given.get("content")
    parts = cast("Mapping[str, Any]", content).get("parts") if isinstance(content, Mapping) else None
    if isinstance(parts, (list, tuple)):
        read = [_data_read(part) for part in cast("Sequence[Any]", parts)]
        given = {**given, "content": {**cast("Mapping[str, Any]", content), "parts": read}}
    return convert(given, Message)


def _data_read(part: Any) -> Any:
    kind: Any = cast("Mapping[str, Any]", part).get("type") if isinstance(part, Mapping) else None
    if not isinstance(kind, str) or not kind.startswith("data-"):
        return cast("Any", part)
    return {**cast("Mapping[str, Any]", part), "type": "data", "name": kind.removeprefix("data-")}


_TICK = timedelta(milliseconds=1)


def timestamp(seconds: float) -> datetime:
    """UTC time of `seconds` since the epoch."""
    return datetime.fromtimestamp(seconds, UTC)


def in_order(messages: Iterable[Message]) -> list[Message]:
    """The messages in their given order, with `created_at` nudged by 1 ms where it would not grow."""
    ordered: list[Message] = []
    for message in messages:
        if ordered and message.created_at <= (last := ordered[-1].created_at):
            ordered.append(replace(message, created_at=last + _TICK))
        else:
            ordered.append(message)
    return ordered
