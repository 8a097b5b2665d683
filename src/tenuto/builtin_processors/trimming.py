"""Cuts a conversation to a number of tokens.

Invariant: what is left out is left out in whole groups: a message, or of an answer a whole step with its calls and
their results; so no call is ever without its result. The last group and the user's last message stay, or nothing fits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenuto.builtin_processors.tokens import Counting
from tenuto.messages.stored import Message, MessagePart, StepStartPart

TrimMode = Literal["best-fit", "contiguous", "memory-only"]


class Group(Struct, frozen=True):
    """What stays or goes as one.

    Attributes:
        message: Its place.
        parts: Those of the message that belong to it.
        tokens: Of them.
    """

    message: int
    parts: tuple[MessagePart, ...]
    tokens: int


def trimmed(
    messages: Sequence[Message], limit: int, counting: Counting, mode: TrimMode, own: Collection[str] = ()
) -> list[Message] | None:
    """The messages that fit into `limit` tokens, newest first; None when what has to stay does not.

    Args:
        messages: In order.
        limit: Tokens of all of them.
        counting: Counts.
        mode: `best-fit`: whatever still fits; `contiguous`: nothing older than the first group that does not fit;
            `memory-only`: as `best-fit`, but the messages of `own` always stay.
        own: Ids of the messages of this run.
    """
    groups = _grouped(messages, counting)
    if sum(group.tokens for group in groups) <= limit:
        return list(messages)
    stays = _required(messages, groups, own if mode == "memory-only" else ())
    left = limit - sum(groups[place].tokens for place in stays)
    if left < 0 or not groups:
        return None
    for place in reversed(range(len(groups))):
        if place in stays:
            continue
        if groups[place].tokens <= left:
            stays.add(place)
            left -= groups[place].tokens
        elif mode == "contiguous":
            break
    return _of(messages, [groups[place] for place in sorted(stays)])


def _required(messages: Sequence[Message], groups: Sequence[Group], own: Collection[str]) -> set[int]:
    asked = [place for place, group in enumerate(groups) if messages[group.message].role == "user"]
    stays = {len(groups) - 1, *asked[-1:]} if groups else set[int]()
    return stays | {place for place, group in enumerate(groups) if messages[group.message].id in own}


def _grouped(messages: Sequence[Message], counting: Counting) -> list[Group]:
    return [
        Group(place, parts, counting.parts(parts))
        for place, message in enumerate(messages)
        for parts in _steps(message)
    ]


def _steps(message: Message) -> list[tuple[MessagePart, ...]]:
    """The parts of each step of an answer, the boundary before them included; of anything else all parts."""
    parts = message.content.parts
    if message.role != "assistant":
        return [parts]
    starts = [at for at, part in enumerate(parts) if isinstance(part, StepStartPart) and at]
    return [parts[a:b] for a, b in zip([0, *starts], [*starts, len(parts)], strict=True)]


def _of(messages: Sequence[Message], groups: Sequence[Group]) -> list[Message]:
    kept: dict[int, list[MessagePart]] = {}
    for group in groups:
        kept.setdefault(group.message, []).extend(group.parts)
    return [_with(messages[place], tuple(parts)) for place, parts in kept.items()]


def _with(message: Message, parts: tuple[MessagePart, ...]) -> Message:
    if len(parts) == len(message.content.parts):
        return message
    return replace(message, content=replace(message.content, parts=parts))


def longest_prefix(text: str, fits: Callable[[str], bool]) -> str:
    """The longest beginning of `text` that fits, when every beginning of one that fits does so, too."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(text[:middle]) else (low, middle - 1)
    return text[:low]
