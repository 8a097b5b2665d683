"""The result of a run: what `generate()` returns and what `stream()` has gathered at its end.

Invariant: a value, complete when it is made; `text` is the text of all steps, `usage` the sum over all steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Generic, Literal, cast

from msgspec import Struct
from typing_extensions import TypeVar

from tenuto.core.chunks import File, ReasoningDelta, Source, ToolCall, ToolResult
from tenuto.core.errors import OutputInvalid, TenutoError
from tenuto.core.payloads import FinishReason, Json, TripwirePayload, Usage, wire_name
from tenuto.evals.sample import ScoringData
from tenuto.messages.convert import to_turns
from tenuto.messages.stored import Message
from tenuto.messages.turns import Turn
from tenuto.messages.ui import UIMessage, to_ui_messages
from tenuto.steps.results import PendingCall, RequestInfo, ResponseInfo, StepResult
from tenuto.steps.run import UNSET, Run
from tenuto.steps.scoring import scoring_data
from tenuto.steps.transcript import all_messages, own_messages
from tenuto.structured.schema import Unfit

OutputT = TypeVar("OutputT", default=str)


class Response(Struct, frozen=True, rename=wire_name):
    """The last provider answer of the run, and the run's own messages.

    Attributes:
        messages: As turns: what the model said and what it was told; they can be passed as messages again.
        db_messages: The same in stored form.
    """

    id: str | None
    timestamp: int | None
    model_id: str | None
    headers: Mapping[str, str] | None
    messages: tuple[Turn, ...]
    db_messages: tuple[Message, ...]

    @property
    def ui_messages(self) -> tuple[UIMessage, ...]:
        """The same for a user interface, as the AI SDK has them."""
        return tuple(to_ui_messages(self.db_messages))


class Result(Struct, Generic[OutputT], frozen=True, rename=wire_name):
    """What a run produced.

    Attributes:
        text: All steps' text, joined; on an abort or a failure, what had been said so far.
        tool_calls: Chunks, over the whole run; also calls that were never answered.
        tool_results: Chunks, in call order; a failed call has `payload.is_error` and the text the model was given.
        usage: Sum over the steps; `total_usage` is the same.
        finish_reason: `stop`, `length`, `content-filter`, `tool-calls` (the step limit ended it), `error`, `aborted`
            `tripwire` (a processor did not accept the answer) or `other`.
        messages: Every message of the run that is not a system message, oldest first; give them back, with a new one,
            to go on with the conversation.
        remembered_messages: Those of `messages` that were read from memory.
        thread_id: The thread the run was on; None: on none.
        resource_id: Whose thread that is.
        pending: Calls that wait for a decision, when the reason is `suspended`.
        degraded: Options of the call that the process which ended the run did not have; see `docs/durability.md`.
        error: Why the run failed, else None.
        tripwire: Why a processor blocked the run, else None; look at it before you use `text`.
        trace_id: Of the run's trace, 32 hex digits; None without a tracer.
        scoring_data: With `return_scorer_data`: what scorers of this run get.
        span_id: Of the span around the run's last segment, 16 hex digits; None without a tracer.
        object_or_none: The structured output; None when there is none.
        object_state: Whether there is one: nobody asked for it, there is `none` (the run failed, waits, was aborted, or
            ended before a final answer; or the strategy is `warn`), it `fits` its schema, or it is the `fallback`.
    """

    run_id: str
    text: str
    steps: tuple[StepResult, ...]
    tool_calls: tuple[ToolCall, ...]
    tool_results: tuple[ToolResult, ...]
    usage: Usage
    finish_reason: FinishReason
    reasoning: tuple[ReasoningDelta, ...]
    sources: tuple[Source, ...]
    files: tuple[File, ...]
    warnings: tuple[Json, ...]
    request: RequestInfo
    response: Response
    provider_metadata: Mapping[str, Any] | None
    messages: tuple[Message, ...]
    remembered_messages: tuple[Message, ...] = ()
    thread_id: str | None = None
    resource_id: str | None = None
    pending: tuple[PendingCall, ...] = ()
    degraded: tuple[str, ...] = ()
    error: TenutoError | None = None
    tripwire: TripwirePayload | None = None
    trace_id: str | None = None
    span_id: str | None = None
    scoring_data: ScoringData | None = None
    object_or_none: OutputT | None = None
    object_state: Literal["unasked", "none", "fits", "fallback"] = "unasked"

    @property
    def used_fallback_value(self) -> bool:
        """Whether `object` is the `fallback_value`."""
        return self.object_state == "fallback"

    @property
    def suspend_payload(self) -> Json:
        """What the first pending call asks for, as in its chunk; None when the run is not suspended."""
        return self.pending[0].to_dict() if self.pending else None

    @property
    def resume_schema(self) -> Json:
        """JSON text of the schema that an answer to the first pending call must fit; None when there is none."""
        return self.pending[0].resume_schema if self.pending else None

    @property
    def total_usage(self) -> Usage:
        """The same as `usage`."""
        return self.usage

    @property
    def reasoning_text(self) -> str | None:
        """All reasoning, joined; None when there was none."""
        return "".join(chunk.payload.text for chunk in self.reasoning) or None

    @property
    def object(self) -> OutputT:
        """The structured output, of the type that was asked for.

        Raises:
            OutputInvalid: There is none; see `object_state`.
        """
        if self.object_state in {"fits", "fallback"}:
            return cast("OutputT", self.object_or_none)
        if isinstance(self.error, OutputInvalid):
            raise self.error
        why = "none was asked for" if self.object_state == "unasked" else f"it ended with {self.finish_reason!r}"
        message = f"Run {self.run_id!r} has no structured output: {why}."
        raise OutputInvalid(message, id="STRUCTURED_OUTPUT_ABSENT", category="USER", text=self.text)


def build_result(run: Run, reason: FinishReason) -> Result[Any]:
    """The result of `run`, which ended with `reason`."""
    steps = tuple(run.steps)
    last = steps[-1] if steps else None
    own = own_messages(run)
    link = run.trace.root.link or run.traced
    structured, degraded = _object(run)
    return Result(
        run_id=run.run_id,
        text="".join([step.text for step in steps]),
        steps=steps,
        tool_calls=tuple([chunk for step in steps for chunk in step.tool_calls]),
        tool_results=tuple([chunk for step in steps for chunk in step.tool_results]),
        usage=run.usage,
        finish_reason=reason,
        reasoning=tuple([chunk for step in steps for chunk in step.reasoning]),
        sources=tuple([chunk for step in steps for chunk in step.sources]),
        files=tuple([chunk for step in steps for chunk in step.files]),
        warnings=() if last is None else last.warnings,
        request=RequestInfo() if last is None else last.request,
        response=_response(ResponseInfo() if last is None else last.response, own),
        provider_metadata=None if last is None else last.provider_metadata,
        pending=_pending(run) if reason == "suspended" else (),
        degraded=(*run.degraded, *degraded),
        messages=all_messages(run, own),
        remembered_messages=(*run.found, *run.remembered),
        thread_id=run.thread_id,
        resource_id=run.resource_id,
        error=run.error,
        tripwire=run.tripwire,
        trace_id=None if link is None else link.trace_id,
        span_id=None if link is None else link.span_id,
        scoring_data=scoring_data(run) if run.options.return_scorer_data else None,
        object_or_none=structured,
        object_state=_object_state(run),
    )


def _object_state(run: Run) -> Literal["unasked", "none", "fits", "fallback"]:
    if run.answer is not None:
        return run.answer.state
    asked = run.options.structured_output is not None or "structured_output" in (run.persisted or {})
    return "none" if asked else "unasked"


def _object(run: Run) -> tuple[Any, tuple[str, ...]]:
    """The structured output, made again where another process made it; and what this process lacks for it."""
    answer, output = run.answer, run.options.structured_output
    if answer is None or answer.state == "none":
        return None, ()
    if run.given is not UNSET:
        return run.given, ()
    if output is not None:
        with contextlib.suppress(Unfit):
            return output.schema.load(answer.value)[0], ()
    persisted: Mapping[str, Any] = run.persisted or {}
    kept: Mapping[str, Any] = persisted.get("structured_output") or {}
    lost = kept.get("typed") and "structured_output" not in run.degraded
    return answer.value, ("structured_output",) if lost else ()


def _pending(run: Run) -> tuple[PendingCall, ...]:
    return tuple(
        PendingCall(row.call_id, row.tool_name, row.args, row.kind, row.suspend_payload, row.resume_schema)
        for row in run.pending.values()
    )


def _response(said: ResponseInfo, own: tuple[Message, ...]) -> Response:
    return Response(said.id, said.timestamp, said.model_id, said.headers, tuple(to_turns(own)), own)


def stream_text(result: Result[Any]) -> str:
    """What `await stream.text` gives: the last step's text when tools were used, else all of it."""
    if result.steps and any(step.tool_calls for step in result.steps):
        return result.steps[-1].text
    return result.text


def failure_of(result: Result[Any]) -> TenutoError | None:
    """The error `generate()` raises for `result`, carrying it."""
    error = result.error
    if error is not None:
        error.result = cast("Any", result)
    return error
