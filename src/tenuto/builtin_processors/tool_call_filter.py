"""`ToolCallFilter`: a prompt without the tool calls of the past.

Invariant: a call goes together with its result and with what the model's provider tied to it; what is stored stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from tenuto.builtin_processors.options import count
from tenuto.messages.turns import (
    AssistantPart,
    AssistantTurn,
    CallPart,
    Custom,
    ProviderResult,
    Reasoning,
    ToolTurn,
    Turn,
    UserTurn,
)
from tenuto.processors import LLMRequestContext, Processor, RequestChange

Hides = Callable[[str], bool]


class ToolCallFilter(Processor):
    """Leaves calls of tools, and their results, out of what a model is sent.

    What was called since the user's last message stays, for the model is still working with it, unless
    `filter_after_tool_steps` says otherwise.

    Args:
        exclude: Names of tools; None = all.
        filter_after_tool_steps: Of the current run keep the calls of as many of the newest steps with calls only.
    """

    id = "tool-call-filter"
    name: str | None = "ToolCallFilter"

    def __init__(self, *, exclude: Iterable[str] | None = None, filter_after_tool_steps: int | None = None) -> None:
        self._names = None if exclude is None else frozenset(exclude)
        kept = filter_after_tool_steps
        self._kept = None if kept is None else count("filter_after_tool_steps", kept)

    def process_llm_request(self, context: LLMRequestContext) -> RequestChange | None:
        """See `Processor`."""
        prompt = context.prompt
        end = self._end(prompt)
        kept = [*without_calls(prompt[:end], self._hides), *prompt[end:]]
        return None if list(map(id, kept)) == list(map(id, prompt)) else {"prompt": kept}

    def _hides(self, name: str) -> bool:
        return self._names is None or name in self._names

    def _end(self, prompt: Sequence[Turn]) -> int:
        """Where the turns begin that stay as they are."""
        asked = max((at for at, turn in enumerate(prompt) if isinstance(turn, UserTurn)), default=-1)
        if self._kept is None:
            return asked + 1
        steps = [at for at, turn in enumerate(prompt) if at > asked and isinstance(turn, AssistantTurn) and turn.calls]
        return steps[-self._kept] if 0 < self._kept <= len(steps) else len(prompt) if not self._kept else asked + 1


def without_calls(turns: Sequence[Turn], hides: Hides) -> list[Turn]:
    """The turns without the calls of these tools, their results, and turns in which nothing is left."""
    return [kept for turn in turns if (kept := _without(turn, hides)) is not None]


def _without(turn: Turn, hides: Hides) -> Turn | None:
    match turn:
        case AssistantTurn():
            return _answer(turn, hides)
        case ToolTurn():
            results = tuple(each for each in turn.results if not hides(each.tool_name))
            if len(results) == len(turn.results):
                return turn
            return replace(turn, results=results) if results else None
        case _:
            return turn


def _answer(turn: AssistantTurn, hides: Hides) -> AssistantTurn | None:
    """The answer; where calls went, what is opaque goes with them, for providers want it beside its calls only."""
    if not any(_is_hidden(part, hides) for part in turn.content):
        return turn
    content = tuple(
        part for part in turn.content if not (_is_hidden(part, hides) or isinstance(part, (Reasoning, Custom)))
    )
    return replace(turn, content=content) if content else None


def _is_hidden(part: AssistantPart, hides: Hides) -> bool:
    return isinstance(part, (CallPart, ProviderResult)) and hides(part.tool_name)
