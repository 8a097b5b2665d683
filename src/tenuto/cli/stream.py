"""A run's stream as a person reads it: the answer's text on stdout, what happens on the way on stderr.

Invariant: what it shows of a call or a result is bounded, and says so when it is cut.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from tenuto.cli.screen import Answer, brief
from tenuto.core import chunks as c


class Narrator:
    """Shows the chunks of one stream, in order."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._warned: set[str] = set()

    def take(self, chunk: c.AnyChunk) -> None:
        """Show what is worth showing of `chunk`. How the run ended is not said here: its result tells."""
        answer = self._answer
        match chunk:
            case c.TextDelta():
                answer.text(chunk.payload.text)
            case c.ToolCall(payload=call):
                answer.note(f"→ {signature(call.tool_name, call.args, call.raw_args)}", "cyan")
            case c.ToolResult(payload=result):
                answer.note(f"← {brief(as_text(result.result))}", "green")
            case c.ToolError(payload=failure):
                answer.note(f"✗ {failure.tool_name}: {brief(failure.error.message)}", "red")
            case c.ToolOutputDenied(payload=denied):
                answer.note(f"✗ {denied.tool_name} was declined: {brief(denied.approval.reason or '')}", "red")
            case c.ToolCallApproval(payload=asked):
                answer.note(f"‖ {asked.tool_name} waits for approval", "yellow")
            case c.ToolCallSuspended(payload=asked):
                answer.note(f"‖ {asked.tool_name} waits: {brief(as_text(asked.suspend_payload))}", "yellow")
            case c.AttemptRestarted(payload=again):
                answer.note(f"↻ the model is asked again (attempt {again.attempt}); forget what it had said", "yellow")
            case c.Gap(payload=gap):
                answer.note(f"(events {gap.requested} to {gap.first - 1} are no longer kept)")
            case c.StepStart(payload=step):
                self._warn(step.warnings)
            case _:
                pass

    def _warn(self, warnings: tuple[Any, ...]) -> None:
        for warning in warnings:
            text = str(_fields(warning).get("details", warning))
            if text not in self._warned:
                self._warned.add(text)
                self._answer.note(f"note: {text}", "yellow")


def signature(name: str, args: Any, raw_args: str | None = None) -> str:
    """A call as one would write it, bounded: `pay(amount=250)`."""
    named = ", ".join(f"{key}={as_text(value, quoted=True)}" for key, value in _fields(args).items())
    return f"{name}({brief(named or raw_args or '')})"


def as_text(value: Any, *, quoted: bool = False) -> str:
    """A JSON value on the screen; a text alone is shown as it is unless it is to be `quoted`."""
    if isinstance(value, str) and not quoted:
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _fields(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
