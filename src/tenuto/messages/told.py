"""What a model is told of a tool's result in place of the result: text, JSON, or parts with files.

Invariant: whatever is stored under `modelOutput` can be read again, and the text that stands for it is bounded.

Source: the AI SDK's tool result output (`{"type": "text" | "json" | "content", "value": ...}` and its content parts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from tenuto.core.payloads import Json, wire_name
from tenuto.messages.bounded import MODEL_TEXT_LIMIT, bounded, model_text, valid_text
from tenuto.messages.files import NotAFile, read_file
from tenuto.messages.turns import FilePart, Text, ToldPart

_IMAGE = "image/*"
_BYTES = "application/octet-stream"


class Told(Struct, frozen=True):
    """What a model is told.

    Attributes:
        text: In words; of parts, their texts and a line for each file.
        content: The parts, when it is more than text.
        stored: As it is stored.
    """

    text: str
    content: tuple[ToldPart, ...] | None
    stored: Json


class NotTold(ValueError):
    """A value that is of a known kind and cannot be read as such."""


def read_told(value: Json, limit: int = MODEL_TEXT_LIMIT) -> Told:
    """What `value` says: a plain value, or one of the kinds named above.

    Args:
        value: JSON.
        limit: Characters of text that the model is given.

    Raises:
        NotTold: Its kind is `content` and its parts are none.
    """
    match value:
        case {"type": "text" | "error-text", "value": str(text)}:
            return Told(model_text(text, limit), None, value)
        case {"type": "json" | "error-json", "value": inner}:
            return Told(model_text(inner, limit), None, value)
        case {"type": "content", "value": [*parts]}:
            content = tuple(_part(part, limit) for part in parts)
            return Told(in_words(content, limit), content, value)
        case {"type": "content"}:
            message = "the value of kind 'content' is a list of parts"
            raise NotTold(message)
        case str():
            return Told(model_text(value, limit), None, {"type": "text", "value": value})
        case _:
            return Told(model_text(value, limit), None, {"type": "json", "value": value})


def in_words(content: Sequence[ToldPart], limit: int = MODEL_TEXT_LIMIT) -> str:
    """The parts as text, for a model that cannot be given files as a result."""
    return bounded("\n".join(part.text if isinstance(part, Text) else file_in_words(part) for part in content), limit)


def file_in_words(part: FilePart) -> str:
    """A line that stands for a file."""
    where = part.url or part.filename
    return f"[File of type {part.media_type}{f': {where}' if where else ''}]"


def _part(part: Any, limit: int) -> ToldPart:
    if isinstance(part, str):
        return Text(bounded(valid_text(part), limit))
    if not isinstance(part, Mapping):
        raise _not_a_part(cast("object", part))
    given = cast("Mapping[str, Any]", part)
    kind = given.get("type")
    if kind == "text" and isinstance(given.get("text"), str):
        return Text(bounded(valid_text(given["text"]), limit))
    if kind in {"media", "file", "file-data", "image", "image-data", "file-url", "image-url"}:
        return _file(given, str(kind))
    raise _not_a_part(given)


def _file(given: Mapping[str, Any], kind: str) -> FilePart:
    media_type = _either(given, "media_type") or _either(given, "mime_type")
    media_type = media_type or (_IMAGE if kind.startswith("image") else _BYTES)
    source = given.get("data") or given.get("url") or given.get("image")
    if not isinstance(source, str) or not isinstance(media_type, str):
        raise _not_a_part(given)
    try:
        file = read_file(source, media_type, given.get("filename"))
    except NotAFile as error:
        message = f"a part of type {kind!r} is no file: {error}"
        raise NotTold(message) from error
    return FilePart(file.mime_type, file.url, file.data, file.filename)


def _either(given: Mapping[str, Any], name: str) -> Any:
    value = given.get(name)
    return given.get(wire_name(name)) if value is None else value


def _not_a_part(part: object) -> NotTold:
    known = '{"type": "text", "text": ...} or {"type": "media", "data": base64 or "url": ..., "media_type": ...}'
    return NotTold(f"{part!r:.120} is no part; give {known}")
