"""What a run's tools want of a call while the model still writes it: their listeners told, their titles shown.

Invariant: a run whose tools want nothing pays nothing; the order of the chunks stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tenuto.core import chunks as c
from tenuto.steps.calls import find_tool
from tenuto.tools.listeners import InputAvailable, InputDelta, InputStart, tell

if TYPE_CHECKING:
    from tenuto.messages.turns import CallPart
    from tenuto.steps.run import Run
    from tenuto.tools.toolbox import RunnableTool


def attentive(toolbox: Mapping[str, RunnableTool]) -> dict[str, RunnableTool]:
    """The tools that have a title or listen while their calls are written."""
    return {
        name: tool
        for name, tool in toolbox.items()
        if tool.title is not None
        or tool.settings.on_input_start is not None
        or tool.settings.on_input_delta is not None
    }


async def heard(run: Run, chunks: Sequence[c.AnyChunk]) -> list[c.AnyChunk]:
    """The chunks of a model call, with titles; the listeners among the tools have been told of them."""
    return [await _heard(run, chunk) for chunk in chunks]


async def _heard(run: Run, chunk: c.AnyChunk) -> c.AnyChunk:
    match chunk:
        case c.ToolInputStart(payload=payload) if (tool := run.attentive.get(payload.tool_name)) is not None:
            run.writing[payload.tool_call_id] = tool
            event = InputStart(
                tool_call_id=payload.tool_call_id, messages=run.input_turns, abort_signal=run.abort.signal
            )
            await tell(tool.settings.on_input_start, event, "on_input_start")
            return replace(chunk, payload=replace(payload, title=tool.title))
        case c.ToolInputDelta(payload=payload) if (tool := run.writing.get(payload.tool_call_id)) is not None:
            event = InputDelta(
                tool_call_id=payload.tool_call_id,
                messages=run.input_turns,
                abort_signal=run.abort.signal,
                input_text_delta=payload.args_text_delta,
            )
            await tell(tool.settings.on_input_delta, event, "on_input_delta")
            return chunk
        case c.ToolCall(payload=payload) if (tool := run.attentive.get(payload.tool_name)) is not None:
            return replace(chunk, payload=replace(payload, title=tool.title))
        case _:
            return chunk


def title_of(run: Run, call: CallPart) -> str | None:
    """The title of a call's tool."""
    tool = run.attentive.get(call.tool_name)
    return None if tool is None else tool.title


async def available(run: Run, call: CallPart) -> None:
    """Tell a call's tool that its arguments are complete."""
    tool = find_tool(run, call)
    if tool is None or tool.settings.on_input_available is None:
        return
    event = InputAvailable(
        tool_call_id=call.tool_call_id,
        messages=run.input_turns,
        abort_signal=run.abort.signal,
        input=call.args if call.raw_args is None else call.raw_args,
    )
    await tell(tool.settings.on_input_available, event, "on_input_available")
