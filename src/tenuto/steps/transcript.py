"""The messages of a run as they stand: what was sent with it, what it said, and what it was told on the way.

Invariant: one assistant message holds the response up to where the run was told something; then another one begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tenuto.messages.stored import Content, Message, StepStartPart, TextPart, in_order, timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from tenuto.messages.stored import MessagePart
    from tenuto.steps.run import Run

FEEDBACK: Mapping[str, Any] = {"completionResult": {"suppressFeedback": True}}
"""Marks a stored message as feedback: an interface hides it, and a model reads it as said to it, not by it."""


def own_messages(run: Run, parts: Sequence[MessagePart] = ()) -> tuple[Message, ...]:
    """What the run added: its answer so far, with `parts` of a step in progress, and the feedback it was given."""
    if run.replaced is not None:
        return run.replaced
    answer = _answer(run, (*run.parts, *parts))
    own = run.earlier if answer is None else (*run.earlier, answer)
    before = [*run.remembered, *run.context, *run.input][-1:]
    return tuple(in_order([*before, *own])[len(before) :])


def all_messages(run: Run, own: Sequence[Message] | None = None) -> tuple[Message, ...]:
    """Every message of the run that is not a system message, oldest first; `own` are those it added, if made before."""
    added = own_messages(run) if own is None else own
    every = (*run.found, *run.remembered, *run.context, *run.input, *added)
    return tuple([message for message in every if message.role != "system"])


def feedback_message(message_id: str, text: str, at: float, metadata: Mapping[str, Any] = FEEDBACK) -> Message:
    """Feedback in its stored form."""
    return Message(message_id, "assistant", timestamp(at), Content((TextPart(text),), metadata=metadata))


def take_feedback(run: Run, feedback: Message) -> None:
    """End the answer so far; what the run says next is a message of its own."""
    answer = _answer(run, tuple(run.parts), feedback.created_at)
    run.earlier = (*run.earlier, *(() if answer is None else (answer,)), feedback)
    run.parts = []
    run.message_id = f"{run.first_message_id}-{len(run.steps)}"


def _answer(run: Run, parts: tuple[MessagePart, ...], at: datetime | None = None) -> Message | None:
    """The assistant message of `parts`; None when nothing was said."""
    if not {type(part) for part in parts} - {StepStartPart}:
        return None
    end = at or timestamp(run.clock.now() if run.ended_at is None else run.ended_at)
    known = [message.created_at for message in (*run.remembered[-1:], *run.context, *run.input)]
    provider, _, model_id = (run.steps[-1].model if run.steps else run.model_name).partition("/")
    metadata: dict[str, Any] = {"modelId": model_id, "provider": provider} if model_id else {}
    if run.answer is not None and run.answer.state != "none":
        metadata["structuredOutput"] = run.answer.value
    if (link := run.trace.root.link or run.traced) is not None:
        metadata["traceId"] = link.trace_id
    content = Content(parts, metadata=metadata or None)
    return Message(run.message_id, "assistant", max([end, *known]), content, run.thread_id, run.resource_id)
