"""Messages that processors put in place of a run's own, and what they mean for its steps.

Invariant: when the messages of a run were replaced, nothing of the run's result says what they do not say any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tenuto.messages.convert import to_turns
from tenuto.messages.stored import ErrorPart, Message, ReasoningPart, StepStartPart, TextPart
from tenuto.messages.turns import AssistantTurn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenuto.messages.stored import MessagePart
    from tenuto.messages.turns import AssistantPart
    from tenuto.steps.run import Run


def rewrite(run: Run, messages: Sequence[Message]) -> None:
    """Put `messages` in place of those the run added, and their texts in place of its steps'."""
    errors = [part for part in run.parts if isinstance(part, ErrorPart)]
    kept = list(messages)
    if errors and kept and kept[-1].role == "assistant":
        content = kept[-1].content
        parts = (*(part for part in content.parts if not isinstance(part, ErrorPart)), *errors)
        kept[-1] = replace(kept[-1], content=replace(content, parts=parts))
    run.replaced = tuple(kept)
    spoken = [at for at, step in enumerate(run.steps) if step.tripwire is None]
    said = _said(kept)
    missing = len(spoken) - len(said)
    said = [("", "")] * missing + said if missing > 0 else said[-missing:]
    for at, (text, reasoning) in zip(spoken, said, strict=True):
        step = run.steps[at]
        kept_reasoning = step.reasoning if (step.reasoning_text or "") == reasoning else ()
        if (step.text, step.reasoning) != (text, kept_reasoning):
            run.steps[at] = replace(step, text=text, reasoning=kept_reasoning)


def _said(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """What each step says, text and reasoning: what stands between two boundaries of the assistant's messages."""
    return [
        (
            "".join(part.text for part in step if isinstance(part, TextPart)),
            "".join(part.reasoning for part in step if isinstance(part, ReasoningPart)),
        )
        for message in messages
        if message.role == "assistant" and "completionResult" not in (message.content.metadata or ())
        for step in steps_of(message)
    ]


def steps_of(message: Message) -> list[list[MessagePart]]:
    """The parts of a response by step, without the boundaries."""
    steps: list[list[MessagePart]] = [[]]
    for part in message.content.parts:
        if isinstance(part, StepStartPart):
            steps.append([])
        else:
            steps[-1].append(part)
    return steps[1:] if len(steps) > 1 and not steps[0] else steps


def last_step(message: Message) -> tuple[AssistantPart, ...]:
    """What the last step of a response says, as a model reads it."""
    parts = tuple(steps_of(message)[-1])
    turns = to_turns([replace(message, content=replace(message.content, parts=parts))])
    return tuple(part for turn in turns if isinstance(turn, AssistantTurn) for part in turn.content)
