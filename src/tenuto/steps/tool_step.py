"""Executes `AssessCalls`, `RunTool` and `RefuseCall`: every call of a step gets exactly one bounded answer.

Invariant: the intent is in the journal before a body runs, its outcome after; an abort that arrives before the body
keeps it from running. The chunk of an outcome is shown after the record that holds it.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING, assert_never

from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.core.errors import ToolError
from tenuto.machine.records import Assessed, ToolEnd, ToolEnded, ToolStarted, Verdict
from tenuto.messages.turns import CallPart
from tenuto.steps.failure import error_info
from tenuto.steps.fold import result_payload
from tenuto.tools.context import ToolContext
from tenuto.tools.execute import run_tool
from tenuto.tools.outcome import Aborted, Failed, Ok, Outcome, Unknown

if TYPE_CHECKING:
    from tenuto.machine.commands import AssessCalls, RefuseCall, RunTool
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run, StepDraft
    from tenuto.tools.tool import Tool

ABORTED = "aborted"
"""The text of a call that an abort left without an answer."""


def assess_calls(run: Run, log: RunLog, command: AssessCalls) -> None:
    """Decide for each call whether its tool may run; unknown and inactive tools are refused."""
    draft = _draft(run)
    by_id = {call.tool_call_id: call for call in draft.said.turn.calls}
    verdicts: list[tuple[str, Verdict]] = [
        (call_id, "run" if _tool(run, by_id[call_id]) is not None else "refuse") for call_id in command.call_ids
    ]
    log.note(Assessed(tuple(verdicts)))


async def run_call(run: Run, log: RunLog, command: RunTool) -> None:
    """Run a call's tool, and log its outcome; after an abort, do nothing.

    Cancelled because the run was aborted, it logs the call as aborted and returns.
    """
    call = _call(run, command.call_id)
    tool = _tool(run, call)
    if run.aborted or tool is None:
        return
    await log.commit(ToolStarted(call.tool_call_id, command.attempt))
    try:
        outcome = await run_tool(tool, _context(run, log, call, command), _arguments(call))
    except asyncio.CancelledError:
        if not run.aborted:
            raise
        outcome = Aborted()
    await _end(run, log, call, command.attempt, outcome)


def _arguments(call: CallPart) -> p.Json:
    return call.args if call.raw_args is None else call.raw_args


def _context(run: Run, log: RunLog, call: CallPart, command: RunTool) -> ToolContext[object, object]:
    return ToolContext(
        run_id=run.run_id,
        agent_id=run.definition.id,
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        step=log.state.step,
        attempt=command.attempt,
        messages=run.input_turns,
        request_context=run.request_context,
        values=run.values,
        deps=run.deps,
        abort_signal=run.abort.signal,
        idempotency_key=_key(run, log.state.step, call),
    )


async def refuse_call(run: Run, log: RunLog, command: RefuseCall) -> None:
    """Answer a call whose tool is unknown or not active, naming the ones that are."""
    call = _call(run, command.call_id)
    names = ", ".join(spec.name for spec in run.specs) or "none"
    text = (
        f"Tool {call.tool_name[:100]!r} not found. Available tools: {names}. Use one of these names exactly, "
        "or answer without a tool."
    )
    error = ToolError(text, id="TOOL_NOT_FOUND", details={"tool": call.tool_name[:100]})
    await _end(run, log, call, 0, Failed(error, text))


async def _end(run: Run, log: RunLog, call: CallPart, attempt: int, outcome: Outcome) -> None:
    match outcome:
        case Ok():
            await _close(run, log, call, attempt, "ok", outcome.text, result=outcome.result)
        case Failed() if outcome.result is not None:
            await _close(run, log, call, attempt, "failed", outcome.text, result=outcome.result)
        case Failed():
            await _close(run, log, call, attempt, "failed", outcome.text, error=outcome.error)
        case Unknown():
            await _close(run, log, call, attempt, "unknown", outcome.text, error=outcome.error)
        case Aborted():
            await _close(run, log, call, attempt, "aborted", ABORTED)
        case _:
            assert_never(outcome)


async def _close(  # noqa: PLR0917 - the parts of one record
    run: Run,
    log: RunLog,
    call: CallPart,
    attempt: int,
    end: ToolEnd,
    text: str,
    *,
    result: p.Json = None,
    error: BaseException | None = None,
) -> None:
    info = aborted_error() if end == "aborted" else None if error is None else error_info(error)
    record = ToolEnded(call.tool_call_id, attempt, end, text, result, info)
    if info is None:
        chunk: c.AnyChunk = c.ToolResult(run.run_id, "AGENT", result_payload(call, record))
    else:
        failure = p.ToolErrorPayload(call.tool_call_id, call.tool_name, info, call.args)
        chunk = c.ToolError(run.run_id, "AGENT", failure)
    await log.commit(record, chunks=[chunk])


def aborted_error() -> p.ErrorInfo:
    """The error of a call that an abort left open."""
    return p.ErrorInfo("ToolError", ABORTED, "TOOL_ABORTED", "USER")


def _draft(run: Run) -> StepDraft:
    assert run.draft is not None  # noqa: S101 - the machine asks for it after a model call only
    return run.draft


def _call(run: Run, call_id: str) -> CallPart:
    return next(call for call in _draft(run).said.turn.calls if call.tool_call_id == call_id)


def _tool(run: Run, call: CallPart) -> Tool[object, ..., object] | None:
    if all(spec.name != call.tool_name for spec in run.specs):
        return None
    return run.toolbox.get(call.tool_name)


def _key(run: Run, step: int, call: CallPart) -> str:
    """The same for every attempt of the call at this place of this run."""
    place = _draft(run).said.turn.calls.index(call)
    return sha256(f"{run.run_id}\0{step}\0{place}".encode()).hexdigest()
