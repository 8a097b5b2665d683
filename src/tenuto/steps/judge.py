"""Executes `JudgeStep`: fixes the step's result and decides whether the run goes on.

Invariant: a step is judged once, after all its calls are answered; what `stop_when` sees is what `on_step_finish` and
`result.steps` see.
"""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING

from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.machine.decisions import goes_on
from tenuto.machine.records import StepJudged
from tenuto.messages.convert import step_parts
from tenuto.messages.stored import MessagePart, SourcePart, ToolInvocation
from tenuto.messages.turns import Reasoning
from tenuto.steps.callbacks import call_back
from tenuto.steps.results import RequestInfo, ResponseInfo, StepResult, StopContext

if TYPE_CHECKING:
    from tenuto.machine.commands import JudgeStep
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run, StepDraft

_log = logging.getLogger("tenuto")


async def judge_step(run: Run, log: RunLog, command: JudgeStep) -> None:
    """Close the step and record the verdict."""
    draft = run.draft
    assert draft is not None  # noqa: S101 - the machine asks for it after a model call only
    result = close_step(run, draft, command.step)
    wanted = goes_on(draft.reason, called=bool(log.state.calls))
    go_on = wanted and command.step < run.options.max_steps and not await _stopped(run)
    chunk = step_finish(run, draft, go_on=go_on)
    await log.commit(StepJudged(command.step, go_on, draft.reason), chunks=[chunk])
    await call_back(run.options.on_step_finish, result, "on_step_finish")


async def _stopped(run: Run) -> bool:
    context = StopContext(tuple(run.steps))
    for condition in run.options.stop_when:
        try:
            met = condition(context)
            if await met if inspect.isawaitable(met) else met:
                return True
        except Exception:  # noqa: BLE001 - a user's function
            _log.exception("A stop_when condition failed; the run stops here, since it cannot be told to go on.")
            return True
    return False


def close_step(run: Run, draft: StepDraft, step: int) -> StepResult:
    """Move the draft into the run's steps, usage and stored parts; returns the step's result."""
    result = _result(run, draft, first=step == 1)
    run.draft = None
    run.steps.append(result)
    run.usage = run.usage + draft.usage
    outcomes = {call_id: _invocation(draft, chunk, step) for call_id, chunk in draft.results.items()}
    run.parts.extend(step_parts(draft.turn, outcomes, run.model_name, step))
    run.parts.extend(_sources(draft))
    return result


def step_finish(run: Run, draft: StepDraft, *, go_on: bool) -> c.StepFinish:
    """The chunk that ends a step."""
    calls = tuple(_call_payload(chunk) for chunk in _call_chunks(run.run_id, draft))
    payload = p.StepFinishPayload(
        run.message_id,
        p.StepOutcome(draft.reason, go_on, draft.warnings, draft.raw_reason),
        p.StepOutput(draft.turn.text, calls, draft.usage),
        draft.metadata,
    )
    return c.StepFinish(run.run_id, "AGENT", payload)


def _call_payload(chunk: c.ToolCall) -> p.ToolCallPayload:
    return chunk.payload


def _call_chunks(run_id: str, draft: StepDraft) -> list[c.ToolCall]:
    return [
        c.ToolCall(
            run_id,
            "AGENT",
            p.ToolCallPayload(
                part.tool_call_id,
                part.tool_name,
                part.args,
                provider_executed=part.provider_executed,
                provider_metadata=part.provider_metadata,
                raw_args=part.raw_args,
            ),
        )
        for part in draft.turn.calls
    ]


def _result(run: Run, draft: StepDraft, *, first: bool) -> StepResult:
    meta = draft.metadata
    calls = _call_chunks(run.run_id, draft)
    return StepResult(
        step_type="initial" if first else "tool-result",
        text=draft.turn.text,
        reasoning=_reasoning(run.run_id, draft),
        tool_calls=tuple(calls),
        tool_results=tuple(
            draft.results[call.payload.tool_call_id] for call in calls if call.payload.tool_call_id in draft.results
        ),
        sources=tuple(chunk for chunk in draft.chunks if isinstance(chunk, c.Source)),
        files=tuple(chunk for chunk in draft.chunks if isinstance(chunk, c.File)),
        finish_reason=draft.reason,
        usage=draft.usage,
        warnings=draft.warnings,
        request=RequestInfo(draft.request),
        response=ResponseInfo(meta.id, meta.timestamp, meta.model_id, meta.headers),
        provider_metadata=meta.provider_metadata,
        model=run.model_name,
        run_id=run.run_id,
        raw_finish_reason=draft.raw_reason,
    )


def _reasoning(run_id: str, draft: StepDraft) -> tuple[c.ReasoningDelta, ...]:
    parts = [part for part in draft.turn.content if isinstance(part, Reasoning)]
    return tuple(
        c.ReasoningDelta(
            run_id, "AGENT", p.ReasoningDeltaPayload(f"reasoning-{place}", part.text, part.provider_metadata)
        )
        for place, part in enumerate(parts)
    )


def _invocation(draft: StepDraft, chunk: c.ToolResult, step: int) -> ToolInvocation:
    done = chunk.payload
    raw = next((call.raw_args for call in draft.turn.calls if call.tool_call_id == done.tool_call_id), None)
    if done.is_error:
        text = draft.texts[done.tool_call_id]
        return ToolInvocation(
            "output-error", done.tool_call_id, done.tool_name, done.args, step, error_text=text, raw_input=raw
        )
    return ToolInvocation("result", done.tool_call_id, done.tool_name, done.args, step, result=done.result)


def _sources(draft: StepDraft) -> list[MessagePart]:
    found = (chunk.payload for chunk in draft.chunks if isinstance(chunk, c.Source))
    return [
        SourcePart({"id": each.id, "sourceType": each.source_type, "title": each.title, "url": each.url})
        for each in found
    ]
