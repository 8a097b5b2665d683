"""`Agent`: an immutable definition and the verbs that start its runs.

Invariant: an agent holds no state of any run; two calls never see each other. `generate` is `stream`, drained. Making
an agent loads nothing that only a run needs: that is imported by the function that needs it, here and in every module
that `from tenuto import Agent, tool` loads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import UnionType
from typing import TYPE_CHECKING, Any, cast, overload

from typing_extensions import TypeVar, Unpack

from tenuto.core.clock import SystemClock
from tenuto.core.errors import RunError
from tenuto.core.ids import RandomIds
from tenuto.introspection import Introspection
from tenuto.legacy import read_defaults
from tenuto.read_agent import definition_of, read_arguments, store_of, unbound
from tenuto.setup import AppSlot, Setup
from tenuto.steps.definition import UNSET
from tenuto.twins import SyncTwins

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from tenuto.agent_fields import AgentFields, DynamicTools
    from tenuto.calls import PendingStream, Starting
    from tenuto.delegated import AgentDelegate
    from tenuto.messages.input import Messages
    from tenuto.options import OutputType, ResumeOptions, RunOptions
    from tenuto.runs.listing import SuspendedRuns
    from tenuto.runs.result import Result
    from tenuto.store.ports import RunStore

DepsT = TypeVar("DepsT", default=None)
OutputT = TypeVar("OutputT", default=str)
T = TypeVar("T")

_log = logging.getLogger("tenuto")

DURABLE_ONLY = frozenset({"observe", "resume", "recover", "list_active_runs", "recover_active_runs"})
"""Methods that only a durable agent has."""


class NotDurable(RunError, AttributeError):
    """A durable method of an agent that is not durable, or whose durable form is another object."""

    def __init__(self, agent_id: str, method: str) -> None:
        message = (
            f"Agent {agent_id!r} has no {method}(): only a durable agent that is registered has. Register it with "
            "Tenuto(agents={'key': create_durable_agent(agent)}, store=...), or with durable=True, and call "
            f"app.get_agent('key').{method}()."
        )
        super().__init__(message, id="DURABLE_AGENT_NOT_REGISTERED", category="USER")


class Agent(SyncTwins[DepsT, OutputT], Introspection):
    """A model, its instructions and its tools, under a name.

    Agents are frozen; `replace(...)` gives a changed copy. Values marked *dynamic* may also be functions of the request
    context (sync or async), asked anew for each run.

    Args:
        id: Unique id; default: `name`.
        name: Display name; default: `id`.
        description: For people, and for supervisors that delegate to this agent.
        metadata: *Dynamic.* Whatever tells this agent from others in lists; no model sees it.
        instructions: *Dynamic.* Text, a system message, or a list of these.
        model: *Dynamic.* `"provider/model"`, a record (`{"id": "provider/model", "url": ...}`), a `LanguageModel`, or
            a list of these and of fallback entries, asked in order; see `docs/models.md`.
        tools: *Dynamic.* A list of tools and plain functions, or a dict whose keys are the names the model sees.
        agents: *Dynamic.* A dict of agents that this one may delegate to; its model sees each as a tool `agent-<key>`.
            See `docs/sub-agents.md`.
        deps: Live objects for tools (`ctx.deps`): a value, or a function of the request context that builds them for
            each run; what it builds is closed after the run if it is an async context manager.
        request_context_schema: Request values must fit it (a Pydantic model, dataclass or TypedDict).
        default_options: *Dynamic.* Options merged below those of each call.
        default_generate_options_legacy: *Dynamic.* Those of `generate_legacy`, which takes no others.
        default_stream_options_legacy: *Dynamic.* Those of `stream_legacy`, which takes no others.
        require_tool_approval: True, or a function of an `ApprovalRequest`: such calls wait for a decision. The call's
            option and the tool's own only add to it.
        hooks: *Dynamic.* `{"before_tool_call": fn, "after_tool_call": fn}`: called around every tool call; see
            `tenuto.tools.ToolHooks`.
        transform: *Dynamic.* What displays and transcripts show of tools' payloads; see
            `tenuto.tools.TransformPolicy`.
        input_processors: *Dynamic.* Processors of what a model is sent, in order; see `docs/processors.md`.
        output_processors: *Dynamic.* Processors of what models and tools answer, in order.
        error_processors: *Dynamic.* Processors that may have a failed model asked again.
        max_processor_retries: *Dynamic.* How often processors may have an answer made again (default: not at all; a
            failed model is asked 3 times more).
        scorers: *Dynamic.* By name, scorers that look at runs once they have ended; their scores are stored. See
            `docs/evals.md`.
        memory: *Dynamic.* A `Memory`: what the agent remembers of the threads that calls name; see `docs/memory.md`.
        durable: True, or the keywords of `create_durable_agent`: registered with an app, the agent is durable there.
        store: Where runs are kept; default: one store in memory per process.
        abort_grace: Seconds that tools and callbacks that are still going on get after an abort.
        max_retries: Further tries of a model call that could not be opened (default 0). Given, it wins over
            `model_settings`; a fallback entry's own wins over it.

    Raises:
        ConfigurationError: No model, or tools that cannot work.
    """

    __slots__ = ("_base", "_given", "description", "durable", "id", "name")

    id: str
    name: str
    description: str
    durable: bool | Mapping[str, Any]
    _given: dict[str, Any]
    _base: Setup

    @overload
    def __init__(self: Agent[None, str], *, tools: DynamicTools[None] = (), **fields: Unpack[AgentFields]) -> None: ...
    @overload
    def __init__(self, *, tools: DynamicTools[DepsT] = (), **fields: Unpack[AgentFields]) -> None: ...
    @overload
    def __init__(
        self,
        *,
        tools: DynamicTools[DepsT] = (),
        deps: Callable[..., AbstractAsyncContextManager[DepsT]],
        **fields: Unpack[AgentFields],
    ) -> None: ...
    @overload
    def __init__(
        self,
        *,
        tools: DynamicTools[DepsT] = (),
        deps: Callable[..., Awaitable[DepsT]],
        **fields: Unpack[AgentFields],
    ) -> None: ...
    @overload
    def __init__(
        self, *, tools: DynamicTools[DepsT] = (), deps: Callable[..., DepsT], **fields: Unpack[AgentFields]
    ) -> None: ...
    @overload
    def __init__(self, *, tools: DynamicTools[DepsT] = (), deps: DepsT, **fields: Unpack[AgentFields]) -> None: ...
    def __init__(self, *, tools: Any = (), deps: Any = UNSET, **fields: Unpack[AgentFields]) -> None:
        given = read_arguments({"tools": tools, "deps": deps, **fields})
        definition = definition_of(given)
        defaults = read_defaults(given["default_options"])
        own: RunStore | None = given["store"] or store_of(given["memory"])
        base = Setup(definition, defaults, own, SystemClock(), RandomIds(), AppSlot(own=own))
        values: dict[str, Any] = {
            "id": definition.id,
            "name": definition.name,
            "description": given["description"],
            "_given": given,
            "durable": given["durable"],
            "_base": base,
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)

    def __setattr__(self, field: str, value: object) -> None:
        message = f"Agents are frozen; use agent.replace({field}=...) for a changed copy."
        raise AttributeError(message)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in DURABLE_ONLY:
                raise NotDurable(self.id, name)
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(message)

    def __repr__(self) -> str:
        return f"Agent(id={self.id!r})"

    def replace(self, **changes: Any) -> Agent[DepsT, OutputT]:
        """A copy with other constructor arguments; bound to no app."""
        return cast("Agent[DepsT, OutputT]", Agent(**{**unbound(self._given), **changes}))

    def setup(self) -> Setup:
        """What a run needs of this agent, its app and a test's overrides; for the runtime."""
        if self.durable and type(self) is Agent and not self.slot.warned:
            self.slot.warned = True
            _log.warning(
                "Agent %r has durable=True, which counts in an app only: this run is a plain one and ends with this "
                "process. Register it with Tenuto(agents={'key': agent}, store=...) and call app.get_agent('key').",
                self.id,
            )
        return self._base.bound().overridden(id(self))

    def bind_memory(self, store: RunStore) -> None:
        """Have the agent's memory keep its threads in the store of the app; for the app.

        Raises:
            ConfigurationError: `MEMORY_STORE_CONFLICT`.
        """
        memory = self._given["memory"]
        if memory is not None and hasattr(memory, "bind"):
            memory.bind(store)

    @property
    def slot(self) -> AppSlot:
        """The place of the agent's app; filled once, by the app."""
        return self._base.slot

    # -- verbs -------------------------------------------------------------------------------------------------------

    @overload
    async def generate(
        self,
        messages: Messages,
        *,
        deps: DepsT = UNSET,
        structured_output: None = None,
        **options: Unpack[RunOptions],
    ) -> Result[OutputT]: ...
    @overload
    async def generate(
        self,
        messages: Messages,
        *,
        deps: DepsT = UNSET,
        structured_output: OutputType[T] | TypeAdapter[T],
        **options: Unpack[RunOptions],
    ) -> Result[T]: ...
    @overload
    async def generate(
        self,
        messages: Messages,
        *,
        deps: DepsT = UNSET,
        structured_output: Mapping[str, Any] | UnionType,
        **options: Unpack[RunOptions],
    ) -> Result[Any]: ...
    async def generate(
        self, messages: Messages, *, deps: DepsT = UNSET, structured_output: Any = UNSET, **options: Unpack[RunOptions]
    ) -> Result[Any]:
        """Run to the end and return the result.

        Cancelling the awaiting task aborts the run, waits up to `abort_grace` seconds for its tools, saves what there
        is and re-raises; a second cancellation does not wait.

        Args:
            messages: Text, a message, or a list of them; `result.messages` of an earlier run may be among them.
            deps: Instead of the agent's.
            structured_output: What `result.object` must be: a type, a `TypeAdapter`, a `StructuredOutput`, or a mapping
                with the key `schema`; None: text, whatever the agent's default is.
            **options: See `RunOptions`.

        Raises:
            TypeError: An unknown option, or a value of the wrong type.
            ConfigurationError: The definition, the options or the request context cannot work; nothing was sent.
            ModelError: The model call failed. Like every error after the start it carries `.result`, the full output.
            OutputInvalid: The answer is not what `structured_output` asks for.
        """
        return await self._drained(self._asked(messages, deps, structured_output, options))

    @overload
    def stream(
        self,
        messages: Messages,
        *,
        deps: DepsT = UNSET,
        structured_output: None = None,
        **options: Unpack[RunOptions],
    ) -> PendingStream[OutputT]: ...
    @overload
    def stream(
        self,
        messages: Messages,
        *,
        deps: DepsT = UNSET,
        structured_output: OutputType[T] | TypeAdapter[T],
        **options: Unpack[RunOptions],
    ) -> PendingStream[T]: ...
    @overload
    def stream(
        self,
        messages: Messages,
        *,
        deps: DepsT = UNSET,
        structured_output: Mapping[str, Any] | UnionType,
        **options: Unpack[RunOptions],
    ) -> PendingStream[Any]: ...
    def stream(
        self, messages: Messages, *, deps: DepsT = UNSET, structured_output: Any = UNSET, **options: Unpack[RunOptions]
    ) -> PendingStream[Any]:
        """Start a run and read it while it goes on: `await` the returned object, or enter it with `async with`.

        Either gives the `RunOutput` as soon as the run is prepared. Leaving it never stops the run.

        Args:
            messages: As for `generate`.
            deps: Instead of the agent's.
            structured_output: As for `generate`; see `RunOutput.object_stream`.
            **options: See `RunOptions`.

        Raises:
            TypeError: At once: an unknown option, or a value of the wrong type.
            ConfigurationError: When awaited: the run could not start.
        """
        return self._pending(self._asked(messages, deps, structured_output, options))

    # -- decisions -----------------------------------------------------------------------------------------------------

    def resume_stream(
        self,
        resume_data: Any,
        *,
        run_id: str,
        tool_call_id: str | None = None,
        deps: DepsT = UNSET,
        **options: Unpack[ResumeOptions],
    ) -> PendingStream[Any]:
        """Answer a pending call of a suspended run and stream what follows; there is no second `start` chunk.

        The answer is stored before this returns; the same answer again attaches to what the first one started. The
        options of the run's first call hold, those given here win.

        Args:
            resume_data: For an approval `{"approved": bool, "reason": ...}`; for a suspension, what its tool asked for.
            run_id: The run.
            tool_call_id: The call; may be left out when exactly one waits.
            deps: Instead of the agent's.
            **options: See `ResumeOptions`.

        Raises:
            RunError: When awaited. `AGENT_RESUME_NO_SNAPSHOT_FOUND` (no such run),
                `AGENT_RESUME_TOOL_CALL_NOT_SUSPENDED`, `AGENT_RESUME_AMBIGUOUS_TOOL_CALL`,
                `AGENT_RESUME_INVALID_DATA` (still suspended), `WORKFLOW_RESUME_ALREADY_CLAIMED` (another was faster).
        """
        return self._pending(self._answered(run_id, deps, options, data=resume_data, tool_call_id=tool_call_id))

    async def resume_generate(
        self,
        resume_data: Any,
        *,
        run_id: str,
        tool_call_id: str | None = None,
        deps: DepsT = UNSET,
        **options: Unpack[ResumeOptions],
    ) -> Result[Any]:
        """`resume_stream`, drained: the result of the whole run, the part before the suspension included."""
        return await self._drained(self._answered(run_id, deps, options, data=resume_data, tool_call_id=tool_call_id))

    def approve_tool_call(
        self,
        *,
        run_id: str,
        tool_call_id: str | None = None,
        args: dict[str, Any] | None = None,
        deps: DepsT = UNSET,
        **options: Unpack[ResumeOptions],
    ) -> PendingStream[Any]:
        """Let a call that waits for approval run, and stream what follows; see `resume_stream`.

        Args:
            run_id: The run.
            tool_call_id: The call; may be left out when exactly one waits.
            args: Arguments to run it with instead of the model's; checked like the model's.
            deps: Instead of the agent's.
            **options: See `ResumeOptions`.
        """
        return self._pending(
            self._answered(run_id, deps, options, data={"approved": True}, tool_call_id=tool_call_id, args=args)
        )

    async def approve_tool_call_generate(
        self,
        *,
        run_id: str,
        tool_call_id: str | None = None,
        args: dict[str, Any] | None = None,
        deps: DepsT = UNSET,
        **options: Unpack[ResumeOptions],
    ) -> Result[Any]:
        """`approve_tool_call`, drained."""
        return await self._drained(
            self._answered(run_id, deps, options, data={"approved": True}, tool_call_id=tool_call_id, args=args)
        )

    def decline_tool_call(
        self,
        *,
        run_id: str,
        tool_call_id: str | None = None,
        reason: str | None = None,
        deps: DepsT = UNSET,
        **options: Unpack[ResumeOptions],
    ) -> PendingStream[Any]:
        """Keep a call from running (on), tell the model why, and stream what follows; see `resume_stream`.

        Also a call that has suspended itself may be declined: its body is not entered again.
        """
        return self._pending(
            self._answered(
                run_id,
                deps,
                options,
                data={"approved": False, "reason": reason},
                tool_call_id=tool_call_id,
                declines=True,
            )
        )

    async def decline_tool_call_generate(
        self,
        *,
        run_id: str,
        tool_call_id: str | None = None,
        reason: str | None = None,
        deps: DepsT = UNSET,
        **options: Unpack[ResumeOptions],
    ) -> Result[Any]:
        """`decline_tool_call`, drained."""
        return await self._drained(
            self._answered(
                run_id,
                deps,
                options,
                data={"approved": False, "reason": reason},
                tool_call_id=tool_call_id,
                declines=True,
            )
        )

    async def list_suspended_runs(
        self,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        per_page: int | None = None,
        page: int | None = None,
    ) -> SuspendedRuns:
        """The runs of this agent that wait for a decision, newest first, with their calls; from the store.

        Args:
            thread_id: Only those on this thread.
            resource_id: Only those of this resource.
            per_page: Runs per page; pages only when both are given.
            page: From 0.

        Raises:
            ConfigurationError: `AGENT_LIST_SUSPENDED_RUNS_INVALID_PER_PAGE` or `..._PAGE`.
        """
        from tenuto.runs.listing import list_suspended

        store = self.setup().store
        return await list_suspended(
            store, self.id, thread=thread_id, resource=resource_id, per_page=per_page, page=page
        )

    # -- as a sub-agent, for the runtime -----------------------------------------------------------------------------

    def delegate(self) -> AgentDelegate:
        """What drives the runs that a supervisor's calls start; see `runs.children.Delegate`."""
        from tenuto.delegated import AgentDelegate

        return AgentDelegate(self._base.overridden(id(self)))

    # -- the calls ---------------------------------------------------------------------------------------------------

    def _asked(self, messages: Messages, deps: Any, output: Any, options: Mapping[str, Any]) -> Starting:
        from tenuto.calls import Call, with_output

        return Call(self.setup(), messages, deps, with_output(options, output))

    def _answered(self, run_id: str, deps: Any, options: Mapping[str, Any], **answer: Any) -> Starting:
        from tenuto.calls import Resumption
        from tenuto.runs.segments import Answer

        return Resumption(self.setup(), run_id, Answer(**answer), deps, options)

    def _pending(self, call: Starting) -> PendingStream[Any]:
        from tenuto.calls import PendingStream

        return PendingStream(call)

    async def _drained(self, call: Starting) -> Result[Any]:
        started = await call.begin()
        try:
            result = await started.driver.output.get_full_output()
        except asyncio.CancelledError:
            from tenuto.calls import cancelled

            await cancelled(started)
            raise
        if result.error is not None:
            raise result.error
        return result
