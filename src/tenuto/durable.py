"""`DurableAgent`: an agent whose runs outlive the process that started them.

Invariant: it is the wrapped agent with a journal that keeps: the same loop, the same options, the same output. A run
belongs to the id of the durable agent; another agent's runs are refused.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from typing_extensions import Unpack

from tenuto.agent import Agent
from tenuto.bus.ports import PubSub
from tenuto.calls import PendingStream, Resumption, make_host, output_of
from tenuto.core.errors import RunError, TenutoError
from tenuto.core.request_context import RequestContext
from tenuto.delegated import AgentDelegate
from tenuto.legacy import GENERATE, STREAM
from tenuto.read_options import build_options, normalise
from tenuto.runs import live
from tenuto.runs.listing import ActiveRuns, Recovered, RecoveredRun, list_active
from tenuto.runs.observe import Observer
from tenuto.runs.output import RunOutput
from tenuto.runs.replay import Host
from tenuto.runs.segments import Answer, end_run, find_run, recover_run
from tenuto.runs.supervisor import Started, Supervisor
from tenuto.setup import Setup
from tenuto.steps.callbacks import resolve
from tenuto.steps.run import UNSET
from tenuto.twins import DurableTwins

if TYPE_CHECKING:
    from tenuto.options import ResumeOptions

DepsT = TypeVar("DepsT")
OutputT = TypeVar("OutputT")

_log = logging.getLogger("tenuto")


class DurableAgent(Agent[DepsT, OutputT], DurableTwins[DepsT, OutputT]):
    """Made by `create_durable_agent`, which see.

    Attributes:
        agent: The agent it wraps.
    """

    __slots__ = ("_max_steps", "agent")

    agent: Agent[DepsT, OutputT]
    _max_steps: int | None

    def __init__(
        self,
        agent: Agent[DepsT, OutputT],
        *,
        id: str | None = None,
        name: str | None = None,
        max_steps: int | None = None,
    ) -> None:
        given = {**agent._given, "id": id or agent.id, "name": name or agent.name}  # noqa: SLF001 - our own base
        if max_steps is not None:
            for defaults in ("default_options", GENERATE, STREAM):
                given[defaults] = _below(given.get(defaults), max_steps)
        super().__init__(**cast("Any", given))
        base = self._base
        shared = Setup(base.definition, base.defaults, base.given_store, base.clock, base.ids, agent.slot, durable=True)
        object.__setattr__(self, "_base", shared)
        object.__setattr__(self, "agent", agent)
        object.__setattr__(self, "_max_steps", max_steps)

    def __repr__(self) -> str:
        return f"DurableAgent(id={self.id!r})"

    def replace(self, **changes: Any) -> DurableAgent[DepsT, OutputT]:
        """A durable copy with other constructor arguments of its agent; bound to no app."""
        kept = {"id": self.id, "name": self.name, **changes}
        return create_durable_agent(
            self.agent.replace(**changes),
            id=kept["id"],
            name=kept["name"],
            max_steps=self._max_steps,
        )

    def resume(
        self,
        run_id: str,
        resume_data: Any,
        *,
        tool_call_id: str | None = None,
        deps: DepsT = UNSET,
        **options: Unpack[ResumeOptions],
    ) -> PendingStream[Any]:
        """Answer a pending call and stream what follows; see `Agent.resume_stream`."""
        self._registered("resume")
        answer = Answer(data=resume_data, tool_call_id=tool_call_id)
        return PendingStream(Resumption(self.setup(), run_id, answer, deps, options))

    async def observe(
        self, run_id: str, *, offset: int | None = None, **options: Unpack[ResumeOptions]
    ) -> RunOutput[Any]:
        """Follow a run from the store, whoever drives it, in any process.

        Args:
            run_id: The run.
            offset: Index of the first event to show; None: all that is kept. `output.last_index + 1` of an earlier
                viewer goes on where that one was.
            **options: `close_on_suspend`, `on_chunk` and `structured_output` of `ResumeOptions`; the others belong to
                a driver.

        Raises:
            RunError: `DURABLE_AGENT_NOT_REGISTERED`, `DURABLE_AGENT_RUN_NOT_FOUND`, or another agent's run.
        """
        self._registered("observe")
        setup = self.setup()
        given = normalise(options)
        host = make_host(setup, {name: given[name] for name in ("memory",) if name in given}, UNSET)
        row = await _known(host, run_id)
        services = setup.slot.services
        supervisor = Supervisor.current()
        observer = Observer(
            setup.store,
            setup.clock,
            row,
            offset=offset or 0,
            bus=None if services is None else services.bus,
            close_on_suspend=bool(given.get("close_on_suspend", True)),
            output=RunOutput(run_id, "", lambda reason: self._abort_soon(run_id, reason), first_index=offset or 0),
            own=supervisor.own,
            typed=lambda first: output_of(setup, first, given),
        )
        observer.output.on_thread(row.thread_id, row.resource_id)
        observer.output.watch(given.get("on_chunk"))
        observer.output.on_cleanup(lambda: supervisor.clean_up(setup.store, run_id))
        observer.output.fed_by(observer)
        return observer.output

    async def recover(self, run_id: str, *, deps: DepsT = UNSET, **options: Unpack[ResumeOptions]) -> RunOutput[Any]:
        """Drive a run on whose process is gone; the output begins where the log ended.

        Raises:
            RunError: `DURABLE_AGENT_NOT_REGISTERED`, `DURABLE_AGENT_RECOVER_NOT_RUNNING`,
                `DURABLE_AGENT_RECOVER_LEASE_ACQUIRE_FAILED` (it is driven elsewhere),
                `DURABLE_AGENT_RECOVER_ALREADY_IN_PROGRESS` (it is driven here).
        """
        return (await self._recovering(run_id, deps, options)).driver.output

    async def recover_active_runs(
        self,
        *,
        run_id: str | None = None,
        limit: int = 100,
        created_before: float | None = None,
    ) -> Recovered:
        """Recover this agent's runs whose processes are gone, one after the other, until each has ended or waits.

        Args:
            run_id: Only this one; the filters do not apply.
            limit: At most so many.
            created_before: Only runs created before this time, in seconds since the epoch.
        """
        self._registered("recover_active_runs")
        if run_id is not None:
            return _summed([await self._recovered(run_id)])
        store = self.setup().store
        rows = [row for row in await store.recoverable(limit=10_000) if row.agent_id == self.id]
        wanted = [row for row in rows if created_before is None or (row.created_at or 0.0) < created_before]
        return _summed([await self._recovered(row.run_id) for row in wanted[:limit]])

    async def list_active_runs(self, *, per_page: int | None = None, page: int | None = None) -> ActiveRuns:
        """This agent's runs that are driven, or were when their process ended; newest first.

        Raises:
            ConfigurationError: `DURABLE_AGENT_LIST_ACTIVE_RUNS_INVALID_PER_PAGE` or `..._PAGE`.
        """
        self._registered("list_active_runs")
        return await list_active(self.setup().store, self.id, per_page=per_page, page=page)

    async def abort_run_stream(self, run_id: str, reason: str | None = None) -> bool:
        """Abort a run wherever it is driven; one that waits for a decision is ended here.

        Returns:
            False when the run has ended already.

        Raises:
            RunError: There is no such run of this agent.
        """
        setup = self.setup()
        host = make_host(setup, {}, UNSET)
        return await end_run(host, await _known(host, run_id), reason, wake=setup.wake)

    def _abort_soon(self, run_id: str, reason: object) -> None:
        driver = live.driver_of(run_id)
        if driver is not None:
            driver.abort(reason)
            return
        text = None if reason is None else str(reason)
        Supervisor.current().own(self.abort_run_stream(run_id, text), f"abort of {run_id}")

    async def _recovering(self, run_id: str, deps: Any, options: Mapping[str, Any]) -> Started:
        self._registered("recover")
        given = normalise(options)
        build_options({**given, "max_steps": given.get("max_steps", 1)})
        setup = self.setup()
        host = make_host(setup, given, deps)
        return await recover_run(host, await _known(host, run_id), wake=setup.wake)

    async def _recovered(self, run_id: str) -> RecoveredRun:
        try:
            started = await self._recovering(run_id, UNSET, {})
            result = await started.driver.output.get_full_output()
        except TenutoError as error:
            return RecoveredRun(run_id, "failed", str(error), error.id)
        if result.error is not None:
            return RecoveredRun(run_id, "failed", str(result.error), result.error.id)
        return RecoveredRun(run_id, "success")

    def _registered(self, method: str) -> None:
        slot = self.slot
        if slot.services is None and slot.own is None:
            raise not_registered(self.id, method)

    def delegate(self) -> AgentDelegate:
        """See `Agent.delegate`."""
        return AgentDelegate(self._base.overridden(id(self.agent), id(self)))

    def setup(self) -> Setup:
        """See `Agent.setup`."""
        setup = self._base.bound().overridden(id(self.agent), id(self))
        if setup.given_store is None and not self.slot.warned:
            self.slot.warned = True
            _log.warning(
                "Durable agent %r has no app and no store=: its runs end with this process. Register it with "
                "Tenuto(agents={...}, store=SQLiteStore('tenuto.db')), or give it a store=.",
                self.id,
            )
        return setup


def not_registered(agent_id: str, method: str) -> RunError:
    """The error of a durable method without a store that outlives the process."""
    message = (
        f"Agent {agent_id!r} is not registered, so {method}() has nothing to look into; register it with "
        "Tenuto(agents={...}, store=...), or give it a store=."
    )
    return RunError(message, id="DURABLE_AGENT_NOT_REGISTERED", category="USER")


def create_durable_agent(
    agent: Agent[DepsT, OutputT],
    *,
    id: str | None = None,
    name: str | None = None,
    max_steps: int | None = None,
) -> DurableAgent[DepsT, OutputT]:
    """Make an agent's runs outlive their process.

    Every step is stored before it is shown; a run whose process ended is driven on by another, and a tool that takes
    effect is not run twice. Register the result with an app (`Tenuto`), or give the agent a `store=`.

    Args:
        agent: The agent; the wrapper shares its app.
        id: Owner of the runs, if not the agent's id.
        name: Display name, if not the agent's.
        max_steps: Default step limit.
    """
    return DurableAgent(agent, id=id, name=name, max_steps=max_steps)


def _below(defaults: Any, max_steps: int) -> Any:
    """The agent's default options, with a step limit for where they give none."""
    if not callable(defaults):
        return {"max_steps": max_steps, **normalise(defaults or {})}

    async def asked(request_context: RequestContext) -> Mapping[str, Any]:
        return {"max_steps": max_steps, **normalise(await resolve(defaults, request_context) or {})}

    return asked


async def _known(host: Host, run_id: str) -> Any:
    row = await host.store.run(run_id, resource=host.resource)
    if row is None:
        message = f"There is no run {run_id!r} in the store."
        raise RunError(message, id="DURABLE_AGENT_RUN_NOT_FOUND", category="USER")
    return await find_run(host, run_id, host.resource)


def _summed(runs: list[RecoveredRun]) -> Recovered:
    good = sum(run.status == "success" for run in runs)
    return Recovered(tuple(runs), good, len(runs) - good)


__all__ = ["DurableAgent", "PubSub", "Recovered", "RecoveredRun", "create_durable_agent"]
