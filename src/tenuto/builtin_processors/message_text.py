"""The text of stored messages and of JSON, with every piece of it passed through a function.

Invariant: a message in which nothing changed is the same object, and nothing but text ever changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from msgspec.structs import replace

from tenuto.core.payloads import Json
from tenuto.messages.stored import Message, TextPart


def with_text(message: Message, change: Callable[[str], str]) -> Message:
    """The message with `change` of each text part."""
    parts = tuple(_changed(part, change) if isinstance(part, TextPart) else part for part in message.content.parts)
    if all(new is old for new, old in zip(parts, message.content.parts, strict=True)):
        return message
    return replace(message, content=replace(message.content, parts=parts))


def with_whole_text(message: Message, text: str) -> Message:
    """The message saying `text`: in its first text part, without its others."""
    first = next((part for part in message.content.parts if isinstance(part, TextPart)), None)
    kept = (part for part in message.content.parts if part is first or not isinstance(part, TextPart))
    parts = tuple(replace(part, text=text) if part is first and isinstance(part, TextPart) else part for part in kept)
    return replace(message, content=replace(message.content, parts=parts))


def with_metadata(message: Message, **more: Json) -> Message:
    """The message with `more` in its metadata."""
    return replace(message, content=replace(message.content, metadata={**(message.content.metadata or {}), **more}))


def with_strings(value: Json, change: Callable[[str], str]) -> Json:
    """JSON with `change` of each text in it; keys are names and stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: with_strings(each, change) for key, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [with_strings(each, change) for each in cast("list[Any]", value)]
    return value


def _changed(part: TextPart, change: Callable[[str], str]) -> TextPart:
    text = change(part.text)
    return part if text == part.text else replace(part, text=text)
