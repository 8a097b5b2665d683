"""The option `delegation=`: what its hooks are given, what they may answer, and what comes of their failures.

Invariant: a hook that fails is logged and noted in the request context, and its call goes on as if there were none; a
`message_filter` that fails lets no message through. With `hook_error_strategy="throw"` the delegation fails instead.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Never, TypedDict, cast

from msgspec import Struct

from tenuto.core.errors import ToolError
from tenuto.core.foreign import contained, message_of
from tenuto.core.option_keys import mapping, renamed, spellings
from tenuto.core.payloads import FinishReason, Json, Usage, wire_name
from tenuto.core.request_context import RequestContext
from tenuto.messages.stored import Message

HOOK_ERRORS = "__mastra_delegationHookErrors"
"""The request value that lists the hooks which failed."""

REJECTED = "the delegation was rejected by a hook (on_delegation_start)"
"""The reason for a rejection that gives none."""

_log = logging.getLogger("tenuto")


class DelegationParams(Struct, frozen=True, kw_only=True):
    """With what a sub-agent is asked, beside the prompt."""

    thread_id: str | None = None
    resource_id: str | None = None
    instructions: str | None = None
    max_steps: int | None = None


class DelegationContext(Struct, frozen=True, kw_only=True):
    """What every hook of a delegation is told.

    Attributes:
        primitive_id: The sub-agent's id.
        prompt: What it is asked.
        iteration: Roughly, how often the supervisor has spoken, from 1.
        run_id: Of the supervisor's run, as are the thread and resource.
        messages: Of the supervisor's conversation, without its tools.
    """

    primitive_id: str
    primitive_type: Literal["agent"] = "agent"
    prompt: str
    iteration: int
    run_id: str
    parent_agent_id: str
    parent_agent_name: str
    tool_call_id: str
    messages: tuple[Message, ...]
    thread_id: str | None = None
    resource_id: str | None = None


class DelegationStartContext(DelegationContext, frozen=True, kw_only=True):
    """What `on_delegation_start` gets; what it sets in `request_context` the sub-agent's run has, and no other."""

    params: DelegationParams
    request_context: RequestContext


class MessageFilterContext(DelegationContext, frozen=True, kw_only=True):
    """What `message_filter` gets, after `on_delegation_start`."""


class SubAgentToolResult(Struct, frozen=True, rename=wire_name, omit_defaults=True):
    """What a tool of a sub-agent answered."""

    tool_name: str
    tool_call_id: str
    result: Json
    args: Json = None
    is_error: bool | None = None


class DelegationResult(Struct, frozen=True, kw_only=True):
    """What came of a delegation; of one that failed, what had been said."""

    text: str
    finish_reason: FinishReason | None = None
    sub_agent_thread_id: str | None = None
    sub_agent_resource_id: str | None = None
    sub_agent_tool_results: tuple[SubAgentToolResult, ...] = ()
    usage: Usage | None = None


class DelegationCompleteContext(DelegationContext, frozen=True, kw_only=True):
    """What `on_delegation_complete` gets.

    Attributes:
        duration: Milliseconds since the sub-agent's run began.
        bail: Call it to end the supervisor's run after this step; delegations beside this one go on to their end.
    """

    result: DelegationResult
    duration: float
    success: bool
    error: BaseException | None
    bail: Callable[[], None]


class DelegationStartResult(TypedDict, total=False):
    """What `on_delegation_start` may return."""

    proceed: bool
    rejection_reason: str
    modified_prompt: str
    modified_instructions: str
    modified_max_steps: int


class DelegationCompleteResult(TypedDict, total=False):
    """What `on_delegation_complete` may return.

    `feedback` is for the supervisor's next step, and is kept in its memory too; `result_text` stands in place of what
    its model is told now.
    """

    feedback: str
    result_text: str


OnStart = Callable[[DelegationStartContext], DelegationStartResult | Awaitable[DelegationStartResult | None] | None]
OnComplete = Callable[
    [DelegationCompleteContext], DelegationCompleteResult | Awaitable[DelegationCompleteResult | None] | None
]
MessageFilter = Callable[[MessageFilterContext], Sequence[Any] | Awaitable[Sequence[Any]]]


class DelegationDict(TypedDict, total=False):
    """The option `delegation=`; see `docs/sub-agents.md`."""

    on_delegation_start: OnStart
    on_delegation_complete: OnComplete
    message_filter: MessageFilter
    hook_error_strategy: Literal["warn", "throw"]
    include_sub_agent_tool_results_in_model_context: bool


class Hooks(Struct, frozen=True, kw_only=True):
    """The same, checked."""

    on_delegation_start: OnStart | None = None
    on_delegation_complete: OnComplete | None = None
    message_filter: MessageFilter | None = None
    hook_error_strategy: Literal["warn", "throw"] = "warn"
    include_sub_agent_tool_results_in_model_context: bool = False


FUNCTIONS = ("on_delegation_start", "on_delegation_complete", "message_filter")
DELEGATION = spellings(DelegationDict.__annotations__)
"""Both spellings of the keys."""

NO_HOOKS = Hooks()


def rename_delegation(options: dict[str, Any]) -> None:
    """The keys of the option, if it is given, under their snake_case names.

    Raises:
        TypeError: It is no mapping, or has an unknown key.
    """
    if (given := options.get("delegation")) is not None:
        options["delegation"] = renamed(mapping(given, "delegation"), DELEGATION, "delegation key")


def read_delegation(given: Mapping[str, Any]) -> Hooks:
    """The option, checked.

    Raises:
        TypeError: A value of the wrong type.
        ValueError: An unknown strategy.
    """
    for name in FUNCTIONS:
        if given.get(name) is not None and not callable(given[name]):
            message = f"delegation[{name!r}] takes a function of one argument, not {type(given[name]).__name__}."
            raise TypeError(message)
    strategy = given.get("hook_error_strategy") or "warn"
    if strategy not in {"warn", "throw"}:
        message = f"delegation['hook_error_strategy'] is 'warn' or 'throw', not {strategy!r}."
        raise ValueError(message)
    shown = given.get("include_sub_agent_tool_results_in_model_context")
    if not isinstance(shown, bool | None):
        message = f"delegation['include_sub_agent_tool_results_in_model_context'] takes True or False, not {shown!r}."
        raise TypeError(message)
    return Hooks(**{name: value for name, value in given.items() if value is not None})


def lost_filter(_: MessageFilterContext) -> Never:
    """Stands for a `message_filter` that this process does not have.

    Raises:
        ToolError: `AGENT_DELEGATION_FILTER_LOST`, always.
    """
    message = (
        "The run's message_filter is not in this process, so nothing is delegated here; register it as a "
        "durable_function, or give it to the agent as default_options={'delegation': {'message_filter': ...}}."
    )
    raise ToolError(message, id="AGENT_DELEGATION_FILTER_LOST", category="USER")


class HookFailed(ToolError):
    """A hook of a delegation failed, and `hook_error_strategy` is `throw`."""

    default_id = "AGENT_DELEGATION_HOOK_FAILED"


class Changed(Struct, frozen=True):
    """What `on_delegation_start` said; None: nothing."""

    rejection: str | None = None
    prompt: str | None = None
    instructions: str | None = None
    max_steps: int | None = None


class Completed(Struct, frozen=True):
    """What `on_delegation_complete` said; None: nothing."""

    feedback: str | None = None
    result_text: str | None = None


_START = spellings(DelegationStartResult.__annotations__)
_COMPLETE = spellings(DelegationCompleteResult.__annotations__)


async def ask_start(hooks: Hooks, context: DelegationStartContext, kept: RequestContext) -> Changed:
    """Ask `on_delegation_start`; `kept` is the supervisor's request context.

    Raises:
        HookFailed: See the module.
    """
    if hooks.on_delegation_start is None:
        return Changed()
    try:
        return _changed(await _called(hooks.on_delegation_start, context))
    except Exception as error:  # noqa: BLE001 - a user's function
        _failed(hooks, "on_delegation_start", context, kept, error)
        return Changed()


async def ask_filter(hooks: Hooks, context: MessageFilterContext, kept: RequestContext) -> Sequence[Any]:
    """The messages that the sub-agent is shown.

    Raises:
        HookFailed: See the module.
        ToolError: `AGENT_DELEGATION_FILTER_LOST`.
    """
    if hooks.message_filter is None:
        return context.messages
    if hooks.message_filter is lost_filter:
        lost_filter(context)
    try:
        return _messages(await _called(hooks.message_filter, context))
    except Exception as error:  # noqa: BLE001 - a user's function; what it was to hold back stays here
        _failed(hooks, "message_filter", context, kept, error)
        return ()


async def ask_complete(hooks: Hooks, context: DelegationCompleteContext, kept: RequestContext) -> Completed:
    """Ask `on_delegation_complete`.

    Raises:
        HookFailed: See the module.
    """
    if hooks.on_delegation_complete is None:
        return Completed()
    try:
        said = _said(await _called(hooks.on_delegation_complete, context), _COMPLETE, "on_delegation_complete")
        return Completed(_text(said, "feedback"), _text(said, "result_text"))
    except Exception as error:  # noqa: BLE001 - a user's function
        _failed(hooks, "on_delegation_complete", context, kept, error)
        return Completed()


def _messages(found: object) -> Sequence[Any]:
    if not isinstance(found, list | tuple):
        message = f"message_filter returns a list of messages, not {type(found).__name__}."
        raise TypeError(message)
    return cast("Sequence[Any]", found)


async def _called(hook: Callable[[Any], Any], context: object) -> Any:
    with contained():
        answer = hook(context)
        return await answer if inspect.isawaitable(answer) else answer


def _changed(given: object) -> Changed:
    said = _said(given, _START, "on_delegation_start")
    proceed, steps = said.get("proceed"), said.get("modified_max_steps")
    if not isinstance(proceed, bool | None):
        message = f"'proceed' is True or False, not {proceed!r}."
        raise TypeError(message)
    if steps is not None and (not isinstance(steps, int) or isinstance(steps, bool) or steps < 1):
        message = f"'modified_max_steps' is a whole number from 1, not {steps!r}."
        raise TypeError(message)
    reason = _text(said, "rejection_reason")
    if proceed is False:
        return Changed(rejection=reason or REJECTED)
    return Changed(None, _text(said, "modified_prompt"), _text(said, "modified_instructions"), steps)


def _said(given: object, keys: Mapping[str, str], hook: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        message = f"{hook} returns None or a dict, not {type(given).__name__}."
        raise TypeError(message)
    return renamed(cast("Mapping[str, Any]", given), keys, f"key from {hook}")


def _text(said: Mapping[str, Any], name: str) -> str | None:
    value = said.get(name)
    if not isinstance(value, str | None):
        message = f"{name!r} is text, not {type(value).__name__}."
        raise TypeError(message)
    return value


def _failed(hooks: Hooks, hook: str, context: DelegationContext, kept: RequestContext, error: Exception) -> None:
    """Note the failure.

    Raises:
        HookFailed: The strategy is `throw`.
    """
    noted: list[Any] = list(kept.get(HOOK_ERRORS) or ())
    noted.append(
        {
            "hook": wire_name(hook),
            "primitiveId": context.primitive_id,
            "toolCallId": context.tool_call_id,
            "runId": context.run_id,
            "name": type(error).__name__,
            "message": message_of(error),
        }
    )
    kept.set(HOOK_ERRORS, noted)
    if hooks.hook_error_strategy == "throw":
        message = f"The hook {hook} of the delegation to {context.primitive_id!r} failed: {type(error).__name__}."
        raise HookFailed(message, category="USER") from error
    _log.error("The hook %s of a delegation to %r failed.", hook, context.primitive_id, exc_info=error)


__all__ = [
    "DELEGATION",
    "FUNCTIONS",
    "HOOK_ERRORS",
    "NO_HOOKS",
    "Changed",
    "Completed",
    "DelegationCompleteContext",
    "DelegationCompleteResult",
    "DelegationContext",
    "DelegationDict",
    "DelegationParams",
    "DelegationResult",
    "DelegationStartContext",
    "DelegationStartResult",
    "HookFailed",
    "Hooks",
    "MessageFilterContext",
    "SubAgentToolResult",
    "ask_complete",
    "ask_filter",
    "ask_start",
    "lost_filter",
    "read_delegation",
    "rename_delegation",
]
