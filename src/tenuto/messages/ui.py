"""Stored messages as a user interface shows them: UI messages of the AI SDK.

Invariant: a UI message read again (`ui_input`) is the stored message it was made from, but for what this form has no
place for: thread, resource, a message's `type` and provider metadata, and the role of a signal. What a part of the
stored form has and the UI form has not is kept in its metadata under `mastra`. Payloads that a `transform` hides from
transcripts are not in it.

Source: the AI SDK, `UIMessage` and its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, assert_never, cast

from msgspec import UNSET, Struct, UnsetType, to_builtins

from tenuto.core.payloads import wire_name
from tenuto.messages import stored as s
from tenuto.messages.bounded import model_text

UIPart = Mapping[str, Any]
"""A part in its wire spelling: its `type` may hold a tool's name, which no struct can say."""

STATES: Mapping[s.InvocationState, str] = {
    "partial-call": "input-streaming",
    "call": "input-available",
    "approval-requested": "approval-requested",
    "approval-responded": "approval-responded",
    "result": "output-available",
    "output-error": "output-error",
    "output-denied": "output-denied",
}
ERROR = "error"
"""The name of the data part that shows how a response failed."""


class UIMessage(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """A message of a user interface; `parts` and `metadata` are plain values in the AI SDK's spelling.

    Attributes:
        metadata: The stored message's, and its time as `createdAt`.
    """

    id: str
    role: Literal["user", "assistant", "system"]
    parts: tuple[UIPart, ...]
    metadata: Mapping[str, Any] | UnsetType = UNSET

    def to_dict(self) -> dict[str, Any]:
        """The message as the AI SDK has it."""
        return {**to_builtins(self), "parts": [dict(part) for part in self.parts]}


def to_ui(message: s.Message) -> UIMessage:
    """`message` for a user interface, tools' payloads as in `Message.to_transcript`."""
    metadata = {**(message.content.metadata or {}), "createdAt": iso(message.created_at)}
    parts = [to_ui_part(part) for part in message.content.parts]
    match message.role:
        case "user" | "assistant" | "system":
            return UIMessage(message.id, message.role, tuple(parts), metadata)
        case "signal":
            return _signal(message, parts, metadata)
        case _:
            assert_never(message.role)


def to_ui_messages(messages: Iterable[s.Message]) -> list[UIMessage]:
    """The messages for a user interface; signals that nobody wrote join the assistant's message beside them."""
    joined: list[UIMessage] = []
    waiting: tuple[UIPart, ...] = ()
    for message in messages:
        shown = to_ui(message)
        if message.role == "signal" and shown.role == "system":
            if joined and joined[-1].role == "assistant":
                joined[-1] = _with_parts(joined[-1], (*joined[-1].parts, *shown.parts))
            else:
                joined.append(UIMessage(shown.id, "assistant", shown.parts, shown.metadata))
                waiting = shown.parts
            continue
        if waiting and shown.role == "assistant" and joined[-1].parts == waiting:
            joined[-1] = _with_parts(shown, (*waiting, *shown.parts))
        else:
            joined.append(shown)
        waiting = ()
    return joined


def iso(at: datetime) -> str:
    """A time as JavaScript writes it: UTC, milliseconds, a Z; finer where it is finer."""
    plain = at.isoformat(timespec="milliseconds" if at.microsecond % 1000 == 0 else "microseconds")
    return plain.replace("+00:00", "Z")


def _with_parts(message: UIMessage, parts: tuple[UIPart, ...]) -> UIMessage:
    return UIMessage(message.id, message.role, parts, message.metadata)


def _signal(message: s.Message, parts: list[UIPart], metadata: dict[str, Any]) -> UIMessage:
    """A signal that a user wrote is a user's message; any other is one part of data.

    Its envelope says which, and stays in the metadata.
    """
    envelope: Mapping[str, Any] = (message.content.metadata or {}).get("signal") or {}
    kind = str(envelope.get("type") or message.type or "user")
    if kind in {"user", "user-message"}:
        return UIMessage(message.id, "user", tuple(parts), metadata)
    texts = [part for part in message.content.parts if isinstance(part, s.TextPart)]
    contents = texts[0].text if len(texts) == len(parts) == 1 else parts
    data = {"id": message.id, "type": kind, **envelope, "contents": contents}
    return UIMessage(message.id, "system", ({"type": "data-signal", "data": data},), metadata)


def to_ui_part(part: s.MessagePart) -> UIPart:
    """A part in the AI SDK's form."""
    match part:
        case s.TextPart():
            return _known(type="text", text=part.text, providerMetadata=part.provider_metadata)
        case s.ReasoningPart():
            plain = (s.ReasoningDetail("text", part.reasoning),)
            own = {} if part.details == plain else {"details": [to_builtins(each) for each in part.details]}
            return _known(type="reasoning", text=part.reasoning, providerMetadata=_with_own(part, own))
        case s.ToolInvocationPart():
            return _tool(s.for_transcript(part))
        case s.StoredFilePart():
            url = part.url if part.data is None else f"data:{part.mime_type};base64,{part.data}"
            return _known(
                type="file",
                mediaType=part.mime_type,
                filename=part.filename,
                url=url or "",
                providerMetadata=part.provider_metadata,
            )
        case s.CustomPart():
            return _known(type="custom", kind=part.kind, providerMetadata=part.provider_metadata)
        case s.SourcePart():
            return _source(part)
        case s.SourceDocumentPart():
            return cast("UIPart", to_builtins(part))
        case s.DataPart():
            return {**_known(type=f"data-{part.name}", id=part.id), "data": part.data}
        case s.StepStartPart():
            return _known(type="step-start", model=part.model)
        case s.ErrorPart():
            return {"type": f"data-{ERROR}", "data": to_builtins(part.error)}
        case _:
            assert_never(part)


def _known(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _with_own(part: s.ReasoningPart | s.SourcePart | s.ToolInvocationPart, own: Mapping[str, Any]) -> Any:
    """The part's metadata, and beside the providers' what the UI form has no place for."""
    metadata = part.provider_metadata
    if not own:
        return metadata
    before: Mapping[str, Any] = (metadata or {}).get(s.OWN) or {}
    return {**(metadata or {}), s.OWN: {**before, **own}}


def _source(part: s.SourcePart) -> UIPart:
    source = part.source
    rest = {name: value for name, value in source.items() if name not in {"id", "sourceType", "url", "title"}}
    own = {"source": dict(source)} if rest or source.get("sourceType") != "url" or "id" not in source else {}
    return _known(
        type="source-url",
        sourceId=str(source.get("id") or source.get("url") or ""),
        url=str(source.get("url") or ""),
        title=source.get("title"),
        providerMetadata=_with_own(part, own),
    )


def _tool(part: s.ToolInvocationPart) -> UIPart:
    call = part.tool_invocation
    return {
        "type": f"tool-{call.tool_name}",
        "toolCallId": call.tool_call_id,
        "state": STATES[call.state],
        "input": call.args,
        **_outcome(call),
        **_known(
            rawInput=call.raw_input,
            approval=_approval(call),
            title=part.title,
            preliminary=part.preliminary,
            providerExecuted=part.provider_executed,
            callProviderMetadata=_with_own(part, _rest(call)),
        ),
    }


def _outcome(call: s.ToolInvocation) -> dict[str, Any]:
    match call.state:
        case "result":
            return {"output": call.result}
        case "output-error":
            return {"errorText": model_text(call.result) if call.error_text is None else call.error_text}
        case "output-denied":
            return _known(errorText=call.error_text)
        case _:
            return {}


def _approval(call: s.ToolInvocation) -> Any:
    """The approval of a call; one that was denied always has one in this form."""
    if call.approval is None and call.state == "output-denied":
        return _known(id=call.tool_call_id, approved=False, reason=call.error_text)
    return None if call.approval is None else to_builtins(call.approval)


def _rest(call: s.ToolInvocation) -> dict[str, Any]:
    """What an invocation holds beyond what a tool part of this state shows."""
    rest: dict[str, Any] = _known(isError=call.is_error, step=call.step)
    if call.state != "result" and call.result is not None:
        rest["result"] = call.result
    if call.error_text is not None and call.state not in {"output-error", "output-denied"}:
        rest["errorText"] = call.error_text
    if call.state == "output-error" and call.error_text is None:
        rest["errorText"] = None
    return rest
