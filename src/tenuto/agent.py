"""`Agent`: an immutable definition and the verbs that start its runs.

Invariant: an agent holds no state of any run; two calls never see each other. `generate` is `stream`, drained.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, Required, TypedDict, cast, overload

from typing_extensions import TypeVar, Unpack

from tenuto.core.abort import AbortSignal
from tenuto.core.clock import Clock, SystemClock
from tenuto.core.errors import ConfigurationError
from tenuto.core.ids import IdSource, RandomIds
from tenuto.core.request_context import as_request_context
from tenuto.messages.input import Messages, SystemInput
from tenuto.options import DefaultOptions, ModelConfig, RunOptions, build_options, merge, normalise
from tenuto.runs.output import RunOutput
from tenuto.runs.portal import Portal
from tenuto.runs.result import Result
from tenuto.runs.supervisor import Started, Supervisor
from tenuto.runs.sync import SyncRunOutput
from tenuto.steps.callbacks import resolve
from tenuto.steps.run import UNSET, Definition, Run
from tenuto.steps.values import validated_values
from tenuto.store.memory import InMemoryStore
from tenuto.store.ports import RunStore
from tenuto.tools.tool import Tools
from tenuto.tools.toolbox import Toolbox

DepsT = TypeVar("DepsT", default=None)
OutputT = TypeVar("OutputT", default=str)

_log = logging.getLogger("tenuto")

overrides: ContextVar[Mapping[int, Mapping[str, Any]]] = ContextVar("tenuto overrides", default={})  # noqa: B039
"""By `id(agent)`: what `tenuto.testing.override` puts in place of an agent's own model, tools, deps or instructions."""

_default_store: RunStore = InMemoryStore()


DynamicTools = Tools[DepsT] | Callable[..., Tools[DepsT] | Awaitable[Tools[DepsT]]]


class AgentFields(TypedDict, total=False):
    """The arguments of `Agent` whose types do not depend on its dependencies."""

    id: str | None
    name: str | None
    description: str
    instructions: SystemInput | Callable[..., SystemInput | Awaitable[SystemInput]]
    model: Required[ModelConfig | Callable[..., ModelConfig | Awaitable[ModelConfig]]]
    request_context_schema: Any
    default_options: DefaultOptions | None
    store: RunStore | None
    abort_grace: float


class Agent(Generic[DepsT, OutputT]):
    """A model, its instructions and its tools, under a name.

    Agents are frozen; `replace(...)` gives a changed copy. Values marked *dynamic* may also be functions of the request
    context (sync or async), asked anew for each run.

    Args:
        id: Unique id; default: `name`.
        name: Display name; default: `id`.
        description: For people, and for supervisors that delegate to this agent.
        instructions: *Dynamic.* Text, a system message, or a list of these.
        model: *Dynamic.* `"provider/model"`, a record (`{"id": "provider/model", "url": ...}`) or a `LanguageModel`.
        tools: *Dynamic.* A list of tools and plain functions, or a dict whose keys are the names the model sees.
        deps: Live objects for tools (`ctx.deps`): a value, or a function of the request context that builds them for
            each run; what it builds is closed after the run if it is an async context manager.
        request_context_schema: Request values must fit it (a Pydantic model, dataclass or TypedDict).
        default_options: *Dynamic.* Options merged below those of each call.
        store: Where runs are kept; default: one store in memory per process.
        abort_grace: Seconds that running tools get after an abort.

    Raises:
        ConfigurationError: No model, or tools that cannot work.
    """

    __slots__ = ("_clock", "_default_options", "_definition", "_given", "_ids", "_store", "description", "id", "name")

    id: str
    name: str
    description: str
    _given: dict[str, Any]
    _definition: Definition
    _default_options: Any
    _store: RunStore
    _clock: Clock
    _ids: IdSource

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
    def __init__(
        self,
        *,
        id: str | None = None,
        name: str | None = None,
        description: str = "",
        instructions: SystemInput | Callable[..., SystemInput | Awaitable[SystemInput]] = "",
        model: ModelConfig | Callable[..., ModelConfig | Awaitable[ModelConfig]],
        tools: Any = (),
        deps: Any = UNSET,
        request_context_schema: Any = None,
        default_options: DefaultOptions | None = None,
        store: RunStore | None = None,
        abort_grace: float = 5.0,
    ) -> None:
        given = {key: value for key, value in locals().items() if key not in {"self", "__class__"}}
        named = id or name
        if not named:
            message = "An agent needs id= or name=."
            raise ConfigurationError(message, id="AGENT_CONSTRUCTOR_ID_REQUIRED", domain="AGENT")
        _check_model(model, named)
        box = tools if callable(tools) else Toolbox(tools)
        definition = Definition(
            id=named,
            name=name or named,
            model=model,
            instructions=instructions,
            tools=box,
            deps=deps,
            request_context_schema=request_context_schema,
            abort_grace=abort_grace,
        )
        defaults = default_options if callable(default_options) else normalise(default_options or {})
        fields: dict[str, Any] = {
            "id": named,
            "name": name or named,
            "description": description,
            "_given": given,
            "_definition": definition,
            "_default_options": defaults,
            "_store": store or _default_store,
            "_clock": SystemClock(),
            "_ids": RandomIds(),
        }
        for field, value in fields.items():
            object.__setattr__(self, field, value)

    def __setattr__(self, field: str, value: object) -> None:
        message = f"Agents are frozen; use agent.replace({field}=...) for a changed copy."
        raise AttributeError(message)

    def __repr__(self) -> str:
        return f"Agent(id={self.id!r})"

    def replace(self, **changes: Any) -> Agent[DepsT, OutputT]:
        """A copy with other constructor arguments; bound to no app."""
        return cast("Agent[DepsT, OutputT]", Agent(**{**self._given, **changes}))

    def _inside(self) -> tuple[Definition, Any, RunStore, Clock, IdSource]:
        definition = self._definition
        changed = overrides.get().get(id(self))
        return (
            replace(definition, resolved={}, **changed) if changed else definition,
            self._default_options,
            self._store,
            self._clock,
            self._ids,
        )

    # -- verbs -------------------------------------------------------------------------------------------------------

    async def generate(
        self, messages: Messages, *, deps: DepsT = UNSET, **options: Unpack[RunOptions]
    ) -> Result[OutputT]:
        """Run to the end and return the result.

        Cancelling the awaiting task aborts the run, waits up to `abort_grace` seconds for its tools, saves what there
        is and re-raises; a second cancellation does not wait.

        Args:
            messages: Text, a message, or a list of them; `result.messages` of an earlier run may be among them.
            deps: Instead of the agent's.
            **options: See `RunOptions`.

        Raises:
            TypeError: An unknown option, or a value of the wrong type.
            ConfigurationError: The definition, the options or the request context cannot work; nothing was sent.
            ModelError: The model call failed. Like every error after the start it carries `.result`, the full output.
        """
        started = await _Call(self, messages, deps, options).begin()
        try:
            result = await started.driver.output.get_full_output()
        except asyncio.CancelledError:
            await _abort(started)
            raise
        if result.error is not None:
            raise result.error
        return cast("Result[OutputT]", result)

    def stream(
        self, messages: Messages, *, deps: DepsT = UNSET, **options: Unpack[RunOptions]
    ) -> PendingStream[OutputT]:
        """Start a run and read it while it goes on: `await` the returned object, or enter it with `async with`.

        Either gives the `RunOutput` as soon as the run is prepared. Leaving it never stops the run.

        Args:
            messages: As for `generate`.
            deps: Instead of the agent's.
            **options: See `RunOptions`.

        Raises:
            TypeError: At once: an unknown option, or a value of the wrong type.
            ConfigurationError: When awaited: the run could not start.
        """
        return PendingStream(_Call(self, messages, deps, options))

    # -- sync twins --------------------------------------------------------------------------------------------------

    def generate_sync(
        self, messages: Messages, *, deps: DepsT = UNSET, **options: Unpack[RunOptions]
    ) -> Result[OutputT]:
        """`generate` for code without an event loop; also works inside Jupyter. Ctrl-C aborts the run."""
        return Portal.current().run(self.generate(messages, deps=deps, **options))

    def stream_sync(
        self, messages: Messages, *, deps: DepsT = UNSET, **options: Unpack[RunOptions]
    ) -> SyncRunOutput[OutputT]:
        """`stream` for code without an event loop: `for chunk in output.full_stream`, then `output.text`."""
        portal = Portal.current()
        return SyncRunOutput(portal, portal.run(_started(self.stream(messages, deps=deps, **options))))


class PendingStream(Generic[OutputT]):
    """A run that starts when this is awaited or entered, once."""

    __slots__ = ("_call", "_started")

    def __init__(self, call: _Call) -> None:
        self._call = call
        self._started: asyncio.Future[RunOutput[OutputT]] | None = None

    def __await__(self) -> Generator[Any, Any, RunOutput[OutputT]]:
        return self._start().__await__()

    async def __aenter__(self) -> RunOutput[OutputT]:
        return await self._start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Detach; the run goes on."""

    async def _start(self) -> RunOutput[OutputT]:
        if self._started is not None:
            return await asyncio.shield(self._started)
        done = self._started = asyncio.get_running_loop().create_future()
        try:
            started = await self._call.start()
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                done.cancel()
            else:
                done.set_exception(error)
                done.exception()  # the other waiters may be none
            raise
        done.set_result(cast("RunOutput[OutputT]", started.driver.output))
        return done.result()


class _Call:
    """One call of an agent: its arguments, checked when it is made, started at most once."""

    def __init__(self, agent: Agent[Any, Any], messages: Messages, deps: Any, options: Mapping[str, Any]) -> None:
        self._agent = agent
        self._messages = messages
        self._deps = deps
        self._given = normalise(options)
        _, defaults, *_ = agent._inside()  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 - one mechanism
        self._defaults: Any = defaults
        self._merged = self._given if callable(defaults) else merge(defaults, self._given)
        self._options = build_options(self._merged)

    async def start(self) -> Started:
        """Start the run and wait until it is prepared.

        Raises:
            TenutoError: It could not be prepared; it has ended.
        """
        started = await self.begin()
        try:
            await asyncio.shield(started.driver.prepared)
        except asyncio.CancelledError:
            await _abort(started)
            raise
        return started

    async def begin(self) -> Started:
        """Start the run.

        Raises:
            TenutoError: The request context does not fit its schema, or a dynamic option failed; there is no run.
        """
        run, store = await self._run()
        started = Supervisor.current().start(run, store)
        signal: AbortSignal | None = self._merged.get("abort_signal")
        if signal is not None:
            forget = signal.listen(lambda: started.driver.abort(signal.reason))
            started.task.add_done_callback(lambda _: forget())
        return started

    async def _run(self) -> tuple[Run, RunStore]:
        agent = self._agent
        definition, _, store, clock, ids = agent._inside()  # pyright: ignore[reportPrivateUsage] # noqa: SLF001
        given = self._merged.get("request_context")
        context = as_request_context(given)
        values = validated_values(definition.request_context_schema, context, given, agent.id)
        if callable(self._defaults):
            defaults: Mapping[str, Any] = normalise(await resolve(self._defaults, context) or {})
            self._merged = merge(defaults, self._given)
            self._options = build_options(self._merged)
        changed = overrides.get().get(id(agent), {})  # a test's parts win over the call's, too
        options = self._options
        if changed:
            options = replace(options, **{name: None for name in ("model", "instructions") if name in changed})
        run = Run(
            run_id=self._merged.get("run_id") or ids.new("run"),
            message_id=ids.new("msg"),
            definition=definition,
            options=options,
            messages=self._messages,
            request_context=context,
            clock=clock,
            ids=ids,
            call_deps=UNSET if "deps" in changed else self._deps,
            values=values,
        )
        return run, store


async def _started(pending: PendingStream[OutputT]) -> RunOutput[OutputT]:
    return await pending


async def _abort(started: Started) -> None:
    started.driver.abort("cancelled")
    await started.ended()


def _check_model(model: object, agent_id: str) -> None:
    if isinstance(model, (list, tuple)):
        if not model:
            message = f"Agent {agent_id!r}: the list of models is empty."
            raise ConfigurationError(message, id="AGENT_CONSTRUCTOR_MODEL_ARRAY_EMPTY", domain="AGENT")
        message = "Lists of fallback models are not built yet; give one model."
        raise TypeError(message)
    if not model:
        message = f"Agent {agent_id!r} needs model=, such as 'openai/gpt-5.6-sol' or 'local/smollm2'."
        raise ConfigurationError(message, id="AGENT_CONSTRUCTOR_MODEL_REQUIRED", domain="AGENT")
