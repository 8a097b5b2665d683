"""One call of an agent: its arguments checked when it is made, its run started when it is awaited.

Invariant: a call starts at most one run, and whoever awaits or enters it gets the same output; leaving it never stops
the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import TypeVar

from tenuto.bus.ports import PubSub
from tenuto.core.abort import AbortSignal
from tenuto.core.errors import ConfigurationError, TenutoError
from tenuto.core.payloads import Json
from tenuto.core.request_context import RequestContext, as_request_context
from tenuto.machine.records import RunStarted
from tenuto.messages.input import Messages
from tenuto.persisted import persist, refuse_processors, restore, retyped, with_own_hooks
from tenuto.read_options import build_options, merge, normalise
from tenuto.runs import live
from tenuto.runs.observe import topic_of
from tenuto.runs.output import RunOutput
from tenuto.runs.replay import Host, Restored
from tenuto.runs.segments import Answer, answer_call, recover_run
from tenuto.runs.supervisor import Started, Supervisor
from tenuto.setup import Setup
from tenuto.steps.budget import budget_of
from tenuto.steps.callbacks import resolve
from tenuto.steps.definitions import memory_of
from tenuto.steps.run import UNSET, Options, Run
from tenuto.steps.values import validated_values
from tenuto.store.ports import ANYONE, Owner, RunRow, RunStore
from tenuto.structured.output import StructuredOutput, read_output

if TYPE_CHECKING:
    from tenuto.evals.scorer import Scorer
    from tenuto.memory.bound import RunMemory

OutputT = TypeVar("OutputT", default=str)


class AppServices(Struct, frozen=True):
    """What an app gives its agents.

    Attributes:
        deps: For those that have none of their own.
        scorers: By key and id.
        recover: Has a run recovered by whichever agent it belongs to; False when the app has none of its id.
    """

    app: Any
    store: RunStore
    bus: PubSub
    deps: Any = UNSET
    scorers: Mapping[str, Scorer] = {}
    recover: Callable[[RunRow], Awaitable[bool]] | None = None

    def wake(self, run_id: str, index: int) -> None:
        """Tell the viewers of a run that its log reaches `index`."""
        self.bus.publish(topic_of(run_id), index)


class Starting(Protocol):
    """Something that starts, or goes on with, a run."""

    async def begin(self) -> Started:
        """Start it."""
        ...

    async def start(self) -> Started:
        """Start it, and wait until there is something to read."""
        ...


_NOT_STARTED = (
    "stream() has not started yet: write `output = await agent.stream(...)`, or "
    "`async with agent.stream(...) as output`, then read output.full_stream or output.text_stream."
)


class PendingStream(Generic[OutputT]):
    """A run that starts when this is awaited or entered, once."""

    __slots__ = ("_call", "_started")

    def __init__(self, call: Starting) -> None:
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

    if not TYPE_CHECKING:  # to a type checker all of these are mistakes anyway

        def __aiter__(self) -> Any:
            raise TypeError(_NOT_STARTED)

        def __getattr__(self, name: str) -> Any:
            if hasattr(RunOutput, name):
                raise AttributeError(_NOT_STARTED)
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(message)

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


class Call:
    """A call of `generate` or `stream`."""

    def __init__(self, setup: Setup, messages: Messages, deps: Any, options: Mapping[str, Any]) -> None:
        self._setup = setup
        self._messages = messages
        self._deps = deps
        self._given = normalise(options)
        self._merged = self._given if callable(setup.defaults) else merge(setup.defaults, self._given)
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
            await cancelled(started)
            raise
        except TenutoError:
            await started.ended()
            raise
        return started

    async def begin(self) -> Started:
        """Start the run.

        Raises:
            TenutoError: The request context does not fit its schema, or a dynamic option failed; there is no run.
        """
        run, setup = await self._run(), self._setup
        started = Supervisor.current().start(run, setup.store, wake=setup.wake, settle=setup.settle)
        _listen(self._merged.get("abort_signal"), started)
        return started

    async def _run(self) -> Run:
        setup = self._setup
        given = self._merged.get("request_context")
        context = as_request_context(given)
        definition = setup.definition
        values = validated_values(definition.request_context_schema, context, given, definition.id)
        if callable(setup.defaults):
            self._merged = merge(normalise(await resolve(setup.defaults, context, definition.app) or {}), self._given)
            self._options = build_options(self._merged)
        memory = await _memory(setup, self._options, context)
        kept, fragile = options_kept(self._merged, refuse=setup.durable)
        lost = [f"request_context.{key}" for key in context.keys() - context.to_json().keys()]
        return Run(
            run_id=self._merged.get("run_id") or setup.ids.new("run"),
            message_id=setup.ids.new("msg"),
            definition=definition,
            options=_without(self._options, setup.changed),
            messages=self._messages,
            request_context=context,
            clock=setup.clock,
            ids=setup.ids,
            asked=self._merged if self._deps is UNSET else {**self._merged, "deps": self._deps},
            persisted=kept,
            call_deps=UNSET if "deps" in (setup.changed or ()) else self._deps,
            fragile=(*fragile, *sorted(lost), *_fragile_deps(setup, self._deps)),
            durable=setup.durable,
            steerable=not setup.durable,
            values=values,
            budget=budget_of(self._options.cost_limit, self._options.token_limit),
            memory=memory,
        )


async def _memory(setup: Setup, options: Options, context: RequestContext) -> RunMemory | None:
    """The thread of a call; nothing is imported for an agent without memory."""
    definition = setup.definition
    if definition.memory is None and options.memory is None:
        return None
    from tenuto.memory.bound import bind_memory

    memory = await memory_of(definition, context, setup.store)
    return bind_memory(memory, options.memory, context, setup.store, definition.id)


async def settle(setup: Setup, row: RunRow) -> bool:
    """See `Setup.settle`."""
    services = setup.slot.services
    if services is not None and services.recover is not None:
        return await services.recover(row)
    if row.agent_id != setup.definition.id:
        return False
    started = await recover_run(make_host(setup, {}, UNSET), row, wake=setup.wake, has_turn=True)
    await started.ended()
    return True


class Resumption:
    """An answer to a pending call."""

    def __init__(self, setup: Setup, run_id: str, answer: Answer, deps: Any, options: Mapping[str, Any]) -> None:
        self._setup = setup
        self._run_id = run_id
        self._answer = answer
        self._deps = deps
        self._given = normalise(options)
        build_options({**self._given, "max_steps": self._given.get("max_steps", 1)})

    async def start(self) -> Started:
        """Store the answer and drive the run on.

        Raises:
            RunError: See `Agent.resume_stream`.
        """
        return await self.begin()

    async def begin(self) -> Started:
        """See `start`."""
        host = make_host(self._setup, self._given, self._deps)
        started = await answer_call(host, self._run_id, self._answer, wake=self._setup.wake)
        _listen(self._given.get("abort_signal"), started)
        return started


def make_host(setup: Setup, given: Mapping[str, Any], deps: Any) -> Host:
    """What the agent of `setup` brings to a run that goes on, with the options `given` to this segment."""
    again = {**given, "deps": deps} if deps is not UNSET else given

    def options(begun: RunStarted) -> Restored:
        asked = live.asked_of(begun.run_id)
        if asked is not None:
            merged = merge(asked, again)
            if "deps" in (setup.changed or ()):
                merged.pop("deps", None)
            return Restored(_without(build_options(merged), setup.changed), merged)
        below, missing = restore(begun.options)
        below, missing = _typed(setup, below, missing)
        lost = dict.fromkeys((*begun.degraded, *missing))
        hooks = None if callable(setup.defaults) else setup.defaults.get("delegation")
        below, own = with_own_hooks(below, lost, hooks)
        degraded = tuple(name for name in lost if name not in own and not _given_again(name, again))
        return Restored(_without(build_options(merge(below, again)), setup.changed), None, degraded)

    return Host(
        definition=setup.definition,
        store=setup.store,
        clock=setup.clock,
        ids=setup.ids,
        durable=setup.durable,
        options=options,
        request_context=as_request_context(given.get("request_context")) if given else RequestContext(),
        deps=UNSET if "deps" in (setup.changed or ()) else deps,
        resource=_owner(given),
    )


def _given_again(name: str, again: Mapping[str, Any]) -> bool:
    """Whether the call that goes on brings what a name of `degraded` stands for."""
    if name.removesuffix(".model") in again:
        return True
    option, _, part = name.partition(".")
    return option == "delegation" and part in (again.get(option) or ())


def _owner(given: Mapping[str, Any]) -> Owner:
    """Whose run it must be, when the caller says so."""
    memory: Mapping[str, Any] = given.get("memory") or {}
    said: str | None = memory.get("resource")
    return ANYONE if said is None else said


def _typed(setup: Setup, below: dict[str, Any], missing: tuple[str, ...]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """With the type of the structured output, when it is that of the agent's default options."""
    own = None if callable(setup.defaults) else setup.defaults.get("structured_output")
    found = None if own is None else retyped(below, own)
    if found is None:
        return below, missing
    return found, tuple(name for name in missing if name != "structured_output")


def output_of(setup: Setup, begun: RunStarted, given: Mapping[str, Any]) -> StructuredOutput[Any] | None:
    """The structured output that a viewer of the run reads its object with; None leaves it plain JSON."""
    if "structured_output" in given:
        return read_output(given["structured_output"])
    driver, asked = live.driver_of(begun.run_id), live.asked_of(begun.run_id)
    if driver is not None:
        return driver.run.options.structured_output
    if asked is not None:
        return read_output(asked.get("structured_output"))
    below, _ = restore(begun.options)
    own = None if callable(setup.defaults) else setup.defaults.get("structured_output")
    found = None if own is None else retyped(below, own)
    return None if found is None else read_output(found["structured_output"])


def with_output(options: Mapping[str, Any], given: Any) -> Mapping[str, Any]:
    """The options with `structured_output`, if it was given: None, too, says something."""
    return options if given is UNSET else {**options, "structured_output": given}


async def cancelled(started: Started) -> None:
    """The caller's wait was cancelled: a plain run is aborted and waited for, a durable one goes on without it."""
    if not started.driver.run.durable:
        started.driver.abort("cancelled")
        await started.ended()


def options_kept(merged: Mapping[str, Any], *, refuse: bool) -> tuple[Json, tuple[str, ...]]:
    """The persisted form; of a plain run, which may never need it, a credential is left out instead of refused."""
    if refuse:
        refuse_processors(merged)
        # of a durable run it only looks on, like any other callback
        merged = {name: value for name, value in merged.items() if name != "on_iteration_complete"}
    given = merged.get("model")
    if refuse or given is None or isinstance(given, str):
        return persist(merged)
    kept, fragile = persist({name: value for name, value in merged.items() if name != "model"})
    return kept, (*fragile, "model")


def _fragile_deps(setup: Setup, given: Any) -> tuple[str, ...]:
    """Live objects given to a call are gone in another process, which takes the agent's.

    Raises:
        ConfigurationError: `DURABLE_OPTION_REFUSED`: a durable run's agent has none.
    """
    if given is UNSET:
        return ()
    if setup.durable and setup.definition.deps is UNSET:
        message = (
            f"deps= of this call cannot be built again in another process, and agent {setup.definition.id!r} has no "
            "deps= of its own; give the agent, or its app, a function that builds them."
        )
        raise ConfigurationError(message, id="DURABLE_OPTION_REFUSED")
    return ("deps",)


def _without(options: Options, changed: Mapping[str, Any] | None) -> Options:
    if not changed:
        return options
    return replace(options, **{name: None for name in ("model", "instructions") if name in changed})


def _listen(signal: AbortSignal | None, started: Started) -> None:
    if signal is not None:
        forget = signal.listen(lambda: started.driver.abort(signal.reason))
        started.task.add_done_callback(lambda _: forget())
