"""The conditions for `stop_when=` that are shipped.

Invariant: a condition looks at the run's steps and nothing else; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tenuto.core.chunks import ToolCall
from tenuto.steps.results import StopContext

StopWhen = Callable[[StopContext], bool | Awaitable[bool]]
"""Whether the run stops after the step it has just made."""


def step_count_is(count: int) -> StopWhen:
    """Stop after `count` steps."""
    return lambda context: len(context.steps) >= count


def has_tool_call(name: str) -> StopWhen:
    """Stop after a step that called the tool `name`."""

    def called(context: StopContext) -> bool:
        last: tuple[ToolCall, ...] = context.steps[-1].tool_calls if context.steps else ()
        return any(call.payload.tool_name == name for call in last)

    return called


def total_tokens_over(tokens: int) -> StopWhen:
    """Stop once the run has used more than `tokens` tokens, input and output together."""
    return lambda context: sum(step.usage.total_tokens for step in context.steps) > tokens
