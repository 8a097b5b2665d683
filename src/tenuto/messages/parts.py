"""The parts of a model message, `{"role": ..., "content": [...]}`, as stored parts.

Invariant: a part is read whole or refused; nothing of an unknown kind is dropped. Provider options of a part stay
with it, for they mark what a provider should cache.

Source: the AI SDK's model messages, in the spellings of its versions 4 and 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec.structs import replace

from tenuto.messages import stored as s
from tenuto.messages.answers import Answer, either, read_answer
from tenuto.messages.bounded import valid_text
from tenuto.messages.files import NotAFile, read_file

_COMMON = ("text", "image", "file")
KINDS: Mapping[str, tuple[str, ...]] = {
    "system": ("text",),
    "user": _COMMON,
    "assistant": (*_COMMON, "reasoning", "redacted-reasoning", "tool-call", "tool-result", "custom"),
    "tool": ("tool-result",),
}
"""The kinds of parts that a message of each role may have."""


class NotAPart(ValueError):
    """A part that cannot be read; the message says why."""


_FOREIGN = {
    "image_url": ' Write {"type": "image", "image": url}.',
    "input_image": ' Write {"type": "image", "image": url}.',
    "input_text": ' Write {"type": "text", "text": ...}.',
    "output_text": ' Write {"type": "text", "text": ...}.',
    "tool_use": ' Write {"type": "tool-call", "tool_call_id": ..., "tool_name": ..., "input": ...}.',
    "tool_result": ' Write it as a "tool-result" in a message of role "tool".',
}


def read_part(role: str, part: object) -> s.MessagePart | Answer:
    """The stored form of a part; a `tool-result` is an answer to a call elsewhere.

    Raises:
        NotAPart: It is no part that a message of this role has.
    """
    if isinstance(part, str):
        return s.TextPart(valid_text(part))
    kind = cast("Mapping[str, Any]", part).get("type") if isinstance(part, Mapping) else None
    if kind not in KINDS[role]:
        known = ", ".join(KINDS[role])
        instead = _FOREIGN.get(kind, "") if isinstance(kind, str) else ""
        raise NotAPart(
            f"is no part of a message of role {role!r}: {shown(cast('object', part))}. Known parts: {known}.{instead}"
        )
    given = cast("Mapping[str, Any]", part)
    try:
        found = _read(str(kind), given)
    except NotAFile as error:
        raise NotAPart(f"of type {kind!r} is no file: {error}.") from error
    if found is None:
        raise NotAPart(f"of type {kind!r} is incomplete or of the wrong form: {shown(given)}.")
    return found


def _read(kind: str, part: Mapping[str, Any]) -> s.MessagePart | Answer | None:
    metadata = metadata_of(part)
    match kind:
        case "text" if isinstance(part.get("text"), str):
            return s.TextPart(valid_text(part["text"]), metadata)
        case "image":
            return replace(_image(part), provider_metadata=metadata)
        case "file":
            source = either(part, "data")
            source = either(part, "url") if source is None else source
            return replace(read_file(source, media_type_of(part), part.get("filename")), provider_metadata=metadata)
        case "reasoning" if isinstance(part.get("text"), str):
            return reasoning(part["text"], part.get("signature"), None, metadata)
        case "redacted-reasoning" if isinstance(part.get("data"), str):
            return reasoning("", None, part["data"], metadata)
        case "custom" if isinstance(part.get("kind"), str):
            return s.CustomPart(part["kind"], metadata)
        case "tool-call":
            return _call(part, metadata)
        case "tool-result":
            return read_answer(part)
        case _:
            return None


def _image(part: Mapping[str, Any]) -> s.StoredFilePart:
    file = read_file(either(part, "image"), media_type_of(part) or "image/*", part.get("filename"))
    if file.data is not None and file.mime_type == "image/*":
        return replace(file, mime_type="image/png")  # what the format takes for granted
    return file


def _call(part: Mapping[str, Any], metadata: Mapping[str, Any] | None) -> s.ToolInvocationPart | None:
    call_id, name = either(part, "tool_call_id"), either(part, "tool_name")
    if not isinstance(call_id, str) or not isinstance(name, str):
        return None
    args = either(part, "args")
    call = s.ToolInvocation("call", call_id, name, either(part, "input") if args is None else args)
    return s.ToolInvocationPart(call, either(part, "provider_executed"), provider_metadata=metadata)


def reasoning(
    text: str, signature: str | None, redacted: str | None, metadata: Mapping[str, Any] | None
) -> s.ReasoningPart:
    """Reasoning with what its provider wants back, which the AI SDK keeps in Anthropic's metadata."""
    theirs: Mapping[str, Any] = (metadata or {}).get("anthropic") or {}
    plain, data = valid_text(text), redacted or theirs.get("redactedData")
    if data:
        return s.ReasoningPart(plain, (s.ReasoningDetail("redacted", data=data),), metadata)
    detail = s.ReasoningDetail("text", plain, signature or theirs.get("signature"))
    return s.ReasoningPart(plain, (detail,), metadata)


def metadata_of(given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Provider options or metadata of a part or a message, by provider; None when there are none."""
    found: dict[str, Any] = {}
    for name in ("experimental_providerMetadata", "provider_metadata", "provider_options"):
        value: Any = either(given, name)
        if value is not None and not isinstance(value, Mapping):
            raise NotAPart(f"has {name} that are no mapping by provider: {shown(cast('object', value))}.")
        found.update(cast("Mapping[str, Any]", value or {}))
    return found or None


def media_type_of(part: Mapping[str, Any]) -> str | None:
    """The media type, under the name of either version."""
    found = either(part, "media_type") or either(part, "mime_type")
    return found if isinstance(found, str) else None


def shown(given: object) -> str:
    """`given` in at most 120 characters."""
    text = repr(given)
    return text if len(text) <= 120 else f"{text[:117]}..."
