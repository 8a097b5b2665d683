"""The types of the options of `generate()` and `stream()`: their names and what each takes.

Invariant: types only, for checkers and readers: nothing imports this module at run time, where the names are those of
`tenuto.persisted` and the values are read by `tenuto.read_options`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Required, TypedDict

from typing_extensions import TypeVar

from tenuto.conditions import StopWhen
from tenuto.core.abort import AbortSignal
from tenuto.core.chunks import AnyChunk
from tenuto.core.errors import TenutoError
from tenuto.core.request_context import RequestContext
from tenuto.evals.completion import IsTaskCompleteDict
from tenuto.evals.declared import Scorers
from tenuto.memory.call import MemoryDict
from tenuto.messages.input import Messages, SystemInput
from tenuto.messages.turns import ProviderOptions
from tenuto.models.downloads import DownloadsDict
from tenuto.models.ports import LanguageModel
from tenuto.models.settings import TimeoutDict
from tenuto.runs.result import Result
from tenuto.steps.delegation_hooks import DelegationDict
from tenuto.steps.results import AbortEvent, IterationContext, StepContext, StepResult
from tenuto.steps.tracing_options import TelemetryDict, TracingContextDict, TracingOptionsDict
from tenuto.structured.output import StructuredOutput
from tenuto.tools.approval import ApprovalPolicy
from tenuto.tools.hooks import ToolHooks
from tenuto.tools.tool import Tools
from tenuto.tools.transform import TransformPolicy

T = TypeVar("T")


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


Processors = Sequence[Any] | Callable[..., Sequence[Any] | Awaitable[Sequence[Any] | None] | None] | None
"""Processors in their order, or a function of the request context that gives them; see `docs/processors.md`."""

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
        input_processors: In place of the agent's; not on a durable run. *Dynamic.*
        output_processors: In place of the agent's; not on a durable run. *Dynamic.*
        error_processors: In place of the agent's; not on a durable run. *Dynamic.*
        max_processor_retries: How often processors may have an answer made again, in place of the agent's.
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
        is_task_complete: Scorers that say whether the task is done; while it is not, the run goes on; see
            `IsTaskCompleteDict`.
        scorers: That look at the run once it has ended, in place of the agent's; see `tenuto.evals.ScorerDict`.
        return_scorer_data: Whether `result.scoring_data` holds what scorers get (default False).
        on_finish: Gets the `Result` of a run that neither failed nor was aborted.
        on_error: Gets the exception the run failed with.
        on_abort: Gets an `AbortEvent`.
        on_suspended: Gets the `Result` of a run that waits for decisions.
        delegation: Hooks around calls of sub-agents; see `DelegationDict` and `docs/sub-agents.md`.
        cost_limit: US dollars that the run and its sub-agents may spend: it ends with the error
            `AGENT_COST_LIMIT_REACHED` before a request that may go beyond.
        token_limit: The same in tokens, input and output together.
        require_tool_approval: True, or a function of an `ApprovalRequest`: these calls wait for a decision.
        telemetry: `is_enabled` (False: no spans for this call), `record_inputs`, `record_outputs` (put content on
            spans; off), `function_id`.
        tracing_options: For the root span: `root_span_name`, `metadata`, `tags`, `request_context_keys` (dotted paths),
            `trace_id`, `parent_span_id` (hex), `hide_input`, `hide_output`.
        tracing_context: `current_span`: the tracer's span that the root span becomes a child of.
        close_on_suspend: Whether a reader ends when the run waits for a decision (default), or follows it beyond.
        memory: The thread the call is on: `{"thread": "t1", "resource": "ann"}`; see `MemoryDict`.
        save_per_step: Store what the agent says after each step, not only when the run ends or waits (default False).
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
    input_processors: Processors
    output_processors: Processors
    error_processors: Processors
    max_processor_retries: int
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
    is_task_complete: IsTaskCompleteDict
    scorers: Scorers
    return_scorer_data: bool
    on_finish: Callable[[Result[Any]], object]
    on_error: Callable[[TenutoError], object]
    on_abort: Callable[[AbortEvent], object]
    on_suspended: Callable[[Result[Any]], object]
    delegation: DelegationDict
    cost_limit: float
    token_limit: int
    require_tool_approval: ApprovalPolicy
    telemetry: TelemetryDict
    tracing_options: TracingOptionsDict
    tracing_context: TracingContextDict
    close_on_suspend: bool
    memory: MemoryDict
    save_per_step: bool


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
