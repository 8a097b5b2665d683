"""A model call with processors around it: `process_llm_request` to `process_output_step`, and `process_api_error`.

Invariant: nothing of the answer is shown, said or stored that did not pass the processors. An answer that one does not
accept leaves a step without content, and none of its calls is begun.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tenuto.core import chunks as c
from tenuto.core import faults
from tenuto.core import payloads as p
from tenuto.machine.records import AttemptFailed, StepRejected
from tenuto.messages.turns import AssistantTurn
from tenuto.models.ports import RequestStart
from tenuto.processors.hooks import ProcessorError
from tenuto.processors.ports import ModelResponse
from tenuto.processors.tripwire import Tripwire
from tenuto.steps.callbacks import call_back
from tenuto.steps.failure import error_info
from tenuto.steps.inputs import heard
from tenuto.steps.judge import step_finish
from tenuto.steps.model_step import ModelCall, make
from tenuto.steps.prepare_step import prepare_step
from tenuto.steps.process_answer import (
    Request,
    ask_again,
    process_request,
    process_response,
    process_step,
    repaired_prompt,
)
from tenuto.steps.processing import base_prompt, block, chain_at, may_reject, note_state, strained
from tenuto.steps.run import Run, StepDraft
from tenuto.steps.sieve import Sieve, parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenuto.core.errors import ModelError
    from tenuto.machine.commands import CallModel
    from tenuto.machine.records import Said
    from tenuto.messages.turns import Prompt
    from tenuto.models.ports import Finish, Part
    from tenuto.processors.chain import Chain
    from tenuto.steps.ports import RunLog


async def call_processed(run: Run, log: RunLog, command: CallModel) -> None:
    """Make the call of `command` with the processors of `run` around it; see `call_model`.

    Raises:
        ProcessorError: One failed before the model was asked.
    """
    chain = chain_at(run, log)
    assert chain is not None  # noqa: S101 - the caller has looked
    try:
        if not await prepare_step(run, log, command.step):
            return
        call = ProcessedCall(run, log, command, chain)
        await call.ready()
    except Tripwire as tripwire:
        await block(run, log, tripwire)
        return
    except asyncio.CancelledError:
        if not run.aborted:
            raise
        return
    await make(run, call)


class ProcessedCall(ModelCall):
    """See `ModelCall`."""

    def __init__(self, run: Run, log: RunLog, command: CallModel, chain: Chain) -> None:
        super().__init__(run, log, command)
        self._chain = chain
        self._sieve = Sieve(run, log, chain)
        self._sent = Request(run.inputs.prompt or repaired_prompt(run) or base_prompt(run))
        self._raw: list[c.TaggedChunk] = []
        self._judging = False

    async def ready(self) -> None:
        """Ask `process_llm_request`.

        Raises:
            Tripwire: One blocks the run.
            ProcessorError: One failed.
        """
        self._sent = await process_request(self._run, self._log, self._request(), self._candidate.model)

    @property
    def _prompt(self) -> Prompt:
        return self._sent.prompt

    async def _ask(self) -> None:
        response = self._sent.response
        if response is None:
            await super()._ask()
            return
        self._asking_for_data(self._request())
        parts = parts_of(response.chunks)
        await self._take([RequestStart(None), *parts, replace(response.finish, usage=p.Usage())])

    async def _wait(self, seconds: float, error: ModelError, which: str) -> None:
        await super()._wait(seconds, error, which)
        self._sieve = Sieve(self._run, self._log, self._chain)
        self._raw = []

    async def _frame(self) -> list[c.AnyChunk]:
        passed, tripwire = await strained(self._run, self._log, await super()._frame())
        if tripwire is not None:
            raise tripwire
        return list(passed)

    async def _take(self, batch: Sequence[Part]) -> None:
        if self._answer is not None and self._sent.response is None:
            batch = self._answer.take(batch)
        chunks, _ = self._builder.take(batch)
        if self._chain["process_llm_response"]:
            self._raw += [each for each in chunks if not isinstance(each, (c.Raw, c.Data))]
        if chunks and not self._answered:
            self._look_at(chunks)
        passed, tripwire = await self._sieve.take(chunks)
        if tripwire is None and self._answer is not None:
            objects, tripwire = await self._sieve.strain(self._partials(passed))
            passed += objects
        if self._run.attentive:
            passed = await heard(self._run, passed)
        if tripwire is not None:
            await self._show_last(passed)
            raise tripwire
        await self._show(passed, _deltas(passed))

    def _partials(self, passed: Sequence[c.AnyChunk]) -> list[c.AnyChunk]:
        assert self._answer is not None  # noqa: S101 - the caller has looked
        parts: list[Part] = [each.payload for each in passed if isinstance(each, (c.TextStart, c.TextDelta))]
        return [c.Object(self._run.run_id, "AGENT", value) for value in self._answer.partials(parts)]

    async def _show_last(self, chunks: Sequence[c.AnyChunk]) -> None:
        """Show what passed before a block."""
        if not self._started:
            await self._begin(chunks)
        elif chunks:
            await self._log.stream(chunks, deltas=_deltas(chunks))

    async def _end(self, finish: Finish, chunks: Sequence[c.AnyChunk]) -> None:
        run, log = self._run, self._log
        said = self._whole(finish)
        self._settle(said)
        if self._chain["process_llm_response"] or self._chain["process_output_step"]:
            await self._show_last(chunks)
            chunks = ()
        if self._sent.response is None and self._chain["process_llm_response"]:
            response = ModelResponse(tuple(self._raw), finish, run.model_name)
            await process_response(run, log, self._sent.prompt, response)
        self._judging = True
        judged = await process_step(run, log, said)
        note_state(run, log)
        await self._commit(judged, [*chunks, *_not_begun(run, said.turn, judged.turn)])

    def _turn(self) -> AssistantTurn:
        return self._sieve.turn

    def _said(self, reason: p.FinishReason) -> Said:
        said = super()._said(reason)
        metadata = replace(said.metadata, provider_metadata=None) if self._sieve.changed else said.metadata
        return replace(said, metadata=metadata, sources=self._sieve.sources, files=self._sieve.files)

    async def raised(self, error: Exception) -> None:
        """See `ModelCall.raised`; a processor's block and its failure are none of the model."""
        if isinstance(error, Tripwire):
            await self._blocked(error)
        elif isinstance(error, ProcessorError):
            note_state(self._run, self._log)
            await self._fail(error)
        else:
            await super().raised(error)

    async def failed(self, error: ModelError) -> None:
        """See `ModelCall.failed`; processors are asked before the next model is."""
        run, command = self._run, self._command
        try:
            again = await ask_again(run, self._log, error, self._candidate.model)
        except Tripwire as tripwire:
            await self._blocked(tripwire)
            return
        note_state(run, self._log)
        if not again:
            await super().failed(error)
            return
        await self._see_begun()
        failed = AttemptFailed(command.step, command.attempt, self._candidate.id, error_info(error), again=True)
        self._log.note(failed)
        faults.hit("model.before_fallback")

    async def _blocked(self, tripwire: Tripwire) -> None:
        run, log = self._run, self._log
        if not self._started:
            await self._begin([])
        again = log.state.phase == "modelling" and may_reject(run, log, tripwire)
        if again or self._judging:
            await self._reject(tripwire, again=again)
            return
        await block(run, log, tripwire, self._said("other"))

    async def _reject(self, tripwire: Tripwire, *, again: bool) -> None:
        """Record that the answer is not accepted: of the step only what it took stays."""
        run, command = self._run, self._command
        reason: p.FinishReason = "retry" if again else "tripwire"
        said = self._said(reason)
        calls = AssistantTurn(said.turn.calls)
        empty = replace(
            said,
            turn=AssistantTurn(()),
            metadata=replace(said.metadata, provider_metadata=None),
            sources=(),
            files=(),
        )
        ended = step_finish(run, StepDraft(replace(empty, turn=calls)), go_on=again, reason=reason)
        if again:
            outcome = replace(ended.payload.step_result, retry_reason=tripwire.reason)
            ended = replace(ended, payload=replace(ended.payload, step_result=outcome))
        note_state(run, self._log)
        shown = tuple(call.tool_call_id for call in calls.calls)
        record = StepRejected(command.step, command.attempt, empty, tripwire.payload, again, shown)
        faults.hit("model.before_reject")
        await self._log.commit(record, chunks=[*_not_begun(run, calls, AssistantTurn(())), ended])
        faults.hit("model.after_reject")
        await call_back(run.options.on_step_finish, run.steps[-1], "on_step_finish")


def _not_begun(run: Run, made: AssistantTurn, kept: AssistantTurn) -> list[c.AnyChunk]:
    """The outcomes of calls that viewers have seen and that will not run, since processors took them out."""
    left = {call.tool_call_id for call in kept.calls}
    error = p.ErrorInfo("ToolError", "not run: a processor did not accept the answer", "TOOL_CALL_REJECTED", "USER")
    return [
        c.ToolError(run.run_id, "AGENT", p.ToolErrorPayload(call.tool_call_id, call.tool_name, error, call.args))
        for call in made.calls
        if call.tool_call_id not in left and not call.provider_executed
    ]


def _deltas(chunks: Sequence[c.AnyChunk]) -> int:
    return sum(type(chunk) in c.DELTAS for chunk in chunks)
