"""How many tokens a text is, about, and a message.

Invariant: without a tokeniser a token is four bytes of UTF-8, which is near enough for English, a little low for code
and a little high for many other scripts; a file counts as many wherever it comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any, assert_never

from tenuto.core import codec
from tenuto.messages import stored as s
from tenuto.messages.bounded import valid_text

TokenCounter = Callable[[str], int | Sized]
"""Gives the number of tokens of a text, or the tokens: `tiktoken.get_encoding("o200k_base").encode` is one."""

FILE_TOKENS = 1_000
"""What a file counts: about what providers charge for an image."""

_PER_MESSAGE = 4
_BYTES = 4


def estimate_tokens(text: str) -> int:
    """A token for every four bytes of UTF-8, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES)


class Counting:
    """Counts with a counter.

    Args:
        counter: None = the estimate.
    """

    def __init__(self, counter: TokenCounter | None = None) -> None:
        self._counter: TokenCounter = counter or estimate_tokens

    def text(self, text: str) -> int:
        """The tokens of a text."""
        counted = self._counter(valid_text(text))
        return counted if isinstance(counted, int) else len(counted)

    def parts(self, parts: Iterable[s.MessagePart]) -> int:
        """The tokens of a turn with these parts."""
        return _PER_MESSAGE + sum(map(self._part, parts))

    def messages(self, messages: Sequence[s.Message]) -> int:
        """The tokens of all messages."""
        return sum(self.parts(message.content.parts) for message in messages)

    def _part(self, part: s.MessagePart) -> int:
        match part:
            case s.TextPart():
                return self.text(part.text)
            case s.ReasoningPart():
                return self.text(part.reasoning)
            case s.ToolInvocationPart(tool_invocation=call):
                return self.text(call.tool_name) + self._json(call.args) + self._json(call.result or call.error_text)
            case s.StoredFilePart():
                return FILE_TOKENS
            case s.CustomPart() | s.SourcePart() | s.SourceDocumentPart():
                return 0
            case s.DataPart() | s.StepStartPart() | s.ErrorPart():
                return 0
            case _:
                assert_never(part)

    def _json(self, value: Any) -> int:
        if value is None:
            return 0
        return self.text(value if isinstance(value, str) else codec.encode(value).decode())
