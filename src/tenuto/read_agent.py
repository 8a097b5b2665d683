"""The arguments of `Agent`, read: their defaults, what is refused, and the definition they make.

Invariant: what can be wrong with an agent before any of its functions is asked is refused here.

A new argument: its type in `tenuto.agent_fields`, its line in the docstring of `Agent`, its default in `DEFAULTS`; one
that a run needs is a field of `Definition`, too, and gets there by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from tenuto.core.errors import ConfigurationError
from tenuto.legacy import read_defaults
from tenuto.steps.definition import UNSET, Definition
from tenuto.tools.tool import Tool
from tenuto.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from tenuto.store.ports import RunStore

DEFAULTS: Mapping[str, Any] = {
    "id": None,
    "name": None,
    "description": "",
    "metadata": None,
    "instructions": "",
    "model": "",
    "tools": (),
    "agents": None,
    "deps": UNSET,
    "request_context_schema": None,
    "default_options": None,
    "default_generate_options_legacy": None,
    "default_stream_options_legacy": None,
    "require_tool_approval": False,
    "hooks": None,
    "transform": None,
    "input_processors": None,
    "output_processors": None,
    "error_processors": None,
    "max_processor_retries": None,
    "scorers": None,
    "memory": None,
    "durable": False,
    "store": None,
    "abort_grace": 5.0,
    "max_retries": UNSET,
}
"""Every argument of `Agent`."""


def read_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments, those that are left out with their defaults.

    Raises:
        TypeError: There is an unknown one, with what to write; or default options that are none.
        ConfigurationError: One that cannot work.
    """
    for name in given.keys() - DEFAULTS.keys():
        from tenuto.misplaced import unknown_argument
        from tenuto.read_options import OPTIONS

        raise unknown_argument(name, DEFAULTS, OPTIONS)
    for name, check in _CHECKS.items():
        if (value := given.get(name)) is not None and not callable(value):
            check(value)
    arguments = {**DEFAULTS, **given}
    if arguments["memory"] is not None:
        _stores(arguments)
    return arguments


def definition_of(arguments: Mapping[str, Any]) -> Definition:
    """What a driver sees of an agent.

    Raises:
        ConfigurationError: It has no id, no model, or tools that cannot work.
    """
    named = arguments["id"] or arguments["name"]
    if not named:
        raise ConfigurationError("An agent needs id= or name=.", id="AGENT_CONSTRUCTOR_ID_REQUIRED", domain="AGENT")
    _check_model(arguments["model"], named)
    made = {name: read(arguments[name]) for name, read in _MADE.items()}
    own = {name: arguments[name] for name in Definition.__struct_fields__ if name in arguments}
    return Definition(**{**own, "id": named, "name": arguments["name"] or named, **made})


def store_of(memory: Any) -> RunStore | None:
    """The store that a memory was given itself: its agent's runs are kept there, too."""
    return getattr(memory, "own_store", None)


def unbound(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments for another agent: its memory may be bound to another app."""
    memory = arguments["memory"]
    return {**arguments, "memory": memory.copy() if hasattr(memory, "own_store") else memory}


def _memory(memory: Any) -> None:
    if not hasattr(memory, "own_store"):
        kind = type(memory).__name__
        message = f"memory= takes a Memory or a function of the request context that returns one, not {kind}."
        raise ConfigurationError(message, id="AGENT_MEMORY_INVALID", domain="AGENT")


def _stores(arguments: Mapping[str, Any]) -> None:
    """A run and its thread are written together."""
    memory = arguments["memory"]
    if arguments["store"] is not None and store_of(memory) is not None:
        memory.bind(arguments["store"])


def _toolbox(tools: Any) -> Any:
    if isinstance(tools, Tool):
        message = f"tools= takes a list or a dict: write tools=[{tools.id}]."
        raise ConfigurationError(message, id="AGENT_TOOLS_INVALID", domain="AGENT")
    return tools if callable(tools) else Toolbox(tools)


def _agents(agents: Any) -> Any:
    """None, which costs a run nothing, when there are none."""
    if agents is None:
        return None
    from tenuto.steps.delegates import check_agents, delegation_tools

    if not callable(agents) and not check_agents(agents):
        return None
    if not callable(agents):
        delegation_tools(agents)
    return agents


def _retries(given: Any) -> int | None:
    if given is UNSET or given is None:
        return None
    from tenuto.models.settings import check_retries

    return check_retries(given)


def _check_hooks(given: Any) -> None:
    from tenuto.tools.hooks import read_hooks

    read_hooks(given)


def _check_transform(given: Any) -> None:
    from tenuto.tools.transform import read_policy

    read_policy(given)


def _check_list(name: str) -> Callable[[Any], None]:
    def check(given: Any) -> None:
        from tenuto.processors.chain import read_processors

        read_processors(given, name)

    return check


def _check_limit(given: Any) -> None:
    from tenuto.read_options import not_negative

    not_negative(given, "max_processor_retries")


def _check_model(given: Any, agent_id: str) -> None:
    """The shape of `model=`; nothing is resolved.

    Raises:
        ConfigurationError: `AGENT_CONSTRUCTOR_MODEL_REQUIRED`, `AGENT_CONSTRUCTOR_MODEL_ARRAY_EMPTY`; or as
            `check_models`.
    """
    if isinstance(given, (list, tuple)):
        if not given:
            message = f"Agent {agent_id!r}: the list of models is empty."
            raise ConfigurationError(message, id="AGENT_CONSTRUCTOR_MODEL_ARRAY_EMPTY", domain="AGENT")
        from tenuto.steps.candidates import check_models

        check_models(cast("Sequence[Any]", given), f"Agent {agent_id!r}")
    elif not given:
        message = f"Agent {agent_id!r} needs model=, such as 'openai/gpt-5-mini' or 'local/smollm2'."
        raise ConfigurationError(message, id="AGENT_CONSTRUCTOR_MODEL_REQUIRED", domain="AGENT")


def _check_scorers(given: Any) -> None:
    from tenuto.evals.declared import read_scorers

    read_scorers(given)


_CHECKS: Mapping[str, Callable[[Any], object]] = {
    "hooks": _check_hooks,
    "transform": _check_transform,
    **{name: _check_list(name) for name in ("input_processors", "output_processors", "error_processors")},
    "max_processor_retries": _check_limit,
    "scorers": _check_scorers,
    "memory": _memory,
    "default_generate_options_legacy": read_defaults,
    "default_stream_options_legacy": read_defaults,
}
"""What is checked, unless it is a function that gives it later, and kept as it is; what checks it is loaded then."""

_MADE: Mapping[str, Callable[[Any], Any]] = {"agents": _agents, "tools": _toolbox, "max_retries": _retries}
"""Fields of `Definition` that are made of their arguments."""
