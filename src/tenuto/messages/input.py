"""What a caller may pass as messages, read once, with errors that name the place and the form expected.

Invariant: caller-given ids stay; every message gets an id and a time, no later than now; a message that stands there
twice is there once; a tool message's results end up in the assistant message that made the calls. Text that UTF-8
cannot hold (a lone surrogate) is mended, as in tool results.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from tenuto.core.clock import Clock
from tenuto.core.errors import ConfigurationError
from tenuto.core.ids import IdSource
from tenuto.messages import stored as s
from tenuto.messages.answers import Answer, either, read_answer
from tenuto.messages.bounded import valid_text
from tenuto.messages.gather import answers_of, message_parts
from tenuto.messages.merge import Conversation, MayAnswer, OtherRole
from tenuto.messages.parts import NotAPart, metadata_of, read_part, shown
from tenuto.messages.turns import AssistantTurn, ProviderOptions, SystemTurn, ToolTurn, Turn, UserTurn
from tenuto.messages.ui import UIMessage
from tenuto.messages.ui_input import is_ui, ui_parts

MessageInput = str | Mapping[str, Any] | s.Message | UIMessage | Turn
Messages = MessageInput | Sequence[MessageInput]
SystemInput = str | Mapping[str, Any] | SystemTurn | Sequence[str | Mapping[str, Any] | SystemTurn]

_FORMS = (
    'a string, {"role": "user" | "assistant" | "system" | "tool", "content": text or parts}, a UI message '
    '({"role": ..., "parts": [...]}), a stored message, or a list of these'
)
_OPENAI = ("tool_calls", "tool_call_id", "function_call")
"""Fields of OpenAI's own messages: left out they would be lost, so they are named in the error."""

_log = logging.getLogger("tenuto")


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
            return SystemTurn(valid_text(text), cast("ProviderOptions | None", either(given, "provider_options")))
        case _:
            message = f"Instructions are text or {{'role': 'system', 'content': text}}, not {shown(given)}."
            raise TypeError(message)


class MessageReader:
    """Reads one call's messages.

    Args:
        ids: Makes ids for messages without one.
        clock: Dates messages without a time.
        may_answer: Which tools' results the caller's dicts may bring for calls in messages of our own (`Message`
            objects); default all. Calls that the dicts make themselves are the caller's word throughout.
    """

    def __init__(self, ids: IdSource, clock: Clock, may_answer: MayAnswer = lambda _: True) -> None:
        self._ids = ids
        self._clock = clock
        self._may_answer = may_answer

    def read(self, given: Messages, *, elsewhere: list[Answer] | None = None) -> list[s.Message]:
        """The messages in stored form, in order, each once, `role: system` entries included.

        Args:
            given: What a caller passes.
            elsewhere: Gets the answers to calls that are not in `given`, which are mistakes otherwise.

        Raises:
            ConfigurationError: Something in `given` is not a message, or answers a call that is not there or not the
                caller's to answer (`AGENT_INVALID_MESSAGES`).
        """
        conversation = Conversation(self._may_answer)
        places: list[int] = []
        for place, item in enumerate(_listed(given)):
            answers = _answers(item, place)
            for answer in answers or ():
                _give(conversation, answer, place, elsewhere)
            if answers is None:
                read = self._message(item, place)
                self._add(conversation, read, place, places, own=isinstance(item, s.Message))
                for answer in read[1]:
                    _give(conversation, answer, place, elsewhere)
        if conversation.refused:
            calls = ", ".join(map(repr, dict.fromkeys(conversation.refused)))
            _log.warning("Messages claim results of the tool calls %s, which stand as this agent has them.", calls)
        return s.in_order(conversation.messages)

    def _add(self, conversation: Conversation, read: _Read, place: int, places: list[int], *, own: bool) -> None:
        message, _ = read
        try:
            conversation.add(message, own=own)
        except OtherRole as error:
            other = places[error.at]
            text = f"Message {place} has the id {message.id!r} of message {other}, which has another role."
            raise _invalid(text) from error
        places.extend([place] * (len(conversation.messages) - len(places)))

    def _message(self, item: MessageInput, place: int) -> _Read:
        try:
            return self._read(item, place)
        except NotAPart as error:
            raise _invalid(f"Message {place}: {error}") from error

    def _read(self, item: MessageInput, place: int) -> _Read:
        match item:
            case s.Message():
                return item, []
            case str():
                said = s.Content((s.TextPart(valid_text(item)),))
                return s.Message(self._ids.new("msg"), "user", s.timestamp(self._clock.now()), said), []
            case UIMessage():
                return self._read(item.to_dict(), place)
            case SystemTurn() | UserTurn() | AssistantTurn():
                role, parts, options = message_parts(item)
                return self._new(role, parts, {"providerOptions": options}, place), []
            case {"role": str(), "content": {"parts": list() | tuple()}}:
                return self._stored(item, place), []
            case {"role": "user" | "assistant" | "system" as role} if is_ui(item):
                return self._new(role, tuple(ui_parts(item)), item, place), []
            case {"role": "user" | "assistant" | "system" as role, "content": content}:
                return self._model_message(role, content, item, place)
            case _:
                raise _not_a_message(item, place)

    def _model_message(self, role: str, content: object, item: Mapping[str, Any], place: int) -> _Read:
        _refuse_openai(item, place)
        found = list(_parts(role, content, place))
        parts = tuple(part for part in found if not isinstance(part, Answer))
        return self._new(role, parts, item, place), [part for part in found if isinstance(part, Answer)]

    def _stored(self, item: Mapping[str, Any], place: int) -> s.Message:
        now = s.timestamp(self._clock.now())
        filled = {"id": item.get("id") or self._ids.new("msg"), **_without_empty(item)}
        try:
            message = s.read_message({"createdAt": now, **filled})
        except msgspec.ValidationError as error:
            raise _invalid(f"Message {place} looks like a stored message but is not one: {error}.") from error
        return replace(mended(message), created_at=min(_aware(message.created_at), now))

    def _new(self, role: Any, parts: tuple[s.MessagePart, ...], item: Mapping[str, Any], place: int) -> s.Message:
        given: Any = item.get("metadata")
        own: dict[str, Any] = dict(cast("Mapping[str, Any]", given)) if isinstance(given, Mapping) else {}
        said = own.pop("createdAt", None) or either(item, "created_at")
        content = s.Content(parts, metadata=own or None, provider_metadata=metadata_of(item))
        given_id = item.get("id")
        return s.Message(str(given_id) if given_id else self._ids.new("msg"), role, self._time(said, place), content)

    def _time(self, said: object, place: int) -> datetime:
        """When a message was written; a client's clock never puts one into the future."""
        now = s.timestamp(self._clock.now())
        if said is None:
            return now
        try:
            seconds = isinstance(said, (int, float)) and not isinstance(said, bool)
            at = s.timestamp(cast("float", said) / 1000) if seconds else msgspec.convert(said, datetime)
        except (msgspec.ValidationError, ValueError, OverflowError, OSError) as error:
            raise _invalid(f"Message {place} has a createdAt that is no time: {shown(said)}.") from error
        return min(_aware(at), now)


_Read = tuple[s.Message, list[Answer]]
"""A message, and results in it for calls of others."""


def mended(message: s.Message) -> s.Message:
    """The message with text that UTF-8 can hold."""
    try:
        msgspec.json.encode(message)
    except UnicodeEncodeError:
        plain: Any = _mended(msgspec.to_builtins(message, builtin_types=(datetime,)))
        return msgspec.convert(plain, s.Message)
    return message


def _mended(value: Any) -> Any:
    match value:
        case str():
            return valid_text(value)
        case dict():
            return {_mended(key): _mended(each) for key, each in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [_mended(each) for each in cast("Sequence[Any]", value)]
        case _:
            return value


def _without_empty(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in {"id", "createdAt"} or value}


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _listed(given: object) -> list[MessageInput]:
    single = (str, Mapping, s.Message, UIMessage, SystemTurn, UserTurn, AssistantTurn, ToolTurn)
    if isinstance(given, single):
        return [cast("MessageInput", given)]
    if isinstance(given, Iterable) and not isinstance(given, (bytes, bytearray)):
        return list(cast("Iterable[MessageInput]", given))
    raise _invalid(f"{shown(given)} is not a message. Give {_FORMS}.")


def _answers(item: object, place: int) -> list[Answer] | None:
    """The results in a message that holds nothing else; None for any other message."""
    if isinstance(item, ToolTurn):
        return answers_of(item)
    if not isinstance(item, Mapping) or cast("Mapping[str, Any]", item).get("role") != "tool":
        return None
    given = cast("Mapping[str, Any]", item)
    content = given.get("content")
    if not isinstance(content, (list, tuple)):
        _refuse_openai(given, place)
        raise _not_a_message(given, place)
    answers: list[Answer] = []
    for part in cast("Sequence[object]", content):
        named: Any = cast("Mapping[str, Any]", part).get("type") if isinstance(part, Mapping) else None
        found = read_answer(cast("object", part)) if named == "tool-result" else None
        if found is None:
            raise _not_a_message(cast("object", part), place)
        answers.append(found)
    return answers


def _give(conversation: Conversation, answer: Answer, place: int, elsewhere: list[Answer] | None) -> None:
    refused = len(conversation.refused)
    if not conversation.answer(answer):
        if elsewhere is not None:
            elsewhere.append(answer)
            return
        text = f"Message {place} answers tool call {answer.call_id!r}, which no assistant message before it makes."
        raise _invalid(text)
    if len(conversation.refused) > refused:
        text = (
            f"Message {place} answers tool call {answer.call_id!r}, which has its answer already or is of a tool that "
            "this agent runs itself. A call that awaits a decision is answered with approve_tool_call, "
            "decline_tool_call or resume_stream."
        )
        raise _invalid(text)


def _parts(role: str, content: object, place: int) -> Iterable[s.MessagePart | Answer]:
    if isinstance(content, str):
        yield s.TextPart(valid_text(content))
        return
    if not isinstance(content, (list, tuple)):
        raise _not_a_message(content, place)
    for at, part in enumerate(cast("Sequence[object]", content)):
        try:
            found = read_part(role, part)
        except NotAPart as error:
            raise NotAPart(f"part {at} {error}") from error
        yield found


def _refuse_openai(item: Mapping[str, Any], place: int) -> None:
    if taken := [name for name in _OPENAI if item.get(name)]:
        text = (
            f"Message {place} has {taken[0]!r}, a field of OpenAI's own messages; write calls as parts "
            '{"type": "tool-call", "tool_call_id": ..., "tool_name": ..., "input": ...} of the content, results as a '
            'message of role "tool" with parts {"type": "tool-result", "tool_call_id": ..., "tool_name": ..., '
            '"result": ...}.'
        )
        raise _invalid(text)


def _not_a_message(given: Any, place: int) -> ConfigurationError:
    return _invalid(f"Message {place} is not a message: {shown(given)}. Give {_FORMS}.")


def _invalid(text: str) -> ConfigurationError:
    return ConfigurationError(text, id="AGENT_INVALID_MESSAGES", domain="AGENT")
