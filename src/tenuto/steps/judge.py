"""Executes `JudgeStep`: decides whether the run goes on after a step.

Invariant: a step is judged once, after all its calls are answered; what `stop_when` sees is what `on_step_finish` and
`result.steps` see.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING

from tenuto.core import chunks as c
from tenuto.core import faults
from tenuto.core import payloads as p
from tenuto.core.foreign import contained
from tenuto.machine.decisions import goes_on
from tenuto.machine.records import Blocked, StepJudged
from tenuto.steps.callbacks import call_back
from tenuto.steps.failure import error_info
from tenuto.steps.fold import call_chunks, step_result, usage_of
from tenuto.steps.iteration import complete_iteration
from tenuto.steps.processing import note_state, strained
from tenuto.steps.results import StopContext
from tenuto.steps.scoring import check_task
from tenuto.steps.structure import NOTHING, Ending, conclude
from tenuto.steps.transcript import feedback_message

if TYPE_CHECKING:
    from tenuto.machine.commands import JudgeStep
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run, StepDraft
    from tenuto.steps.scoring import Checked

_log = logging.getLogger("tenuto")


async def judge_step(run: Run, log: RunLog, command: JudgeStep) -> None:
    """Record the verdict on the step, and tell `on_step_finish`; an abort meanwhile leaves it unjudged."""
    draft = run.draft
    assert draft is not None  # noqa: S101 - the machine asks for it after a model call only
    reason = draft.said.reason
    open_ones = any(call.status == "client" for call in log.state.calls)
    wanted = not open_ones and goes_on(reason, called=bool(log.state.calls))
    within = command.step < run.options.max_steps
    bailed = any(came.bail for came in draft.delegated.values())
    checked = None if wanted or open_ones or bailed else await check_task(run, draft, last=not within)
    wanted = wanted or (checked is not None and not checked.passed)
    go_on = wanted and within and not bailed and not await _stopped(run, draft)
    said = await complete_iteration(run, draft, final=not go_on)
    if said.go_on is not None:
        go_on = said.go_on and within and not open_ones and not bailed
    told = [came.feedback for came in draft.delegated.values() if came.feedback]
    if said.feedback is not None and (wanted or go_on):
        told.append(said.feedback)
    feedback = feedback_message(run.ids.new("msg"), "\n\n".join(told), run.clock.now()) if told else None
    ending = NOTHING if go_on or run.options.structured_output is None else await _concluded(run, log, draft)
    if ending is None:
        return  # the step is not judged: the abort ends the run
    if run.budget is not None and ending.answer is not None and ending.answer.usage is not None:
        run.budget.also(ending.answer.usage)
    if ending.error is not None:
        reason, run.error = "error", ending.error
    chunk = step_finish(run, draft, go_on=go_on, reason=reason)
    error = None if ending.error is None else error_info(ending.error)
    task = None if checked is None else checked.record
    record = StepJudged(command.step, go_on, reason, feedback, ending.answer, error, task)
    chunks, tripwire = await strained(run, log, [*_shown(run, checked), *ending.chunks, chunk])
    note_state(run, log)
    if tripwire is not None:
        await log.commit(Blocked(tripwire.payload), chunks=chunks)
        return
    await log.commit(record, chunks=chunks)
    await _tell(run, checked, ending)


async def _concluded(run: Run, log: RunLog, draft: StepDraft) -> Ending | None:
    """The structured output; None when the run was aborted meanwhile."""
    try:
        return await conclude(run, log, draft)
    except asyncio.CancelledError:
        if not run.aborted:
            raise
        return None


async def _tell(run: Run, checked: Checked | None, ending: Ending) -> None:
    options = run.options
    if checked is not None and options.is_task_complete is not None:
        faults.hit("judge.after_verdict")
        await call_back(options.is_task_complete.on_complete, checked.result, "on_complete")
    if options.on_step_finish is not None:
        await call_back(options.on_step_finish, run.steps[-1], "on_step_finish")
    if ending.error is not None:
        await call_back(options.on_error, ending.error, "on_error")


def _shown(run: Run, checked: Checked | None) -> list[c.AnyChunk]:
    return [] if checked is None else [c.IsTaskComplete(run.run_id, "AGENT", checked.record.check)]


async def _stopped(run: Run, draft: StepDraft) -> bool:
    if not run.options.stop_when:
        return False
    context = StopContext((*run.steps, step_result(run, draft, draft.said.reason)))
    for condition in run.options.stop_when:
        try:
            with contained():
                met = condition(context)
                if await met if inspect.isawaitable(met) else met:
                    return True
        except Exception:  # noqa: BLE001 - a user's function
            _log.exception("A stop_when condition failed; the run stops here, since it cannot be told to go on.")
            return True
    return False


def step_finish(run: Run, draft: StepDraft, *, go_on: bool, reason: p.FinishReason | None = None) -> c.StepFinish:
    """The chunk that ends a step, for the model's reason or another one."""
    said = draft.said
    payload = p.StepFinishPayload(
        run.message_id,
        p.StepOutcome(reason or said.reason, go_on, said.warnings, said.raw_reason),
        p.StepOutput(said.turn.text, tuple(chunk.payload for chunk in call_chunks(run.run_id, draft)), usage_of(draft)),
        said.metadata,
    )
    return c.StepFinish(run.run_id, "AGENT", payload)
