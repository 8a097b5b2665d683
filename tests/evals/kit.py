"""Stored messages for the tests of this room."""

from datetime import UTC, datetime

from tenuto.messages.stored import Content, Message, TextPart, ToolInvocation, ToolInvocationPart

AT = datetime(2026, 12, 1, tzinfo=UTC)


def message(role, *parts, metadata=None):
    made = tuple(TextPart(part) if isinstance(part, str) else part for part in parts)
    return Message(f"m{len(parts)}", role, AT, Content(made, metadata=metadata))


def call(state="result", result=None, name="add", place=1):
    return ToolInvocationPart(ToolInvocation(state, f"c{place}", name, {"a": place}, 1, result=result))
