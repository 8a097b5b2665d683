"""What a caller may pass as messages, read once, with errors that name the place and the form expected.

Invariant: caller-given ids stay; every message gets an id and a time; a tool message's results end up in the
assistant message that made the calls. Text that UTF-8 cannot hold (a lone surrogate) is mended, as in tool results.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from tenuto.core.clock import Clock
from tenuto.core.errors import ConfigurationError
from tenuto.core.ids import IdSource
from tenuto.core.payloads import wire_name
from tenuto.messages import stored as s
from tenuto.messages.bounded import valid_text
from tenuto.messages.turns import ProviderOptions, SystemTurn

MessageInput = str | Mapping[str, Any] | s.Message
Messages = MessageInput | Sequence[MessageInput]
SystemInput = str | Mapping[str, Any] | SystemTurn | Sequence[str | Mapping[str, Any] | SystemTurn]

_FORMS = (
    'a string, {"role": "user" | "assistant" | "system" | "tool", "content": text or parts}, a stored message, '
    "or a list of these"
)


def system_turns(given: SystemInput | None) -> tuple[SystemTurn, ...]:
    """Instructions as system turns, one per element; empty strings give none.

    Raises:
        TypeError: An element is neither text nor a system message.
    """
    if given is None:
        return ()
    return tuple(turn for each in _elements(given) if (turn := _system_turn(each)).text)


def _elements(given: object) -> Iterable[Any]:
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        return [cast("Any", given)]
    return cast("Iterable[Any]", given)


def _system_turn(given: str | Mapping[str, Any] | SystemTurn) -> SystemTurn:
    match given:
        case SystemTurn():
            return given
        case str():
            return SystemTurn(valid_text(given))
        case {"role": "system", "content": str(text)}:
            return SystemTurn(valid_text(text), cast("ProviderOptions | None", _either(given, "provider_options")))
        case _:
            message = f"Instructions are text or {{'role': 'system', 'content': text}}, not {_shown(given)}."
            raise TypeError(message)


class MessageReader:
    """Reads one call's messages.

    Args:
        ids: Makes ids for messages without one.
        clock: Dates messages without a time.
    """

    def __init__(self, ids: IdSource, clock: Clock) -> None:
        self._ids = ids
        self._clock = clock

    def read(self, given: Messages) -> list[s.Message]:
        """The messages in stored form, in order, `role: system` entries included.

        Raises:
            ConfigurationError: Something in `given` is not a message (`AGENT_INVALID_MESSAGES`).
        """
        items = _listed(given)
        messages: list[s.Message] = []
        for place, item in enumerate(items):
            if isinstance(item, Mapping) and item.get("role") == "tool":
                _attach_results(messages, item, place)
            else:
                messages.append(self._message(item, place))
        return s.in_order(messages)

    def _message(self, item: MessageInput, place: int) -> s.Message:
        match item:
            case s.Message():
                return item
            case str():
                return self._new("user", (s.TextPart(valid_text(item)),))
            case {"role": str(), "content": {"parts": list() | tuple()}}:
                return _stored(item, place)
            case {"role": "user" | "assistant" | "system" as role, "content": content}:
                return self._new(role, tuple(_parts(role, content, place)), item.get("id"))
            case _:
                raise _not_a_message(item, place)

    def _new(self, role: Any, parts: tuple[s.MessagePart, ...], message_id: object = None) -> s.Message:
        made = str(message_id) if message_id else self._ids.new("msg")
        return s.Message(made, role, s.timestamp(self._clock.now()), s.Content(parts))


def _listed(given: object) -> list[MessageInput]:
    if isinstance(given, (str, Mapping, s.Message)):
        return [cast("MessageInput", given)]
    if isinstance(given, Iterable) and not isinstance(given, (bytes, bytearray)):
        return list(cast("Iterable[MessageInput]", given))
    text = f"{_shown(given)} is not a message. Give {_FORMS}."
    raise ConfigurationError(text, id="AGENT_INVALID_MESSAGES", domain="AGENT")


def _stored(item: Mapping[str, Any], place: int) -> s.Message:
    try:
        return s.read_message(item)
    except msgspec.ValidationError as error:
        message = f"Message {place} looks like a stored message but is not one: {error}."
        raise ConfigurationError(message, id="AGENT_INVALID_MESSAGES", domain="AGENT") from error


def _parts(role: str, content: object, place: int) -> Iterable[s.MessagePart]:
    if isinstance(content, str):
        yield s.TextPart(valid_text(content))
        return
    if not isinstance(content, (list, tuple)):
        raise _not_a_message(content, place)
    for part in cast("Sequence[object]", content):
        yield _part(role, part, place)


def _part(role: str, part: object, place: int) -> s.MessagePart:
    match part:
        case str():
            return s.TextPart(valid_text(part))
        case {"type": "text", "text": str(text)}:
            return s.TextPart(valid_text(text))
        case {"type": "reasoning", "text": str(text)}:
            plain = valid_text(text)
            return s.ReasoningPart(plain, (s.ReasoningDetail("text", plain),))
        case {"type": "image"}:
            return _file(
                _either(part, "image"), _either(part, "mime_type") or _either(part, "media_type") or "image/png", None
            )
        case {"type": "file"}:
            media_type = _either(part, "media_type") or _either(part, "mime_type")
            if media_type is None:
                raise _not_a_message(part, place)
            return _file(_either(part, "data") or _either(part, "url"), media_type, _either(part, "filename"))
        case {"type": "tool-call"} if role == "assistant":
            return s.ToolInvocationPart(_invocation(part, place))
        case _:
            raise _not_a_message(part, place)


def _invocation(part: object, place: int) -> s.ToolInvocation:
    call_id, name = _either(part, "tool_call_id"), _either(part, "tool_name")
    if not isinstance(call_id, str) or not isinstance(name, str):
        raise _not_a_message(part, place)
    args = _either(part, "args")
    return s.ToolInvocation("call", call_id, name, _either(part, "input") if args is None else args)


def _file(source: object, media_type: str, filename: str | None) -> s.StoredFilePart:
    if isinstance(source, (bytes, bytearray)):
        return s.StoredFilePart(media_type, data=base64.b64encode(source).decode(), filename=filename)
    text = str(source)
    if text.startswith("data:") and ";base64," in text:
        head, data = text.split(";base64,", 1)
        return s.StoredFilePart(head.removeprefix("data:") or media_type, data=data, filename=filename)
    if "://" in text[:12]:
        return s.StoredFilePart(media_type, url=text, filename=filename)
    return s.StoredFilePart(media_type, data=text, filename=filename)


def _attach_results(messages: list[s.Message], item: Mapping[str, Any], place: int) -> None:
    content = item.get("content")
    if not isinstance(content, (list, tuple)):
        raise _not_a_message(item, place)
    for part in cast("Sequence[object]", content):
        if not isinstance(part, Mapping) or _either(cast("object", part), "type") != "tool-result":
            raise _not_a_message(cast("object", part), place)
        _attach(messages, cast("Mapping[str, Any]", part), place)


def _attach(messages: list[s.Message], part: Mapping[str, Any], place: int) -> None:
    call_id = _either(part, "tool_call_id")
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        answered = tuple(_answered(each, call_id, part) for each in message.content.parts)
        if answered != message.content.parts:
            messages[at] = replace(message, content=replace(message.content, parts=answered))
            return
    text = f"Message {place} answers tool call {call_id!r}, which no assistant message before it makes."
    raise ConfigurationError(text, id="AGENT_INVALID_MESSAGES", domain="AGENT")


def _answered(part: s.MessagePart, call_id: object, answer: Mapping[str, Any]) -> s.MessagePart:
    if not isinstance(part, s.ToolInvocationPart) or part.tool_invocation.tool_call_id != call_id:
        return part
    result, failed = _output(answer)
    done = replace(
        part.tool_invocation,
        state="output-error" if failed else "result",
        result=None if failed else result,
        error_text=str(result) if failed else None,
    )
    return replace(part, tool_invocation=done)


def _output(answer: Mapping[str, Any]) -> tuple[Any, bool]:
    output: Any = _either(answer, "output")
    if isinstance(output, Mapping) and "value" in output:
        typed = cast("Mapping[str, Any]", output)
        return typed["value"], str(typed.get("type", "")).startswith("error")
    result: Any = _either(answer, "result") if output is None else cast("Any", output)
    return result, bool(_either(answer, "is_error"))


def _either(given: object, name: str) -> Any:
    """The value under the snake_case or the camelCase spelling of `name` in a mapping."""
    mapping = cast("Mapping[str, Any]", given)
    value = mapping.get(name)
    return mapping.get(wire_name(name)) if value is None else value


def _not_a_message(given: object, place: int) -> ConfigurationError:
    text = f"Message {place} is not a message: {_shown(given)}. Give {_FORMS}."
    return ConfigurationError(text, id="AGENT_INVALID_MESSAGES", domain="AGENT")


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 120 else f"{text[:117]}..."
