"""The end of a run whose answer is data: reads the final answer, or has another model turn it into data.

Invariant: only a final answer is read: a step that ends with calls gives no object and no error. The outcome is part
of the step's verdict, stored with it, so nobody asks for it twice. An abort ends the question to the other model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from msgspec import Struct

from tenuto.core import chunks as c
from tenuto.core import codec
from tenuto.core import payloads as p
from tenuto.core.errors import OutputInvalid, TenutoError
from tenuto.core.foreign import contained
from tenuto.core.payloads import Json, Usage
from tenuto.machine.records import Answered
from tenuto.messages.turns import Text
from tenuto.steps.failure import error_info
from tenuto.steps.fold import step_result
from tenuto.steps.processing import strained

if TYPE_CHECKING:
    from tenuto.models.ports import LanguageModel
    from tenuto.steps.ports import RunLog
    from tenuto.steps.results import StepResult
    from tenuto.steps.run import Run, StepDraft
    from tenuto.structured.output import StructuredOutput
    from tenuto.structured.reading import Said
    from tenuto.structured.report import Worked


class Ending(Struct, frozen=True):
    """What became of the structured output: for the record, the stream, and, when it fails the run, the user."""

    answer: Answered | None = None
    chunks: tuple[c.AnyChunk, ...] = ()
    error: TenutoError | None = None


NOTHING = Ending()

_FROM_OTHER: Json = {"from": "structured-output"}


async def conclude(run: Run, log: RunLog, draft: StepDraft) -> Ending | None:
    """The structured output of a run whose final step is `draft`; keeps its object in `run.given`.

    None: the run was aborted meanwhile. Cancelled while another model is asked, it raises; whoever called it is to look
    whether the run was aborted.
    """
    output = run.options.structured_output
    if output is None or draft.said.reason == "tool-calls":
        return NOTHING
    if run.structuring is None:
        return _read(run, draft, output)
    return await _asked(run, log, draft, output, run.structuring)


def _read(run: Run, draft: StepDraft, output: StructuredOutput[Any]) -> Ending:
    from tenuto.structured.reading import read_answer

    try:
        given = read_answer(output, _said(draft))
    except OutputInvalid as error:
        return _without(run, output, error)
    return _with(run, given.object, given.value)


async def _asked(
    run: Run, log: RunLog, draft: StepDraft, output: StructuredOutput[Any], model: LanguageModel
) -> Ending | None:
    from tenuto.structured.ask import AskFailed, AskStopped, Question
    from tenuto.structured.reading import check_answered
    from tenuto.structured.report import INSTRUCTIONS, report

    async def show(value: Json) -> None:
        run.listening = False  # the log is never interrupted
        try:
            chunks, _ = await strained(run, log, [c.Object(run.run_id, "AGENT", value, _FROM_OTHER)])
            await log.stream(chunks, deltas=sum(type(each) in c.DELTAS for each in chunks))
        finally:
            run.listening = True

    question = Question(
        model,
        output,
        report([*map(_worked, run.steps), _worked(step_result(run, draft, draft.said.reason))]),
        output.instructions or INSTRUCTIONS,
        provider_options=output.provider_options,
        abort=run.abort.signal,
    )
    try:
        check_answered(_said(draft))
        run.listening = True
        with contained():
            asked = await question.answer(show)
    except AskStopped:
        return None
    except AskFailed as failed:
        if run.aborted:
            return None
        return _without(run, output, failed.error, failed.usage, other=True)
    except OutputInvalid as error:
        return _without(run, output, error, other=True)
    finally:
        run.listening = False
    return _with(run, asked.object, asked.value, asked.usage, other=True)


def _with(run: Run, given: Any, value: Json, usage: Usage | None = None, *, other: bool = False) -> Ending:
    run.given = given
    shown = c.ObjectResult(run.run_id, "AGENT", value, _FROM_OTHER if other else None)
    return Ending(Answered("fits", value, usage), (shown,))


def _without(
    run: Run, output: StructuredOutput[Any], error: TenutoError, usage: Usage | None = None, *, other: bool = False
) -> Ending:
    """What the strategy makes of an answer that is none."""
    match output.error_strategy:
        case "strict":
            shown = c.Error(run.run_id, "AGENT", p.ErrorPayload(error_info(error)))
            return Ending(Answered("none", usage=usage), (shown,), error)
        case "warn":
            output.logger.warning("Run %s has no structured output: %s", run.run_id, error)
            return Ending(Answered("none", usage=usage))
        case "fallback":
            metadata: Json = {"fallback": True, **_FROM_OTHER} if other else {"fallback": True}
            run.given, _ = output.schema.load(output.fallback)
            result = c.ObjectResult(run.run_id, "AGENT", output.fallback, metadata)
            return Ending(Answered("fallback", output.fallback, usage), (result,))
        case _:
            assert_never(output.error_strategy)


def _said(draft: StepDraft) -> Said:
    from tenuto.structured.reading import Said, refusal_of

    said = draft.said
    texts = tuple(part.text for part in said.turn.content if isinstance(part, Text))
    return Said(texts, said.reason, said.model, said.raw_reason, refusal_of(said.metadata.provider_metadata))


def _worked(step: StepResult) -> Worked:
    from tenuto.structured.report import Worked

    results = {each.payload.tool_call_id: each.payload.result for each in step.tool_results}
    calls = tuple(
        (
            each.payload.tool_name,
            _written(each.payload.args),
            _written(results.get(each.payload.tool_call_id, "(none)")),
        )
        for each in step.tool_calls
    )
    return Worked(step.text, step.reasoning_text or "", calls)


def _written(value: Json) -> str:
    return value if isinstance(value, str) else codec.encode(value).decode()
