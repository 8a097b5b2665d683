"""Asks `process_input_step` before a model call: each processor sees what the ones before it made of the call.

Invariant: what they say stands for this one call; messages among it are stored nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from tenuto.messages.input import MessageReader
from tenuto.messages.turns import Prompt
from tenuto.models.settings import read_tool_choice
from tenuto.processors.contexts import InputStepContext
from tenuto.steps.candidates import find_candidates
from tenuto.steps.prepare_step import prompt_of, read_changes, read_system
from tenuto.steps.processing import chain_at
from tenuto.steps.results import StepContext
from tenuto.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from tenuto.processors.hooks import BoundHook
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run

_SYSTEM = ("system", "instructions", "system_messages")


class Asked(Struct, frozen=True):
    """What the processors said.

    Attributes:
        changes: Of the call, but for its messages.
        prompt: What its messages come to; None when they are the run's own.
        context: The call as they leave it, for `prepare_step`.
    """

    changes: dict[str, Any]
    prompt: Prompt | None
    context: StepContext


async def ask_processors(run: Run, log: RunLog, context: StepContext) -> Asked:
    """Ask them in order.

    Raises:
        Tripwire: One blocks the run.
        ProcessorError: One failed.
    """
    chain = chain_at(run, log)
    changes: dict[str, Any] = {}
    repaired = run.repaired is not None and run.repaired[0] == len(run.steps)
    if repaired and run.repaired is not None:
        context = replace(context, messages=run.repaired[1])
    changed = repaired
    for hook in () if chain is None else chain["process_input_step"]:
        answer = await hook.ask(_context(hook, context))
        try:
            said = read_changes(_as_changes(answer))
            context, prompted = await _applied(run, context, said)
        except Exception as error:
            raise hook.failed(error) from error
        changed = changed or prompted
        changes |= {name: value for name, value in said.items() if name != "messages" and name not in _SYSTEM}
    prompt = prompt_of(run, context.system_messages, context.messages) if changed else None
    return Asked(changes, prompt, context)


def _as_changes(answer: Any) -> Mapping[str, Any] | None:
    """Messages alone stand for a dict that holds them."""
    if answer is None:
        return None
    said = cast("Mapping[str, Any]", answer)
    is_change = isinstance(answer, Mapping) and not {"role", "parts"} & said.keys()
    return said if is_change else {"messages": answer}


async def _applied(run: Run, context: StepContext, said: Mapping[str, Any]) -> tuple[StepContext, bool]:
    """The context for the next processor, and whether the prompt is another one."""
    found: dict[str, Any] = {name: said[name] for name in ("model_settings", "provider_options") if name in said}
    if (messages := said.get("messages")) is not None:
        found["messages"] = tuple(MessageReader(run.ids, run.clock).read(messages))
    system = next((said[name] for name in _SYSTEM if name in said), None)
    if system is not None:
        found["system_messages"] = read_system(system)
    if (model := said.get("model")) is not None:
        owner = f"A processor of agent {run.definition.id!r}"
        found["model"] = (await find_candidates(model, run.request_context, owner))[0].model
    if (tools := said.get("tools")) is not None:
        found["tools"] = Toolbox(tools)
    if (active := said.get("active_tools")) is not None:
        found["active_tools"] = tuple(active)
    if (choice := said.get("tool_choice")) is not None:
        found["tool_choice"] = read_tool_choice(choice)
    return replace(context, **found), bool({"messages", "system_messages"} & found.keys())


def _context(hook: BoundHook, context: StepContext) -> InputStepContext:
    return InputStepContext(
        hook.shared,
        step_number=context.step_number,
        steps=context.steps,
        messages=context.messages,
        system_messages=context.system_messages,
        model=context.model,
        tools=context.tools,
        tool_choice=context.tool_choice,
        active_tools=context.active_tools,
        model_settings=context.model_settings,
        provider_options=context.provider_options,
        message_id=context.message_id,
    )
