"""Messages of a user interface, of the AI SDK's versions 4 to 6, as stored parts.

Invariant: the inverse of `ui`; a part of an unknown kind is refused, never dropped. Thread and resource are never
read from a message: whose conversation it is, the call says.

Source: the AI SDK, `UIMessage` and its parts; of version 4 also `toolInvocations` and `experimental_attachments`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from tenuto.messages import stored as s
from tenuto.messages.answers import either
from tenuto.messages.bounded import valid_text
from tenuto.messages.files import NotAFile, read_file
from tenuto.messages.parts import NotAPart, media_type_of, metadata_of, reasoning, shown
from tenuto.messages.ui import ERROR, STATES

_STATES: Mapping[str, s.InvocationState] = {shown: stored for stored, shown in STATES.items()}
_VERSION_4: Mapping[str, s.InvocationState] = {"partial-call": "partial-call", "call": "call", "result": "result"}
KNOWN = (
    "text, reasoning, file, source-url, source-document, step-start, tool-<name>, dynamic-tool, data-<name>, custom; "
    "of version 4 tool-invocation and source"
)
_LEGACY = ("toolInvocations", "experimental_attachments")


def is_ui(item: Mapping[str, Any]) -> bool:
    """Whether a message is one of a user interface: it has parts beside its content, or version 4's fields."""
    return isinstance(item.get("parts"), (list, tuple)) or any(item.get(name) is not None for name in _LEGACY)


def ui_parts(item: Mapping[str, Any]) -> list[s.MessagePart]:
    """The stored parts of a UI message.

    Raises:
        NotAPart: One of them is unknown or incomplete.
    """
    given = item.get("parts")
    if not isinstance(given, (list, tuple)):
        return list(_legacy(item))
    parts: list[s.MessagePart] = []
    for place, part in enumerate(cast("Sequence[Any]", given)):
        try:
            parts.append(_part(part))
        except NotAPart as error:
            raise NotAPart(f"part {place} {error}") from error
        except NotAFile as error:
            raise NotAPart(f"part {place} is no file: {error}.") from error
    parts.extend(_attachments(item))
    return parts


def _legacy(item: Mapping[str, Any]) -> Iterable[s.MessagePart]:
    """Version 4 without parts: calls by step, and the text behind them, unless one still waits for its result."""
    if isinstance(item.get("reasoning"), str):
        yield reasoning(item["reasoning"], None, None, None)
    content = item.get("content")
    text = [s.TextPart(valid_text(content))] if isinstance(content, str) and content else []
    calls = [_invocation(each, "tool-invocation") for each in _list(item, "toolInvocations")]
    waiting = any(part.tool_invocation.state != "result" for part in calls)
    if waiting or not calls:
        yield from text
        text = []
    step: int | None = None
    for place, part in enumerate(calls):
        if place and part.tool_invocation.step != step:
            yield s.StepStartPart()
        step = part.tool_invocation.step
        yield part
    if text:
        yield s.StepStartPart()
        yield from text
    yield from _attachments(item)


def _attachments(item: Mapping[str, Any]) -> Iterable[s.StoredFilePart]:
    for place, each in enumerate(_list(item, "experimental_attachments")):
        try:
            yield read_file(each.get("url"), each.get("contentType"), each.get("name"))
        except NotAFile as error:
            raise NotAPart(f"experimental_attachments[{place}] is no file: {error}.") from error


def _list(item: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    given: Any = item.get(name) or []
    if not isinstance(given, (list, tuple)) or not all(isinstance(each, Mapping) for each in cast("list[Any]", given)):
        raise NotAPart(f"{name} is a list of objects, not {shown(cast('object', given))}.")
    return list(cast("Sequence[Mapping[str, Any]]", given))


def _part(part: Any) -> s.MessagePart:
    kind: Any = cast("Mapping[str, Any]", part).get("type") if isinstance(part, Mapping) else None
    found = _read(kind, cast("Mapping[str, Any]", part)) if isinstance(kind, str) else None
    if found is None:
        text = f"is no part of a UI message: {shown(cast('object', part))}. Known parts: {KNOWN}."
        raise NotAPart(text)
    return found


def _read(kind: str, part: Mapping[str, Any]) -> s.MessagePart | None:  # noqa: PLR0911 - one line for each kind
    match kind:
        case "text" if isinstance(part.get("text"), str):
            return s.TextPart(valid_text(part["text"]), metadata_of(part))
        case "reasoning":
            return _reasoning(part)
        case "file":
            source = part.get("url") or part.get("data")
            file = read_file(source, media_type_of(part), part.get("filename"))
            return msgspec.structs.replace(file, provider_metadata=metadata_of(part))
        case "step-start":
            return s.StepStartPart(part.get("model"))
        case "source-url" | "source":
            return _source(part)
        case "source-document" | "custom":
            return _converted(part)
        case "tool-invocation" if either(part, "tool_invocation") is not None:
            return _invocation(either(part, "tool_invocation"), kind)
        case "dynamic-tool" if isinstance(either(part, "tool_name"), str):
            return _tool(part, either(part, "tool_name"))
        case _ if kind.startswith("tool-") and len(kind) > 5:
            return _tool(part, kind.removeprefix("tool-"))
        case _ if kind.startswith("data-") and len(kind) > 5:
            return _data(kind.removeprefix("data-"), part)
        case _:
            return None


def _converted(part: Mapping[str, Any]) -> s.SourceDocumentPart | s.CustomPart:
    try:
        return msgspec.convert(dict(part), s.SourceDocumentPart | s.CustomPart)
    except msgspec.ValidationError as error:
        raise NotAPart(f"of type {part['type']!r} is incomplete: {error}.") from error


def _data(name: str, part: Mapping[str, Any]) -> s.DataPart | s.ErrorPart:
    match part.get("data"):
        case {"name": str(kind), "message": str(text), **rest} if name == ERROR and not rest:
            return s.ErrorPart(s.ErrorText(kind, text))
        case data:
            return s.DataPart(name, data, part.get("id"))


def _reasoning(part: Mapping[str, Any]) -> s.ReasoningPart | None:
    """Reasoning of any version: 4 calls its text `reasoning` and has details of its own."""
    text = part.get("text") if part.get("text") is not None else part.get("reasoning")
    if not isinstance(text, str):
        return None
    metadata, own = _without_own(metadata_of(part), ("details",))
    details = part.get("details") or own.get("details")
    if details is None:
        return reasoning(text, None, None, metadata) if "details" not in own else None
    try:
        found = msgspec.convert(details, tuple[s.ReasoningDetail, ...])
    except msgspec.ValidationError:
        return None
    return s.ReasoningPart(valid_text(text), found, metadata)


def _source(part: Mapping[str, Any]) -> s.SourcePart | None:
    metadata, own = _without_own(metadata_of(part), ("source",))
    source: Any = part.get("source") or own.get("source")
    if source is None and isinstance(part.get("url"), str):
        source = {"id": either(part, "source_id"), "sourceType": "url", "title": part.get("title"), "url": part["url"]}
        source = {name: value for name, value in source.items() if value is not None}
    return s.SourcePart(cast("Mapping[str, Any]", source), metadata) if isinstance(source, Mapping) else None


def _invocation(given: Any, kind: str) -> s.ToolInvocationPart:
    """A call of version 4."""
    if not isinstance(given, Mapping):
        raise NotAPart(f"of type {kind!r} has no call: {shown(given)}.")
    given = cast("Mapping[str, Any]", given)
    call_id, name = either(given, "tool_call_id"), either(given, "tool_name")
    state = _VERSION_4.get(str(given.get("state")))
    if not isinstance(call_id, str) or not isinstance(name, str) or state is None:
        raise NotAPart(f"of type {kind!r} has no call in state {', '.join(_VERSION_4)}: {shown(given)}.")
    return s.ToolInvocationPart(
        s.ToolInvocation(state, call_id, name, given.get("args"), given.get("step"), given.get("result"))
    )


def _tool(part: Mapping[str, Any], name: str) -> s.ToolInvocationPart:
    call_id, state = either(part, "tool_call_id"), _STATES.get(str(part.get("state")))
    if not isinstance(call_id, str) or state is None:
        known = ", ".join(_STATES)
        raise NotAPart(f"is a tool call without an id or in no known state: {shown(part)}. Known states: {known}.")
    given = either(part, "call_provider_metadata") or metadata_of(part)
    metadata, own = _without_own(given, ("isError", "step", "result", "errorText"))
    failed = state in {"output-error", "output-denied"}
    call = s.ToolInvocation(
        state,
        call_id,
        name,
        part.get("input"),
        own.get("step"),
        part.get("output") if state == "result" else own.get("result"),
        own.get("isError"),
        part.get("errorText") if failed and "errorText" not in own else own.get("errorText"),
        either(part, "raw_input"),
        _approval(part, call_id, state),
    )
    return s.ToolInvocationPart(
        call, either(part, "provider_executed"), part.get("title"), metadata, part.get("preliminary")
    )


def _approval(part: Mapping[str, Any], call_id: str, state: s.InvocationState) -> s.Approval | None:
    """The approval of a call, but for the one that `ui` shows of every denied call."""
    match part.get("approval"):
        case {"id": str(given), **rest}:
            approved: Any = rest.get("approved")
            reason: Any = rest.get("reason")
            implied = (given, approved, reason) == (call_id, False, part.get("errorText"))
            return None if state == "output-denied" and implied else s.Approval(given, approved, reason)
        case _:
            return None


def _without_own(
    metadata: Mapping[str, Any] | None, names: tuple[str, ...]
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any]]:
    """Metadata without what `ui` put there, and what it put there."""
    if not metadata or not isinstance(own := metadata.get(s.OWN), Mapping):
        return metadata, {}
    ours = cast("Mapping[str, Any]", own)
    rest = {name: value for name, value in ours.items() if name not in names}
    kept = {name: value for name, value in metadata.items() if name != s.OWN or rest}
    return ({**kept, s.OWN: rest} if rest else kept) or None, ours
