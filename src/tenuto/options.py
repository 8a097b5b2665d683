"""The options of `generate()` and `stream()`: names, types, defaults, and how an agent's defaults merge with a call's.

Invariant: every option named here is honoured; anything else is a `TypeError` with the nearest name. Keys are
snake_case; camelCase is accepted and normalised once, here; the user's own data is never renamed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypedDict, cast

import msgspec

from tenuto.core.abort import AbortController, AbortSignal
from tenuto.core.chunks import AnyChunk, ToolCall
from tenuto.core.errors import TenutoError
from tenuto.core.payloads import wire_name
from tenuto.core.request_context import RequestContext
from tenuto.messages.input import Messages, SystemInput, system_turns
from tenuto.messages.turns import ProviderOptions
from tenuto.models.ports import LanguageModel, ModelSettings, NamedTool, ToolChoice
from tenuto.runs.result import Result
from tenuto.steps.results import AbortEvent, StepResult, StopContext
from tenuto.steps.run import Options
from tenuto.tools.approval import ApprovalPolicy

_log = logging.getLogger("tenuto")

DEFAULT_MAX_STEPS = 5
"""The step limit when neither `max_steps` nor `stop_when` is given."""

STOP_WHEN_MAX_STEPS = 100
"""The step limit when `stop_when` is given alone."""


class ToolChoiceDict(TypedDict):
    """`{"type": "tool", "tool_name": name}`: force this tool."""

    type: Literal["tool"]
    tool_name: str


class ModelSettingsDict(TypedDict, total=False):
    """Sampling and limits of a model call; what is left out is the provider's default.

    `temperature` 0-2, `top_p` 0-1, penalties -2 to 2 (documented ranges, not checked); `max_output_tokens` counts
    tokens; `reasoning` is an effort level such as `low`; `headers` go on the HTTP request.
    """

    temperature: float
    max_output_tokens: int
    top_p: float
    top_k: int
    presence_penalty: float
    frequency_penalty: float
    stop_sequences: Sequence[str]
    seed: int
    reasoning: str
    headers: Mapping[str, str]


ModelConfig = str | LanguageModel | Mapping[str, Any]
StopWhen = Callable[[StopContext], bool | Awaitable[bool]]


class SegmentOptions(TypedDict, total=False):
    """What a call may set that starts a run or goes on with one; see `docs/options.md`.

    Attributes:
        max_steps: Model calls at the most (default 5; 100, with a warning, when only `stop_when` is given).
        stop_when: One condition or several; the run stops after a step for which any of them holds.
        instructions: Instead of the agent's.
        system: Further system messages, after the instructions.
        context: Messages sent before the input and kept nowhere.
        tool_choice: `auto`, `none`, `required` or `{"type": "tool", "tool_name": name}`; for every step.
        active_tools: Names of the tools offered; default all.
        tool_call_concurrency: Tool calls of a step that run at once (default 10).
        model: Instead of the agent's.
        model_settings: See `ModelSettingsDict`.
        provider_options: By provider name; the provider's own and the AI SDK's names both work.
        request_context: A `RequestContext`, a mapping, or an instance of the agent's schema.
        abort_signal: Stops the run when it fires.
        on_chunk: Gets every chunk of `full_stream`.
        on_step_finish: Gets each `StepResult`.
        on_finish: Gets the `Result` of a run that neither failed nor was aborted.
        on_error: Gets the exception the run failed with.
        on_abort: Gets an `AbortEvent`.
        on_suspended: Gets the `Result` of a run that waits for decisions.
        require_tool_approval: True, or a function of an `ApprovalRequest`: these calls wait for a decision.
        close_on_suspend: Whether a reader ends when the run waits for a decision (default), or follows it beyond.
    """

    max_steps: int
    stop_when: StopWhen | Sequence[StopWhen]
    instructions: SystemInput
    system: SystemInput
    context: Messages
    tool_choice: Literal["auto", "none", "required"] | ToolChoiceDict
    active_tools: Sequence[str]
    tool_call_concurrency: int
    model: ModelConfig
    model_settings: ModelSettingsDict
    provider_options: ProviderOptions
    request_context: Any
    abort_signal: AbortSignal
    on_chunk: Callable[[AnyChunk], object]
    on_step_finish: Callable[[StepResult], object]
    on_finish: Callable[[Result[Any]], object]
    on_error: Callable[[TenutoError], object]
    on_abort: Callable[[AbortEvent], object]
    on_suspended: Callable[[Result[Any]], object]
    require_tool_approval: ApprovalPolicy
    close_on_suspend: bool


class RunOptions(SegmentOptions, total=False):
    """What a call of `generate` or `stream` may set.

    Attributes:
        run_id: The run's id; must be new to the store.
    """

    run_id: str


DefaultOptions = RunOptions | Callable[[RequestContext], RunOptions | Awaitable[RunOptions]]


def _spellings(known: Iterable[str]) -> Mapping[str, str]:
    """Both spellings of each name, with its own one last."""
    names = tuple(known)
    return {**{wire_name(name): name for name in names}, **{name: name for name in names}}


_OPTIONS = _spellings((*SegmentOptions.__annotations__, *RunOptions.__annotations__))
_SETTINGS = _spellings(ModelSettingsDict.__annotations__)
_CHOICE = _spellings(("type", "tool_name"))
_CALLBACKS = ("on_chunk", "on_step_finish", "on_finish", "on_error", "on_abort", "on_suspended")
_WHOLE = ("model", "tool_choice", "instructions", "system", "context")


def normalise(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options under their snake_case names, nested option dicts too.

    Raises:
        TypeError: An unknown option, or one given under both spellings.
    """
    options = _renamed(given, _OPTIONS, "option")
    if (settings := options.get("model_settings")) is not None:
        options["model_settings"] = _renamed(_mapping(settings, "model_settings"), _SETTINGS, "model_settings key")
    if isinstance(choice := options.get("tool_choice"), Mapping):
        named = cast("Mapping[str, Any]", choice)
        options["tool_choice"] = _renamed(named, _CHOICE, "tool_choice key")
    return options


def merge(defaults: Mapping[str, Any], call: Mapping[str, Any]) -> dict[str, Any]:
    """The call's options over the defaults: mappings key by key, anything else whole. Both normalised before.

    A model record, a tool choice and a message are one value each: half of one must not end up in another (the key
    of one provider at the address of another).
    """
    merged = _merged(defaults, call)
    merged.update((name, call[name]) for name in _WHOLE if name in call)
    return merged


def _merged(defaults: Mapping[str, Any], call: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(defaults)
    for key, value in call.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = _merged(cast("Mapping[str, Any]", below), cast("Mapping[str, Any]", value))
        else:
            merged[key] = value
    return merged


def build_options(given: Mapping[str, Any]) -> Options:
    """Check normalised options and give them their defaults.

    Raises:
        TypeError: A value of the wrong type, such as a callback that cannot be called.
        ValueError: A number out of range.
    """
    return _built(given) if given else _defaults()


@cache
def _defaults() -> Options:
    return _built({})


def _built(given: Mapping[str, Any]) -> Options:
    stop_when = _conditions(given.get("stop_when"))
    for name in _CALLBACKS:
        _callable(given.get(name), name)
    _check_values(given)
    return Options(
        max_steps=_max_steps(given.get("max_steps"), stop_when),
        stop_when=stop_when,
        instructions=given.get("instructions"),
        system=given.get("system"),
        context=given.get("context"),
        tool_choice=_tool_choice(given.get("tool_choice") or "auto"),
        active_tools=_names(given.get("active_tools")),
        tool_call_concurrency=_positive(_or(given.get("tool_call_concurrency"), 10), "tool_call_concurrency"),
        model=given.get("model"),
        model_settings=_settings(given.get("model_settings") or {}),
        provider_options=given.get("provider_options"),
        on_chunk=given.get("on_chunk"),
        on_step_finish=given.get("on_step_finish"),
        on_finish=given.get("on_finish"),
        on_error=given.get("on_error"),
        on_abort=given.get("on_abort"),
        on_suspended=given.get("on_suspended"),
        close_on_suspend=_flag(given.get("close_on_suspend", True), "close_on_suspend"),
        require_tool_approval=_policy(given.get("require_tool_approval", False)),
    )


# -- conditions that are shipped -------------------------------------------------------------------------


def step_count_is(count: int) -> StopWhen:
    """Stop after `count` steps."""
    return lambda context: len(context.steps) >= count


def has_tool_call(name: str) -> StopWhen:
    """Stop after a step that called the tool `name`."""

    def called(context: StopContext) -> bool:
        last: tuple[ToolCall, ...] = context.steps[-1].tool_calls if context.steps else ()
        return any(call.payload.tool_name == name for call in last)

    return called


def total_tokens_over(tokens: int) -> StopWhen:
    """Stop once the run has used more than `tokens` tokens, input and output together."""
    return lambda context: sum(step.usage.total_tokens for step in context.steps) > tokens


# -- checks ----------------------------------------------------------------------------------------------


def _renamed(given: Mapping[str, Any], names: Mapping[str, str], what: str) -> dict[str, Any]:
    renamed: dict[str, Any] = {}
    for key, value in given.items():
        name = names.get(key)
        if name is None:
            raise TypeError(_unknown(key, names, what))
        if name in renamed:
            message = f"The {what} {name!r} is given twice, as {name!r} and as {wire_name(name)!r}; give it once."
            raise TypeError(message)
        renamed[name] = value
    return renamed


def _unknown(key: str, names: Mapping[str, str], what: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, names, n=1)
    hint = f"; did you mean {names[near[0]]!r}?" if near else f"; known: {', '.join(dict.fromkeys(names.values()))}."
    return f"Unknown {what} {key!r}{hint}"


def _mapping(given: object, name: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        message = f"{name}= takes a mapping, not {type(given).__name__}."
        raise TypeError(message)
    return cast("Mapping[str, Any]", given)


def _or(given: Any, default: Any) -> Any:
    return default if given is None else given


def _check_values(given: Mapping[str, Any]) -> None:
    system_turns(given.get("instructions"))
    system_turns(given.get("system"))
    run_id, signal, model = given.get("run_id"), given.get("abort_signal"), given.get("model")
    if run_id is not None and not isinstance(run_id, str):
        message = f"run_id= takes text, not {run_id!r}."
        raise TypeError(message)
    if signal is not None and not isinstance(signal, AbortSignal):
        hint = "; pass its .signal" if isinstance(signal, AbortController) else ""
        message = f"abort_signal= takes an AbortSignal, not {type(signal).__name__}{hint}."
        raise TypeError(message)
    if model is not None and not (isinstance(model, (str, Mapping)) or hasattr(model, "stream") or callable(model)):
        message = f"model= takes 'provider/model', a model record or a LanguageModel, not {type(model).__name__}."
        raise TypeError(message)
    for name, options in _mapping(given.get("provider_options") or {}, "provider_options").items():
        _mapping(options, f"provider_options[{name!r}]")


def _callable(given: object, name: str) -> None:
    if given is not None and not callable(given):
        message = f"{name}= takes a function of one argument, not {type(given).__name__}."
        raise TypeError(message)


def _flag(given: object, name: str) -> bool:
    if not isinstance(given, bool):
        message = f"{name}= takes True or False, not {given!r}."
        raise TypeError(message)
    return given


def _policy(given: object) -> ApprovalPolicy:
    if isinstance(given, bool):
        return given
    _callable(given, "require_tool_approval")
    return cast("ApprovalPolicy", given)


def _conditions(given: object) -> tuple[StopWhen, ...]:
    if given is None:
        return ()
    conditions = tuple(cast("Iterable[Any]", given)) if isinstance(given, (list, tuple)) else (given,)
    for condition in conditions:
        _callable(condition, "stop_when")
    return cast("tuple[StopWhen, ...]", conditions)


def _max_steps(given: object, stop_when: tuple[StopWhen, ...]) -> int:
    if given is not None:
        return _positive(given, "max_steps")
    if not stop_when:
        return DEFAULT_MAX_STEPS
    _log.warning(
        "stop_when is given without max_steps: the run stops after %d steps at the latest.", STOP_WHEN_MAX_STEPS
    )
    return STOP_WHEN_MAX_STEPS


def _positive(given: object, name: str) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        message = f"{name}= takes a whole number, not {given!r}."
        raise TypeError(message)
    if given < 1:
        message = f"{name}= must be at least 1, not {given}."
        raise ValueError(message)
    return given


def _names(given: object) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        message = f"active_tools= takes a list of tool names, not {given!r}."
        raise TypeError(message)
    return tuple(cast("Iterable[str]", given))


def _tool_choice(given: object) -> ToolChoice:
    match given:
        case "auto" | "none" | "required":
            return cast("ToolChoice", given)
        case NamedTool():
            return given
        case {"type": "tool", "tool_name": str(name)}:
            return NamedTool(name)
        case _:
            message = (
                "tool_choice= takes 'auto', 'none', 'required' or {'type': 'tool', 'tool_name': name}, "
                f"not {given!r}."
            )
            raise TypeError(message)


def _settings(given: Mapping[str, Any]) -> ModelSettings:
    if isinstance(stops := given.get("stop_sequences"), str):
        given = {**given, "stop_sequences": (stops,)}
    try:
        return msgspec.convert(given, ModelSettings)
    except msgspec.ValidationError as error:
        message = f"model_settings= does not fit: {error}."
        raise TypeError(message) from error
