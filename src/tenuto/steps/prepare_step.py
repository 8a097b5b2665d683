"""`prepare_step`: asks it before a step begins, and puts what it says in place of the run's own for that step.

Invariant: it is asked once about a step, and what it said is stored with the step's first attempt: a call that is made
again, here or elsewhere, is made the same, but for what no other process can have, which `degraded` names. The next
step begins with the run's own again.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from tenuto.core.errors import ConfigurationError, TenutoError
from tenuto.core.foreign import contained, message_of
from tenuto.core.option_keys import mapping, renamed, spellings
from tenuto.machine.decisions import fold
from tenuto.machine.records import StepPrepared
from tenuto.messages.convert import to_turns
from tenuto.messages.input import MessageReader, system_turns
from tenuto.messages.turns import Prompt, SystemTurn
from tenuto.models.settings import (
    CallSettings,
    laid_over,
    read_settings,
    read_tool_choice,
    renamed_settings,
    with_headers,
)
from tenuto.processors.tripwire import Tripwire
from tenuto.steps.candidates import current, find_candidates
from tenuto.steps.prepare import offer_tools
from tenuto.steps.processing import base_prompt
from tenuto.steps.results import StepContext
from tenuto.steps.run import StepInputs
from tenuto.steps.storable import keep_choice, keep_model, keep_settings
from tenuto.steps.transcript import all_messages
from tenuto.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tenuto.machine.records import AnyRecord
    from tenuto.machine.state import RunState
    from tenuto.messages.stored import Message
    from tenuto.messages.turns import ProviderOptions
    from tenuto.steps.candidates import Candidate
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run

_SYSTEM = ("system", "instructions", "system_messages")
_KEYS = spellings(
    ("model", "tools", "tool_choice", "active_tools", "messages", "model_settings", "provider_options", *_SYSTEM)
)
_CHOICE = spellings(("type", "tool_name"))


async def prepare_step(run: Run, log: RunLog, step: int) -> bool:
    """Make everything ready for the model call of `step`; False when the run was stopped meanwhile.

    Raises:
        ConfigurationError: `AGENT_PREPARE_STEP_FAILED`: the function raised, or returned what it may not.
    """
    try:
        if run.chain is not None and run.chain["process_input_step"]:
            await _ask_all(run, log, step)
        elif run.options.prepare_step is not None and log.state.phase == "ready":
            await _ask(run, log, step)
        await enter_step(run, step)
    except asyncio.CancelledError:
        if not run.aborted:
            raise
        return False
    except (TenutoError, Tripwire):
        raise
    except Exception as error:
        message = f"prepare_step of step {step}: {type(error).__name__}: {message_of(error)}"
        raise ConfigurationError(message, id="AGENT_PREPARE_STEP_FAILED", domain="AGENT") from error
    return not run.aborted


async def enter_step(run: Run, step: int) -> None:
    """Put in place what the journal says of `step`, or the run's own."""
    if run.inputs.step and run.inputs.step == step:
        _offer(run, run.inputs)
        return
    changed = run.inputs.step != 0
    run.inputs = StepInputs()
    if run.changes is not None and run.changes.step == step:
        run.inputs = await _recorded(run, run.changes)
        run.inputs = replace(run.inputs, restored=True)
        changed = True
    if changed:
        _offer(run, run.inputs)


async def enter_recorded(run: Run, records: Iterable[AnyRecord]) -> None:
    """Put in place what a step was made of before its records are taken into `run`."""
    records = list(records)
    step = fold(records).step
    found = (each for each in records if isinstance(each, StepPrepared) and each.step == step)
    run.changes = next(found, None)
    await enter_step(run, step)
    if run.inputs.restored:
        run.inputs = StepInputs()  # to be made again by whoever drives on, with the history that is not there yet


def name_lost(run: Run, state: RunState) -> None:
    """Name in `degraded` what of the step in progress this process does not have."""
    going_on = state.phase in {"modelling", "retrying", "calling", "parked"}
    whole = run.inputs.step == state.step and not run.inputs.restored
    if going_on and not whole and run.changes is not None and run.changes.step == state.step:
        run.degraded = (*run.degraded, *(each for each in run.changes.degraded if each not in run.degraded))


def settings_of(run: Run, candidate: Candidate) -> CallSettings:
    """The settings of this call: what `prepare_step` says replaces all others but retries and time limits."""
    given = candidate.settings_of(run.options.model_settings)
    own = run.inputs.settings
    if own is None:
        return given
    headers = with_headers(candidate.headers, own.sent.headers) or None
    kept = laid_over(CallSettings(max_retries=given.max_retries, timeout=given.timeout), own)
    return replace(kept, sent=replace(own.sent, headers=headers))


def options_of(run: Run, candidate: Candidate) -> ProviderOptions | None:
    """The provider options of this call."""
    own = run.inputs.provider_options
    return candidate.options_of(run.options.provider_options) if own is None else own


async def _recorded(run: Run, record: StepPrepared) -> StepInputs:
    """What the journal has of a step's inputs."""
    own = replace(await _inputs(run, record.step, record.changes or {}), prompt=_prompt(run, record))
    if record.processed is None:
        return own
    return over(await _inputs(run, record.step, record.processed), own)


def over(below: StepInputs, above: StepInputs) -> StepInputs:
    """`above` over `below`, name by name."""
    names = ("candidates", "prompt", "toolbox", "active_tools", "tool_choice", "settings", "provider_options")
    given = {name: value for name in names if (value := getattr(above, name)) is not None}
    return replace(below, step=above.step, **given)


async def _ask_all(run: Run, log: RunLog, step: int) -> None:
    """Ask the processors, on every attempt; then `prepare_step`, or what it said on the first one."""
    from tenuto.steps.process_step import Asked, ask_processors

    offer_tools(run, run.own_tools, run.options.active_tools)
    recorded = run.changes if run.changes is not None and run.changes.step == step else None
    run.inputs = StepInputs()
    run.listening = True
    try:
        asked: Asked = await ask_processors(run, log, step_context(run, log, step))
    finally:
        run.listening = False
    below = replace(await _inputs(run, step, asked.changes), prompt=asked.prompt)
    if recorded is not None:
        own = replace(await _inputs(run, step, recorded.changes or {}), prompt=_prompt(run, recorded))
    elif run.options.prepare_step is None:
        recorded, own = StepPrepared(step), StepInputs(step=step)
    else:
        await _ask(run, log, step, asked.context)
        recorded, own = run.changes or StepPrepared(step), run.inputs
    kept = _record(run, step, asked.changes)
    degraded = tuple(name.replace("prepare_step", "process_input_step") for name in kept.degraded)
    veiled = (*recorded.veiled, *_veiled(below))
    record = replace(recorded, processed=kept.changes, veiled=veiled, degraded=(*recorded.degraded, *degraded))
    if record != StepPrepared(step):
        log.note(record)
    run.inputs = over(below, own)


async def _ask(run: Run, log: RunLog, step: int, context: StepContext | None = None) -> None:
    hook = run.options.prepare_step
    assert hook is not None  # noqa: S101 - the caller has looked
    offer_tools(run, run.own_tools, run.options.active_tools)
    run.inputs = StepInputs()
    run.listening = True
    try:
        with contained():
            given = hook(context or step_context(run, log, step))
            given = await given if inspect.isawaitable(given) else given
    finally:
        run.listening = False
    changes = read_changes(given)
    inputs = await _inputs(run, step, changes)
    record = replace(_record(run, step, changes), veiled=_veiled(inputs))
    log.note(record)
    run.inputs = replace(inputs, prompt=_prompt(run, record))


def step_context(run: Run, log: RunLog, step: int) -> StepContext:
    """What a step would be made of."""
    options = run.options
    settings = msgspec.structs.asdict(options.model_settings.sent)
    return StepContext(
        step_number=step - 1,
        steps=tuple(run.steps),
        messages=all_messages(run),
        system_messages=base_prompt(run).system,
        model=current(run.candidates, log.state.failed).model,
        tools=run.own_tools,
        tool_choice=options.tool_choice,
        active_tools=options.active_tools,
        model_settings={name: value for name, value in settings.items() if value is not None},
        provider_options=options.provider_options,
        request_context=run.request_context,
        abort_signal=run.abort.signal,
        run_id=run.run_id,
        message_id=run.message_id,
    )


def read_changes(given: object) -> dict[str, Any]:
    """What was said of a step, under its own names.

    Raises:
        TypeError: It is not None or a mapping of known keys.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        message = f"it returns None or a dict, not {type(given).__name__}."
        raise TypeError(message)
    changes = renamed(cast("Mapping[str, Any]", given), _KEYS, "key from prepare_step")
    changes = {name: value for name, value in changes.items() if value is not None}
    if len(named := [name for name in _SYSTEM if name in changes]) > 1:
        message = f"{' and '.join(named)} are one thing: what is sent before the messages. Give one of them."
        raise TypeError(message)
    if (settings := changes.get("model_settings")) is not None:
        changes["model_settings"] = renamed_settings(settings)
    if isinstance(choice := changes.get("tool_choice"), Mapping):
        changes["tool_choice"] = renamed(cast("Mapping[str, Any]", choice), _CHOICE, "tool_choice key")
    return changes


async def _inputs(run: Run, step: int, changes: Mapping[str, Any]) -> StepInputs:
    """What `changes` come to, but for the prompt."""
    choice, settings, options = (changes.get(name) for name in ("tool_choice", "model_settings", "provider_options"))
    model, tools, active = (changes.get(name) for name in ("model", "tools", "active_tools"))
    owner = f"prepare_step of agent {run.definition.id!r}"
    for name, value in mapping(options or {}, "provider_options").items():
        mapping(value, f"provider_options[{name!r}]")
    return StepInputs(
        step=step,
        candidates=None if model is None else await find_candidates(model, run.request_context, owner),
        toolbox=None if tools is None else Toolbox(tools),
        active_tools=None if active is None else _names(active),
        tool_choice=None if choice is None else read_tool_choice(choice),
        settings=None if settings is None else _settings(settings),
        provider_options=options,
    )


def _names(active: object) -> tuple[str, ...]:
    if isinstance(active, str) or not isinstance(active, list | tuple):
        message = f"active_tools is a list of tool names, not {active!r}."
        raise TypeError(message)
    return tuple(cast("list[str]", active))


def _settings(given: Mapping[str, Any]) -> CallSettings:
    settings = read_settings(given)
    if settings.timeout.total_ms is not None:
        message = "'total_ms' is of the whole run, not of one step; set it on the call."
        raise TypeError(message)
    return settings


def _record(run: Run, step: int, changes: Mapping[str, Any]) -> StepPrepared:
    kept: dict[str, Any] = {
        name: changes[name] for name in ("active_tools", "provider_options") if changes.get(name) is not None
    }
    degraded: list[str] = []
    if (choice := changes.get("tool_choice")) is not None:
        keep_choice(choice, kept, degraded)
    if (settings := changes.get("model_settings")) is not None:
        keep_settings(settings, kept, degraded)
    if (model := changes.get("model")) is not None:
        try:
            keep_model(model, kept, degraded)
        except ConfigurationError:
            degraded.append("model")  # it holds a key
    if "tools" in changes:
        degraded.append("tools")
        kept.pop("active_tools", None)
    system = next((changes[name] for name in _SYSTEM if name in changes), None)
    given = changes.get("messages")
    messages: list[Message] | None = None if given is None else MessageReader(run.ids, run.clock).read(given)
    return StepPrepared(
        step,
        kept or None,
        None if system is None else read_system(system),
        None if messages is None else tuple(messages),
        tuple(f"prepare_step.{name}" for name in degraded),
    )


def _veiled(inputs: StepInputs) -> tuple[str, ...]:
    tools = Toolbox() if inputs.toolbox is None else inputs.toolbox
    return tuple(name for name, tool in tools.items() if "transcript" in tool.transforms)


def read_system(given: Any) -> tuple[SystemTurn, ...]:
    """System messages in any form; those of the context may be among them."""
    several = cast("Sequence[Any]", given) if isinstance(given, list | tuple) else (given,)
    return tuple(turn for each in several for turn in ((each,) if isinstance(each, SystemTurn) else system_turns(each)))


def _prompt(run: Run, record: StepPrepared) -> Prompt | None:
    if record.system is None and record.messages is None:
        return None
    return prompt_of(run, record.system, record.messages)


def prompt_of(run: Run, system: Sequence[SystemTurn] | None, messages: Sequence[Message] | None) -> Prompt:
    """The prompt with these in place of the run's own; None leaves them."""
    system = base_prompt(run).system if system is None else system
    if messages is None:
        return Prompt(system, run.prompt.turns)
    turns = to_turns(messages)
    said = [turn for turn in turns if isinstance(turn, SystemTurn)]
    return Prompt((*system, *said), [turn for turn in turns if not isinstance(turn, SystemTurn)])


def _offer(run: Run, inputs: StepInputs) -> None:
    """Offer the step's tools: those it names, else of tools of its own all, else what the run offers."""
    if inputs.toolbox is not None:
        offer_tools(run, inputs.toolbox, inputs.active_tools)
    else:
        active = run.options.active_tools if inputs.active_tools is None else inputs.active_tools
        offer_tools(run, run.own_tools, active)
