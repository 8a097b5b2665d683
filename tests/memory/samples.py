"""Stored messages for the tests of this room."""

from __future__ import annotations

from typing import Any

from tenuto.messages.stored import (
    Content,
    Message,
    MessagePart,
    StepStartPart,
    TextPart,
    ToolInvocation,
    ToolInvocationPart,
    timestamp,
)


def said(role: Any, text: str, *, id: str | None = None, at: float = 0.0, **metadata: Any) -> Message:
    return Message(id or f"m-{text}", role, timestamp(at), Content((TextPart(text),), metadata=metadata or None))


def of_parts(*parts: MessagePart, id: str = "m", role: Any = "assistant", at: float = 0.0) -> Message:
    return Message(id, role, timestamp(at), Content(parts))


def call(call_id: str, name: str = "look", *, state: Any = "result", **more: Any) -> ToolInvocationPart:
    fields = {"args": {}, **more}
    return ToolInvocationPart(ToolInvocation(state, call_id, name, **fields))


def step(*parts: MessagePart) -> tuple[MessagePart, ...]:
    return (StepStartPart("test/m"), *parts)
