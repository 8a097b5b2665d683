"""An agent as others delegate to it: the runs that a supervisor's calls start, and what they need to go on.

Invariant: a delegation changes nothing of the agent; a child run has the agent's own definition and default options,
and of its supervisor what the call gives it: the prompt, further instructions, messages, request values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tenuto.calls import make_host, options_kept
from tenuto.core.request_context import RequestContext
from tenuto.messages.input import SystemInput, system_turns
from tenuto.read_options import build_options, merge, normalise
from tenuto.runs.children import adopted
from tenuto.setup import Setup
from tenuto.steps.callbacks import resolve
from tenuto.steps.definitions import instructions_of
from tenuto.steps.delegation import OWN_KEYS
from tenuto.steps.run import UNSET, Run
from tenuto.steps.sub_memory import sub_memory
from tenuto.steps.values import validated_values

if TYPE_CHECKING:
    from tenuto.calls import AppServices
    from tenuto.runs.replay import Host
    from tenuto.steps.ports import Brief


def fill_delegates(agents: Any, services: AppServices) -> None:
    """Bind the agents that others delegate to, at every depth.

    One of another app stays there: a delegation is within the app of its supervisor, whosever the agent is.
    """
    if agents is None or callable(agents):
        return
    for agent in agents.values():
        if agent.slot.services is None:
            agent.slot.fill(services)
            fill_delegates(agent.setup().definition.agents, services)


class AgentDelegate:
    """See `runs.children.Delegate`.

    Args:
        setup: Of the agent, as of now, without what its app gives it.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    async def child_run(self, parent: Run, child_id: str, brief: Brief) -> Run:
        """See `Delegate.child_run`."""
        return await _child_run(self._setup, parent, child_id, brief)

    def child_host(self, parent: Run) -> Host:
        """See `Delegate.child_host`."""
        return _child_host(self._setup, parent)


async def _child_run(setup: Setup, parent: Run, child_id: str, brief: Brief) -> Run:
    """A run of the agent of `setup` for `brief`, not started.

    Raises:
        TenutoError: The request values do not fit the agent's schema, or a function of the agent failed.
    """
    setup = _within(setup, parent)
    definition, context = setup.definition, brief.request_context
    values = validated_values(definition.request_context_schema, context, None, definition.id)
    defaults = setup.defaults
    if callable(defaults):
        defaults = normalise(await resolve(defaults, context, definition.app) or {})
    merged = merge(defaults, await _given(setup, defaults, brief))
    kept, fragile = options_kept(merged, refuse=False)
    memory = await sub_memory(parent, definition, context, brief.key, child_id)
    run = Run(
        run_id=child_id,
        message_id=setup.ids.new("msg"),
        definition=definition,
        options=build_options(merged),
        messages=brief.prompt,
        request_context=context,
        clock=parent.clock,
        ids=setup.ids,
        asked=merged,
        persisted=kept,
        fragile=fragile,
        durable=parent.durable,
        steerable=parent.steerable,
        values=values,
        memory=memory,
    )
    return adopted(run, parent)


def _child_host(setup: Setup, parent: Run) -> Host:
    """What the agent of `setup` brings to a child of `parent` that goes on in this process."""
    host = make_host(_within(setup, parent), {}, UNSET)
    own = RequestContext({key: value for key, value in parent.request_context.entries() if key not in OWN_KEYS})
    return replace(host, request_context=own, durable=not parent.steerable)


def _within(setup: Setup, parent: Run) -> Setup:
    """A delegation is within the app of its supervisor; of another app the agent has nothing then."""
    app, services = parent.definition.app, setup.slot.services
    if services is not None and services.app is app:
        return setup.bound()
    return replace(setup, definition=replace(setup.definition, app=app))


async def _given(setup: Setup, defaults: Mapping[str, Any], brief: Brief) -> dict[str, Any]:
    given: dict[str, Any] = {"context": list(brief.context)}
    if brief.instructions is not None:
        own = defaults.get("instructions")
        if own is None:
            own = await instructions_of(setup.definition, brief.request_context)
        given["instructions"] = _longer(own, brief.instructions)
    if brief.max_steps is not None:
        given["max_steps"] = brief.max_steps
    elif brief.wanted_steps is not None:
        given["max_steps"] = min(brief.wanted_steps, defaults.get("max_steps") or brief.wanted_steps)
    return given


def _longer(own: SystemInput, more: str) -> Any:
    """The agent's instructions, and `more` behind them."""
    if isinstance(own, str):
        return f"{own}\n\n{more}" if own else more
    return [*system_turns(own), more]
