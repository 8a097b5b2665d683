"""Executes `Prepare`: resolves what the agent leaves open until a call, and assembles the prompt.

Invariant: the order of a prompt is: agent's (or the call's) instructions, `system`, then `context`, then the input;
context is sent and never kept. What is resolved here is resolved once per run and process.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, cast

from tenuto.core.errors import ConfigurationError, TenutoError
from tenuto.core.foreign import contained
from tenuto.machine.records import Prepared
from tenuto.messages.input import MessageReader, system_turns
from tenuto.messages.turns import SystemTurn
from tenuto.steps.callbacks import resolve
from tenuto.steps.candidates import find_candidates, is_static
from tenuto.steps.run import UNSET
from tenuto.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from tenuto.steps.candidates import Candidate
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run


async def prepare(run: Run, log: RunLog) -> None:
    """Resolve the definition, assemble the prompt, record it.

    Raises:
        TenutoError: Something in the definition, the options or the messages cannot work; no model was called.
    """
    await bind(run)
    log.note(await _prepared(run))
    if not run.prompt.turns:
        message = "There is no message to answer; pass a string or a list with at least one user message."
        raise ConfigurationError(message, id="AGENT_NO_MESSAGES", domain="AGENT")


async def bind(run: Run) -> None:
    """Resolve model, tools and dependencies: the live objects, built again in each process that drives the run."""
    run.candidates = await _candidates(run)
    run.model = run.candidates[0].model
    run.toolbox = _toolbox(await _resolved(run.definition.tools, run.request_context))
    run.specs = _active(run)
    await _bind_deps(run)


async def _candidates(run: Run) -> tuple[Candidate, ...]:
    definition, given = run.definition, run.options.model
    owner = f"Agent {definition.id!r}"
    if given is not None:
        return await find_candidates(given, run.request_context, owner)
    known = definition.resolved.get("model")
    if known is None:
        known = await find_candidates(definition.model, run.request_context, owner)
        if is_static(definition.model):
            definition.resolved["model"] = known
    return known


async def _resolved(value: Any, context: object) -> Any:
    return value if not callable(value) else await resolve(value, context)


def _toolbox(given: Any) -> Toolbox:
    return given if isinstance(given, Toolbox) else Toolbox(given or ())


def _active(run: Run) -> Any:
    wanted = run.options.active_tools
    if wanted is not None and (missing := [name for name in wanted if name not in run.toolbox]):
        known = ", ".join(run.toolbox) or "none"
        message = f"active_tools names {', '.join(map(repr, missing))}; the agent's tools are: {known}."
        raise ConfigurationError(message, id="AGENT_ACTIVE_TOOL_UNKNOWN", domain="AGENT")
    return run.toolbox.specs(wanted)


async def _bind_deps(run: Run) -> None:
    given = run.definition.deps if run.call_deps is UNSET else run.call_deps
    if given is UNSET:
        return
    if not callable(given):
        run.deps = given
        return
    built = await resolve(given, run.request_context)
    if isinstance(built, AbstractAsyncContextManager):
        opened = cast("AbstractAsyncContextManager[Any]", built)
        with contained():
            built = await run.closing.enter_async_context(opened)
    run.deps = built


async def _prepared(run: Run) -> Prepared:
    options = run.options
    reader = MessageReader(run.ids, run.clock)
    context = reader.read(options.context) if options.context else []
    given = reader.read(run.messages)
    return Prepared((*await _instructions(run), *system_turns(options.system)), tuple(context), tuple(given))


async def _instructions(run: Run) -> tuple[SystemTurn, ...]:
    if run.options.instructions is not None:
        return system_turns(run.options.instructions)
    given = run.definition.instructions
    if not callable(given):
        return system_turns(given)
    turns = system_turns(await resolve(given, run.request_context))
    if not turns:
        message = f"The instructions function of agent {run.definition.id!r} returned nothing; return text."
        raise TenutoError(message, id="AGENT_GET_INSTRUCTIONS_FUNCTION_EMPTY_RETURN", domain="AGENT", category="USER")
    return turns
