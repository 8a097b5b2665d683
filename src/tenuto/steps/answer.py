"""Closes a call, or parks it: the one place that turns an outcome into a record and its chunk.

Invariant: an outcome is recorded once, with its ledger entry and its chunk in the same commit; what the model is told
is bounded, what the user gets is whole.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, assert_never

from msgspec.structs import replace

from tenuto.core import chunks as c
from tenuto.core import codec, faults
from tenuto.core import payloads as p
from tenuto.core.errors import ToolError
from tenuto.machine.records import Blocked, ToolEnded
from tenuto.messages.bounded import MODEL_TEXT_LIMIT, bounded
from tenuto.steps.calls import arguments_of, draft_of
from tenuto.steps.failure import error_info
from tenuto.steps.fold import result_payload
from tenuto.steps.processing import note_state, strained
from tenuto.store.ports import EffectRow, PendingCall
from tenuto.tools.effects import args_hash
from tenuto.tools.outcome import Aborted, Failed, Ok, Outcome, Suspended, UnknownOutcome

if TYPE_CHECKING:
    from tenuto.messages.turns import CallPart
    from tenuto.steps.checked import Checked
    from tenuto.steps.delegation import Delegation
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run

_log = logging.getLogger("tenuto")

ABORTED = "aborted"
"""The text of a call that an abort left without an answer."""

_EDITED_LIMIT = 500


async def close(
    run: Run,
    log: RunLog,
    call: CallPart,
    attempt: int,
    outcome: Outcome,
    *,
    effects: Sequence[EffectRow] = (),
    deduplicated: bool = False,
    delegation: Delegation | None = None,
    checked: Checked | None = None,
) -> None:
    """Record the outcome of a call; `checked` is what processors of its result said."""
    if delegation is not None and delegation.asked is not None:
        await _wait_for_child(run, log, call, attempt, delegation)
        return
    if isinstance(outcome, Suspended):
        schema = None if outcome.resume_schema is None else codec.encode(outcome.resume_schema).decode()
        await suspend(run, log, call, attempt, outcome.payload, schema, asks="data", effects=effects)
        return
    record = _record(run, call, attempt, outcome, deduplicated=deduplicated)
    if delegation is not None:
        record = replace(record, delegated=delegation.record)
    _tell_developer(call, outcome)
    if run.chain is not None:
        await _close_processed(run, log, call, record, effects, checked)
        return
    if run.veil is not None:
        record = replace(record, shown=await run.veil.outcome(call, record.result, record.error))
    await log.commit(record, chunks=[_chunk(run, call, record)], effects=effects)


async def _close_processed(  # noqa: PLR0917 - the parts of one record
    run: Run,
    log: RunLog,
    call: CallPart,
    record: ToolEnded,
    effects: Sequence[EffectRow],
    checked: Checked | None,
) -> None:
    """Record an outcome as the processors of the stream leave it; after a block the run ends."""
    from tenuto.steps.process_outcome import end_blocked, shown_outcome

    if checked is not None and checked.refused:
        record = replace(record, refused=True)
    tool = run.toolbox.get(call.tool_name)
    limit = MODEL_TEXT_LIMIT if tool is None else tool.max_result_chars
    shown = await shown_outcome(run, log, record, _chunk(run, call, record), effects, limit=limit)
    record, blocked = shown.record, (None if checked is None else checked.blocked) or shown.blocked
    if run.veil is not None:
        record = replace(record, shown=await run.veil.outcome(call, record.result, record.error))
    ending = end_blocked(run, log, blocked)
    await log.commit(record, *ending, chunks=shown.chunks, effects=shown.effects)


def _chunk(run: Run, call: CallPart, record: ToolEnded) -> c.ToolResult | c.ToolError:
    if record.error is None:
        return c.ToolResult(run.run_id, "AGENT", result_payload(call, record))
    return c.ToolError(
        run.run_id, "AGENT", p.ToolErrorPayload(call.tool_call_id, call.tool_name, record.error, call.args)
    )


def _tell_developer(call: CallPart, outcome: Outcome) -> None:
    """The model gets a text; whoever wrote the tool wants the traceback."""
    if isinstance(outcome, (Failed, UnknownOutcome)) and not isinstance(outcome.error, ToolError):
        _log.warning("Tool %r raised; the model was told, the run goes on.", call.tool_name, exc_info=outcome.error)


def _record(run: Run, call: CallPart, attempt: int, outcome: Outcome, *, deduplicated: bool) -> ToolEnded:
    call_id = call.tool_call_id
    match outcome:
        case Ok():
            text = outcome.text + _edited(run, call)
            return ToolEnded(call_id, attempt, "ok", text, outcome.result, deduplicated=deduplicated, told=outcome.told)
        case Failed() if outcome.result is not None:
            return ToolEnded(call_id, attempt, "failed", outcome.text, outcome.result)
        case Failed():
            return ToolEnded(call_id, attempt, "failed", outcome.text, None, error_info(outcome.error))
        case UnknownOutcome() if outcome.result is not None:
            return ToolEnded(call_id, attempt, "unknown", outcome.text, outcome.result)
        case UnknownOutcome():
            return ToolEnded(call_id, attempt, "unknown", outcome.text, None, error_info(outcome.error))
        case Aborted():
            return ToolEnded(call_id, attempt, "aborted", ABORTED, None, aborted_error())
        case Suspended():
            message = "a suspension is no answer"
            raise AssertionError(message)
        case _:
            assert_never(outcome)


async def suspend(  # noqa: PLR0917 - the parts of one record
    run: Run,
    log: RunLog,
    call: CallPart,
    attempt: int,
    payload: p.Json,
    schema: str | None,
    *,
    asks: Literal["data", "outcome"],
    effects: Sequence[EffectRow] = (),
) -> None:
    """Record that a call waits for data, or for somebody's word on whether it took effect."""
    args = arguments_of(run, call)
    row = PendingCall(
        run_id=run.run_id,
        call_id=call.tool_call_id,
        tool_name=call.tool_name,
        kind="suspension",
        args=args,
        args_hash=args_hash(call.tool_name, args),
        suspend_payload=payload,
        resume_schema=schema,
        attempt=attempt,
    )
    run.pending[row.call_id] = row
    shown = p.ToolCallSuspendedPayload(call.tool_call_id, call.tool_name, args, payload, schema)
    record = ToolEnded(call.tool_call_id, attempt, "suspended", schema or "", payload, asks=asks)
    chunk = c.ToolCallSuspended(run.run_id, "AGENT", shown)
    faults.hit("call.before_pending")
    if run.chain is None:
        await log.commit(record, chunks=[chunk], pending=[row], effects=effects)
        return
    chunks, tripwire = await strained(run, log, [chunk])
    note_state(run, log)
    if tripwire is None:
        await log.commit(record, chunks=chunks, pending=[row], effects=effects)
    else:
        run.pending.pop(row.call_id)
        await log.commit(Blocked(tripwire.payload), chunks=chunks, effects=effects)


async def _wait_for_child(run: Run, log: RunLog, call: CallPart, attempt: int, delegation: Delegation) -> None:
    """Record that a call waits for what a call of its child run waits for, and show that one under this one's id."""
    asked, shown = delegation.asked, delegation.shown
    assert asked is not None  # noqa: S101 - what waits is there, and so is what may be shown of it
    assert shown is not None  # noqa: S101
    call_id = call.tool_call_id
    row = replace(asked, run_id=run.run_id, call_id=call_id, attempt=attempt)
    run.pending[call_id] = row
    if row.kind == "approval":
        payload = p.ToolCallApprovalPayload(call_id, row.tool_name, shown.args, row.resume_schema or "")
        chunk: c.AnyChunk = c.ToolCallApproval(run.run_id, "AGENT", payload, shown.metadata)
    else:
        suspended = p.ToolCallSuspendedPayload(
            call_id, row.tool_name, shown.args, shown.suspend_payload, row.resume_schema
        )
        chunk = c.ToolCallSuspended(run.run_id, "AGENT", suspended, shown.metadata)
    record = ToolEnded(
        call_id, attempt, "suspended", row.resume_schema or "", row.suspend_payload, delegated=delegation.record
    )
    faults.hit("call.before_pending")
    await log.commit(record, chunks=[chunk], pending=[row])


async def deny(run: Run, log: RunLog, call: CallPart, reason: str) -> None:
    """Record that a call was declined."""
    approval = p.ApprovalInfo(call.tool_call_id, approved=False, reason=reason)
    payload = p.ToolOutputDeniedPayload(call.tool_call_id, call.tool_name, approval, call.args)
    record = ToolEnded(call.tool_call_id, 0, "denied", reason)
    chunks, tripwire = await strained(run, log, [c.ToolOutputDenied(run.run_id, "AGENT", payload)])
    await log.commit(record, *(() if tripwire is None else (Blocked(tripwire.payload),)), chunks=chunks)


def aborted_error() -> p.ErrorInfo:
    """The error of a call that an abort left open."""
    return p.ErrorInfo("ToolError", ABORTED, "TOOL_ABORTED", "USER")


def _edited(run: Run, call: CallPart) -> str:
    edited = draft_of(run).edited.get(call.tool_call_id)
    if edited is None:
        return ""
    shown = bounded(codec.encode(edited).decode(), _EDITED_LIMIT)
    return f"\n[run with edited arguments: {shown}]"
