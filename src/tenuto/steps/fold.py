"""What each record does to a run's data: the only place where messages, steps and results are put together.

Invariant: a run's data is the fold of its records, live, resumed or recovered alike; a step commits records and never
touches what they hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.machine import records as r
from tenuto.messages.convert import Words, step_parts, to_turns
from tenuto.messages.stored import (
    HIDDEN,
    DataPart,
    ErrorPart,
    ErrorText,
    MessagePart,
    SourceDocumentPart,
    SourcePart,
    ToolInvocation,
)
from tenuto.messages.told import read_told
from tenuto.messages.turns import (
    CallPart,
    Prompt,
    ProviderResult,
    Reasoning,
    ResultPart,
    SystemTurn,
    Text,
    ToolTurn,
    Turn,
    UserTurn,
)
from tenuto.steps.failure import error_of
from tenuto.steps.results import RequestInfo, ResponseInfo, StepResult
from tenuto.steps.rewrite import rewrite
from tenuto.steps.run import StepDraft
from tenuto.steps.transcript import take_feedback
from tenuto.steps.veil import ALL

if TYPE_CHECKING:
    from tenuto.steps.run import Run


BODIES_KEPT = 1 << 20
"""Bytes of request bodies that a run's steps keep for `step.request.body`; the last step's is always there."""


def absorb(run: Run, record: r.AnyRecord) -> None:  # noqa: C901, PLR0912, PLR0915 - one row per record
    """Take `record` into the run's data."""
    # What every run has comes first, for each row that is passed over takes time.
    match record:
        case r.RunStarted() | r.SegmentStarted():
            run.traced = record.trace or run.traced
        case r.Prepared():
            _prompt(run, record)
        case r.ModelStarted():
            pass
        case r.ModelEnded():
            run.corrections, run.repaired = (), None
            titles = {call.id: call.title for call in record.calls if call.title is not None}
            run.draft = StepDraft(record.said, titles=titles)
            run.prompt.append(record.said.turn)
        case r.StepJudged():
            _close(run, record.reason)
            _conclude(run, record)
            for feedback in (None if record.checked is None else record.checked.feedback, record.feedback):
                if feedback is not None:
                    take_feedback(run, feedback)
                    run.prompt.append(UserTurn((Text(feedback.text),)))
        case r.Finalised():
            _end(run, record)
        case r.Finished():
            run.tripwire = record.tripwire or run.tripwire
        case r.Assessed() if run.draft is not None:
            run.draft.shown.update(record.shown or {})
        case r.ToolStarted() if run.draft is not None:
            run.draft.unsettled.discard(record.call_id)
        case r.ToolEnded():
            _answer(run, record)
        case r.StepPrepared():
            run.changes = record
            run.veiled = tuple(dict.fromkeys((*run.veiled, *record.veiled)))
        case r.ProcessorState():
            _remember(run, record)
        case r.StepRejected():
            _reject(run, record)
        case r.Blocked():
            run.draft = run.draft or (None if record.said is None else StepDraft(record.said))
            run.tripwire = record.tripwire
            run.error = run.error or (None if record.error is None else error_of(record.error))
        case r.ModelFailed():
            run.draft = StepDraft(record.said)
            run.error = run.error or error_of(record.error)
        case r.DataWritten() if run.draft is not None:
            _write(run.draft, record)
        case r.Decision():
            _decide(run, record)
        case r.AbortRequested():
            run.draft = run.draft or (StepDraft(record.said) if record.said is not None else None)
        case _:
            pass


def _prompt(run: Run, record: r.Prepared) -> None:
    run.veiled = record.veiled
    run.context, run.input = list(record.context), list(record.input)
    run.input_turns = tuple(to_turns(record.input))
    turns = [*_remembered(run), *to_turns(record.context), *run.input_turns]
    said = [turn for turn in turns if isinstance(turn, SystemTurn)]
    run.prompt = Prompt((*record.system, *said), [turn for turn in turns if not isinstance(turn, SystemTurn)])


def _remember(run: Run, record: r.ProcessorState) -> None:
    from tenuto.processors.state import States

    run.states = run.states or States()
    run.states.restore(record.states)


def _reject(run: Run, record: r.StepRejected) -> None:
    """The step stays, empty; only what it took and why it was not accepted is known of it."""
    step = step_result(run, StepDraft(record.said), "retry" if record.again else "tripwire")
    run.steps.append(replace(step, tripwire=record.tripwire))
    run.usage = run.usage + record.said.usage
    run.draft = run.sent = run.repaired = None
    run.shown_calls |= frozenset(record.calls)
    _forget_bodies(run)
    if record.again:
        run.corrections = (*run.corrections, record.tripwire.reason)
    else:
        run.tripwire = record.tripwire


def _remembered(run: Run) -> list[Turn]:
    """What the run has read of its thread, and found in it and in others."""
    if run.memory is None:
        return []
    from tenuto.memory.told import as_told, elsewhere

    here = [message for message in run.found if message.thread_id == run.memory.thread]
    others = [message for message in run.found if message.thread_id != run.memory.thread]
    told = as_told([*here, *run.remembered], whole_calls=run.memory.config.filter_incomplete_tool_calls)
    return [*([SystemTurn(elsewhere(others))] if others else []), *to_turns(told)]


def _answer(run: Run, record: r.ToolEnded) -> None:
    draft = run.draft
    if draft is None:
        return
    if record.delegated is not None:
        _delegated(draft, record.call_id, record.delegated)
    if record.outcome in {"aborted", "client"}:
        return
    if record.outcome == "suspended":
        draft.suspended[record.call_id] = record.result
        draft.schemas[record.call_id] = record.text
        if record.asks == "outcome":
            draft.unsettled.add(record.call_id)
        return
    call = next(call for call in draft.said.turn.calls if call.tool_call_id == record.call_id)
    draft.texts[record.call_id] = record.text
    draft.shown[record.call_id] = {**draft.shown.get(record.call_id, {}), **(record.shown or {})}
    if record.told is not None:
        draft.told[record.call_id] = record.told
    if record.outcome == "denied":
        draft.denied.add(record.call_id)
    draft.results[record.call_id] = c.ToolResult(run.run_id, "AGENT", result_payload(call, record))
    answered = [call for call in draft.said.turn.calls if not call.provider_executed]
    if all(call.tool_call_id in draft.results for call in answered):
        run.prompt.append(ToolTurn(tuple(_result_part(draft, call) for call in answered)))


def _delegated(draft: StepDraft, call_id: str, came: r.Delegated) -> None:
    """A later word on a call replaces the one before it: its usage is that of the whole child run."""
    draft.delegated[call_id] = came
    if came.waits_for is not None:
        draft.inner[call_id] = came.waits_for
        draft.answered.pop(call_id, None)


def _write(draft: StepDraft, record: r.DataWritten) -> None:
    part = DataPart(record.type.removeprefix("data-"), record.data, record.id)
    if part.id is not None:
        draft.written = [each for each in draft.written if (each.name, each.id) != (part.name, part.id)]
    draft.written.append(part)


def _decide(run: Run, record: r.Decision) -> None:
    draft = run.draft
    if draft is None:
        return
    if record.inner:
        draft.answered[record.call_id] = record
        return
    if not record.approved:
        draft.declined[record.call_id] = record.reason or ""
        return
    if record.args is not None:
        draft.edited[record.call_id] = record.args
    draft.resumed[record.call_id] = record.resume_data


def result_payload(call: CallPart, record: r.ToolEnded) -> p.ToolResultPayload:
    """The result of a call as the user sees it; a failed one holds the text that the model was given."""
    if record.error is not None or record.outcome == "denied":
        return p.ToolResultPayload(call.tool_call_id, call.tool_name, record.text, call.args, is_error=True)
    return p.ToolResultPayload(call.tool_call_id, call.tool_name, record.result, call.args)


def _result_part(draft: StepDraft, call: CallPart) -> ResultPart:
    call_id = call.tool_call_id
    failed = draft.results[call_id].payload.is_error
    told = draft.told.get(call_id)
    content = None if told is None else read_told(told).content
    return ResultPart(call_id, call.tool_name, draft.texts[call_id], failed, content)


def _end(run: Run, record: r.Finalised) -> None:
    _close(run, record.reason)
    run.ended_at = record.at
    run.tripwire = record.tripwire or run.tripwire
    if record.error is not None:
        run.error = run.error or error_of(record.error)
        run.parts.append(ErrorPart(ErrorText(record.error.name, record.error.message)))
    if record.messages is not None:
        rewrite(run, record.messages)


def _conclude(run: Run, record: r.StepJudged) -> None:
    """Take in what became of the structured output."""
    if record.error is not None:
        run.error = run.error or error_of(record.error)
    if record.answer is not None:
        run.answer = record.answer
        run.usage = run.usage if record.answer.usage is None else run.usage + record.answer.usage


def _close(run: Run, reason: p.FinishReason) -> None:
    """Move the draft into the run's steps, usage and stored parts."""
    draft = run.draft
    if draft is None:
        return
    run.parts.extend(draft_parts(run, draft))
    result = step_result(run, draft, reason)
    run.draft = run.sent = None
    run.steps.append(result)
    _forget_bodies(run)
    run.usage = run.usage + usage_of(draft)


def usage_of(draft: StepDraft) -> p.Usage:
    """What the step took: its model call, and the child runs that its calls started, each once."""
    usage = draft.said.usage
    for came in draft.delegated.values():
        if came.usage is not None:
            usage = replace(usage + came.usage, raw=draft.said.usage.raw)
    return usage


def draft_parts(run: Run, draft: StepDraft) -> list[MessagePart]:
    """The stored parts of the step in progress."""
    turn, step = draft.said.turn, len(run.steps) + 1
    calls = {call.tool_call_id: call for call in turn.calls}
    outcomes = {call_id: _invocation(draft, calls[call_id], chunk, step) for call_id, chunk in draft.results.items()}
    words = Words(draft.texts, draft.told, draft.titles, _transcript(run, draft))
    return [*step_parts(turn, outcomes, draft.said.model, step, words), *_sources(draft), *draft.written]


def _transcript(run: Run, draft: StepDraft) -> dict[str, dict[str, Any]]:
    """By call id and phase, what a transcript shows of calls it must not show as they are; hidden where none said."""
    if not run.veiled:
        return {}
    hidden = {"transformed": HIDDEN, "failed": True}
    found: dict[str, dict[str, Any]] = {}
    for call in draft.said.turn.calls:
        if ALL in run.veiled or call.tool_name in run.veiled:
            done = draft.results.get(call.tool_call_id)
            failed = done is not None and done.payload.is_error
            known = {"input-available": hidden, "error" if failed else "output-available": hidden}
            found[call.tool_call_id] = {**known, **draft.shown.get(call.tool_call_id, {})}
    return found


def _forget_bodies(run: Run) -> None:
    """Keep the request bodies of the last steps only, for each holds the whole history before it."""
    kept = 0
    for place in range(len(run.steps) - 1, -1, -1):
        step = run.steps[place]
        if step.request.sent is None:
            return
        kept += step.request.size
        if kept > BODIES_KEPT and place < len(run.steps) - 1:
            run.steps[place] = replace(step, request=RequestInfo())


def step_result(run: Run, draft: StepDraft, reason: p.FinishReason) -> StepResult:
    """The result of the step `draft`, which ended with `reason`."""
    said = draft.said
    meta = said.metadata
    calls = call_chunks(run.run_id, draft)
    results = {**_provider_results(run.run_id, draft), **draft.results}
    return StepResult(
        step_type="tool-result" if run.steps else "initial",
        text=said.turn.text,
        reasoning=_reasoning(run.run_id, draft),
        tool_calls=calls,
        tool_results=tuple(
            results[call.payload.tool_call_id] for call in calls if call.payload.tool_call_id in results
        ),
        sources=tuple(c.Source(run.run_id, "AGENT", each) for each in said.sources),
        files=tuple(c.File(run.run_id, "AGENT", each) for each in said.files),
        finish_reason=reason,
        usage=usage_of(draft),
        warnings=said.warnings,
        request=RequestInfo(run.sent),
        response=ResponseInfo(meta.id, meta.timestamp, meta.model_id, meta.headers),
        provider_metadata=meta.provider_metadata,
        model=said.model,
        run_id=run.run_id,
        raw_finish_reason=said.raw_reason,
    )


def call_chunks(run_id: str, draft: StepDraft) -> tuple[c.ToolCall, ...]:
    """The step's calls as chunks."""
    if not draft.said.turn.calls:
        return ()
    return tuple(
        c.ToolCall(
            run_id,
            "AGENT",
            p.ToolCallPayload(
                part.tool_call_id,
                part.tool_name,
                part.args,
                draft.titles.get(part.tool_call_id),
                provider_executed=part.provider_executed,
                provider_metadata=part.provider_metadata,
                raw_args=part.raw_args,
            ),
        )
        for part in draft.said.turn.calls
    )


def _provider_results(run_id: str, draft: StepDraft) -> dict[str, c.ToolResult]:
    """By call id, what the provider's own tools answered."""
    return {
        part.tool_call_id: c.ToolResult(
            run_id,
            "AGENT",
            p.ToolResultPayload(
                part.tool_call_id,
                part.tool_name,
                part.result,
                is_error=part.is_error,
                provider_executed=True,
                provider_metadata=part.provider_metadata,
            ),
        )
        for part in draft.said.turn.content
        if isinstance(part, ProviderResult)
    }


def _reasoning(run_id: str, draft: StepDraft) -> tuple[c.ReasoningDelta, ...]:
    parts = [part for part in draft.said.turn.content if isinstance(part, Reasoning)]
    return tuple(
        c.ReasoningDelta(
            run_id, "AGENT", p.ReasoningDeltaPayload(f"reasoning-{place}", part.text, part.provider_metadata)
        )
        for place, part in enumerate(parts)
    )


def _invocation(draft: StepDraft, call: CallPart, chunk: c.ToolResult, step: int) -> ToolInvocation:
    name, call_id, raw = call.tool_name, call.tool_call_id, call.raw_args
    if call_id in draft.denied:
        text = draft.texts[call_id]
        return ToolInvocation("output-denied", call_id, name, call.args, step, error_text=text, raw_input=raw)
    if chunk.payload.is_error:
        text = draft.texts[call_id]
        return ToolInvocation("output-error", call_id, name, call.args, step, error_text=text, raw_input=raw)
    return ToolInvocation("result", call_id, name, call.args, step, result=chunk.payload.result, raw_input=raw)


def _sources(draft: StepDraft) -> list[MessagePart]:
    return [_source(each) for each in draft.said.sources]


def _source(source: p.SourcePayload) -> MessagePart:
    metadata = source.provider_metadata
    if source.source_type == "document" and source.mime_type is not None:
        return SourceDocumentPart(source.id, source.mime_type, source.title, source.filename, metadata)
    found = {"id": source.id, "sourceType": source.source_type, "title": source.title, "url": source.url}
    return SourcePart({name: value for name, value in found.items() if value is not None}, metadata)
