"""What happens around a tool's body: hooks before and after it, and how its result is put to the model.

Invariant: a user's function here never changes what is known of the effect: a body that returned has taken effect,
whatever comes after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tenuto.steps.calls import hook_event
from tenuto.tools.execute import without_result
from tenuto.tools.hooks import after_call, before_call
from tenuto.tools.listeners import tell_output
from tenuto.tools.outcome import Ok, Outcome
from tenuto.tools.told import ToldInvalid, ask_model_output

if TYPE_CHECKING:
    from tenuto.messages.turns import CallPart
    from tenuto.steps.run import Run
    from tenuto.tools.context import ToolContext
    from tenuto.tools.toolbox import RunnableTool


def follows(run: Run, tool: RunnableTool) -> bool:
    """Whether anything of the user's runs after the body."""
    settings = tool.settings
    return run.hooks.after is not None or settings.on_output is not None or settings.to_model_output is not None


async def before(run: Run, tool: RunnableTool, call: CallPart, context: ToolContext[Any, Any]) -> Outcome | None:
    """What `before_tool_call` answers in the tool's place; None when the call goes on."""
    if run.hooks.before is None:
        return None
    return await before_call(run.hooks, hook_event(run, call, context), tool.max_result_chars)


async def after(
    run: Run, tool: RunnableTool, call: CallPart, context: ToolContext[Any, Any], outcome: Outcome
) -> Outcome:
    """The outcome as it is recorded: told to `after_tool_call` and `on_output`, and put into words for the model."""
    outcome = await after_call(run.hooks, tool, hook_event(run, call, context), outcome)
    if not isinstance(outcome, Ok):
        return outcome
    await tell_output(tool, context, outcome.result)
    return await worded(tool, outcome)


async def worded(tool: RunnableTool, outcome: Ok) -> Outcome:
    """The outcome with what the tool's `to_model_output` makes of its result."""
    if tool.settings.to_model_output is None or outcome.result is None:
        return outcome
    try:
        told = await ask_model_output(tool.settings.to_model_output, outcome.result, tool.max_result_chars)
    except ToldInvalid as error:
        return without_result(tool, error.__cause__ or error, f"The tool ran, and its to_model_output failed: {error}")
    return replace(outcome, text=told.text, told=told.stored)
