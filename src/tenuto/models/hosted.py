"""Calls of the tools that a provider runs itself, and their results, across the turns of a prompt.

Invariant: a call and its result are both sent or neither. A result may come a turn later than its call (the provider
paused, or waited for a tool of ours); once a user speaks, a call without a result is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from msgspec import Struct
from msgspec.structs import replace

from tenuto.messages.turns import AssistantTurn, CallPart, ProviderResult


class _Sent(Struct, frozen=True):
    """A turn with calls that wait, and where its messages are."""

    turn: AssistantTurn
    start: int
    end: int


class HostedPairs:
    """What waits in one prompt; `is_half` as in `render.Dialect`."""

    __slots__ = ("_is_half", "_sent", "_waiting")

    def __init__(self, is_half: Callable[[CallPart | ProviderResult], bool]) -> None:
        self._is_half = is_half
        self._waiting: set[str] = set()
        self._sent: list[_Sent] = []

    def take(self, turn: AssistantTurn) -> AssistantTurn:
        """The turn without results whose call is not in the prompt; its own calls wait from now on."""
        halves = self._halves(turn)
        if not halves:
            return turn
        orphans: set[str] = set()
        for part in halves:
            if isinstance(part, CallPart):
                self._waiting.add(part.tool_call_id)
            elif part.tool_call_id in self._waiting:
                self._waiting.discard(part.tool_call_id)
            else:
                orphans.add(part.tool_call_id)
        return self._without(turn, ProviderResult, orphans) if orphans else turn

    def sent(self, turn: AssistantTurn, start: int, end: int) -> None:
        """Say which messages a turn became."""
        if any(part.tool_call_id in self._waiting for part in self._halves(turn)):
            self._sent.append(_Sent(turn, start, end))

    def give_up(self) -> list[tuple[AssistantTurn, int, int]]:
        """The turns to write anew, without the calls that still wait, the last one first."""
        anew = [
            (self._without(each.turn, CallPart, self._waiting), each.start, each.end)
            for each in reversed(self._sent)
            if any(part.tool_call_id in self._waiting for part in self._halves(each.turn))
        ]
        self._sent.clear()
        self._waiting.clear()
        return anew

    def _halves(self, turn: AssistantTurn) -> list[CallPart | ProviderResult]:
        return [part for part in turn.content if isinstance(part, CallPart | ProviderResult) and self._is_half(part)]

    def _without(
        self, turn: AssistantTurn, kind: type[CallPart | ProviderResult], ids: Container[str]
    ) -> AssistantTurn:
        kept = (
            part
            for part in turn.content
            if not (isinstance(part, kind) and self._is_half(part) and part.tool_call_id in ids)
        )
        return replace(turn, content=tuple(kept))
