"""Results that a client brings for calls it was asked to carry out: what our side of such a tool does with them.

Invariant: a result is taken once, in the call that brings it: it stands in the last step of the newest assistant
message, and is marked there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tenuto.messages.bounded import model_text
from tenuto.messages.stored import OWN, Message, MessagePart, StepStartPart, ToolInvocation, ToolInvocationPart
from tenuto.steps.calls import plain_context
from tenuto.tools.hooks import HookMetadata, ToolHookContext, after_call
from tenuto.tools.listeners import tell_output
from tenuto.tools.outcome import Failed, Ok, Outcome, ToolFailed, UnknownOutcome
from tenuto.tools.told import ToldInvalid, ask_model_output

if TYPE_CHECKING:
    from tenuto.steps.run import Run
    from tenuto.tools.toolbox import RunnableTool

TAKEN = "modelOutputComputed"
"""The mark in a part's metadata."""

_log = logging.getLogger("tenuto")


async def take_results(run: Run, messages: Sequence[Message]) -> list[Message]:
    """The messages with what hooks, `on_output` and `to_model_output` make of the results a client brings in them."""
    taken = list(messages)
    place = next((at for at in range(len(taken) - 1, -1, -1) if taken[at].role == "assistant"), None)
    if place is None:
        return taken
    parts = list(taken[place].content.parts)
    changed = False
    for at in range(len(parts) - 1, -1, -1):
        part = parts[at]
        if isinstance(part, StepStartPart):
            break
        if isinstance(part, ToolInvocationPart) and (tool := _tool_of(run, part)) is not None:
            parts[at], changed = await _taken(run, tool, part), True
    if changed:
        taken[place] = replace(taken[place], content=replace(taken[place].content, parts=tuple(parts)))
    return taken


def _tool_of(run: Run, part: ToolInvocationPart) -> RunnableTool | None:
    """The client tool whose new result this is."""
    if part.provider_executed or part.tool_invocation.state not in {"result", "output-error"}:
        return None
    tool = run.toolbox.get(part.tool_invocation.tool_name)
    if tool is None or tool.fn is not None or _own(part).get(TAKEN):
        return None
    return tool


def _own(part: ToolInvocationPart) -> Mapping[str, Any]:
    return (part.provider_metadata or {}).get(OWN) or {}


async def _taken(run: Run, tool: RunnableTool, part: ToolInvocationPart) -> MessagePart:
    call = part.tool_invocation
    context = plain_context(run, tool_call_id=call.tool_call_id, tool_name=call.tool_name)
    metadata = HookMetadata(run.definition.id, run.definition.name)
    event = ToolHookContext(tool_name=call.tool_name, input=call.args, context=context, metadata=metadata)
    outcome = await after_call(run.hooks, tool, event, _outcome(call))
    told: Any = None
    if isinstance(outcome, Ok):
        await tell_output(tool, context, outcome.result)
        told = await _told(tool, outcome)
    own = {**_own(part), TAKEN: True} if told is None else {**_own(part), TAKEN: True, "modelOutput": told}
    return replace(
        part, tool_invocation=_recorded(call, outcome), provider_metadata={**(part.provider_metadata or {}), OWN: own}
    )


def _outcome(call: ToolInvocation) -> Outcome:
    if call.state == "result":
        return Ok(call.result, model_text(call.result))
    text = call.error_text or "The tool call failed."
    return Failed(ToolFailed(text), text)


def _recorded(call: ToolInvocation, outcome: Outcome) -> ToolInvocation:
    """The call, failed when a hook made it fail."""
    if call.state == "result" and isinstance(outcome, (Failed, UnknownOutcome)):
        return replace(call, state="output-error", result=None, error_text=outcome.text)
    return call


async def _told(tool: RunnableTool, outcome: Ok) -> Any:
    """What the model is told of the result; None: the result itself, also when the function fails."""
    if tool.settings.to_model_output is None or outcome.result is None:
        return None
    try:
        told = await ask_model_output(tool.settings.to_model_output, outcome.result, tool.max_result_chars)
    except ToldInvalid as error:
        _log.error("to_model_output of client tool %r failed; the model is told the result.", tool.id, exc_info=error)
        return None
    return told.stored
