"""Where the runs are: an app (`--app module:app`), or its store alone (`--store tenuto.db`).

Invariant: an app that is opened here recovers nothing by itself; it and its store are closed before the command ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from tenuto.agent import Agent
from tenuto.app import Tenuto
from tenuto.cli.imports import load
from tenuto.core.errors import ConfigurationError, RunError
from tenuto.durable import DurableAgent, create_durable_agent
from tenuto.models.ports import ModelRequest, Part
from tenuto.models.sessions import close_session
from tenuto.store import InMemoryStore, SQLiteStore
from tenuto.store.ports import ANYONE, RunRow

T = TypeVar("T")


class Place(Struct, frozen=True):
    """What a command line said: one of the two."""

    app: str | None = None
    store: Path | None = None

    @property
    def option(self) -> str:
        """The option that names it again."""
        return f"--app {self.app}" if self.app else f"--store {self.store}"

    @property
    def app_option(self) -> str:
        """The option for a command that needs the agents."""
        return f"--app {self.app or 'MODULE:APP'}"


def within(place: Place, work: Callable[[Tenuto], Awaitable[T]]) -> T:
    """Open the app, do `work` with it, and close it, on an event loop of its own.

    Raises:
        ConfigurationError: There is no such app or store.
    """
    app = _app_of(place)  # imported here: a module may use the event loop while it is imported
    app.recovery = "off"

    async def inside() -> T:
        try:
            async with app:
                return await work(app)
        finally:
            await close_session()

    return asyncio.run(inside())


def _app_of(place: Place) -> Tenuto:
    if place.app is not None:
        app = load(place.app, Tenuto, "app")
        if isinstance(app.store, InMemoryStore):
            message = (
                f"The app {place.app} keeps its runs in memory, so they end with each process; "
                "give it store=SQLiteStore(...)."
            )
            raise ConfigurationError(message, id="CLI_STORE_IN_MEMORY")
        return app
    assert place.store is not None  # noqa: S101 - the command has seen to it
    if not place.store.is_file():
        message = f"There is no store {place.store}; give the path of the file that the app's SQLiteStore has."
        raise ConfigurationError(message, id="CLI_STORE_NOT_FOUND")
    return Tenuto(agents={}, store=SQLiteStore(place.store), recovery="off")


async def known_run(app: Tenuto, run_id: str) -> RunRow:
    """The row of a run.

    Raises:
        RunError: There is none.
    """
    row = await app.store.run(run_id, resource=ANYONE)
    if row is None:
        message = f"There is no run {run_id!r} in this store; `tenuto runs list` shows what there is."
        raise RunError(message, id="CLI_RUN_NOT_FOUND", category="USER")
    return row


def durable_of(app: Tenuto, row: RunRow) -> DurableAgent[Any, Any]:
    """The agent that drives a run on.

    Raises:
        ConfigurationError: The app has no such agent, or it is not durable.
    """
    agent = app.get_agent_by_id(row.agent_id)
    if isinstance(agent, DurableAgent):
        return agent
    message = f"The agent {row.agent_id!r} of this app is not durable; set Agent(durable=True)."
    raise ConfigurationError(message, id="CLI_AGENT_NOT_DURABLE")


def stand_in(app: Tenuto, row: RunRow) -> DurableAgent[Any, Any]:
    """An agent that can follow and end the runs of `row`'s agent without its code; it can drive none on."""
    return create_durable_agent(Agent(id=row.agent_id, model=_Absent(), store=app.store))


class _Absent:
    """The model of an agent whose code is not here; to call it is a fault."""

    provider = "absent"
    model_id = "model"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[list[Part], None]:
        """Refuse."""
        del request
        message = "The command line has no agent for this run; it can only follow and end it."
        raise RunError(message, id="CLI_AGENT_ABSENT")
        yield []
