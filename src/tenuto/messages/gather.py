"""Turns to parts of stored messages: the way back of `convert.to_turns`.

Invariant: `to_turns(to_messages(turns))` are the same turns, where each tool turn stands behind the turn whose calls it
answers. Of a result only the text that the model was told is left, so that text is the stored result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, assert_never

from msgspec.structs import replace

from tenuto.core.clock import Clock
from tenuto.core.ids import IdSource
from tenuto.messages import stored as s
from tenuto.messages.answers import Answer, settle
from tenuto.messages.convert import step_parts
from tenuto.messages.turns import (
    AssistantTurn,
    ProviderOptions,
    ResultPart,
    SystemTurn,
    Text,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
)

Role = Literal["system", "user", "assistant"]


def to_messages(turns: Iterable[Turn], ids: IdSource, clock: Clock) -> list[s.Message]:
    """The turns as stored messages: one for each turn, results within the turn that called.

    A result that answers no call before it is left out, as no provider would take it.
    """
    messages: list[s.Message] = []
    for turn in turns:
        if isinstance(turn, ToolTurn):
            for answer in answers_of(turn):
                _settle(messages, answer)
            continue
        role, parts, options = message_parts(turn)
        content = s.Content(parts, provider_metadata=options)
        messages.append(s.Message(ids.new("msg"), role, s.timestamp(clock.now()), content))
    return s.in_order(messages)


def message_parts(
    turn: SystemTurn | UserTurn | AssistantTurn,
) -> tuple[Role, tuple[s.MessagePart, ...], ProviderOptions | None]:
    """Role, parts and provider options of the stored message that is `turn`."""
    match turn:
        case SystemTurn():
            return "system", (s.TextPart(turn.text),), turn.provider_options
        case UserTurn():
            return "user", tuple(_user_part(part) for part in turn.content), turn.provider_options
        case AssistantTurn():
            return "assistant", tuple(step_parts(turn, {}, "", 1)[1:]), turn.provider_options
        case _:
            assert_never(turn)


def answers_of(turn: ToolTurn) -> list[Answer]:
    """The results of a tool turn as answers to the calls before it."""
    return [_answer(result) for result in turn.results]


def _answer(result: ResultPart) -> Answer:
    if result.is_error:
        return Answer(result.tool_call_id, "output-error", error_text=result.text)
    return Answer(result.tool_call_id, "result", result.text)


def _settle(messages: list[s.Message], answer: Answer) -> None:
    for at in range(len(messages) - 1, -1, -1):
        parts = list(messages[at].content.parts)
        for place, part in enumerate(parts):
            if isinstance(part, s.ToolInvocationPart) and part.tool_invocation.tool_call_id == answer.call_id:
                parts[place] = settle(part, answer)
                messages[at] = replace(messages[at], content=replace(messages[at].content, parts=tuple(parts)))
                return


def _user_part(part: UserPart) -> s.MessagePart:
    if isinstance(part, Text):
        return s.TextPart(part.text, part.provider_metadata)
    return s.StoredFilePart(part.media_type, part.url, part.data, part.filename, part.provider_metadata)
