"""A run as it lives in this process: what was asked, what it was resolved to, and what its steps have produced.

Invariant: whatever must survive the process is in the journal; a `Run` can be built again from the definition, the
options and the records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from tenuto.core.abort import AbortController
from tenuto.core.chunks import ToolResult
from tenuto.core.clock import Clock
from tenuto.core.errors import ModelTimeout, TenutoError
from tenuto.core.ids import IdSource
from tenuto.core.payloads import NOTHING_USED, Json, TripwirePayload, Usage
from tenuto.core.request_context import RequestContext
from tenuto.core.spans import SpanLink
from tenuto.machine.records import Answered, Decision, Delegated, Said, StepPrepared, WaitsFor
from tenuto.messages.input import Messages, SystemInput
from tenuto.messages.stored import DataPart, Message, MessagePart
from tenuto.messages.turns import Prompt, ProviderOptions, Turn
from tenuto.models.downloads import Downloads, RemoteFile
from tenuto.models.ports import LanguageModel, ProviderTool, ToolChoice, ToolSpec
from tenuto.models.settings import CallSettings
from tenuto.steps.budget import Budget
from tenuto.steps.candidates import Candidate
from tenuto.steps.definition import UNSET, Definition
from tenuto.steps.delegation_hooks import NO_HOOKS as NO_DELEGATION_HOOKS
from tenuto.steps.delegation_hooks import Hooks as DelegationHooks
from tenuto.steps.ports import Children
from tenuto.steps.results import AbortEvent, StepResult, StopContext
from tenuto.steps.tracing import Trace
from tenuto.steps.tracing_options import Tracing
from tenuto.steps.veil import Veil
from tenuto.store.ports import PendingCall, Scope
from tenuto.structured.modes import Fitting
from tenuto.structured.output import StructuredOutput
from tenuto.tools.approval import ApprovalPolicy
from tenuto.tools.hooks import NO_HOOKS, Hooks
from tenuto.tools.toolbox import NO_TOOLS, RunnableTool, Toolbox

if TYPE_CHECKING:
    from tenuto.evals.completion import TaskCompletion
    from tenuto.evals.declared import Declared
    from tenuto.evals.scorer import Scorer
    from tenuto.processors.chain import Chain
    from tenuto.processors.state import States
    from tenuto.steps.processing import RunScreen

if TYPE_CHECKING:
    from tenuto.memory.bound import RunMemory
    from tenuto.memory.call import MemoryCall

CONCURRENCY = 10
"""Tool calls of a step that run at once, unless a person may have to be asked or the call says otherwise."""

Callback = Callable[[Any], object | Awaitable[object]]
StopCondition = Callable[[StopContext], bool | Awaitable[bool]]


class Options(Struct, frozen=True):
    """The options of one call, checked and with the agent's defaults merged in."""

    max_steps: int
    stop_when: tuple[StopCondition, ...] = ()
    instructions: SystemInput | None = None
    system: SystemInput | None = None
    context: Messages | None = None
    tool_choice: ToolChoice = "auto"
    active_tools: tuple[str, ...] | None = None
    tool_call_concurrency: int | None = None
    model: Any = None
    model_settings: CallSettings = CallSettings()
    provider_options: ProviderOptions | None = None
    include_raw_chunks: bool = False
    downloads: Downloads = Downloads()
    on_chunk: Callback | None = None
    on_step_finish: Callback | None = None
    prepare_step: Callback | None = None
    on_iteration_complete: Callback | None = None
    on_finish: Callback | None = None
    on_error: Callback | None = None
    on_abort: Callable[[AbortEvent], object] | None = None
    on_suspended: Callback | None = None
    close_on_suspend: bool = True
    require_tool_approval: ApprovalPolicy = False
    toolsets: Any = None
    client_tools: Any = None
    hooks: Any = None
    tracing: Tracing | None = None
    structured_output: StructuredOutput[Any] | None = None
    transform: Any = None
    delegation: DelegationHooks = NO_DELEGATION_HOOKS
    cost_limit: float | None = None
    token_limit: int | None = None
    input_processors: Any = None
    output_processors: Any = None
    error_processors: Any = None
    max_processor_retries: int | None = None
    scorers: tuple[Declared, ...] | None = None
    return_scorer_data: bool = False
    is_task_complete: TaskCompletion | None = None
    memory: MemoryCall | None = None
    save_per_step: bool = False

    def __repr__(self) -> str:
        """Nothing that may be a secret."""
        return f"Options(max_steps={self.max_steps})"


class StepInputs(Struct, frozen=True, kw_only=True):
    """What `prepare_step` put in place of the run's own for one step; None = the run's.

    Attributes:
        step: Which, from 1.
        restored: It is made of what the journal has.
    """

    step: int = 0
    restored: bool = False
    candidates: tuple[Candidate, ...] | None = None
    prompt: Prompt | None = None
    toolbox: Toolbox | None = None
    active_tools: tuple[str, ...] | None = None
    tool_choice: ToolChoice | None = None
    settings: CallSettings | None = None
    provider_options: ProviderOptions | None = None

    def __repr__(self) -> str:
        """The step alone; see `Definition`."""
        return f"StepInputs({self.step})"


class StepDraft(Struct, eq=False):
    """The step in progress, from its model call to its judgement. All maps go by call id.

    Attributes:
        edited: Arguments given at an approval in place of the model's.
        resumed: What was given when a call was resumed or approved.
        suspended: What a call suspended with.
        schemas: JSON text of the schema of what a suspended call waits for; empty when anything fits.
        unsettled: Suspended calls that wait for somebody's word on whether they took effect.
        declined: Why a call was declined.
        denied: Calls answered with their denial.
        results: For the user.
        texts: For the model.
        told: What the model is told in place of a result, as it is stored.
        titles: Of the tools, for user interfaces.
        shown: By phase, what a transcript shows of a call.
        written: Data that the step's tools wrote for the message.
        delegated: What delegations brought beside their answers.
        inner: What suspended delegations wait for.
        answered: Decisions on that.
    """

    said: Said
    edited: dict[str, Any] = {}
    resumed: dict[str, Any] = {}
    suspended: dict[str, Any] = {}
    schemas: dict[str, str] = {}
    unsettled: set[str] = set()
    declined: dict[str, str] = {}
    denied: set[str] = set()
    results: dict[str, ToolResult] = {}
    texts: dict[str, str] = {}
    told: dict[str, Any] = {}
    titles: Mapping[str, str] = {}
    shown: dict[str, dict[str, Any]] = {}
    written: list[DataPart] = []
    delegated: dict[str, Delegated] = {}
    inner: dict[str, WaitsFor] = {}
    answered: dict[str, Decision] = {}


class Run(Struct, eq=False):
    """Everything a step works with; see `Definition`, `Options` and the module.

    Attributes:
        asked: The options as they were given, with the call's `deps`; None when this process has only their persisted
            form.
        fragile: What of them another process will not have, or have in a stricter form.
        degraded: What of them this process does not have.
        fetched: By URL, the linked files that a model could not fetch itself.
        memory: The thread it is on; None: on none.
        remembered: The history that it read there; `found` what a search found, there or in other threads.
        changed: Messages of the thread that this run's input answers.
        unsearched: Why earlier messages could not be searched; the first step warns of it.
        candidates: The models in the order in which they are asked; `model` is the one in use.
        announced: The warnings of a `step-start` that viewers have seen nothing behind, while one stands so.
        steerable: What `on_iteration_complete` says counts; not so for a durable agent's run.
        changes: What `prepare_step` said of the last step it was asked about; `inputs` is what that comes to here.
        own_tools: The run's; `toolbox` and what is offered of it are those of the step.
        parts: Of the answer in progress, whose id is `message_id`.
        earlier: What the run said before it was given feedback, and the feedback.
        listening: It waits for somebody else's code, and may be interrupted.
        timed_out: Its time was over; it was stopped, as by an abort, and fails with this.
        traced: The root span of the segment before this one.
        structuring: Turns the finished answer into data, when that is not the model's own work.
        fitting: Makes requests ask for data.
        answer: What became of the structured output.
        given: Its object, in the process that made it.
        lineage: Ids of the agents above it, the root's first; empty for a run that nobody delegated.
        children: Drives the runs that its delegations start; set by its driver.
        budget: What it may still spend, with all runs of its tree; None: there is no limit.
        chain: The processors; None, which costs nothing, where there are none.
        states: What they remember.
        screen: What they write to.
        processor_retries: How often they may have an answer made again; None where nobody said.
        corrections: Why answers were not accepted since one was; the model is told so.
        shown_calls: Ids of the calls of answers that were not accepted.
        repaired: The step, and the messages it is asked with again after a failure, as a processor gave them.
        tripwire: Why a processor ended the run.
        replaced: What processors made of the messages the run added, once it has ended.
        scorers: That look at the run once it has ended; `judges` say whether its task is complete.
    """

    run_id: str
    message_id: str
    definition: Definition
    options: Options
    messages: Messages
    request_context: RequestContext
    clock: Clock
    ids: IdSource
    abort: AbortController = field(default_factory=AbortController)
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)

    asked: Mapping[str, Any] | None = None
    persisted: Any = None
    call_deps: Any = UNSET
    deps: Any = UNSET
    values: Any = None
    candidates: tuple[Candidate, ...] = ()
    model: LanguageModel | None = None
    changes: StepPrepared | None = None
    inputs: StepInputs = StepInputs()
    own_tools: Toolbox = NO_TOOLS
    toolbox: Toolbox = NO_TOOLS
    specs: tuple[ToolSpec, ...] = ()
    provider_tools: tuple[ProviderTool, ...] = ()
    hooks: Hooks = NO_HOOKS
    veil: Veil | None = None
    veiled: tuple[str, ...] = ()
    attentive: Mapping[str, RunnableTool] = {}
    writing: dict[str, RunnableTool] = {}
    prompt: Prompt = field(default_factory=Prompt)
    input: list[Message] = []
    context: list[Message] = []
    memory: RunMemory | None = None
    remembered: list[Message] = []
    found: tuple[Message, ...] = ()
    changed: tuple[Message, ...] = ()
    unsearched: str | None = None
    input_turns: tuple[Turn, ...] = ()

    trace: Trace = field(default_factory=Trace)
    traced: SpanLink | None = None
    fetched: dict[str, RemoteFile] = {}
    sent: Any = None
    announced: tuple[Json, ...] | None = None
    listening: bool = False
    draft: StepDraft | None = None
    steps: list[StepResult] = []
    parts: list[MessagePart] = []
    earlier: tuple[Message, ...] = ()
    first_message_id: str = ""
    pending: dict[str, PendingCall] = {}
    effect_locks: dict[str, asyncio.Lock] = {}
    fragile: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()
    durable: bool = False
    steerable: bool = True
    structuring: LanguageModel | None = None
    fitting: Fitting | None = None
    answer: Answered | None = None
    given: Any = UNSET
    chain: Chain | None = None
    states: States | None = None
    screen: RunScreen | None = None
    processor_retries: int | None = None
    corrections: tuple[str, ...] = ()
    shown_calls: frozenset[str] = frozenset()
    repaired: tuple[int, tuple[Message, ...]] | None = None
    tripwire: TripwirePayload | None = None
    replaced: tuple[Message, ...] | None = None
    scorers: tuple[Declared, ...] = ()
    judges: tuple[Scorer, ...] = ()
    usage: Usage = NOTHING_USED
    error: TenutoError | None = None
    timed_out: ModelTimeout | None = None
    ended_at: float | None = None
    lineage: tuple[str, ...] = ()
    children: Children | None = None
    budget: Budget | None = None

    def __post_init__(self) -> None:
        """Keep the first message id: those of later answers are made of it."""
        self.first_message_id = self.first_message_id or self.message_id

    def __repr__(self) -> str:
        """The id alone; see `Definition`."""
        return f"Run({self.run_id!r})"

    @property
    def thread_id(self) -> str | None:
        """The thread it is on."""
        return None if self.memory is None else self.memory.thread

    @property
    def resource_id(self) -> str | None:
        """Whose thread it is."""
        return None if self.memory is None else self.memory.resource

    @property
    def scope(self) -> Scope:
        """What it writes to: its thread, or itself."""
        if self.memory is not None and self.memory.writes:
            return self.memory.scope
        return Scope("run", self.run_id)

    @property
    def aborted(self) -> bool:
        """Whether somebody asked to stop."""
        return self.abort.signal.aborted

    @property
    def concurrency(self) -> int:
        """Tool calls of a step that run at once: one after the other where a person may have to be asked.

        What waits for a decision holds up no other call, whatever the number.
        """
        return self.options.tool_call_concurrency or (1 if self._may_ask() else CONCURRENCY)

    def _may_ask(self) -> bool:
        if self.options.require_tool_approval is not False or self.definition.require_tool_approval is not False:
            return True
        offered = (self.toolbox[spec.name] for spec in self.specs if spec.name in self.toolbox)
        return any(each.require_approval is not False or each.suspend_schema is not None for each in offered)

    @property
    def model_name(self) -> str:
        """The model as `provider/model`."""
        return "" if self.model is None else f"{self.model.provider}/{self.model.model_id}"
