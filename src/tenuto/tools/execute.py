"""Running one tool call: arguments in, exactly one outcome out.

Invariant: when `run_tool` returns or raises, no task of the tool is alive; only the caller's own cancellation (and
KeyboardInterrupt or SystemExit) leaves it as an exception. A thread cannot be stopped: it is left to end by itself,
and what it returns then is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from tenuto.core.errors import ToolError
from tenuto.core.payloads import Json
from tenuto.messages.bounded import model_text
from tenuto.tools.context import ToolContext
from tenuto.tools.describe import error_text
from tenuto.tools.outcome import Aborted, Failed, Ok, Outcome, ToolFailed, Unknown
from tenuto.tools.results import to_json
from tenuto.tools.schema import Bound
from tenuto.tools.threads import Deliver, run_in_thread
from tenuto.tools.tool import Tool
from tenuto.tools.validate import bind_arguments

AnyContext = ToolContext[Any, Any]
Body = Callable[[], Any]


class _Returned(Struct, frozen=True):
    value: Any


class _Raised(Struct, frozen=True):
    error: BaseException


class _TimedOut(Struct, frozen=True):
    pass


_Ending = _Returned | _Raised
_TIMED_OUT = _TimedOut()


async def run_tool(tool: Tool[Any, ..., Any], context: AnyContext, args: Json) -> Outcome:
    """Validate the arguments, run the body, and say how it ended.

    An async body runs in a task of its own, a sync one in a thread with a copy of the context variables. At the
    tool's timeout the task is cancelled and waited for, also when that takes longer; a thread is left alone.

    Args:
        tool: The tool.
        context: For this attempt of this call.
        args: The arguments as JSON, or the model's text of them, which is mended if that takes no guessing.

    Returns:
        `Ok`; `Failed` (surely no effect); `Unknown` (it may have taken effect); `Aborted` when `context.abort_signal`
        fired before the body began, or before the body raised.

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
    match await _end_of(tool, _body(tool, context, bound)):
        case _Returned(value):
            return _returned(tool, value)
        case _Raised(KeyboardInterrupt() | SystemExit() as error):
            raise error
        case _Raised(error):
            return _raised(tool, context, error, args)
        case _TimedOut():
            return _timed_out(tool, context)


def _body(tool: Tool[Any, ..., Any], context: AnyContext, bound: Bound) -> Body:
    first = (context,) if tool.schema.context else ()
    return lambda: tool.fn(*first, *bound.positional, **bound.keywords)


async def _end_of(tool: Tool[Any, ..., Any], body: Body) -> _Ending | _TimedOut:
    """Run the body as a task and join it, whatever happens."""
    running: Coroutine[Any, Any, _Ending] = _awaited(body) if tool.is_async else _threaded(body)
    task = asyncio.get_running_loop().create_task(running, name=f"tenuto tool {tool.id}")
    try:
        await asyncio.wait((task,), timeout=tool.timeout)
    except asyncio.CancelledError:
        await _stop(task)
        raise
    if task.done():
        return task.result()
    await _stop(task)
    return _TIMED_OUT


async def _stop(task: asyncio.Task[_Ending]) -> None:
    """Cancel and join; being cancelled meanwhile cancels the task again and still joins."""
    again: asyncio.CancelledError | None = None
    task.cancel()
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            again = error
            task.cancel()
    if again is not None:
        raise again


async def _awaited(body: Body) -> _Ending:
    """Every ending as a value: a CancelledError that the body raises by itself is not the caller's."""
    try:
        value = body()
        return _Returned(await value if inspect.isawaitable(value) else value)
    except BaseException as error:  # noqa: BLE001 - run_tool sorts them
        return _Raised(error)


async def _threaded(body: Body) -> _Ending:
    """In a thread; a cancellation ends the wait, not the thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Ending] = loop.create_future()
    variables = contextvars.copy_context()

    def job() -> Deliver:
        ending = variables.run(_called, body)
        return lambda: _hand_over(loop, future, ending)

    try:
        run_in_thread(job)
    except RuntimeError as error:
        return _Raised(ToolFailed(f"The tool was not called: {error}."))
    return await future


def _called(body: Body) -> _Ending:
    try:
        return _Returned(body())
    except BaseException as error:  # noqa: BLE001 - run_tool sorts them
        return _Raised(error)


def _hand_over(loop: asyncio.AbstractEventLoop, future: asyncio.Future[_Ending], ending: _Ending) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_deliver, future, ending)


def _deliver(future: asyncio.Future[_Ending], ending: _Ending) -> None:
    if not future.done():
        future.set_result(ending)


def _returned(tool: Tool[Any, ..., Any], value: Any) -> Outcome:
    try:
        result = to_json(value)
        return Ok(result, model_text(result, tool.max_result_chars))
    except ToolError as error:
        return _without_result(tool, error, str(error))


def _raised(tool: Tool[Any, ..., Any], context: AnyContext, error: BaseException, given: Json) -> Outcome:
    if context.abort_signal.aborted:
        return Aborted(error)
    text = error_text(error, given)
    return Failed(error, text) if isinstance(error, ToolFailed) else _without_result(tool, error, text)


def _timed_out(tool: Tool[Any, ..., Any], context: AnyContext) -> Outcome:
    error = ToolError(
        f"Tool {tool.id!r} did not finish within {tool.timeout:g} s.",
        id="TOOL_TIMEOUT",
        details={"timeout": tool.timeout},
    )
    return Aborted(error) if context.abort_signal.aborted else _without_result(tool, error, str(error))


def _without_result(tool: Tool[Any, ..., Any], error: BaseException, text: str) -> Failed | Unknown:
    if tool.effects == "none":
        return Failed(error, text)
    return Unknown(error, f"{text}\nThe tool may have taken effect all the same; find out before you call it again.")
