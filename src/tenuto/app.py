"""`Tenuto`: wires agents to one store, and keeps what they left unfinished going.

Invariant: an agent belongs to one app; background work runs only between `start` and `aclose`, which drains, lets
durable runs go where they stand, and closes the store last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Self, cast

from tenuto.agent import Agent
from tenuto.bus import InProcessPubSub, PubSub
from tenuto.calls import AppServices, make_host
from tenuto.core.clock import Clock, SystemClock
from tenuto.core.errors import ConfigurationError, RunError, TenutoError
from tenuto.delegated import fill_delegates
from tenuto.durable import DurableAgent, create_durable_agent
from tenuto.evals.scorer import Scorer
from tenuto.machine.records import LOOP_VERSION
from tenuto.runs.recovery import RecoveryPolicy, sweep
from tenuto.runs.segments import recover_run
from tenuto.runs.supervisor import Supervisor
from tenuto.steps.functions import add_functions
from tenuto.steps.run import UNSET
from tenuto.store.memory import InMemoryStore
from tenuto.store.ports import RunRow, RunStore
from tenuto.store.scores import ScoreRow

_log = logging.getLogger("tenuto")


class Tenuto:
    """An app: agents by key, and what they share.

        async with Tenuto(agents={"support": agent}, store=SQLiteStore("tenuto.db")) as app:
            run = await app.get_agent("support").stream("…")

    Args:
        agents: By key; one with `durable=` set is wrapped.
        store: Where runs are kept; closed with the app. Without one they end with the process.
        recovery: `auto`: inside `async with`, runs whose processes are gone are driven on. `off`: only `recover()` and
            `recover_active_runs()` do that.
        functions: By name; options that hold one of them survive a restart.
        deps: Live objects for the tools of agents that have no `deps=` of their own; see there.
        pubsub: Carries wake-ups; default: within this process.
        scorers: By key; agents and calls may name them by key or id.

    Raises:
        ConfigurationError: An agent of another app, or two agents of one id.
    """

    def __init__(
        self,
        *,
        agents: Mapping[str, Agent[Any, Any]],
        store: RunStore | None = None,
        recovery: Literal["auto", "off"] = "auto",
        functions: Mapping[str, Callable[..., Any]] | None = None,
        deps: Any = UNSET,
        pubsub: PubSub | None = None,
        scorers: Mapping[str, Scorer] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(cast("object", agents), Mapping):
            message = 'agents= takes a mapping: Tenuto(agents={"support": agent}).'
            raise ConfigurationError(message)
        if isinstance(cast("object", store), (str, PathLike)):
            message = f"store= takes a store: SQLiteStore({str(store)!r})."
            raise ConfigurationError(message)
        self.store: RunStore = store or InMemoryStore()
        self.bus: PubSub = pubsub or InProcessPubSub()
        self.recovery: Literal["auto", "off"] = recovery
        self._clock = clock or SystemClock()
        self._agents = {key: _wrapped(agent) for key, agent in agents.items()}
        self._sweeping: asyncio.Task[Any] | None = None
        if store is None:
            self._say_nothing_lasts()
        self._check_ids()
        add_functions(functions or {})
        self._scorers = dict(scorers or {})
        by_name = {**{scorer.id: scorer for scorer in self._scorers.values()}, **self._scorers}
        services = AppServices(self, self.store, self.bus, deps, by_name, self._settle)
        for agent in self._agents.values():
            agent.slot.fill(services)
            fill_delegates(agent.setup().definition.agents, services)
            agent.bind_memory(self.store)

    def get_agent(self, key: str) -> Agent[Any, Any]:
        """The agent registered under `key`, the durable wrapper when there is one.

        Raises:
            ConfigurationError: `AGENT_NOT_FOUND`; it names the known keys.
        """
        if key not in self._agents:
            known = ", ".join(map(repr, self._agents)) or "none"
            raise ConfigurationError(f"There is no agent {key!r}; known: {known}.", id="AGENT_NOT_FOUND")
        return self._agents[key]

    def get_agent_by_id(self, agent_id: str) -> Agent[Any, Any]:
        """The agent with this id.

        Raises:
            ConfigurationError: `AGENT_NOT_FOUND`; it names the known ids.
        """
        for agent in self._agents.values():
            if agent.id == agent_id:
                return agent
        known = ", ".join(repr(agent.id) for agent in self._agents.values()) or "none"
        raise ConfigurationError(f"There is no agent with the id {agent_id!r}; known: {known}.", id="AGENT_NOT_FOUND")

    def list_scorers(self) -> Mapping[str, Scorer]:
        """The scorers of the app, by key."""
        return dict(self._scorers)

    def get_scorer(self, key: str) -> Scorer:
        """The scorer registered under `key`.

        Raises:
            ConfigurationError: `SCORER_NOT_FOUND`; it names the known keys.
        """
        return self._scorer(self._scorers, key, "key")

    def get_scorer_by_id(self, scorer_id: str) -> Scorer:
        """The scorer with this id.

        Raises:
            ConfigurationError: `SCORER_NOT_FOUND`; it names the known ids.
        """
        return self._scorer({scorer.id: scorer for scorer in self._scorers.values()}, scorer_id, "id")

    def _scorer(self, scorers: Mapping[str, Scorer], name: str, what: str) -> Scorer:
        if name not in scorers:
            known = ", ".join(map(repr, scorers)) or "none"
            message = f"There is no scorer with the {what} {name!r}; known: {known}."
            raise ConfigurationError(message, id="SCORER_NOT_FOUND")
        return scorers[name]

    async def list_scores(
        self,
        *,
        resource: str | None = None,
        run_id: str | None = None,
        scorer_id: str | None = None,
        agent_id: str | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> list[ScoreRow]:
        """Stored scores, the one stored last first.

        Args:
            resource: The owner of the runs; None: runs that have none.
            run_id: Only those of this run.
            scorer_id: Only those of this scorer.
            agent_id: Only those of this agent's runs.
            offset: How many to pass over.
            limit: At most so many.
        """
        return await self.store.scores(
            resource=resource, run_id=run_id, scorer_id=scorer_id, entity_id=agent_id, offset=offset, limit=limit
        )

    async def start(self) -> None:
        """Begin background work: with `recovery="auto"`, take up what other processes left."""
        if self.recovery == "auto" and self._sweeping is None:
            mine = frozenset(agent.id for agent in self._agents.values() if isinstance(agent, DurableAgent))
            policy = RecoveryPolicy(self.store, self._clock, LOOP_VERSION, mine, self._recover)
            self._sweeping = Supervisor.current().own(sweep(policy), "recovery")

    async def aclose(self) -> None:
        """End background work, abort plain runs, let durable ones go where they stand, then close the store."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
            self._sweeping = None
        await Supervisor.current().aclose()
        await self.store.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _recover(self, row: RunRow) -> None:
        """Take one run up, if its agent is one of ours; returns when it has ended or waits."""
        agent = next((agent for agent in self._agents.values() if agent.id == row.agent_id), None)
        if agent is None:
            return
        setup = agent.setup()
        try:
            started = await recover_run(make_host(setup, {}, UNSET), row, wake=setup.wake)
            await started.driver.output.consume_stream()
        except RunError as error:
            _log.info("Run %s was not recovered: %s", row.run_id, error)
        except TenutoError:
            _log.exception("Recovering run %s failed.", row.run_id)

    async def _settle(self, row: RunRow) -> bool:
        """Have a run recovered whose thread somebody has the turn of; see `AppServices.recover`."""
        agent = next((agent for agent in self._agents.values() if agent.id == row.agent_id), None)
        if agent is None:
            return False
        setup = agent.setup()
        started = await recover_run(make_host(setup, {}, UNSET), row, wake=setup.wake, has_turn=True)
        await started.ended()
        return True

    def _say_nothing_lasts(self) -> None:
        durable = [agent.id for agent in self._agents.values() if isinstance(agent, DurableAgent)]
        if not durable:
            _log.info("This app has no store=: its runs end with this process.")
            return
        _log.warning(
            "This app has no store=, so the runs of %s end with this process, durable or not; pass "
            "Tenuto(store=SQLiteStore('tenuto.db')), or store=InMemoryStore() if that is meant.",
            ", ".join(map(repr, durable)),
        )

    def _check_ids(self) -> None:
        seen: dict[str, str] = {}
        for key, agent in self._agents.items():
            if agent.id in seen:
                message = f"The agents {seen[agent.id]!r} and {key!r} have one id, {agent.id!r}; give one another id=."
                raise ConfigurationError(message, id="AGENT_ID_TAKEN")
            seen[agent.id] = key


def _wrapped(agent: Agent[Any, Any]) -> Agent[Any, Any]:
    if isinstance(agent, DurableAgent) or not agent.durable:
        return agent
    return create_durable_agent(agent, **(agent.durable if isinstance(agent.durable, Mapping) else {}))
