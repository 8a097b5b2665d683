"""Executes `Finalise` and `Finish`: closes what is open, fixes the result, writes the terminal chunk.

Invariant: every run that got past its claim ends with exactly one terminal chunk and one final status, in the same
transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tenuto.core import chunks as c
from tenuto.core import faults
from tenuto.core import payloads as p
from tenuto.machine.records import AbortRequested, Finalised, Finished
from tenuto.machine.state import CLOSED
from tenuto.steps.answer import aborted_error
from tenuto.steps.callbacks import call_back
from tenuto.steps.failure import error_info
from tenuto.steps.results import AbortEvent, StepResult
from tenuto.store.ports import RunStatus

if TYPE_CHECKING:
    from tenuto.machine.commands import Finalise
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run

STATUS: Mapping[p.FinishReason, RunStatus] = {"aborted": "canceled", "error": "failed"}
"""How a run's reason maps to its status; anything else is a success."""


async def record_abort(run: Run, log: RunLog) -> None:
    """Record that somebody stopped the run, with what was being said."""
    await log.commit(AbortRequested(None if run.draft is None else run.draft.said))


async def finalise(run: Run, log: RunLog, command: Finalise) -> None:
    """Close open calls and record the reason; on an abort show `abort`, then call `on_abort`."""
    completed = tuple(run.steps)
    text = "" if run.draft is None else run.draft.said.turn.text
    record = Finalised(command.reason, None if run.error is None else error_info(run.error), run.clock.now())
    if run.chain is not None:
        from tenuto.steps.process_result import process_result

        record = await process_result(run, log, record)
    if command.reason != "aborted" and (log.state.blocked is not None or record.reason != command.reason):
        await _end_blocked(run, log, record)
        return
    if command.reason != "aborted":
        log.note(record)
        faults.hit("run.after_finalise")
        return
    await log.commit(record, chunks=[*open_calls(run, log), c.Abort(run.run_id, "AGENT", p.AbortPayload())])
    faults.hit("run.after_finalise")
    await call_back(run.options.on_abort, AbortEvent(completed, text), "on_abort")


async def _end_blocked(run: Run, log: RunLog, record: Finalised) -> None:
    """Close what a processor's block or failure left open; a failure is shown here, behind the outcomes beside it."""
    error = run.error if record.error is not None else None
    shown = [] if record.error is None else [c.Error(run.run_id, "AGENT", p.ErrorPayload(record.error))]
    await log.commit(record, chunks=[*open_calls(run, log), *shown])
    faults.hit("run.after_finalise")
    if error is not None:
        await call_back(run.options.on_error, error, "on_error")


def open_calls(run: Run, log: RunLog) -> list[c.AnyChunk]:
    """What tells viewers that the calls which are open get no answer any more."""
    draft = run.draft
    if draft is None:
        return []
    closed = {call.id for call in log.state.calls if call.status in CLOSED}  # none while the model still speaks
    return [
        c.ToolError(
            run.run_id, "AGENT", p.ToolErrorPayload(call.tool_call_id, call.tool_name, aborted_error(), call.args)
        )
        for call in draft.said.turn.calls
        if call.tool_call_id not in closed and not call.provider_executed
    ]


async def finish(run: Run, log: RunLog) -> None:
    """Write the `finish` chunk and the final status in one transaction."""
    reason = log.state.reason
    last = run.steps[-1] if run.steps else None
    payload = p.FinishPayload(
        run.message_id,
        p.StepOutcome("abort" if reason == "aborted" else reason, False, last.warnings if last else ()),
        p.StepOutput("".join(step.text for step in run.steps), (), run.usage),
        p.StepMetadata() if last is None else _metadata(last),
    )
    chunk = c.Finish(run.run_id, "AGENT", payload)
    chunks: list[c.AnyChunk] = [chunk]
    record = Finished()
    if run.tripwire is not None and reason == "other":
        chunks = [c.Tripwire(run.run_id, "AGENT", run.tripwire)]
    elif run.chain is not None:
        chunks, record = await _processed(run, log, chunk)
    error = None if run.error is None else error_info(run.error)
    faults.hit("run.before_terminal")
    await log.commit(record, chunks=chunks, status=STATUS.get(reason, "success"), error=error)
    faults.hit("run.after_terminal")


async def _processed(run: Run, log: RunLog, chunk: c.Finish) -> tuple[list[c.AnyChunk], Finished]:
    from tenuto.steps.process_result import last_chunks

    chunks, tripwire = await last_chunks(run, log, chunk)
    if tripwire is None or log.state.reason in STATUS:
        return [*(each for each in chunks if each is not chunk), chunk] if tripwire else chunks, Finished()
    return [*chunks, c.Tripwire(run.run_id, "AGENT", tripwire)], Finished(tripwire)


def _metadata(step: StepResult) -> p.StepMetadata:
    said = step.response
    return p.StepMetadata(said.id, said.timestamp, said.model_id, said.headers, step.provider_metadata)
