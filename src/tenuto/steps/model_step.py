"""Executes `CallModel`: one model call, streamed into the log as it comes.

Invariant: the call has exactly one outcome in the journal: ended, failed, or cut short by an abort. What the model
said before a failure is kept as partial, never as an answer.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from tenuto.core import chunks as c
from tenuto.core import faults
from tenuto.core import payloads as p
from tenuto.core.errors import ModelError, StoreError, TenutoError
from tenuto.core.foreign import contained, message_of
from tenuto.machine.records import DecidedCall, ModelEnded, ModelFailed, ModelStarted, Said
from tenuto.models.catalogue import heed, info_of, priced
from tenuto.models.ports import Finish, ModelRequest, RequestStart
from tenuto.steps.callbacks import call_back
from tenuto.steps.failure import error_info
from tenuto.steps.judge import step_finish
from tenuto.steps.run import Run, StepDraft
from tenuto.steps.turn import TurnBuilder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from tenuto.machine.commands import CallModel
    from tenuto.models.ports import ModelSettings, Part
    from tenuto.steps.ports import RunLog


async def call_model(run: Run, log: RunLog, command: CallModel) -> None:
    """Make the call of `command` and log its outcome.

    Cancelled, it keeps the partial turn as the run's draft; because the run was aborted, it then returns.
    """
    builder = TurnBuilder(run.run_id)
    call = _Call(run, log, command, builder)
    try:
        with contained():
            await call.stream()
    except asyncio.CancelledError:
        call.cut_short()
        if not run.aborted:
            raise
    except StoreError:
        raise  # the log's, not the model's: nothing more can be written about this call
    except Exception as error:  # noqa: BLE001 - a model is somebody else's code; its failure ends the run, not the loop
        if run.aborted:  # it saw the abort before we did, or failed beside it
            call.cut_short()
        else:
            await call.fail(error if isinstance(error, ModelError) else _wrapped(error))


class _Call:
    """One model call under way."""

    def __init__(self, run: Run, log: RunLog, command: CallModel, builder: TurnBuilder) -> None:
        self._run = run
        self._log = log
        self._command = command
        self._builder = builder
        self._started = False
        self._info = info_of(run.model)
        self._settings, self._left_out = heed(run.options.model_settings, self._info)

    async def stream(self) -> None:
        model = self._run.model
        assert model is not None  # noqa: S101 - Prepare has run
        request = _request(self._run, self._settings)
        batches = cast("AsyncGenerator[Sequence[Part], None]", model.stream(request))
        async with aclosing(batches):
            while (batch := await self._next(batches)) is not None:
                await self._take(batch)
                if self._run.aborted and self._builder.finish is None:
                    self.cut_short()
                    return
        if self._builder.finish is None:
            message = "The model's stream ended without its end marker; what came before is incomplete."
            raise ModelError(message, id="MODEL_STREAM_CUT", provider=model.provider, retryable=True)

    async def _next(self, batches: AsyncGenerator[Sequence[Part], None]) -> Sequence[Part] | None:
        """Wait for the model: the only wait of the call that an abort may cut short. The log is never interrupted."""
        run = self._run
        run.listening = True
        try:
            return await anext(batches, None)
        finally:
            run.listening = False

    async def _take(self, batch: Sequence[Part]) -> None:
        builder = self._builder
        chunks, deltas = builder.take(batch)
        if not self._started:
            await self._begin(chunks if builder.finish is None else [])
            if builder.finish is None:
                return
        if builder.finish is not None:
            await self._end(builder.finish, chunks)
        elif chunks:
            await self._log.stream(chunks, deltas=deltas)
            faults.hit("model.mid_stream")

    async def _begin(self, chunks: Sequence[c.AnyChunk]) -> None:
        run, command = self._run, self._command
        self._started = True
        start = self._builder.start or RequestStart(None)
        run.sent = start.body
        payload = p.StepStartPayload(run.message_id, {}, self._warnings, started_at=int(run.clock.now() * 1000))
        step_start = c.StepStart(run.run_id, "AGENT", payload)
        again: list[c.AnyChunk] = []
        if command.attempt > 1:
            forget = p.AttemptRestartedPayload(command.step, command.attempt, self._log.state.first_event)
            again = [c.AttemptRestarted(run.run_id, "AGENT", forget)]
        record = ModelStarted(command.step, command.attempt, self._log.next_event + len(again))
        faults.hit("model.before_call")
        await self._log.commit(record, chunks=[*again, step_start, *chunks])

    async def _end(self, finish: Finish, chunks: Sequence[c.AnyChunk]) -> None:
        builder = self._builder
        if finish.reason == "error" or (builder.empty and finish.reason in {"other", "tool-calls"}):
            raise _nothing_said(finish, self._run)
        calls = tuple(
            DecidedCall(call.tool_call_id, call.tool_name) for call in builder.turn.calls if not call.provider_executed
        )
        said = self._said(_reason(finish, called=bool(calls)))
        await self._log.commit(ModelEnded(self._command.step, self._command.attempt, said, calls), chunks=chunks)
        faults.hit("model.after_commit")

    @property
    def _warnings(self) -> tuple[p.Json, ...]:
        start = self._builder.start
        return self._left_out if start is None else (*self._left_out, *start.warnings)

    def _said(self, reason: p.FinishReason) -> Said:
        builder, finish = self._builder, self._builder.finish
        response = builder.metadata
        return Said(
            builder.turn,
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

    def cut_short(self) -> None:
        """Keep what was said before the abort."""
        self._run.draft = StepDraft(self._said("aborted"))

    async def fail(self, error: ModelError) -> None:
        """Log the failure: `error`, then the end of the step."""
        run, command = self._run, self._command
        if not self._started:
            await self._begin([])
        info = error_info(error)
        run.error = error
        said = self._said("error")
        ended = step_finish(run, StepDraft(said), go_on=False)
        record = ModelFailed(command.step, command.attempt, said, info)
        await self._log.commit(record, chunks=[c.Error(run.run_id, "AGENT", p.ErrorPayload(info)), ended])
        await call_back(run.options.on_error, error, "on_error")


def _request(run: Run, settings: ModelSettings) -> ModelRequest:
    options = run.options
    return ModelRequest(
        prompt=run.prompt,
        tools=run.specs,
        tool_choice=options.tool_choice,
        settings=settings,
        provider_options=options.provider_options,
        abort=run.abort.signal,
    )


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
