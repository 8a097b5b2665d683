"""Executes `AssessCalls`: which calls run, which wait for a decision, which cannot run at all.

Invariant: a call that needs approval is stored as pending, with the hash of what is asked, in the commit that shows it;
a policy that fails means "ask".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenuto.core import chunks as c
from tenuto.core import codec, faults
from tenuto.core import payloads as p
from tenuto.machine.records import Assessed, Blocked, Verdict
from tenuto.steps.calls import arguments_of, find_call, find_tool
from tenuto.steps.inputs import available
from tenuto.steps.processing import note_state, strained
from tenuto.store.ports import PendingCall
from tenuto.tools.approval import needs_approval
from tenuto.tools.effects import args_hash
from tenuto.tools.outcome import Failed
from tenuto.tools.resume import APPROVAL_SCHEMA
from tenuto.tools.validate import bind_arguments

if TYPE_CHECKING:
    from tenuto.machine.commands import AssessCalls
    from tenuto.messages.turns import CallPart
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run

RESUME_SCHEMA = codec.encode(APPROVAL_SCHEMA).decode()
"""JSON text of what a decision looks like."""


async def assess_calls(run: Run, log: RunLog, command: AssessCalls) -> None:
    """Give each call its verdict."""
    calls = [find_call(run, call_id) for call_id in command.call_ids]
    for call in calls:
        await available(run, call)
    verdicts: list[tuple[str, Verdict]] = [(call.tool_call_id, await _verdict(run, call)) for call in calls]
    record = Assessed(tuple(verdicts), None if run.veil is None else await run.veil.inputs(calls))
    asked = [find_call(run, call_id) for call_id, verdict in verdicts if verdict == "ask"]
    if not asked:
        log.note(record)
        return
    rows = [_pending(run, call) for call in asked]
    run.pending.update({row.call_id: row for row in rows})
    faults.hit("call.before_pending")
    chunks, tripwire = await strained(run, log, [_approval(run, row) for row in rows])
    note_state(run, log)
    if tripwire is None:
        await log.commit(record, chunks=chunks, pending=rows)
    else:
        run.pending.clear()
        await log.commit(Blocked(tripwire.payload), chunks=chunks)


async def _verdict(run: Run, call: CallPart) -> Verdict:
    tool = find_tool(run, call)
    if tool is None:
        return "refuse"
    if tool.fn is None:
        return "client" if run.hooks.before is None else "run"
    own, agent, options = tool.require_approval, run.definition.require_tool_approval, run.options.require_tool_approval
    if own is False and agent is False and options is False:
        return "run"
    args = arguments_of(run, call)
    if isinstance(bind_arguments(call.tool_name, tool.schema, args), Failed):
        return "run"  # it is refused before the body, and the model is told why
    ask = await needs_approval(
        tool, args, run_policy=options, agent_policy=agent, request=run.request_context, name=call.tool_name
    )
    return "ask" if ask else "run"


def _pending(run: Run, call: CallPart) -> PendingCall:
    args = arguments_of(run, call)
    return PendingCall(
        run_id=run.run_id,
        call_id=call.tool_call_id,
        tool_name=call.tool_name,
        kind="approval",
        args=args,
        args_hash=args_hash(call.tool_name, args),
        resume_schema=RESUME_SCHEMA,
    )


def _approval(run: Run, row: PendingCall) -> c.AnyChunk:
    payload = p.ToolCallApprovalPayload(row.call_id, row.tool_name, row.args, RESUME_SCHEMA)
    return c.ToolCallApproval(run.run_id, "AGENT", payload)
