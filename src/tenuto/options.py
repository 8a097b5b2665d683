"""The options of `generate()` and `stream()`: names, types, defaults, and how an agent's defaults merge with a call's.

Invariant: every option named here is honoured; anything else is a `TypeError` with the nearest name. Keys are
snake_case; camelCase is accepted and normalised once, here; the user's own data is never renamed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Required, TypedDict, cast

from typing_extensions import TypeVar

from tenuto.core.abort import AbortController, AbortSignal
from tenuto.core.chunks import AnyChunk, ToolCall
from tenuto.core.errors import TenutoError
from tenuto.core.option_keys import mapping, overlaid, renamed, spellings
from tenuto.core.request_context import RequestContext
from tenuto.messages.input import Messages, SystemInput, system_turns
from tenuto.messages.turns import ProviderOptions
from tenuto.misplaced import meant
from tenuto.models.downloads import DownloadsDict, read_downloads
from tenuto.models.ports import LanguageModel
from tenuto.models.settings import TimeoutDict, read_settings, read_tool_choice, renamed_settings
from tenuto.runs.result import Result
from tenuto.steps.candidates import check_models
from tenuto.steps.results import AbortEvent, IterationContext, StepContext, StepResult, StopContext
from tenuto.steps.run import Options
from tenuto.steps.tracing_options import (
    TelemetryDict,
    TracingContextDict,
    TracingOptionsDict,
    read_tracing,
    rename_tracing,
)
from tenuto.structured.output import KEYS, StructuredOutput, read_output, without_schema
from tenuto.tools.approval import ApprovalPolicy
from tenuto.tools.hooks import HOOK_KEYS, ToolHooks, read_hooks
from tenuto.tools.tool import Tools
from tenuto.tools.transform import TransformPolicy, read_policy

T = TypeVar("T")

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
    tokens; `reasoning` is an effort level such as `low`; `headers` go on the HTTP request; `max_retries` counts the
    further tries of a call that could not be opened, unless the agent or the fallback entry has its own.
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
    max_retries: int
    timeout: TimeoutDict


Toolsets = Mapping[str, Tools[Any]]
"""Groups of tools by name."""

ClientTools = Mapping[str, Any] | Sequence[Any]
"""By name, or a list: tools, functions with hints, or descriptions `{"description": ..., "input_schema": schema}`."""

OneModel = str | LanguageModel | Mapping[str, Any]


class FallbackModel(TypedDict, total=False):
    """An entry of a list of models, which are asked in order: the next one when one fails.

    `model_settings`, `provider_options` and `headers` may be functions of the request context, `model` too; settings
    and options win over the call's, `headers` are below all others. `max_retries` counts from 0; an entry that is not
    `enabled` is as if it were not there.
    """

    id: str
    model: Required[OneModel | Callable[..., OneModel | Awaitable[OneModel]]]
    max_retries: int
    enabled: bool
    model_settings: ModelSettingsDict | Callable[..., ModelSettingsDict | Awaitable[ModelSettingsDict]]
    provider_options: ProviderOptions | Callable[..., ProviderOptions | Awaitable[ProviderOptions]]
    headers: Mapping[str, str] | Callable[..., Mapping[str, str] | Awaitable[Mapping[str, str]]]


ModelConfig = OneModel | Sequence[OneModel | FallbackModel]
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
        tool_call_concurrency: Tool calls of a step that run at once (default 10; 1 when a call may need approval or may
            suspend itself).
        toolsets: Further tools for this run: groups by name, each a list or a dict of tools. The group's name is no
            part of a tool's name. *Dynamic.*
        client_tools: Tools that the caller carries out, by name: a call of one ends the run, unanswered. *Dynamic.*
        transform: What displays and transcripts show of tools' payloads; takes the place of the agent's. *Dynamic.*
        hooks: Functions around every tool call; each takes the place of the agent's of its name. *Dynamic.*
        model: Instead of the agent's; a list of fallbacks too.
        model_settings: See `ModelSettingsDict`.
        provider_options: By provider name; the provider's own and the AI SDK's names both work.
        include_raw_chunks: Also stream each event of the provider as a `raw` chunk (default False).
        downloads: How linked files are fetched; see `DownloadsDict`.
        request_context: A `RequestContext`, a mapping, or an instance of the agent's schema.
        abort_signal: Stops the run when it fires.
        on_chunk: Gets every chunk of `full_stream`.
        on_step_finish: Gets each `StepResult`.
        prepare_step: Gets a `StepContext` before each model call; what it returns stands in for the run's own in this
            step.
        on_iteration_complete: Gets an `IterationContext` after each step; what it returns (`{"continue": False}`,
            `{"feedback": "..."}`) steers a plain run. A durable one is only observed.
        on_finish: Gets the `Result` of a run that neither failed nor was aborted.
        on_error: Gets the exception the run failed with.
        on_abort: Gets an `AbortEvent`.
        on_suspended: Gets the `Result` of a run that waits for decisions.
        require_tool_approval: True, or a function of an `ApprovalRequest`: these calls wait for a decision.
        telemetry: `is_enabled` (False: no spans for this call), `record_inputs`, `record_outputs` (put content on
            spans; off), `function_id`.
        tracing_options: For the root span: `root_span_name`, `metadata`, `tags`, `request_context_keys` (dotted paths),
            `trace_id`, `parent_span_id` (hex), `hide_input`, `hide_output`.
        tracing_context: `current_span`: the tracer's span that the root span becomes a child of.
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
    toolsets: Toolsets | Callable[..., Toolsets | Awaitable[Toolsets]]
    client_tools: ClientTools | Callable[..., ClientTools | Awaitable[ClientTools]]
    transform: TransformPolicy | Callable[..., TransformPolicy | Awaitable[TransformPolicy | None] | None]
    hooks: ToolHooks | Callable[..., ToolHooks | Awaitable[ToolHooks | None] | None]
    model: ModelConfig
    model_settings: ModelSettingsDict
    provider_options: ProviderOptions
    include_raw_chunks: bool
    downloads: DownloadsDict
    request_context: Any
    abort_signal: AbortSignal
    on_chunk: Callable[[AnyChunk], object]
    on_step_finish: Callable[[StepResult], object]
    prepare_step: Callable[[StepContext], object]
    on_iteration_complete: Callable[[IterationContext], object]
    on_finish: Callable[[Result[Any]], object]
    on_error: Callable[[TenutoError], object]
    on_abort: Callable[[AbortEvent], object]
    on_suspended: Callable[[Result[Any]], object]
    require_tool_approval: ApprovalPolicy
    telemetry: TelemetryDict
    tracing_options: TracingOptionsDict
    tracing_context: TracingContextDict
    close_on_suspend: bool


class RunOptions(SegmentOptions, total=False):
    """What a call of `generate` or `stream` may set, beside `structured_output`.

    Attributes:
        run_id: The run's id; must be new to the store.
        output: Deprecated: the schema of `structured_output`.
    """

    run_id: str
    output: Any


class ResumeOptions(SegmentOptions, total=False):
    """What a call that goes on with a run may set.

    Attributes:
        structured_output: The schema again, so that the object has its type in this process, too.
    """

    structured_output: Any


class AllOptions(RunOptions, total=False):
    """What an agent's `default_options` may set.

    Attributes:
        structured_output: That answers are data, unless a call says `structured_output=None`.
    """

    structured_output: Any


OutputType = type[T] | StructuredOutput[T]
"""What makes `result.object` a `T`; a `TypeAdapter[T]`, too."""

DefaultOptions = AllOptions | Callable[[RequestContext], AllOptions | Awaitable[AllOptions]]


OPTIONS = spellings((*SegmentOptions.__annotations__, *RunOptions.__annotations__, "structured_output"))
"""Both spellings of the options of a call."""

_STRUCTURED = spellings(KEYS)
_CHOICE = spellings(("type", "tool_name"))
_DOWNLOADS = spellings(DownloadsDict.__annotations__)
_HOOKS = spellings(HOOK_KEYS)
_CALLBACKS = (
    "on_chunk",
    "on_step_finish",
    "prepare_step",
    "on_iteration_complete",
    "on_finish",
    "on_error",
    "on_abort",
    "on_suspended",
)
_WHOLE = ("model", "tool_choice", "instructions", "system", "context", "transform")
_BY_NAME = ("toolsets", "client_tools", "structured_output")


def normalise(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options under their snake_case names, nested option dicts too.

    Raises:
        TypeError: An unknown option, or one given under both spellings.
    """
    options = renamed(given, OPTIONS, "option", meant)
    if (settings := options.get("model_settings")) is not None:
        options["model_settings"] = renamed_settings(settings)
    if isinstance(hooks := options.get("hooks"), Mapping):
        options["hooks"] = renamed(cast("Mapping[str, Any]", hooks), _HOOKS, "hook")
    rename_tracing(options)
    if (downloads := options.get("downloads")) is not None:
        options["downloads"] = renamed(mapping(downloads, "downloads"), _DOWNLOADS, "downloads key")
    if isinstance(choice := options.get("tool_choice"), Mapping):
        named = cast("Mapping[str, Any]", choice)
        options["tool_choice"] = renamed(named, _CHOICE, "tool_choice key")
    if "output" in options:
        _read_alias(options)
    if isinstance(wanted := options.get("structured_output"), Mapping):
        options["structured_output"] = _structured(cast("Mapping[str, Any]", wanted))
    return options


def _read_alias(options: dict[str, Any]) -> None:
    """`output=` is `structured_output=` without a model; a JSON Schema stands there by itself."""
    import warnings

    if "structured_output" in options:
        message = "output= is the old name of structured_output=; give only the latter."
        raise TypeError(message)
    warnings.warn("output= is deprecated; use structured_output=.", DeprecationWarning, stacklevel=4)
    given = options.pop("output")
    bare = isinstance(given, Mapping) and "schema" not in given
    options["structured_output"] = {"schema": given} if bare else given


def _structured(given: Mapping[str, Any]) -> Mapping[str, Any]:
    if "schema" not in given and given.keys() - _STRUCTURED.keys():
        raise without_schema(given)
    return renamed(given, _STRUCTURED, "structured_output key")


def merge(defaults: Mapping[str, Any], call: Mapping[str, Any]) -> dict[str, Any]:
    """The call's options over the defaults: mappings key by key, anything else whole. Both normalised before.

    A model record, a tool choice, a message and a tool are one value each: half of one must not end up in another (the
    key of one provider at the address of another).
    """
    merged = overlaid(defaults, call)
    merged.update((name, call[name]) for name in _WHOLE if name in call)
    for name in _BY_NAME:
        below, given = defaults.get(name), call.get(name)
        if isinstance(below, Mapping) and isinstance(given, Mapping):
            merged[name] = {**cast("Mapping[str, Any]", below), **cast("Mapping[str, Any]", given)}
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
        tool_choice=read_tool_choice(given.get("tool_choice") or "auto"),
        active_tools=_names(given.get("active_tools")),
        tool_call_concurrency=_concurrency(given.get("tool_call_concurrency")),
        toolsets=_dynamic_of(given.get("toolsets"), "toolsets", Mapping),
        client_tools=_dynamic_of(given.get("client_tools"), "client_tools", Mapping, list, tuple),
        transform=_unless_dynamic(given.get("transform"), read_policy),
        hooks=_unless_dynamic(given.get("hooks"), read_hooks),
        model=given.get("model"),
        model_settings=read_settings(given.get("model_settings") or {}),
        provider_options=given.get("provider_options"),
        include_raw_chunks=_flag(given.get("include_raw_chunks", False), "include_raw_chunks"),
        downloads=read_downloads(given.get("downloads") or {}),
        on_chunk=given.get("on_chunk"),
        on_step_finish=given.get("on_step_finish"),
        prepare_step=given.get("prepare_step"),
        on_iteration_complete=given.get("on_iteration_complete"),
        on_finish=given.get("on_finish"),
        on_error=given.get("on_error"),
        on_abort=given.get("on_abort"),
        on_suspended=given.get("on_suspended"),
        close_on_suspend=_flag(given.get("close_on_suspend", True), "close_on_suspend"),
        require_tool_approval=_policy(given.get("require_tool_approval", False)),
        tracing=read_tracing(given.get("telemetry"), given.get("tracing_options"), given.get("tracing_context")),
        structured_output=read_output(given.get("structured_output")),
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
    if isinstance(model, (list, tuple)):
        check_models(cast("Sequence[Any]", model), "model=")
    elif model is not None and not (isinstance(model, (str, Mapping)) or hasattr(model, "stream") or callable(model)):
        forms = "'provider/model', a model record, a LanguageModel or a list of these"
        message = f"model= takes {forms}, not {type(model).__name__}."
        raise TypeError(message)
    for name, options in mapping(given.get("provider_options") or {}, "provider_options").items():
        mapping(options, f"provider_options[{name!r}]")


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


def _concurrency(given: object) -> int | None:
    return None if given is None else _positive(given, "tool_call_concurrency")


def _dynamic_of(given: object, name: str, *kinds: type) -> Any:
    if given is None or callable(given) or isinstance(given, kinds):
        return given
    message = f"{name}= takes a dict of tools by name, not {type(given).__name__}."
    raise TypeError(message)


def _unless_dynamic(given: object, check: Callable[[object], object]) -> Any:
    """`given`, checked now unless it is a function that gives it later."""
    if not callable(given):
        check(given)
    return given


def _names(given: object) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Iterable):
        message = f"active_tools= takes a list of tool names, not {given!r}."
        raise TypeError(message)
    return tuple(cast("Iterable[str]", given))
