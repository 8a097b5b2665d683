"""What is scored: the input and the output of one answer, and how a scorer reads text and tool calls out of them.

Invariant: values only; a scorer that reads text gets the same text whether it is given a string, the stored messages
of a run, or the context of a completion check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct, field

from tenuto.core import codec
from tenuto.core.payloads import Json, wire_name
from tenuto.core.request_context import RequestContext
from tenuto.messages.stored import Message, ToolInvocation, ToolInvocationPart
from tenuto.messages.turns import SystemTurn


class ScorerInput(Struct, frozen=True, rename=wire_name):
    """What an agent was given: the input of a scorer that looks at a run.

    Attributes:
        input_messages: Those of the call, in stored form.
        remembered_messages: Those loaded from memory.
        system_messages: What was sent before all of them.
        tagged_system_messages: Further ones, by what added them.
    """

    input_messages: tuple[Message, ...]
    remembered_messages: tuple[Message, ...] = ()
    system_messages: tuple[SystemTurn, ...] = ()
    tagged_system_messages: Mapping[str, tuple[SystemTurn, ...]] = {}

    def to_dict(self) -> dict[str, Any]:
        """The stored form as plain values: camelCase names."""
        return {
            "inputMessages": [message.to_dict() for message in self.input_messages],
            "rememberedMessages": [message.to_dict() for message in self.remembered_messages],
            "systemMessages": _systems(self.system_messages),
            "taggedSystemMessages": {tag: _systems(each) for tag, each in self.tagged_system_messages.items()},
        }


class ScoringData(Struct, frozen=True, rename=wire_name):
    """What scorers of a run get: `input`, and as `output` the messages that the run added."""

    input: ScorerInput
    output: tuple[Message, ...]

    def to_dict(self) -> dict[str, Any]:
        """The stored form as plain values: camelCase names."""
        return {"input": self.input.to_dict(), "output": [message.to_dict() for message in self.output]}


class CompletionContext(Struct, frozen=True, kw_only=True, rename=wire_name):
    """The input of a scorer that decides whether a run's task is complete; its output is the current text.

    Attributes:
        iteration: From 1.
        max_iterations: The step limit.
        original_task: The text of the run's input.
        messages: Every message of the run so far that is not a system message.
    """

    iteration: int
    max_iterations: int
    original_task: str
    text: str
    messages: tuple[Message, ...]
    run_id: str
    agent_id: str
    agent_name: str
    thread_id: str | None = None
    resource_id: str | None = None


class Sample(Struct, frozen=True):
    """What a step of a scorer gets.

    Attributes:
        input: As the scorer was given it: text, a `ScorerInput`, a `CompletionContext`, or anything else.
        output: Text, stored messages, or anything else.
        ground_truth: What a right answer is, where somebody knows it; else None.
        preprocessed: What the step `preprocess` made.
        analysis: What the step `analyze` made.
        score: Set for the step `reason`.
    """

    input: Any
    output: Any
    ground_truth: Any = None
    request_context: RequestContext = field(default_factory=RequestContext)
    preprocessed: Any = None
    analysis: Any = None
    score: float | None = None

    @property
    def input_text(self) -> str:
        """What the user asked, as text."""
        match self.input:
            case CompletionContext():
                return self.input.original_task
            case ScorerInput():
                return text_of([each for each in self.input.input_messages if each.role == "user"])
            case _:
                return text_of(self.input)

    @property
    def output_text(self) -> str:
        """What was answered, as text: without feedback, and without answers that a completion check refused."""
        return text_of(self.output)

    @property
    def truth_text(self) -> str:
        """The right answer, as text; empty when there is none."""
        return "" if self.ground_truth is None else text_of(self.ground_truth)

    @property
    def tool_calls(self) -> tuple[ToolInvocation, ...]:
        """The tool calls of the answer, in order, each with what came of it."""
        given = self.input.messages if isinstance(self.input, CompletionContext) else self.output
        parts = (part for message in _messages(given) for part in message.content.parts)
        return tuple(part.tool_invocation for part in parts if isinstance(part, ToolInvocationPart))

    @property
    def tool_results(self) -> tuple[str, ...]:
        """What the tools of the answer returned, as text, in order."""
        done = [call for call in self.tool_calls if call.state == "result"]
        return tuple(text_of(call.result) for call in done)


def text_of(value: Any) -> str:
    """`value` as text: that of messages, a string itself, nothing for None, JSON for the rest."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if messages := _messages(value):
        return _said(messages)
    if value in ((), []):
        return ""
    try:
        return codec.encode(value).decode()
    except TypeError:
        return str(value)


def task_of(messages: Iterable[Message]) -> str:
    """The text of what the user asked in `messages`."""
    return text_of([message for message in messages if message.role == "user"])


def _messages(value: Any) -> Sequence[Message]:
    if isinstance(value, Message):
        return (value,)
    if isinstance(value, (list, tuple)):
        given = cast("Sequence[Any]", value)
        if all(isinstance(each, Message) for each in given):
            return given
    return ()


def _said(messages: Sequence[Message]) -> str:
    """The text of `messages`; of answers that were refused one after the other, the last."""
    said: list[str] = []
    refused: list[str] = []
    for message in messages:
        told: Mapping[str, Any] | None = (message.content.metadata or {}).get("completionResult")
        if told is None:
            said.append(message.text)
        elif told.get("passed") is False:
            said, refused = [], said
    return "\n".join(text for text in said or refused if text)


def _systems(turns: Iterable[SystemTurn]) -> list[Json]:
    return [{"role": "system", "content": turn.text} for turn in turns]
