"""Hooks around every tool call: what they are given, what they may answer, and what comes of their failures.

Invariant: fail closed. A hook that raises, or answers what nobody can read, makes the call fail; before the body
nothing has taken effect then, and after it the model is told what the tool's `effects` allow to say.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypedDict, cast

from msgspec import Struct
from msgspec.structs import replace

from tenuto.core.errors import ToolError
from tenuto.core.foreign import contained
from tenuto.core.payloads import Json
from tenuto.messages.bounded import model_text
from tenuto.tools.context import ToolContext
from tenuto.tools.describe import error_text
from tenuto.tools.execute import without_result
from tenuto.tools.outcome import Aborted, Failed, Ok, Outcome, Suspended, UnknownOutcome
from tenuto.tools.results import to_json
from tenuto.tools.tool import Tool


class HookMetadata(Struct, frozen=True):
    """Whose call it is."""

    agent_id: str
    agent_name: str


class ToolHookContext(Struct, frozen=True, kw_only=True):
    """What `before_tool_call` gets.

    Attributes:
        tool_name: The name the model used.
        input: The arguments as the model gave them, not validated yet; of a call approved with edited arguments, those.
        context: As the tool's body would get it.
        metadata: The agent's id and name.
    """

    tool_name: str
    input: Json
    context: ToolContext[Any, Any]
    metadata: HookMetadata


class ToolAfterHookContext(ToolHookContext, frozen=True, kw_only=True):
    """What `after_tool_call` gets.

    Attributes:
        output: The result as JSON; None when the call failed.
        error: Why it failed, else None.
    """

    output: Json = None
    error: BaseException | None = None


class BeforeAnswer(TypedDict, total=False):
    """`{"proceed": False, "output": x}` answers the call with `x`: the tool does not run, `after_tool_call` neither."""

    proceed: bool
    output: Any


BeforeHook = Callable[[ToolHookContext], BeforeAnswer | Awaitable[BeforeAnswer | None] | None]
AfterHook = Callable[[ToolAfterHookContext], object | Awaitable[object]]


class ToolHooks(TypedDict, total=False):
    """`hooks=` of an agent or a call; a call's take the place of the agent's, key by key."""

    before_tool_call: BeforeHook | None
    after_tool_call: AfterHook | None


class Hooks(Struct, frozen=True):
    """The hooks of a run."""

    before: BeforeHook | None = None
    after: AfterHook | None = None


NO_HOOKS = Hooks()
HOOK_KEYS = ("before_tool_call", "after_tool_call")
HOOK_NAMES: Mapping[str, Literal["before", "after"]] = {
    "before_tool_call": "before",
    "beforeToolCall": "before",
    "after_tool_call": "after",
    "afterToolCall": "after",
}


def read_hooks(given: object, below: Hooks = NO_HOOKS) -> Hooks:
    """The hooks `given`, over those `below`.

    Raises:
        TypeError: It is no mapping of the two names to functions.
    """
    if given is None:
        return below
    if not isinstance(given, Mapping):
        message = f"hooks= takes {{'before_tool_call': fn, 'after_tool_call': fn}}, not {type(given).__name__}."
        raise TypeError(message)
    found: dict[str, Any] = {}
    for name, function in cast("Mapping[str, object]", given).items():
        if name not in HOOK_NAMES:
            message = f"hooks= has no key {name!r}; they are 'before_tool_call' and 'after_tool_call'."
            raise TypeError(message)
        if function is not None and not callable(function):
            message = f"hooks[{name!r}] takes a function of one argument, not {type(function).__name__}."
            raise TypeError(message)
        if function is not None:
            found[HOOK_NAMES[name]] = function
    return replace(below, **found)


async def before_call(hooks: Hooks, event: ToolHookContext, limit: int) -> Outcome | None:
    """Ask `before_tool_call`.

    Args:
        hooks: The run's.
        event: For the hook.
        limit: Characters of its answer that the model is given.

    Returns:
        None to go on; `Ok` with the hook's output; `Failed` when it failed.
    """
    if hooks.before is None:
        return None
    try:
        answer = await _called(hooks.before, event)
        return None if answer is None else _answered(answer, limit)
    except Exception as error:  # noqa: BLE001 - a user's function
        return Failed(error, f"The call was stopped before the tool ran. {error_text(error, event.input)}")


async def after_call(hooks: Hooks, tool: Tool[Any, ..., Any], event: ToolHookContext, outcome: Outcome) -> Outcome:
    """Tell `after_tool_call` how a call ended; returns the outcome, another one when the hook failed.

    A call that was suspended or aborted has not ended. A call that had failed keeps its failure.
    """
    if hooks.after is None or isinstance(outcome, (Suspended, Aborted)):
        return outcome
    fields = {name: getattr(event, name) for name in ToolHookContext.__struct_fields__}
    output, error = _told(outcome)
    try:
        await _called(hooks.after, ToolAfterHookContext(**fields, output=output, error=error))
    except Exception as raised:  # noqa: BLE001 - a user's function
        if not isinstance(outcome, Ok):
            return outcome
        text = f"The tool ran, and what follows it failed. {error_text(raised, event.input)}"
        return without_result(tool, raised, text)
    return outcome


def _told(outcome: Ok | Failed | UnknownOutcome) -> tuple[Json, BaseException | None]:
    if isinstance(outcome, Ok) or outcome.result is not None:
        return outcome.result, None
    return None, outcome.error


async def _called(hook: Callable[[Any], Any], event: ToolHookContext) -> Any:
    with contained():
        answer = hook(event)
        return await answer if inspect.isawaitable(answer) else answer


def _answered(answer: object, limit: int) -> Outcome | None:
    if isinstance(answer, Mapping):
        said = cast("Mapping[str, Any]", answer)
        if said.keys() <= {"proceed", "output"} and isinstance(said.get("proceed", True), bool):
            if said.get("proceed", True):
                return None
            result = to_json(said.get("output"))
            return Ok(result, model_text(result, limit))
    message = f"before_tool_call returned {answer!r:.200}; it returns None or {{'proceed': False, 'output': value}}."
    raise ToolError(message, id="TOOL_HOOK_INVALID", category="USER")
