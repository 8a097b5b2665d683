"""Running one tool call: arguments in, exactly one outcome out.

Invariant: when `run_tool` returns or raises, no task of the tool is alive; only the caller's own cancellation (and
KeyboardInterrupt or SystemExit) leaves it as an exception. A thread cannot be stopped: it is left to end by itself,
and what it returns then is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tenuto.core.errors import ToolError
from tenuto.core.payloads import Json
from tenuto.messages.bounded import model_text
from tenuto.tools.context import ToolContext
from tenuto.tools.describe import error_text
from tenuto.tools.ending import Body, Ending, Raised, Returned, TimedOut, awaited, joined, threaded
from tenuto.tools.ending import Late as LateEnding
from tenuto.tools.entry import Entry, StepUnknown, SuspendSignal
from tenuto.tools.outcome import FIND_OUT, Aborted, Failed, Ok, Outcome, ToolFailed, UnknownOutcome
from tenuto.tools.results import to_json
from tenuto.tools.schema import Bound
from tenuto.tools.shape import Misfit
from tenuto.tools.tool import Tool
from tenuto.tools.validate import bind_arguments, refused_output, refused_values

AnyContext = ToolContext[Any, Any]
Late = Callable[[Outcome], None]


async def run_tool(tool: Tool[Any, ..., Any], context: AnyContext, args: Json, *, late: Late | None = None) -> Outcome:
    """Validate the arguments, run the body, and say how it ended.

    An async body runs in a task of its own, a sync one in a thread with a copy of the context variables. At the
    tool's timeout the task is cancelled and waited for, also when that takes longer; a thread is left alone.

    Args:
        tool: The tool.
        context: For this attempt of this call. After a resume its `resume_data` are what `read_resume` made of them.
        args: The arguments as JSON, or the model's text of them, which is mended if that takes no guessing.
        late: Called on the loop with the outcome of a thread that ends after this has returned or raised.

    Returns:
        `Ok`; `Failed` (surely no effect); `UnknownOutcome` (it may have taken effect); `Suspended` when the body called
        `suspend`, however it ended then; `Aborted` when `context.abort_signal` fired before the body began, or before
        it raised or asked for a suspension.

    Raises:
        asyncio.CancelledError: The caller was cancelled; the tool's task was cancelled and has ended. A further
            cancellation meanwhile is passed on to the tool.
        ConfigurationError: The tool has no schema (see `Tool.schema`); the body did not run.
    """
    if context.abort_signal.aborted:
        return Aborted()
    bound = bind_arguments(context.tool_name or tool.id, tool.schema, args)
    if isinstance(bound, Failed):
        return bound
    entry = Entry(asyncio.get_running_loop(), suspend=tool.suspend_shape, resume=tool.resume_shape)
    context = replace(context, args=bound.named, entry=entry, writer=context.writer.of(entry))
    refused, context = _with_values(tool, context)
    if refused is not None:
        return refused
    body = _body(tool, context, bound)
    running = awaited(body) if tool.is_async else threaded(body, _told(tool, context, args, late))
    try:
        ending = await joined(running, f"tenuto tool {tool.id}", tool.timeout)
    finally:
        await entry.close()
    if isinstance(ending, Raised) and isinstance(ending.error, (KeyboardInterrupt, SystemExit)):
        raise ending.error
    return _outcome(tool, context, ending, args)


def _body(tool: Tool[Any, ..., Any], context: AnyContext, bound: Bound) -> Body:
    fn = tool.fn
    assert fn is not None  # noqa: S101 - calls of a tool that is carried out elsewhere come nowhere near
    return lambda: tool.schema.call(fn, bound, context)


def _with_values(tool: Tool[Any, ..., Any], context: AnyContext) -> tuple[Failed | None, AnyContext]:
    """The context with the view that the tool's own schema makes of the request's values, or the refusal."""
    shape = tool.request_shape
    if shape is None:
        return None, context
    try:
        return None, replace(context, values=shape.read(context.request_context.all))
    except Misfit as misfit:
        return refused_values(tool, misfit), context


def _told(tool: Tool[Any, ..., Any], context: AnyContext, given: Json, late: Late | None) -> LateEnding | None:
    return None if late is None else lambda ending: late(_outcome(tool, context, ending, given))


def _outcome(tool: Tool[Any, ..., Any], context: AnyContext, ending: Ending | TimedOut, given: Json) -> Outcome:
    suspended = context.entry.suspended
    if suspended is not None:  # also when the body swallowed the signal
        return Aborted() if context.abort_signal.aborted else suspended
    match ending:
        case Returned(value):
            return _returned(tool, value)
        case Raised(error):
            return _raised(tool, context, error, given)
        case TimedOut():
            return _timed_out(tool, context)


def _returned(tool: Tool[Any, ..., Any], value: Any) -> Outcome:
    try:
        result = to_json(value) if tool.output_shape is None else tool.output_shape.dump(value)
    except Misfit as misfit:
        return refused_output(tool, misfit)
    except ToolError as error:
        return without_result(tool, error, str(error))
    return Ok(result, model_text(result, tool.max_result_chars))


def _raised(tool: Tool[Any, ..., Any], context: AnyContext, error: BaseException, given: Json) -> Outcome:
    if context.abort_signal.aborted:
        return Aborted(error)
    if isinstance(error, SuspendSignal):  # of a context made by hand
        return error.suspended
    text = error_text(error, given)
    if isinstance(error, StepUnknown):
        return UnknownOutcome(error, f"{text}\n{FIND_OUT}")
    return Failed(error, text) if isinstance(error, ToolFailed) else without_result(tool, error, text)


def _timed_out(tool: Tool[Any, ..., Any], context: AnyContext) -> Outcome:
    error = ToolError(
        f"Tool {tool.id!r} did not finish within {tool.timeout:g} s.",
        id="TOOL_TIMEOUT",
        details={"timeout": tool.timeout},
    )
    return Aborted(error) if context.abort_signal.aborted else without_result(tool, error, str(error))


def without_result(tool: Tool[Any, ..., Any], error: BaseException, text: str) -> Failed | UnknownOutcome:
    """The outcome of a body that ran and has no result: what may be said of its effect is the tool's to know."""
    if tool.effects == "none":
        return Failed(error, text)
    return UnknownOutcome(error, f"{text}\n{FIND_OUT}")
