"""What of a message is made searchable: the text its user has seen, in passages an embedder can take.

Invariant: only text that users and agents said to each other; no reasoning, no arguments or results of tools, no
system message. Nothing of a text is left out, and nothing is in two passages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tenuto.messages.stored import Message, TextPart

_ENDS = tuple(re.compile(pattern) for pattern in (r"\n\s*\n", r"\n", r"[.!?]\s|[\u3002\uff01\uff1f]", r"\s"))
"""Where a text may end, the best place first: a paragraph, a line, a sentence, a word."""


def passages_of(message: Message, most: int) -> list[str]:
    """The passages of a message, each of at most `most` characters and with something to read in it."""
    return [*passages(said(message), most)]


def said(message: Message) -> str:
    """The text of a message as its user has seen it; empty for messages that are none of a conversation."""
    if message.role not in {"user", "assistant"}:
        return ""
    parts = message.to_transcript().content.parts
    return "\n\n".join(part.text for part in parts if isinstance(part, TextPart) and part.text.strip())


def passages(text: str, most: int) -> Iterator[str]:
    """`text` in passages that end where it does, if it does in their second half."""
    start = 0
    while start < len(text):
        end = len(text) if len(text) - start <= most else _end(text, start, most)
        if passage := text[start:end].strip():
            yield passage
        start = end


def _end(text: str, start: int, most: int) -> int:
    for pattern in _ENDS:
        found = [match.end() for match in pattern.finditer(text, start + most // 2, start + most)]
        if found:
            return found[-1]
    return start + most
