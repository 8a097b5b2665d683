"""Where a step finds what belongs to one of its calls: the call itself, its tool, its arguments, its context.

Invariant: the model's call is never altered; arguments edited at an approval stand beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tenuto.steps.ledger import CallLedger
from tenuto.steps.run import UNSET
from tenuto.steps.screen import CallScreen
from tenuto.tools.context import ContextWithoutDeps, ToolContext
from tenuto.tools.effects import call_key
from tenuto.tools.hooks import HookMetadata, ToolHookContext
from tenuto.tools.resume import read_resume
from tenuto.tools.writer import ToolWriter

if TYPE_CHECKING:
    from tenuto.core.payloads import Json
    from tenuto.messages.turns import CallPart
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run, StepDraft
    from tenuto.tools.toolbox import RunnableTool


def draft_of(run: Run) -> StepDraft:
    """The step in progress; the machine asks for its calls only while there is one."""
    assert run.draft is not None  # noqa: S101
    return run.draft


def find_call(run: Run, call_id: str) -> CallPart:
    """The call of the current step."""
    return next(call for call in draft_of(run).said.turn.calls if call.tool_call_id == call_id)


def find_tool(run: Run, call: CallPart) -> RunnableTool | None:
    """Its tool, if it is one of those that were offered."""
    if call.tool_name not in names_offered(run):
        return None
    return run.toolbox.get(call.tool_name)


def names_offered(run: Run) -> tuple[str, ...]:
    """The names of the tools that the model may call."""
    return tuple(spec.name for spec in (*run.specs, *run.provider_tools))


def hook_event(run: Run, call: CallPart, context: ToolContext[Any, Any]) -> ToolHookContext:
    """What the hooks around a call are given."""
    metadata = HookMetadata(run.definition.id, run.definition.name)
    return ToolHookContext(tool_name=call.tool_name, input=arguments_of(run, call), context=context, metadata=metadata)


def arguments_of(run: Run, call: CallPart) -> Json:
    """What the tool gets: the edited arguments, else the model's, as JSON or as the text that was none."""
    edited = draft_of(run).edited
    if call.tool_call_id in edited:
        return edited[call.tool_call_id]
    return call.args if call.raw_args is None else call.raw_args


def key_of(run: Run, step: int, call: CallPart) -> str:
    """The key of this call: the same on each of its attempts."""
    return call_key(run.run_id, step, draft_of(run).said.turn.calls.index(call))


def context_of(
    run: Run, log: RunLog, tool: RunnableTool, call: CallPart, attempt: int, *, effect: str | None = None
) -> ToolContext[Any, Any]:
    """The context of one entry of the tool's body; `effect` is the key of its effect, where that is not the call's."""
    draft = draft_of(run)
    call_id = call.tool_call_id
    key = key_of(run, log.state.step, call)
    resumed = draft.resumed.get(call_id)
    if resumed is not None and call_id in draft.suspended:
        schema = draft.schemas.get(call_id)
        resumed = read_resume(tool, resumed, msgspec.json.decode(schema) if schema else None)
    return plain_context(
        run,
        tool_call_id=call_id,
        tool_name=call.tool_name,
        step_number=log.state.step,
        attempt=attempt,
        messages=run.input_turns,
        idempotency_key=effect or key,
        resume_data=resumed,
        suspend_payload=draft.suspended.get(call_id),
        writer=ToolWriter(CallScreen(run, call_id, call.tool_name, log)),
        ledger=CallLedger(run.run_id, call_id, call.tool_name, key, log),
    )


def plain_context(run: Run, **of_call: Any) -> ToolContext[Any, Any]:
    """A context with what the run has for all of its calls, and what is given of one."""
    given = {} if run.deps is UNSET else {"deps": run.deps}
    return (ToolContext if given else ContextWithoutDeps)(
        run_id=run.run_id,
        agent_id=run.definition.id,
        thread_id=run.thread_id,
        resource_id=run.resource_id,
        request_context=run.request_context,
        values=run.values,
        app=run.definition.app,
        abort_signal=run.abort.signal,
        **given,
        **of_call,
    )
