"""The functions of a tool that listen to its calls: while its arguments come, when they are complete, at its result.

Invariant: they only listen; what they raise is logged and changes nothing.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tenuto.core.abort import AbortSignal
from tenuto.core.foreign import contained
from tenuto.core.payloads import Json
from tenuto.messages.turns import Turn

if TYPE_CHECKING:
    from tenuto.tools.context import ToolContext
    from tenuto.tools.toolbox import RunnableTool

_log = logging.getLogger("tenuto")


class InputStart(Struct, frozen=True, kw_only=True):
    """`on_input_start`: the model begins to write the arguments of a call.

    Attributes:
        messages: The input of the run.
    """

    tool_call_id: str
    messages: Sequence[Turn]
    abort_signal: AbortSignal


class InputDelta(InputStart, frozen=True, kw_only=True):
    """`on_input_delta`: more of the arguments, as JSON text."""

    input_text_delta: str


class InputAvailable(InputStart, frozen=True, kw_only=True):
    """`on_input_available`: the arguments are complete, as the model gave them; they are not validated yet."""

    input: Json


class OutputAvailable(Struct, frozen=True, kw_only=True):
    """`on_output`: the tool has returned this, as JSON."""

    tool_call_id: str
    tool_name: str
    output: Json
    abort_signal: AbortSignal


OnInputStart = Callable[[InputStart], object | Awaitable[object]]
OnInputDelta = Callable[[InputDelta], object | Awaitable[object]]
OnInputAvailable = Callable[[InputAvailable], object | Awaitable[object]]
OnOutput = Callable[[OutputAvailable], object | Awaitable[object]]


async def tell(function: Callable[[Any], Any] | None, event: object, name: str) -> None:
    """Call a listener."""
    if function is None:
        return
    try:
        with contained():
            told = function(event)
            if inspect.isawaitable(told):
                await told
    except Exception:  # noqa: BLE001 - a user's function
        _log.exception("%s of a tool failed; the call goes on.", name)


async def tell_output(tool: RunnableTool, context: ToolContext[Any, Any], output: Json) -> None:
    """Tell a tool's `on_output` what its call returned."""
    if tool.settings.on_output is None:
        return
    event = OutputAvailable(
        tool_call_id=context.tool_call_id,
        tool_name=context.tool_name,
        output=output,
        abort_signal=context.abort_signal,
    )
    await tell(tool.settings.on_output, event, "on_output")
