"""Executes `CallModel`: one attempt of a model call, streamed into the log as it comes.

Invariant: the attempt has exactly one outcome in the journal: ended, failed (for good, or for this model of the list),
or cut short by an abort. What the model said before a failure is kept as partial, never as an answer. A retry is no new
attempt: it is made only while viewers have seen nothing of an answer, and the journal knows nothing of it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from itertools import count
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from tenuto.core import chunks as c
from tenuto.core import faults
from tenuto.core import payloads as p
from tenuto.core.errors import ModelError, StoreError, TenutoError
from tenuto.core.foreign import contained, message_of
from tenuto.core.spans import NO_SPAN, Span
from tenuto.machine.records import AttemptFailed, DecidedCall, ModelEnded, ModelFailed, ModelStarted, Said
from tenuto.models.catalogue import heed, info_of, priced
from tenuto.models.ports import Finish, ModelRequest, RequestStart
from tenuto.models.retries import retries_of, seconds_until_retry
from tenuto.steps.budget import LimitReached, Reserved, reckoned_answer
from tenuto.steps.callbacks import call_back
from tenuto.steps.candidates import current, following, name_tried
from tenuto.steps.deadlines import Deadlines
from tenuto.steps.failure import error_info
from tenuto.steps.files import fetch_links
from tenuto.steps.inputs import heard, title_of
from tenuto.steps.judge import step_finish
from tenuto.steps.prepare_step import options_of, prepare_step, settings_of
from tenuto.steps.run import Run, StepDraft
from tenuto.steps.tracing import stopped_by
from tenuto.steps.turn import TurnBuilder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from tenuto.machine.commands import CallModel
    from tenuto.messages.turns import AssistantTurn, Prompt
    from tenuto.models.ports import LanguageModel, Part
    from tenuto.steps.ports import RunLog
    from tenuto.structured.stream import AnswerStream

_log = logging.getLogger("tenuto")

_NO_ANSWER = frozenset({c.Raw, c.ResponseMetadata})
"""Chunks that may come again when the call is made again: they describe a request, not the answer."""

_CONTENT = frozenset(
    {c.TextDelta, c.ReasoningDelta, c.ToolInputStart, c.ToolInputDelta, c.ToolCall, c.ToolResult, c.Object, c.File}
    | {c.Source, c.ReasoningSignature, c.RedactedReasoning, c.ReasoningFile, c.Custom}
)
"""The first of these ends the wait for the first content."""


async def call_model(run: Run, log: RunLog, command: CallModel) -> None:
    """Make the call of `command` and log its outcome.

    Cancelled, it keeps the partial turn as the run's draft; because the run was aborted, it then returns.
    """
    if run.chain is not None:
        from tenuto.steps.processed_call import call_processed

        await call_processed(run, log, command)
        return
    if (run.options.prepare_step or run.changes) and not await prepare_step(run, log, command.step):
        return
    await make(run, ModelCall(run, log, command))


async def make(run: Run, call: ModelCall) -> None:
    """Make `call` and log its outcome; see `call_model`."""
    try:
        with contained():
            await call.stream()
    except asyncio.CancelledError:
        await call.stopped()
        if not run.aborted:
            raise
    except StoreError:
        raise  # the log's, not the model's: nothing more can be written about this call
    except LimitReached as error:
        await call.refused(error)  # another model of the list is no way around it
    except Exception as error:  # noqa: BLE001 - a model is somebody else's code; its failure ends the run, not the loop
        if run.aborted:  # it saw the abort before we did, or failed beside it
            await call.stopped()
        else:
            await call.raised(error)


class ModelCall:
    """One attempt: one model asked, again as long as nothing of an answer was shown and its retries last."""

    def __init__(self, run: Run, log: RunLog, command: CallModel) -> None:
        self._run = run
        self._log = log
        self._command = command
        self._builder = TurnBuilder(run.run_id)
        self._candidates = run.candidates if run.inputs.candidates is None else run.inputs.candidates
        self._candidate = current(self._candidates, log.state.failed)
        self._given = settings_of(run, self._candidate)
        self._info = info_of(self._candidate.model)
        self._settings, self._left_out = heed(self._given.sent, self._info)
        self._deadlines = Deadlines(run, self._given.timeout)
        self._answer: AnswerStream | None = None
        self._started = self._shown = self._answered = False
        self._span: Span = NO_SPAN
        self._reserved: Reserved | None = None
        run.model = self._candidate.model

    async def stream(self) -> None:
        """Ask the model, and log its answer.

        Raises:
            ModelError: It failed.
        """
        retries = retries_of(self._candidate.max_retries, self._run.definition.max_retries, self._given.max_retries)
        try:
            for tries in count(1):
                try:
                    await self._ask()
                except ModelError as error:
                    wait = None if tries > retries or self._shown else seconds_until_retry(tries, error)
                    if wait is None or self._run.aborted:
                        raise
                    await self._wait(wait, error, f"retry {tries} of {retries}")
                else:
                    return
        finally:
            self._deadlines.close()
            self._settle(None)

    def _reserve(self, request: ModelRequest) -> None:
        """Put aside what the request may take; what was put aside for the try before it is free again."""
        if self._run.budget is not None:
            self._settle(None)
            self._reserved = self._run.budget.reserve(request, self._candidate.model, self._info)

    def _settle(self, said: Said | None) -> None:
        if self._run.budget is None or self._reserved is None:
            return
        reserved, self._reserved = self._reserved, None
        took = None if said is None else said.usage
        if said is not None and not said.usage.total_tokens:
            took = priced(reckoned_answer(reserved, said.turn.text), self._info)
        self._run.budget.settle(reserved, took)

    async def _wait(self, seconds: float, error: ModelError, which: str) -> None:
        run = self._run
        _log.warning("Run %s: %s; %s in %g s.", run.run_id, error, which, seconds)
        faults.hit("model.before_retry")
        self._deadlines.answered()
        self._deadlines.check()
        await self._deadlines.within(run.clock.sleep(seconds))
        self._builder = TurnBuilder(run.run_id)

    async def _ask(self) -> None:
        model, deadlines = self._candidate.model, self._deadlines
        request = self._request()
        if request.prompt.linked:
            await deadlines.within(fetch_links(self._run, request.prompt, model))
        deadlines.check()
        deadlines.asked()
        request = self._asking_for_data(request)
        self._reserve(request)
        with self._run.trace.model_call(self._run, request) as self._span:
            await self._read(cast("AsyncGenerator[Sequence[Part], None]", model.stream(request)), model)

    async def _read(self, batches: AsyncGenerator[Sequence[Part], None], model: LanguageModel) -> None:
        deadlines = self._deadlines
        async with aclosing(batches):
            while (batch := await deadlines.within(anext(batches, None))) is not None:
                await self._take(batch)
                if self._builder.finish is None:
                    deadlines.check()
                    if self._run.aborted:
                        self._span.fail(stopped_by(self._run))
                        await self.stopped()
                        return
        if self._builder.finish is None:
            message = "The model's stream ended without its end marker; what came before is incomplete."
            raise ModelError(message, id="MODEL_STREAM_CUT", provider=model.provider, retryable=True)

    def _asking_for_data(self, request: ModelRequest) -> ModelRequest:
        output, fitting = self._run.options.structured_output, self._run.fitting
        if output is None or fitting is None:
            return request
        if output.model is not None:
            return fitting.with_note(request)
        from tenuto.structured.stream import AnswerStream

        fitted = fitting.fit(request, self._candidate.model)
        self._answer = AnswerStream(output, fitted)
        return fitted.request

    def _request(self) -> ModelRequest:
        run, inputs = self._run, self._run.inputs
        prompt = self._prompt
        return ModelRequest(
            prompt=prompt,
            tools=run.specs,
            provider_tools=run.provider_tools,
            tool_choice=inputs.tool_choice or run.options.tool_choice,
            settings=self._settings,
            provider_options=options_of(run, self._candidate),
            include_raw=run.options.include_raw_chunks,
            abort=run.abort.signal,
            shown=run.shown_calls if prompt is run.prompt else _shown_calls(run),
            answer=None if prompt is run.prompt else f"s{self._command.step}",
        )

    @property
    def _prompt(self) -> Prompt:
        return self._run.inputs.prompt or self._run.prompt

    async def _take(self, batch: Sequence[Part]) -> None:
        builder = self._builder
        if self._answer is not None:
            batch = self._answer.take(batch)
        chunks, deltas = builder.take(batch)
        if self._answer is not None:
            partials = self._answer.partials(batch)
            chunks += [c.Object(self._run.run_id, "AGENT", value) for value in partials]
            deltas += len(partials)
        if chunks and not self._answered:
            self._look_at(chunks)
        if self._run.attentive:
            chunks = await heard(self._run, chunks)
        await self._show(chunks, deltas)

    async def _show(self, chunks: Sequence[c.AnyChunk], deltas: int) -> None:
        finish = self._builder.finish
        if not self._started:
            await self._begin(chunks if finish is None else [])
            if finish is None:
                return
        if finish is not None:
            await self._end(finish, chunks)
        elif chunks:
            self._run.announced = None
            await self._log.stream(chunks, deltas=deltas)
            faults.hit("model.mid_stream")

    def _look_at(self, chunks: Sequence[c.AnyChunk]) -> None:
        """See whether the answer has begun: from then on it cannot be asked for again without saying so."""
        kinds = {type(chunk) for chunk in chunks}
        if not kinds <= _NO_ANSWER:
            self._shown = True
        if not kinds.isdisjoint(_CONTENT):
            self._answered = True
            self._deadlines.answered()

    async def _begin(self, chunks: Sequence[c.AnyChunk]) -> None:
        run, command = self._run, self._command
        self._started = True
        start = self._builder.start or RequestStart(None)
        run.sent = start.body
        opens = command.attempt == 1 or run.announced != self._warnings
        await self._record(await self._frame() if opens else [], chunks)

    async def _record(self, frame: Sequence[c.AnyChunk], chunks: Sequence[c.AnyChunk]) -> None:
        run, command, log = self._run, self._command, self._log
        first = log.state.first_event
        if frame:
            first = log.next_event + next(at for at, each in enumerate(frame) if isinstance(each, c.StepStart))
        run.announced = None if chunks else self._warnings
        faults.hit("model.before_call")
        await log.commit(ModelStarted(command.step, command.attempt, first), chunks=[*frame, *chunks])

    async def _see_begun(self) -> None:
        """See that the attempt is recorded.

        What stopped its beginning may have come before that: then nobody is asked once more about its frame.
        """
        state, command = self._log.state, self._command
        if not self._started:
            await self._begin([])
        elif (state.phase, state.step, state.attempt) != ("modelling", command.step, command.attempt):
            await self._record(self._opening(), [])

    async def _frame(self) -> list[c.AnyChunk]:
        """What opens the attempt for viewers, as they may see it."""
        return self._opening()

    def _opening(self) -> list[c.AnyChunk]:
        """What opens the attempt. Where the one before it showed the same and no more, that still holds."""
        run, command = self._run, self._command
        payload = p.StepStartPayload(run.message_id, {}, self._warnings, started_at=int(run.clock.now() * 1000))
        step_start = c.StepStart(run.run_id, "AGENT", payload)
        if command.attempt == 1:
            return [step_start]
        forget = p.AttemptRestartedPayload(command.step, command.attempt, self._log.state.first_event)
        return [c.AttemptRestarted(run.run_id, "AGENT", forget), step_start]

    async def _end(self, finish: Finish, chunks: Sequence[c.AnyChunk]) -> None:
        await self._commit(self._whole(finish), chunks)

    async def _commit(self, said: Said, chunks: Sequence[c.AnyChunk]) -> None:
        calls = tuple(
            DecidedCall(call.tool_call_id, call.tool_name, title_of(self._run, call))
            for call in said.turn.calls
            if not call.provider_executed
        )
        self._settle(said)
        self._run.trace.said(self._span, said)
        await self._log.commit(ModelEnded(self._command.step, self._command.attempt, said, calls), chunks=chunks)
        faults.hit("model.after_commit")

    def _whole(self, finish: Finish) -> Said:
        """What the model said, now that it has ended.

        Raises:
            ModelError: It ended with an error, or said nothing.
        """
        if finish.reason == "error" or (self._builder.empty and finish.reason in {"other", "tool-calls"}):
            raise _nothing_said(finish, self._run)
        said = self._said(finish.reason)
        called = any(not call.provider_executed for call in said.turn.calls)
        return replace(said, reason=_reason(finish, called=called))

    @property
    def _warnings(self) -> tuple[p.Json, ...]:
        start, run = self._builder.start, self._run
        left_out = self._left_out if start is None else (*self._left_out, *start.warnings)
        if run.unsearched is None or self._command.step > 1:
            return left_out
        return ({"type": "other", "message": run.unsearched}, *left_out)

    def _said(self, reason: p.FinishReason) -> Said:
        builder, finish = self._builder, self._builder.finish
        response = builder.metadata
        return Said(
            self._turn(),
            reason,
            p.Usage() if finish is None else priced(finish.usage, self._info),
            self._run.model_name,
            p.StepMetadata(
                response.id,
                response.timestamp,
                response.model_id,
                response.headers,
                None if finish is None else finish.provider_metadata,
            ),
            None if finish is None else finish.raw_reason,
            self._warnings,
            tuple(builder.sources),
            tuple(builder.files),
        )

    def _turn(self) -> AssistantTurn:
        """What is kept of the answer so far."""
        return self._builder.turn

    async def stopped(self) -> None:
        """Keep what was said before the run was stopped; if its time was over, that is the call's failure."""
        if self._run.timed_out is not None:
            await self._fail(self._run.timed_out)
        else:
            self._run.draft = StepDraft(self._said("aborted"))

    async def refused(self, error: LimitReached) -> None:
        """Log that the step was not made."""
        await self._fail(error)

    async def raised(self, error: Exception) -> None:
        """Take what the call raised for a failure of the model."""
        await self.failed(error if isinstance(error, ModelError) else _wrapped(error))

    async def failed(self, error: ModelError) -> None:
        """Log the failure; another model of the list, if one is left, is asked next."""
        run, log, mine = self._run, self._log, self._candidate
        other = following(self._candidates, log.state.failed, mine)
        if other is None:
            name_tried(error, log.state.failed, mine)
            await self._fail(error)
            return
        _log.warning("Run %s: %s failed (%s); %s is asked instead.", run.run_id, mine.id, error, other.id)
        await self._see_begun()
        log.note(AttemptFailed(self._command.step, self._command.attempt, mine.id, error_info(error)))
        faults.hit("model.before_fallback")

    async def _fail(self, error: TenutoError) -> None:
        """Log that the step has failed: `error`, then its end."""
        run, command = self._run, self._command
        await self._see_begun()
        info = error_info(error)
        run.error = error
        said = self._said("error")
        ended = step_finish(run, StepDraft(said), go_on=False)
        record = ModelFailed(command.step, command.attempt, said, info)
        await self._log.commit(record, chunks=[c.Error(run.run_id, "AGENT", p.ErrorPayload(info)), ended])
        await call_back(run.options.on_error, error, "on_error")


def _shown_calls(run: Run) -> frozenset[str]:
    """The ids of all calls of the run, of which a prompt that is not the run's own may have none."""
    return run.shown_calls.union(call.payload.tool_call_id for step in run.steps for call in step.tool_calls)


def _reason(finish: Finish, *, called: bool) -> p.FinishReason:
    """The step's reason: with calls, a plain end means the tools' turn; without them it is no tools' turn."""
    if called and finish.reason in {"stop", "other"}:
        return "tool-calls"
    if not called and finish.reason == "tool-calls":
        return "stop"
    return finish.reason


def _nothing_said(finish: Finish, run: Run) -> ModelError:
    reason = finish.raw_reason or finish.reason
    message = f"{run.model_name} ended with {reason!r} and no content; asking again would repeat the same request."
    return ModelError(message, provider=None if run.model is None else run.model.provider, code=reason)


def _wrapped(error: Exception) -> ModelError:
    if isinstance(error, TenutoError):
        wrapped = ModelError(str(error), id=error.id, category=error.category, details=error.details)
    else:
        wrapped = ModelError(f"The model raised {type(error).__name__}: {message_of(error)}")
    wrapped.__cause__ = error
    return wrapped
