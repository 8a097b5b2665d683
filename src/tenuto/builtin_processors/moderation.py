"""`ModerationProcessor`: asks a model whether messages, and what the agent says, are fit to be said.

Invariant: on the output side nothing is shown before it was judged.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal, get_args

from tenuto.builtin_processors.filtering import some_left
from tenuto.builtin_processors.judging import ErrorStrategy, Judge, Scores, detections, named, over, told
from tenuto.builtin_processors.options import count, one_of, share
from tenuto.builtin_processors.pieces import JudgedPieces
from tenuto.builtin_processors.text_parts import kept
from tenuto.core.chunks import AnyChunk
from tenuto.messages.stored import Message
from tenuto.messages.turns import ProviderOptions
from tenuto.processors import HookContext, InputContext, OutputStreamContext, Processor

_log = logging.getLogger("tenuto")

Strategy = Literal["block", "warn", "filter"]
CATEGORIES = (
    "hate", "hate/threatening", "harassment", "harassment/threatening", "self-harm", "self-harm/intent",
    "self-harm/instructions", "sexual", "sexual/minors", "violence", "violence/graphic",
)  # fmt: skip
"""What is looked for by default."""


class ModerationProcessor(Processor):
    """Judges each of the call's own messages, or the answer piece by piece while it is written, or both.

    On the output side text waits until its piece was judged: `check_every` says how large a piece is, and with it how
    many questions are asked and how long text waits.

    Args:
        model: That judges.
        categories: What is looked for.
        threshold: From which score on, 0 to 1, something counts as found.
        strategy: `block` stops the run; `warn` logs; `filter` leaves the message, or the piece of the answer, out.
        instructions: For the judge, in place of tenuto's.
        include_scores: Whether warnings have the scores.
        chunk_window: How many earlier pieces of the answer the judge is given beside the one it judges.
        check_every: Characters of a piece of the answer.
        error_strategy: When the judge cannot be asked: `warn` lets the text pass, `strict` stops the run.
        last_message_only: On the input side, judge the last message alone.
        provider_options: Of the judge's calls.
    """

    id = "moderation"
    name: str | None = "Moderation"
    fail_closed = True

    def __init__(
        self,
        *,
        model: Any,
        categories: Sequence[str] = CATEGORIES,
        threshold: float = 0.5,
        strategy: Strategy = "block",
        instructions: str | None = None,
        include_scores: bool = False,
        chunk_window: int = 0,
        check_every: int = 500,
        error_strategy: ErrorStrategy = "warn",
        last_message_only: bool = False,
        provider_options: ProviderOptions | None = None,
    ) -> None:
        self._threshold = share("threshold", threshold)
        self._strategy: Strategy = one_of("strategy", strategy, get_args(Strategy))
        self._scores = include_scores
        self._window = count("chunk_window", chunk_window)
        self._size = count("check_every", check_every, least=1)
        self._last_only = last_message_only
        said = instructions or (
            "You moderate a conversation. You are given a text. Say how strongly, from 0 to 1, it falls under each of "
            f"these: {named(categories)}. What stands in the tag `before` is there for its context alone."
        )
        one_of("error_strategy", error_strategy, get_args(ErrorStrategy))
        self._judge = Judge(model, said, error_strategy, provider_options)

    async def process_input(self, context: InputContext) -> list[Message]:
        """See `Processor`."""
        last = len(context.messages) - 1
        passed = [
            message
            for place, message in enumerate(context.messages)
            if (self._last_only and place < last)
            or not message.text.strip()
            or await self._passes(context, message.text, (), "input")
        ]
        return some_left(context, passed)

    async def process_output_stream(self, context: OutputStreamContext) -> list[AnyChunk]:
        """See `Processor`."""

        async def judged(piece: str, before: tuple[str, ...]) -> str:
            return piece if await self._passes(context, piece, before, "output") else ""

        parts = kept(context.state, self, lambda: JudgedPieces(judged, self._size, self._window))
        return await parts.take(context.part)

    async def _passes(self, context: HookContext, text: str, before: tuple[str, ...], where: str) -> bool:
        tags = [("before", each) for each in before]
        verdict = await self._judge.ask(context, Scores, *tags, ("text", text))
        found = over(verdict.scores, self._threshold) if verdict is not None else ()
        if not found:
            return True
        if self._strategy == "block":
            metadata = {"strategy": "block", "detections": detections(found)}
            context.abort(f"The {where} is not fit: {told(found, with_scores=False)}.", metadata=metadata)
        done = "left out" if self._strategy == "filter" else "let pass"
        kinds = told(found, with_scores=self._scores)
        _log.warning("Something in the %s of run %s was %s: %s", where, context.run_id, done, kinds)
        return self._strategy == "warn"
