"""What an agent's definition gives for the values of one request: the same for a run and for who asks the agent.

Invariant: a function of the definition is asked once for each call here; models that are the same for every run are
resolved once per definition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tenuto.core.errors import ConfigurationError, TenutoError
from tenuto.messages.input import SystemInput, system_turns
from tenuto.steps.callbacks import resolve
from tenuto.steps.candidates import find_candidates, is_static
from tenuto.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from tenuto.core.request_context import RequestContext
    from tenuto.memory.memory import Memory
    from tenuto.steps.candidates import Candidate
    from tenuto.steps.run import Definition
    from tenuto.store.ports import RunStore


async def instructions_of(definition: Definition, context: RequestContext) -> SystemInput:
    """The instructions as they were given.

    Raises:
        TenutoError: `AGENT_GET_INSTRUCTIONS_FUNCTION_EMPTY_RETURN`.
    """
    given = definition.instructions
    if not callable(given):
        return cast("SystemInput", given)
    found = await resolve(given, context, definition.app)
    if not system_turns(found):
        message = f"The instructions function of agent {definition.id!r} returned nothing; return text."
        raise TenutoError(message, id="AGENT_GET_INSTRUCTIONS_FUNCTION_EMPTY_RETURN", domain="AGENT", category="USER")
    return cast("SystemInput", found)


async def candidates_of(definition: Definition, context: RequestContext, given: Any = None) -> tuple[Candidate, ...]:
    """The models in the order in which they are asked; of `given` (a call's `model=`) when it is not None.

    Raises:
        ConfigurationError: See `find_candidates`.
    """
    owner = f"Agent {definition.id!r}"
    if given is not None:
        return await find_candidates(given, context, owner)
    known = definition.resolved.get("model")
    if known is None:
        known = await find_candidates(definition.model, context, owner)
        if is_static(definition.model):
            definition.resolved["model"] = known
    return known


async def toolbox_of(definition: Definition, context: RequestContext) -> Toolbox:
    """The agent's own tools.

    Raises:
        ConfigurationError: See `Toolbox`.
    """
    given = await resolve(definition.tools, context, definition.app)
    return given if isinstance(given, Toolbox) else Toolbox(given or ())


async def memory_of(definition: Definition, context: RequestContext, store: RunStore) -> Memory | None:
    """The agent's memory, keeping its threads in `store`; None when it has none.

    Raises:
        TenutoError: `AGENT_GET_MEMORY_FUNCTION_EMPTY_RETURN`.
        ConfigurationError: `AGENT_MEMORY_INVALID`; `MEMORY_STORE_CONFLICT`.
    """
    given = definition.memory
    if given is None:
        return None
    from tenuto.memory.memory import Memory

    found = given if isinstance(given, Memory) else await resolve(given, context, definition.app)
    if found is None:
        message = f"The memory function of agent {definition.id!r} returned nothing; return a Memory."
        raise TenutoError(message, id="AGENT_GET_MEMORY_FUNCTION_EMPTY_RETURN", domain="AGENT", category="USER")
    if not isinstance(found, Memory):
        message = f"memory= of agent {definition.id!r} takes a Memory or a function of one, not {type(found).__name__}."
        raise ConfigurationError(message, id="AGENT_MEMORY_INVALID", domain="AGENT")
    found.bind(store)
    return found
