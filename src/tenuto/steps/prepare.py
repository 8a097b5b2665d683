"""Executes `Prepare`: resolves what the agent leaves open until a call, and assembles the prompt.

Invariant: the order of a prompt is: agent's (or the call's) instructions, `system`, then `context`, then the input;
context is sent and never kept. What is resolved here is resolved once per run and process.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, cast

from tenuto.core.errors import ConfigurationError, TenutoError
from tenuto.machine.records import Prepared
from tenuto.messages.convert import to_turns
from tenuto.messages.input import MessageReader, system_turns
from tenuto.messages.turns import Prompt, SystemTurn
from tenuto.models.resolve import resolve_model
from tenuto.steps.callbacks import resolve
from tenuto.steps.run import UNSET
from tenuto.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run


async def prepare(run: Run, log: RunLog) -> None:
    """Resolve the definition, assemble the prompt, record it.

    Raises:
        TenutoError: Something in the definition, the options or the messages cannot work; no model was called.
    """
    await bind(run)
    await _assemble(run)
    await log.commit(Prepared(run.prompt.system, tuple(run.prompt.turns)))


async def bind(run: Run) -> None:
    """Resolve model, tools and dependencies: the live objects, built again in each process that drives the run."""
    definition, options = run.definition, run.options
    context = run.request_context
    run.model = resolve_model(await _resolved(definition.model if options.model is None else options.model, context))
    run.toolbox = _toolbox(await _resolved(definition.tools, context))
    run.specs = _active(run)
    await _bind_deps(run)


async def _resolved(value: Any, context: object) -> Any:
    return value if not callable(value) or hasattr(value, "stream") else await resolve(value, context)


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
        built = await run.closing.enter_async_context(opened)
    run.deps = built


async def _assemble(run: Run) -> None:
    options = run.options
    reader = MessageReader(run.ids, run.clock)
    run.context = reader.read(options.context) if options.context else []
    run.input = reader.read(run.messages)
    own = await _instructions(run)
    turns = to_turns([*run.context, *run.input])
    run.input_turns = tuple(to_turns(run.input))
    said = tuple(turn for turn in turns if isinstance(turn, SystemTurn))
    run.prompt = Prompt(
        (*own, *system_turns(options.system), *said), [turn for turn in turns if not isinstance(turn, SystemTurn)]
    )
    if not run.prompt.turns:
        message = "There is no message to answer; pass a string or a list with at least one user message."
        raise ConfigurationError(message, id="AGENT_NO_MESSAGES", domain="AGENT")


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
