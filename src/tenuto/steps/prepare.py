"""Executes `Prepare`: resolves what the agent leaves open until a call, and assembles the prompt.

Invariant: the order of a prompt is: agent's (or the call's) instructions, `system`, working memory; then the thread's
history, `context` and the input; context is sent and never kept. What is resolved here is resolved once per run and
process.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, cast

from tenuto.core.errors import ConfigurationError
from tenuto.core.foreign import contained
from tenuto.machine.records import Prepared
from tenuto.messages.input import MessageReader, system_turns
from tenuto.models.resolve import resolve_model
from tenuto.processors.tripwire import Tripwire
from tenuto.steps.callbacks import resolve
from tenuto.steps.definitions import candidates_of, instructions_of, toolbox_of
from tenuto.steps.delegates import with_delegates
from tenuto.steps.incoming import take_results
from tenuto.steps.inputs import attentive
from tenuto.steps.processing import bind_processors, block
from tenuto.steps.run import UNSET
from tenuto.steps.scoring import bind_scorers
from tenuto.steps.veil import Veil
from tenuto.structured.modes import Fitting
from tenuto.structured.output import OWN_MODEL
from tenuto.tools.client import client_tools
from tenuto.tools.hooks import NO_HOOKS, Hooks, read_hooks
from tenuto.tools.toolbox import Toolbox, sanitised
from tenuto.tools.transform import over, read_policy

if TYPE_CHECKING:
    from tenuto.messages.turns import SystemTurn
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run


async def prepare(run: Run, log: RunLog) -> None:
    """Resolve the definition, assemble the prompt, record it.

    Raises:
        TenutoError: Something in the definition, the options or the messages cannot work; no model was called.
    """
    await bind(run)
    try:
        record = await _prepared(run, log)
    except Tripwire as tripwire:
        await block(run, log, tripwire)
        return
    log.note(record)
    if not run.prompt.turns:
        message = "There is no message to answer; pass a string or a list with at least one user message."
        raise ConfigurationError(message, id="AGENT_NO_MESSAGES", domain="AGENT")


async def bind(run: Run) -> None:
    """Resolve model, tools and dependencies: the live objects, built again in each process that drives the run."""
    run.candidates = await candidates_of(run.definition, run.request_context, run.options.model)
    run.model = run.candidates[0].model
    _bind_output(run)
    run.own_tools = await _whole_toolbox(run)
    offer_tools(run, run.own_tools, run.options.active_tools)
    run.hooks = await _hooks(run)
    run.veil = await _veil(run)
    await bind_processors(run)
    await bind_scorers(run)
    await _bind_deps(run)


def _bind_output(run: Run) -> None:
    output = run.options.structured_output
    if output is None:
        return
    run.fitting = Fitting(output)
    if output.model is not None:
        run.structuring = run.model if output.model is OWN_MODEL else resolve_model(output.model)


async def _whole_toolbox(run: Run) -> Toolbox:
    """The agent's tools, then the call's: of one name, a client tool wins over a toolset's, which wins over ours."""
    options = run.options
    box = await toolbox_of(run.definition, run.request_context)
    if run.definition.agents is not None:
        box = await with_delegates(run.definition, run.request_context, box)
    if run.memory is not None and run.memory.memory is not None:
        box = box.with_more(run.memory.memory.tools_of(run.memory.config))
    if options.toolsets is not None and (groups := await _dynamic(run, options.toolsets)):
        box = box.with_more(sanitised(_mapping(groups, "toolsets"), "toolsets"))
    if options.client_tools is not None and (clients := await _dynamic(run, options.client_tools)):
        box = box.with_more(client_tools(clients, box))
    return box


async def _hooks(run: Run) -> Hooks:
    own, given = run.definition.hooks, run.options.hooks
    if own is None and given is None:
        return NO_HOOKS
    return read_hooks(await _dynamic(run, given), read_hooks(await _dynamic(run, own)))


async def _veil(run: Run) -> Veil | None:
    """What covers payloads; None, which costs nothing, where no transform is given."""
    own, given = run.definition.transform, run.options.transform
    policy = None
    if own is not None or given is not None:
        agent = read_policy(await _dynamic(run, own))
        policy = over(read_policy(await _dynamic(run, given)), agent)
    if policy is None and not any(tool.transforms for tool in run.toolbox.values()):
        return None
    return Veil(policy, run.toolbox)


async def _dynamic(run: Run, value: Any) -> Any:
    return await resolve(value, run.request_context, run.definition.app)


def _mapping(given: object, option: str) -> Any:
    if not isinstance(given, Mapping):
        message = f"{option}= takes a dict of groups of tools by name, not {type(given).__name__}."
        raise ConfigurationError(message)
    return cast("Mapping[str, Any]", given)


def offer_tools(run: Run, toolbox: Toolbox, wanted: tuple[str, ...] | None) -> None:
    """Offer these tools of `toolbox` in the steps that follow.

    Raises:
        ConfigurationError: `AGENT_ACTIVE_TOOL_UNKNOWN`: `wanted` names one that is not there.
    """
    if wanted is not None and (missing := [name for name in wanted if name not in toolbox]):
        known = ", ".join(toolbox) or "none"
        message = f"active_tools names {', '.join(map(repr, missing))}; the agent's tools are: {known}."
        raise ConfigurationError(message, id="AGENT_ACTIVE_TOOL_UNKNOWN", domain="AGENT")
    offer = toolbox.offer(wanted)
    run.toolbox, run.specs, run.provider_tools = toolbox, offer.specs, offer.provider
    run.attentive = attentive(toolbox)
    if run.veil is not None:
        run.veil.use(toolbox)
    elif toolbox is not run.own_tools and any(tool.transforms for tool in toolbox.values()):
        run.veil = Veil(None, toolbox)


async def _bind_deps(run: Run) -> None:
    given = run.definition.deps if run.call_deps is UNSET else run.call_deps
    if given is UNSET:
        return
    if not callable(given):
        run.deps = given
        return
    built = await _dynamic(run, given)
    if isinstance(built, AbstractAsyncContextManager):
        opened = cast("AbstractAsyncContextManager[Any]", built)
        with contained():
            built = await run.closing.enter_async_context(opened)
    run.deps = built


async def _prepared(run: Run, log: RunLog) -> Prepared:
    options = run.options
    reader = MessageReader(run.ids, run.clock, lambda name: _is_clients(run, name))
    context = reader.read(options.context) if options.context else []
    known: tuple[SystemTurn, ...] = ()
    if run.memory is None:
        given, recalled = await take_results(run, reader.read(run.messages)), None
    else:
        from tenuto.steps.remember import knowledge_turns, recall

        given, recalled = await recall(run, reader, lambda name: _is_clients(run, name))
        known = await knowledge_turns(run)
    instructions = options.instructions
    if instructions is None:
        instructions = await instructions_of(run.definition, run.request_context)
    system = (*system_turns(instructions), *system_turns(options.system))
    if run.chain is not None and run.chain["process_input"]:
        from tenuto.steps.process_input import process_input

        system, given = await process_input(run, log, system, given)
    return Prepared(
        (*system, *known),
        tuple(context),
        tuple(given),
        () if run.veil is None else run.veil.veiled(),
        recalled,
    )


def _is_clients(run: Run, name: str) -> bool:
    """Whether a client may bring results of the tool: it is none that this agent runs itself."""
    tool = run.toolbox.get(name)
    return tool is None or tool.fn is None
