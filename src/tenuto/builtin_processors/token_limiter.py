"""`TokenLimiterProcessor`: cuts what a model is sent, and what it may answer, to a number of tokens.

Invariant: on the input side nothing stored is touched and no call is parted from its result; on the output side the
text that passes is the same however it was cut into deltas.
"""

from __future__ import annotations

from typing import Literal, get_args

from msgspec.structs import replace

from tenuto.builtin_processors.options import count, one_of
from tenuto.builtin_processors.tokens import Counting, TokenCounter
from tenuto.builtin_processors.trimming import TrimMode, longest_prefix, trimmed
from tenuto.core.chunks import AnyChunk, StepStart, TextDelta, TextEnd
from tenuto.core.payloads import TextDeltaPayload
from tenuto.processors import InputContext, InputStepContext, OutputStreamContext, Processor, StepChange

Strategy = Literal["truncate", "abort"]
CountMode = Literal["cumulative", "part"]
_STRETCH = 1_000


class TokenLimiterProcessor(Processor):
    """Limits tokens: of the prompt among the input processors, of the answer's text among the output processors.

    Before each model call the oldest messages, and the oldest steps of the answer in progress, are left out of what is
    sent until it fits; the system messages, the user's last message and the newest step always stay, and when they
    alone are too much the run is blocked. What is stored stays whole.

    Args:
        limit: Tokens.
        counter: Counts the tokens of a text, or gives them, as `encode` of a tokeniser does. Without one a token is
            four bytes of UTF-8.
        trim_mode: What is left out. `best-fit`: whatever does not fit, newest first; `contiguous`: everything older
            than the first message that does not fit; `memory-only`: as `best-fit`, but only of what was recalled.
        strategy: On the output side: `truncate` shows no text beyond the limit; `abort` blocks the run there.
        count_mode: On the output side: `cumulative` counts all text of the run, `part` each text part by itself.
    """

    id = "token-limiter"
    name: str | None = "Token Limiter"

    def __init__(
        self,
        limit: int,
        *,
        counter: TokenCounter | None = None,
        trim_mode: TrimMode = "best-fit",
        strategy: Strategy = "truncate",
        count_mode: CountMode = "cumulative",
    ) -> None:
        self._limit = count("limit", limit, least=1)
        self._counting = Counting(counter)
        self._key = f"open {id(self)}"  # others of this id share the state
        self._spent = f"spent of {limit}"
        self._mode: TrimMode = one_of("trim_mode", trim_mode, get_args(TrimMode))
        self._strategy: Strategy = one_of("strategy", strategy, get_args(Strategy))
        self._count_mode: CountMode = one_of("count_mode", count_mode, get_args(CountMode))

    def process_input(self, context: InputContext) -> None:
        """See `Processor`; notes which messages are the run's own."""
        context.state["own"] = [message.id for message in context.messages]

    def process_input_step(self, context: InputStepContext) -> StepChange | None:
        """See `Processor`."""
        system = sum(self._counting.text(turn.text) for turn in context.system_messages)
        own = {*context.state.get("own", ()), context.message_id}
        left = trimmed(context.messages, self._limit - system, self._counting, self._mode, own)
        if left is None:
            context.abort(
                f"The prompt does not fit into {self._limit} tokens: the system messages take {system}, and the last "
                "message does not fit beside them.",
                metadata={"limit": self._limit, "system_tokens": system},
            )
        return {"messages": left} if left != list(context.messages) else None

    def process_output_stream(self, context: OutputStreamContext) -> AnyChunk | None:
        """See `Processor`."""
        chunk, state = context.part, context.state
        if isinstance(chunk, StepStart):
            state.pop(self._key, None)
        elif isinstance(chunk, TextEnd) and self._key in state:
            state[self._spent] = state.get(self._spent, 0) + state.pop(self._key).tokens
        elif isinstance(chunk, TextDelta):
            return self._limited(context, chunk)
        return chunk

    def _limited(self, context: OutputStreamContext, delta: TextDelta) -> TextDelta | None:
        state, text = context.state, delta.payload.text
        if self._key not in state:
            spent = state.get(self._spent, 0) if self._count_mode == "cumulative" else 0
            state[self._key] = _Counted(self._counting, self._limit - spent)
        shown = state[self._key].take(text)
        if shown == text:
            return delta
        if self._strategy == "abort":
            context.abort(f"The answer is longer than {self._limit} tokens.", metadata={"limit": self._limit})
        return replace(delta, payload=TextDeltaPayload(delta.payload.id, shown)) if shown else None


class _Counted:
    """A text that is counted while it grows: in stretches, so that no character is counted often."""

    def __init__(self, counting: Counting, limit: int) -> None:
        self._counting = counting
        self._limit = limit
        self._settled = 0
        self._tail = ""
        self._full = False

    @property
    def tokens(self) -> int:
        """Of what was taken."""
        return self._with("")

    def take(self, text: str) -> str:
        """As much of the beginning of `text` as fits."""
        if self._full:
            return ""
        shown = text if self._fits(text) else longest_prefix(text, self._fits)
        self._full = len(shown) < len(text)
        self._tail += shown
        while len(self._tail) >= _STRETCH:
            self._settled += self._counting.text(self._tail[:_STRETCH])
            self._tail = self._tail[_STRETCH:]
        return shown

    def _fits(self, text: str) -> bool:
        return self._with(text) <= self._limit

    def _with(self, text: str) -> int:
        tail = self._tail + text
        return self._settled + sum(
            self._counting.text(tail[at : at + _STRETCH]) for at in range(0, len(tail), _STRETCH)
        )
