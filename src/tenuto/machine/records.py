"""Journal records: what happened to a run, in the order it was committed.

Invariant: a run's state is `reduce(apply, records)`; a record holds only the new data of its moment, so the journal
grows by what is new. `FORMAT` names this set of records; an unknown record is refused, never skipped.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import msgspec
from msgspec import Struct

from tenuto.core.errors import StoreError
from tenuto.core.payloads import (
    ErrorInfo,
    FilePayload,
    FinishReason,
    IsTaskCompletePayload,
    Json,
    SourcePayload,
    StepMetadata,
    TripwirePayload,
    Usage,
    wire_name,
)
from tenuto.core.spans import SpanLink
from tenuto.messages.stored import Message
from tenuto.messages.turns import AssistantTurn, SystemTurn

FORMAT = 1
"""Version of the record format."""

LOOP_VERSION = 1
"""Version of the rules in `machine.decisions`; a process with an older one leaves a run alone."""

Verdict = Literal["run", "ask", "refuse", "client"]
ToolEnd = Literal["ok", "failed", "unknown", "suspended", "denied", "client", "aborted"]


class Record(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename=wire_name, tag_field="kind"):
    """Base of all records; a field this version does not know is refused like a record it does not know."""


class RunStarted(Record, frozen=True, omit_defaults=False, tag="run-started"):
    """The run exists; nothing was resolved or sent. The versions are always written: a default may change later.

    Attributes:
        options: The options of the call in their persisted form.
        request_context: The request values that JSON can hold.
        degraded: What of the options a later process will not have, or have in a stricter form.
        trace: The span around this segment, which that of the next one continues.
    """

    run_id: str
    agent_id: str
    message_id: str
    max_steps: int
    options: Json = None
    request_context: Json = None
    degraded: tuple[str, ...] = ()
    trace: SpanLink | None = None
    loop_version: int = LOOP_VERSION
    format: int = FORMAT


class Recalled(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """What a run read of its thread: places and ids, for it reads the messages again where it goes on.

    Attributes:
        first: Place of the first message of the history.
        end: The place behind the last one; 0: there was none.
        parts: How many parts of the message at `first` are left out.
        ids: Of the messages that a search found.
    """

    first: int = 0
    end: int = 0
    parts: int = 0
    ids: tuple[str, ...] = ()


class Prepared(Record, frozen=True, tag="prepared"):
    """The prompt is assembled: its system turns, and the messages behind its history.

    Attributes:
        veiled: Names of the tools whose payloads a transcript must not show as they are; `*` stands for all.
        recalled: What stands before the context, of a run on a thread.
    """

    system: tuple[SystemTurn, ...]
    context: tuple[Message, ...]
    input: tuple[Message, ...]
    veiled: tuple[str, ...] = ()
    recalled: Recalled | None = None


class StepPrepared(Record, frozen=True, tag="step-prepared"):
    """`prepare_step`, or processors, were asked about a model call that begins next.

    Attributes:
        changes: What it replaces, in its stored form.
        system: Instead of the system turns; None = no change.
        messages: Instead of the history; None = no change.
        degraded: What of it another process does not have.
        veiled: Tools of the step whose payloads a transcript must not show as they are.
        processed: What processors replaced, below what `changes` says; of their messages nothing is kept.
    """

    step: int
    changes: Json = None
    system: tuple[SystemTurn, ...] | None = None
    messages: tuple[Message, ...] | None = None
    degraded: tuple[str, ...] = ()
    veiled: tuple[str, ...] = ()
    processed: Json = None


class ModelStarted(Record, frozen=True, tag="model-started"):
    """A model call begins; without an outcome it is made again as the next attempt.

    Attributes:
        first_event: Index of the attempt's first event, from which a further attempt's viewers forget.
    """

    step: int
    attempt: int
    first_event: int = 0


class DecidedCall(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """A call the model decided on, in its order; `title` is its tool's, for user interfaces."""

    id: str
    name: str
    title: str | None = None


class Said(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """What a model call gave: its turn and what belongs to it. Cut short, the turn is partial.

    `model` is `provider/model`.
    """

    turn: AssistantTurn
    reason: FinishReason
    usage: Usage
    model: str = ""
    metadata: StepMetadata = StepMetadata()
    raw_reason: str | None = None
    warnings: tuple[Json, ...] = ()
    sources: tuple[SourcePayload, ...] = ()
    files: tuple[FilePayload, ...] = ()


class ModelEnded(Record, frozen=True, tag="model-ended"):
    """A model call completed."""

    step: int
    attempt: int
    said: Said
    calls: tuple[DecidedCall, ...]


class AttemptFailed(Record, frozen=True, tag="attempt-failed"):
    """An attempt failed, and a model is asked again or the next one is; of what it said nothing is kept.

    Attributes:
        model: The candidate's id; it is not asked again in this run while another one is left.
        again: A processor wants the same model asked once more.
    """

    step: int
    attempt: int
    model: str
    error: ErrorInfo
    again: bool = False


class StepRejected(Record, frozen=True, tag="step-rejected"):
    """A processor did not accept what a model said: its parts are gone, and none of its calls is begun.

    Attributes:
        said: What the call took and when; its turn is empty.
        again: The model is told why, and asked for another answer in the next step; else the run ends.
        calls: Ids of its calls, which viewers may have seen.
    """

    step: int
    attempt: int
    said: Said
    tripwire: TripwirePayload
    again: bool
    calls: tuple[str, ...] = ()


class Blocked(Record, frozen=True, tag="blocked"):
    """A processor ended the run: it blocked it, or it failed.

    Attributes:
        tripwire: Why it was blocked.
        error: How it failed.
        said: What had passed of what a model was saying.
    """

    tripwire: TripwirePayload | None = None
    error: ErrorInfo | None = None
    said: Said | None = None


class ProcessorState(Record, frozen=True, tag="processor-state"):
    """What processors remember, by id: those whose state is not as the last such record has it."""

    states: Json


class ModelFailed(Record, frozen=True, tag="model-failed"):
    """A model call failed for good; what it had said is kept as partial."""

    step: int
    attempt: int
    said: Said
    error: ErrorInfo


class Assessed(Record, frozen=True, tag="assessed"):
    """Each open call has a verdict: `(call id, verdict)`.

    Attributes:
        shown: By call id and phase, what a transcript shows of the arguments.
    """

    verdicts: tuple[tuple[str, Verdict], ...]
    shown: Json = None


class ToolStarted(Record, frozen=True, tag="tool-started"):
    """Intent: stored before the body runs."""

    call_id: str
    attempt: int


class WaitsFor(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """The call of a child run that a delegation waits for; a decision on the delegation is one on this call.

    Attributes:
        attempt: Of the child's pending call, as is `args_hash`.
        events: How many events of the child this run's log has.
    """

    run_id: str
    call_id: str
    args_hash: str
    attempt: int = 0
    events: int = 0


class Delegated(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """What a delegation brought beside its answer.

    Attributes:
        usage: Of the child run, with that of its own children.
        feedback: What `on_delegation_complete` tells the model.
        bail: It ends the run after this step.
    """

    usage: Usage | None = None
    feedback: str | None = None
    bail: bool = False
    waits_for: WaitsFor | None = None


class ToolEnded(Record, frozen=True, tag="tool-ended"):
    """A call has its outcome; `text` is what the model is told, `result` what the tool returned.

    `client`: nobody here answered it, so the client has to.

    Of a suspended call `result` is its payload and `text` the JSON Schema of what it waits for. `attempt` is that of
    the intent it answers; a call that never ran (refused, declined) is answered with any.

    Attributes:
        asks: What a suspended call waits for: data for its body, or somebody's word on whether it took effect.
        deduplicated: The result is that of an earlier call with the same key.
        told: What the model is told, when that is not the result itself: a tool's `to_model_output`.
        shown: By phase, what a transcript shows of the outcome.
        delegated: Of a call that is a delegation.
        refused: A processor did not accept the result, and the model is told so.
    """

    call_id: str
    attempt: int
    outcome: ToolEnd
    text: str
    result: Json = None
    error: ErrorInfo | None = None
    asks: Literal["data", "outcome"] | None = None
    deduplicated: bool = False
    told: Json = None
    shown: Json = None
    delegated: Delegated | None = None
    refused: bool = False


class DataWritten(Record, frozen=True, tag="data-written"):
    """A running tool wrote data for the answer's message; of two with one type and id the later one stays.

    Attributes:
        type: `data-<name>`.
    """

    call_id: str
    type: str
    data: Json = None
    id: str | None = None


class Decision(Record, frozen=True, tag="decision"):
    """Somebody answered a pending call.

    Attributes:
        args: Arguments edited at the approval; None leaves the model's.
        resume_data: What the tool gets as `ctx.resume_data`.
        inner: The answer is for the call of a child run that this one waits for: whatever it is, this one goes on.
    """

    call_id: str
    approved: bool
    reason: str | None = None
    args: Json = None
    resume_data: Json = None
    inner: bool = False


class SegmentStarted(Record, frozen=True, tag="segment-started"):
    """Another driver goes on with the run: after a decision, or because the last driver is gone.

    Attributes:
        degraded: What of the call's options this process does not have.
        trace: See `RunStarted`.
        progress: A child run had completed a model call since it was taken up the last time.
    """

    cause: Literal["resume", "recover"]
    degraded: tuple[str, ...] = ()
    trace: SpanLink | None = None
    progress: bool = False


class Answered(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """What became of the structured output that was asked for.

    Attributes:
        state: The answer `fits`, the `fallback` stands for it, or there is `none`.
        value: The object as JSON.
        usage: What a model of its own for it took.
    """

    state: Literal["fits", "fallback", "none"]
    value: Json = None
    usage: Usage | None = None


class TaskChecked(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """Scorers said whether the task is complete; `feedback` is what the model was told of it when it was not."""

    check: IsTaskCompletePayload
    feedback: Message | None = None


class StepJudged(Record, frozen=True, tag="step-judged"):
    """The step is over: go on, or stop with this reason.

    Attributes:
        checked: What the scorers of `is_task_complete` said; nobody asks them again.
        feedback: What `on_iteration_complete` told the model, after theirs.
        answer: Of a final step whose answer was to be data.
        error: Why there is no such answer, when that fails the run.
    """

    step: int
    go_on: bool
    reason: FinishReason
    feedback: Message | None = None
    answer: Answered | None = None
    error: ErrorInfo | None = None
    checked: TaskChecked | None = None


class AbortRequested(Record, frozen=True, tag="abort-requested"):
    """Somebody stopped the run; `said` is what was being said, None between model calls."""

    said: Said | None = None


class Parked(Record, frozen=True, tag="parked"):
    """The run waits for decisions and holds nothing."""

    call_ids: tuple[str, ...]


class Finalised(Record, frozen=True, tag="finalised"):
    """The result is fixed and saved; only the terminal chunk is missing. `at` is in seconds since the epoch.

    Attributes:
        messages: In place of those the run added, if processors changed them.
        tripwire: A processor blocked the result.
    """

    reason: FinishReason
    error: ErrorInfo | None = None
    at: float | None = None
    messages: tuple[Message, ...] | None = None
    tripwire: TripwirePayload | None = None


class Finished(Record, frozen=True, tag="finished"):
    """The terminal chunk is in the log; nothing follows. `tripwire`: a processor blocked that chunk."""

    tripwire: TripwirePayload | None = None


AnyRecord = (
    RunStarted
    | Prepared
    | StepPrepared
    | ModelStarted
    | ModelEnded
    | AttemptFailed
    | StepRejected
    | Blocked
    | ProcessorState
    | ModelFailed
    | Assessed
    | ToolStarted
    | ToolEnded
    | DataWritten
    | Decision
    | SegmentStarted
    | StepJudged
    | AbortRequested
    | Parked
    | Finalised
    | Finished
)


@cache
def _decoder() -> msgspec.json.Decoder[AnyRecord]:
    """Made at the first use: it looks at every record type, and a process that only runs agents needs none."""
    return msgspec.json.Decoder(AnyRecord)


def decode_record(raw: bytes) -> AnyRecord:
    """The record that `raw` encodes.

    Raises:
        StoreError: `RECORD_UNKNOWN`: it is not a record of this format; a newer tenuto wrote it.
    """
    try:
        record = _decoder().decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _unknown() from error
    if isinstance(record, RunStarted) and record.format != FORMAT:
        raise _unknown()
    return record


def _unknown() -> StoreError:
    message = f"Not a journal record of format {FORMAT}; update tenuto to the version that wrote it."
    return StoreError(message, id="RECORD_UNKNOWN")
