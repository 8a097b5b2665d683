"""Windows over a thread: the newest messages that a run reads, by count and by tokens.

Invariant: what is left out is the oldest; a call and its answer stand in one step of one message, and a window ends
between messages or between the steps of one, so it never divides them. A token limit that is passed moves the
beginning by a good piece at once and then leaves it there, so that a provider's prompt cache stays warm.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from tenuto.core import codec
from tenuto.memory.config import TokenLimit
from tenuto.messages.stored import Message, MessagePart, StepStartPart

BYTES_PER_TOKEN = 4
"""A rough measure that holds for any model: no tokenizer is asked."""


class Start(Struct, frozen=True):
    """Where a window begins: the message's place in the thread, and how many of its parts are left out."""

    seq: int = 0
    parts: int = 0


def tokens_of(message: Message) -> int:
    """About how many tokens a message takes in a prompt."""
    return _tokens(message.content.parts)


def cut(message: Message, parts: int) -> Message:
    """The message without its first `parts` parts."""
    if not parts:
        return message
    return replace(message, content=replace(message.content, parts=message.content.parts[parts:]))


def within(messages: Sequence[tuple[int, Message]], limit: TokenLimit, start: Start) -> Start:
    """Where the window over `messages` (by place, oldest first) begins, given where it began at the last turn.

    The newest step is always there, whatever its size.
    """
    pieces = [piece for seq, message in messages for piece in _pieces(seq, message)]
    kept = [piece for piece in pieces if (piece.seq, piece.first) >= (start.seq, start.parts)]
    if sum(piece.tokens for piece in kept) <= limit.max_tokens:
        return start
    room, begin = limit.max_tokens - limit.remove, kept[-1]
    for piece in reversed(kept):
        room -= piece.tokens
        if room < 0:
            break
        begin = piece
    return Start(begin.seq, begin.first)


class _Piece(Struct, frozen=True):
    """A message, or a step of one: `first` is the place of its first part."""

    seq: int
    first: int
    tokens: int


def _pieces(seq: int, message: Message) -> list[_Piece]:
    parts = message.content.parts
    starts = [at for at, part in enumerate(parts) if at and isinstance(part, StepStartPart)]
    bounds = [0, *starts, len(parts)]
    return [_Piece(seq, first, _tokens(parts[first:end])) for first, end in pairwise(bounds)]


def _tokens(parts: Sequence[MessagePart]) -> int:
    return -(-len(codec.encode(parts)) // BYTES_PER_TOKEN)
