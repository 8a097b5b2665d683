"""What makes two calls one effect, and what becomes of a call whose outcome nobody stored.

Invariant: keys and hashes are made of canonical texts only, so they are the same in every process and after every
restart. Nothing here runs a tool.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tenuto.core.errors import ToolError
from tenuto.core.payloads import Json
from tenuto.tools.callables import is_async
from tenuto.tools.canonical import digest
from tenuto.tools.context import ToolContext
from tenuto.tools.ending import Body, Ending, Raised, Returned, TimedOut, awaited, joined, threaded
from tenuto.tools.outcome import FIND_OUT, Failed, UnknownOutcome
from tenuto.tools.results import to_json
from tenuto.tools.resume import invalid_data
from tenuto.tools.schema import Bound
from tenuto.tools.settlement import Applied, NotApplied, Settlement, Unknown
from tenuto.tools.shape import Misfit, fit
from tenuto.tools.validate import bind_arguments

if TYPE_CHECKING:
    from tenuto.tools.tool import Tool

_log = logging.getLogger("tenuto")

SETTLE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "outcome": {"enum": ["applied", "not-applied", "unknown"]},
        "result": {"description": "What the call would have returned, if it was applied."},
    },
    "required": ["outcome"],
}
"""What a person answers when a call waits because of `on_unknown="suspend"`."""


def call_key(run_id: str, step: int, position: int) -> str:
    """The key of the call at this place of this run: the same on each of its attempts.

    Args:
        run_id: The run.
        step: The model call that asked for it, from 1.
        position: Its place among the calls of that step, from 0.
    """
    return sha256(msgspec.json.encode(("call", run_id, step, position))).hexdigest()


def effect_key(tool: Tool[Any, ..., Any], bound: Bound, scope_id: str) -> str:
    """The key of the effect that a tool with `key=` would have with these arguments.

    The tool counts by its id, not by the name a dict of tools gives it.

    Args:
        tool: The tool; without `key=` there is no such key.
        bound: Its validated arguments.
        scope_id: Of the run, thread or resource that `tool.key_scope` names. A thread's has to tell resources apart.

    Raises:
        ToolError: `TOOL_KEY_UNUSABLE`: a value in the key has no text that tells it from others; nothing ran.
    """
    values = {name: bound.named.get(name) for name in tool.key or ()}
    return digest("effect", tool.key_scope, scope_id, tool.id, values)


def args_hash(tool_name: str, args: Json) -> str:
    """What a decision is bound to: the tool, and its arguments as JSON (or as the model's text of them).

    The same for the same JSON, whatever the order of its keys.
    """
    return sha256(msgspec.json.encode((tool_name, to_json(args)), order="deterministic")).hexdigest()


async def settle(tool: Tool[Any, ..., Any], context: ToolContext[Any, Any], args: Json = None) -> Settlement:
    """Ask the tool's `reconcile` what became of the call; never raises what that raises.

    A sync function is called in a thread. It may take as long as the tool; then the answer is `Unknown`.

    Args:
        tool: The tool; without `reconcile` the answer is `Unknown`.
        context: Of the attempt whose outcome is unknown.
        args: The call's arguments, which the function finds in `ctx.args`.

    Returns:
        `Applied` with its result as JSON; `NotApplied`; `Unknown`, also for a failure of the function, which is logged.

    Raises:
        asyncio.CancelledError: The caller was cancelled; no task of the function is left.
    """
    reconcile = tool.reconcile
    if reconcile is None:
        return Unknown()
    bound = bind_arguments(context.tool_name or tool.id, tool.schema, args)
    named: Mapping[str, Any] = {} if isinstance(bound, Failed) else bound.named
    seen = replace(context, args=named)
    running = awaited(lambda: reconcile(seen)) if is_async(reconcile) else _in_thread(lambda: reconcile(seen))
    ending = await joined(running, f"tenuto reconcile {tool.id}", tool.timeout)
    return _settlement(tool, ending)


async def _in_thread(body: Body) -> Ending:
    """A sync function may hand back what is to be awaited."""
    ending = await threaded(body)
    if isinstance(ending, Returned) and inspect.isawaitable(ending.value):
        value = ending.value
        return await awaited(lambda: value)
    return ending


def _settlement(tool: Tool[Any, ..., Any], ending: Ending | TimedOut) -> Settlement:
    match ending:
        case Raised(KeyboardInterrupt() | SystemExit() as error):
            raise error
        case Raised(error):
            _log.error("reconcile of tool %r failed: the call's outcome stays unknown.", tool.id, exc_info=error)
        case TimedOut():
            _log.error("reconcile of tool %r took over %g s: the call's outcome stays unknown.", tool.id, tool.timeout)
        case Returned(Applied(result)):
            return _applied(tool, result)
        case Returned(NotApplied()):
            return NotApplied()
        case Returned(Unknown()):
            pass
        case Returned(value):
            answer = "Applied(result), NotApplied() or Unknown()"
            _log.error("reconcile of tool %r returned %r, which is not %s.", tool.id, value, answer)
    return Unknown()


def _applied(tool: Tool[Any, ..., Any], result: Any) -> Settlement:
    try:
        return Applied(to_json(result))
    except ToolError as error:
        _log.error("reconcile of tool %r gave a result that JSON cannot hold.", tool.id, exc_info=error)
        return Unknown()


def read_settlement(data: Any) -> Settlement:
    """What a person answered about a call of unknown outcome, in the form of `SETTLE_SCHEMA`.

    Raises:
        RunError: `AGENT_RESUME_INVALID_DATA`: it has another form; the call stays suspended.
    """
    try:
        given = fit(SETTLE_SCHEMA, data)
    except Misfit as error:
        message = f"The call waits to hear whether it took effect; it stays suspended.\n{error}"
        raise invalid_data(message) from error
    match given["outcome"]:
        case "applied":
            return Applied(given.get("result"))
        case "not-applied":
            return NotApplied()
        case _:
            return Unknown()


def unknown_after_restart(tool_name: str) -> UnknownOutcome:
    """The outcome of a call whose process ended while its body ran."""
    return _unknown(f"The outcome of this call of {tool_name!r} is unknown after a restart: its process had ended.")


def unknown_before(tool_name: str) -> UnknownOutcome:
    """The outcome of a call whose effect an earlier call, of the same `key`, left unknown."""
    return _unknown(f"{tool_name!r} was not called: an earlier call with the same values has an unknown outcome.")


def _unknown(text: str) -> UnknownOutcome:
    error = ToolError(text, id="TOOL_OUTCOME_UNKNOWN")
    return UnknownOutcome(error, f"{text}\n{FIND_OUT}")
