"""What a call needs of its agent: the definition, where its runs are kept, and what its app or a test puts in place.

Invariant: it is made with the agent and loads nothing that only a run needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from tenuto.core.errors import ConfigurationError
from tenuto.steps.definition import UNSET, Definition

if TYPE_CHECKING:
    from tenuto.calls import AppServices
    from tenuto.core.clock import Clock
    from tenuto.core.ids import IdSource
    from tenuto.store.ports import RunRow, RunStore

overrides: ContextVar[Mapping[int, Mapping[str, Any]]] = ContextVar("tenuto overrides", default={})  # noqa: B039
"""By `id(agent)`: what `tenuto.testing.override` puts in place of an agent's own model, tools, deps or instructions."""


@cache
def default_store() -> RunStore:
    """Where runs are kept that were given no other place; gone with the process."""
    from tenuto.store.memory import InMemoryStore

    return InMemoryStore()


class AppSlot:
    """The write-once place of an agent's app; a durable wrapper shares that of its agent.

    Attributes:
        own: The store the agent was given itself.
        warned: It was said that its runs are not as durable as somebody wanted.
    """

    __slots__ = ("own", "services", "warned")

    def __init__(self, own: RunStore | None = None) -> None:
        self.own: RunStore | None = own
        self.services: AppServices | None = None
        self.warned: bool = False

    def fill(self, services: AppServices) -> None:
        """Take the app's services.

        Raises:
            ConfigurationError: `AGENT_ALREADY_REGISTERED`: the agent belongs to another app.
        """
        if self.services is not None and self.services.app is not services.app:
            message = "This agent belongs to another Tenuto app; register agent.replace() with the second one."
            raise ConfigurationError(message, id="AGENT_ALREADY_REGISTERED")
        self.services = services


class Setup(Struct, frozen=True):
    """What a call needs of its agent.

    Attributes:
        given_store: Where its runs are kept; None: in the memory of this process.
        defaults: Normalised default options, or a function of the request context that gives some.
        durable: Whether its runs are kept from the start.
        wake: Told of every commit of a kept run.
        changed: What a test has put in place of the agent's own; it wins over the call's, too.
    """

    definition: Definition
    defaults: Any
    given_store: RunStore | None
    clock: Clock
    ids: IdSource
    slot: AppSlot
    durable: bool = False
    wake: Callable[[str, int], None] | None = None
    changed: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        """The id alone; see `Definition`."""
        return f"Setup({self.definition.id!r})"

    @property
    def store(self) -> RunStore:
        """Where its runs are kept."""
        return default_store() if self.given_store is None else self.given_store

    def bound(self) -> Setup:
        """With what the agent's app gives it."""
        services = self.slot.services
        if services is None:
            return self
        definition = replace(self.definition, app=services.app, app_scorers=services.scorers)
        if definition.deps is UNSET and services.deps is not UNSET:
            definition = replace(definition, deps=services.deps)
        return replace(self, definition=definition, given_store=services.store, wake=services.wake)

    async def settle(self, row: RunRow) -> bool:
        """Have a run recovered that stands before another one on its thread; False: its agent is not here."""
        from tenuto.calls import settle

        return await settle(self, row)

    def overridden(self, *keys: int) -> Setup:
        """With what `tenuto.testing.override` has put in place for the agents `keys`; the last one wins."""
        known = overrides.get()
        if not known:
            return self
        changed = {name: value for key in keys for name, value in known.get(key, {}).items()}
        if not changed:
            return self
        return replace(self, definition=replace(self.definition, resolved={}, **changed), changed=changed)
