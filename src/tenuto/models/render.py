"""The one renderer: a prompt becomes a sequence of messages that every provider accepts.

Invariant: in what `render` returns each tool call is answered exactly once, right after its turn and in call order;
ids are unique; no result stands alone, also of the tools that a provider runs itself. Each turn is encoded once per
dialect and prompt, so a call costs what is new.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, assert_never

import msgspec
from msgspec.structs import replace

from tenuto.messages.turns import (
    AssistantTurn,
    CallPart,
    Prompt,
    ProviderResult,
    ResultPart,
    SystemTurn,
    ToolTurn,
    Turn,
    UserTurn,
)
from tenuto.models.hosted import HostedPairs

NO_RESULT = "There is no result: this call did not finish, or it still awaits a decision."
AWAITING = "This call is awaiting a decision; there is no result yet."

Messages = tuple[msgspec.Raw, ...]


class Dialect(Protocol):
    """How one wire format writes turns; a turn it cannot express becomes no message."""

    @property
    def name(self) -> str:
        """The cache's key: two dialects that encode a turn differently have different names."""
        ...

    def encode_system(self, turn: SystemTurn) -> Messages:
        """Instructions before the history."""
        ...

    def encode_aside(self, turn: SystemTurn) -> Messages:
        """Instructions in the middle of the history."""
        ...

    def encode_user(self, turn: UserTurn) -> Messages:
        """What a user says."""
        ...

    def encode_assistant(self, turn: AssistantTurn) -> Messages:
        """A step of the model; its ids are those of `encode_tool`."""
        ...

    def encode_tool(self, results: tuple[ResultPart, ...]) -> Messages:
        """The answers to all calls of one step, in call order; a result with files may need a message more."""
        ...

    def fit_call_id(self, call_id: str) -> str:
        """The id in the form this provider accepts; a pure function."""
        ...

    def is_half(self, part: CallPart | ProviderResult) -> bool:
        """Whether a call of the provider's own tool, or its result, is one of two blocks that must both be sent."""
        ...


class _Step:
    """The calls of one assistant turn; its answers, once settled, are `size` messages that stand from `start` on."""

    __slots__ = ("answers", "calls", "ids", "origins", "size", "start")

    def __init__(self, calls: list[CallPart], ids: list[str]) -> None:
        self.origins = [call.tool_call_id for call in calls]
        self.calls = calls
        self.ids = ids
        self.answers: list[ResultPart | None] = [None] * len(ids)
        self.start = -1
        self.size = 0

    @property
    def answered(self) -> bool:
        return None not in self.answers

    def answer(self, result: ResultPart) -> bool:
        """Take the result for the first unanswered call of its id; False when there is none."""
        for at, origin in enumerate(self.origins):
            if origin == result.tool_call_id and self.answers[at] is None:
                call = self.calls[at]
                own = {"tool_name": call.tool_name, "provider_metadata": call.provider_metadata}
                self.answers[at] = replace(result, tool_call_id=self.ids[at], **own)
                return True
        return False

    def results(self, text: str) -> tuple[ResultPart, ...]:
        """One result per call; `text` where there is none."""
        return tuple(answer or self._without(at, text) for at, answer in enumerate(self.answers))

    def _without(self, at: int, text: str) -> ResultPart:
        call = self.calls[at]
        return ResultPart(self.ids[at], call.tool_name, text, provider_metadata=call.provider_metadata)


class Rendered:
    """What a dialect has encoded of a prompt so far; lives in `prompt.rendered`.

    Attributes:
        encoded: Messages encoded since the prompt was made, for the test that history is not encoded again.
        used_ids: Every call id of the history, as stored and as sent.
        kept: What the format itself remembers of these messages, so that it looks at each of them once.
    """

    __slots__ = (
        "_dialect", "_head", "_hosted", "_messages", "_open", "_seen", "_system", "_unanswered", "encoded", "kept",
        "used_ids",
    )  # fmt: skip

    def __init__(self, dialect: Dialect) -> None:
        self.encoded: int = 0
        self.used_ids: set[str] = set()
        self.kept: Any = None
        self._dialect = dialect
        self._system: tuple[SystemTurn, ...] = ()
        self._head: list[msgspec.Raw] = []
        self._messages: list[msgspec.Raw] = []
        self._seen = 0
        self._open: _Step | None = None
        self._unanswered: list[_Step] = []
        self._hosted = HostedPairs(dialect.is_half)

    def render(self, prompt: Prompt) -> list[msgspec.Raw]:
        """All messages of the prompt as it is now."""
        head, messages = self.split(prompt)
        return [*head, *messages]

    def split(self, prompt: Prompt) -> tuple[list[msgspec.Raw], list[msgspec.Raw]]:
        """The instructions and the history, for formats that send them in two places."""
        if prompt.system is not self._system:
            self._system = prompt.system
            self._head = [raw for turn in prompt.system for raw in self._count(self._dialect.encode_system(turn))]
        while self._seen < len(prompt.turns):
            self._take(prompt.turns[self._seen])
            self._seen += 1
        if self._open is not None and self._open.answered:
            self._settle()
        return self._head, [*self._messages, *self._tail()]

    def _tail(self) -> Messages:
        """Answers for a step at the end that waits for some: in this request only."""
        if self._open is None:
            return ()
        return self._count(self._dialect.encode_tool(self._open.results(AWAITING)))

    def _take(self, turn: Turn) -> None:
        match turn:
            case ToolTurn():
                for result in turn.results:
                    self._answer(result)
            case AssistantTurn():
                self._settle()
                self._assistant(turn)
            case UserTurn():
                self._settle()
                self._drop_waiting()
                self._add(self._dialect.encode_user(turn))
            case SystemTurn():
                self._settle()
                self._drop_waiting()
                self._add(self._dialect.encode_aside(turn))
            case _:
                assert_never(turn)

    def _assistant(self, turn: AssistantTurn) -> None:
        turn = self._hosted.take(turn)
        calls = [call for call in turn.calls if not call.provider_executed]
        ids = [self._unique(call.tool_call_id) for call in calls]
        if calls:
            turn = _renamed(turn, iter(ids))
        start = len(self._messages)
        self._add(self._dialect.encode_assistant(turn))
        self._hosted.sent(turn, start, len(self._messages))
        if calls:
            self._open = _Step(calls, ids)

    def _drop_waiting(self) -> None:
        """Take back what a provider's own tool was called for and, as the conversation went on, never answered."""
        for turn, start, end in self._hosted.give_up():
            encoded = self._count(self._dialect.encode_assistant(turn))
            self._messages[start:end] = encoded
            for step in self._unanswered:
                if step.start >= end:
                    step.start += len(encoded) - (end - start)

    def _unique(self, origin: str) -> str:
        fit = self._dialect.fit_call_id
        number, fresh = 1, fit(origin or "call")
        while fresh in self.used_ids:
            number += 1
            fresh = fit(f"{origin or 'call'}_{number}")
        self.used_ids.update((origin, fresh))
        return fresh

    def _answer(self, result: ResultPart) -> None:
        """Pair a result; one that comes late replaces the neutral answer, one without a call is dropped."""
        if self._open is not None and self._open.answer(result):
            return
        for step in reversed(self._unanswered):
            if step.answer(result):
                self._replace(step, self._count(self._dialect.encode_tool(step.results(NO_RESULT))))
                if step.answered:
                    self._unanswered.remove(step)
                return

    def _replace(self, step: _Step, encoded: Messages) -> None:
        self._messages[step.start : step.start + step.size] = encoded
        grown, step.size = len(encoded) - step.size, len(encoded)
        for later in self._unanswered:
            if later.start > step.start:
                later.start += grown

    def _settle(self) -> None:
        """Write the answers of the open step for good."""
        step, self._open = self._open, None
        if step is not None:
            step.start = len(self._messages)
            self._add(self._dialect.encode_tool(step.results(NO_RESULT)))
            step.size = len(self._messages) - step.start
            if not step.answered:
                self._unanswered.append(step)

    def _add(self, messages: Messages) -> None:
        self._messages += self._count(messages)

    def _count(self, messages: Messages) -> Messages:
        self.encoded += len(messages)
        return messages


def rendered(prompt: Prompt, dialect: Dialect) -> Rendered:
    """The cache of a dialect in a prompt, made on first use."""
    slot: Any = prompt.rendered.get(dialect.name)
    if slot is None:
        slot = prompt.rendered[dialect.name] = Rendered(dialect)
    return slot


def render(prompt: Prompt, dialect: Dialect) -> list[msgspec.Raw]:
    """The prompt's messages as encoded bytes, ready to be joined into a request."""
    return rendered(prompt, dialect).render(prompt)


def _renamed(turn: AssistantTurn, ids: Iterable[str]) -> AssistantTurn:
    """The turn with the ids its calls are sent under; the turn itself when nothing changes."""
    source = iter(ids)
    content = tuple(
        replace(part, tool_call_id=next(source)) if isinstance(part, CallPart) and not part.provider_executed else part
        for part in turn.content
    )
    return turn if content == turn.content else replace(turn, content=content)
