"""The two functions of the machine: what a record does to the state, and what comes next.

Invariant: both are pure. `next_commands` is asked at quiescence only: every command it returned before has its
outcome in the state, or (after a crash) never will. An impossible record raises `IllegalTransition`, whoever made it.
After an abort nothing begins (`ModelStarted`, `ToolStarted` are refused); outcomes of what had begun are still taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, assert_never

from msgspec.structs import replace

from tenuto.core.errors import TenutoError
from tenuto.machine import commands as c
from tenuto.machine import records as r
from tenuto.machine.state import CALL_TRANSITIONS, CLOSED, PENDING, PHASES, Call, CallStatus, Phase, RunState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tenuto.core.payloads import FinishReason

_OPEN: frozenset[Phase] = frozenset(PHASES) - {"new", "done"}

ACCEPTED: Mapping[type[r.Record], frozenset[Phase]] = {
    r.RunStarted: frozenset({"new"}),
    r.Prepared: frozenset({"starting"}),
    r.StepPrepared: frozenset({"ready", "modelling", "retrying"}),
    r.ModelStarted: frozenset({"ready", "modelling", "retrying"}),
    r.ModelEnded: frozenset({"modelling"}),
    r.AttemptFailed: frozenset({"modelling"}),
    r.StepRejected: frozenset({"modelling"}),
    r.Blocked: _OPEN - {"closing", "parked"},
    r.ProcessorState: _OPEN,
    r.ModelFailed: frozenset({"modelling"}),
    r.Assessed: frozenset({"calling"}),
    r.ToolStarted: frozenset({"calling"}),
    r.ToolEnded: frozenset({"calling"}),
    r.DataWritten: frozenset({"calling"}),
    r.Decision: frozenset({"calling", "parked"}),
    r.SegmentStarted: _OPEN,
    r.StepJudged: frozenset({"calling"}),
    r.Parked: frozenset({"calling"}),
    r.AbortRequested: _OPEN,
    r.Finalised: _OPEN - {"closing"},
    r.Finished: frozenset({"closing"}),
}
"""The phases in which each record may arrive."""

_VERDICT_STATUS: dict[r.Verdict, CallStatus] = {
    "run": "approved",
    "ask": "awaiting",
    "refuse": "refused",
    "client": "client",
}


class IllegalTransition(TenutoError):
    """A record does not fit the state; the journal is damaged or the driver has a fault."""

    default_id = "RUN_ILLEGAL_TRANSITION"
    default_domain = "RUN"


def fold(records: Iterable[r.AnyRecord]) -> RunState:
    """The state after all `records`."""
    return reduce(apply, records, RunState())


def goes_on(reason: FinishReason, *, called: bool) -> bool:
    """Whether a completed model call asks for another one.

    Calls are answered unless the model was cut off; without calls only an unexplained end goes on. (The step's
    content is not empty here: an empty unexplained end has already failed the model call.)
    """
    if called:
        return reason not in {"error", "length", "content-filter"}
    return reason == "other"


def next_commands(state: RunState) -> tuple[c.Command, ...]:
    """What to do at quiescence; empty before the start, while the run is parked, and when it is done."""
    match state.phase:
        case "closing":
            return (c.Finish(),)
        case "new" | "done":
            return ()
        case _ if state.aborted:
            return (c.Finalise("aborted"),)
        case _ if state.blocked is not None:
            return (c.Finalise(state.blocked),)
        case "parked":
            return ()
        case "starting":
            return (c.Prepare(),)
        case "ready":
            return (c.CallModel(state.step + 1, 1),)
        case "modelling" | "retrying":
            return (c.CallModel(state.step, state.attempt + 1),)
        case "calling":
            return _call_commands(state)
        case "judged":
            return (c.Finalise(state.reason),)
        case _:
            assert_never(state.phase)


def _call_commands(state: RunState) -> tuple[c.Command, ...]:
    undecided = tuple(call.id for call in state.calls if call.status == "decided")
    if undecided:
        return (c.AssessCalls(undecided),)
    work = tuple(command for call in state.calls if (command := _call_command(call)) is not None)
    if work:
        return work
    pending = tuple(call.id for call in state.calls if call.status in PENDING)
    return (c.Park(pending),) if pending else (c.JudgeStep(state.step),)


def _call_command(call: Call) -> c.Command | None:
    match call.status:
        case "approved" | "resumed":
            return c.RunTool(call.id, call.attempt + 1)
        case "intended":
            return c.SettleUnknown(call.id, call.attempt)
        case "refused" | "declined":
            return c.RefuseCall(call.id)
        case _:
            return None


def apply(state: RunState, record: r.AnyRecord) -> RunState:
    """The state after `record`.

    Raises:
        IllegalTransition: The record cannot follow.
    """
    if state.phase not in ACCEPTED[type(record)]:
        raise _illegal(state, record, f"in phase {state.phase!r}")
    return replace(_applied(state, record), seq=state.seq + 1)


def _applied(state: RunState, record: r.AnyRecord) -> RunState:  # noqa: C901, PLR0911, PLR0912 - one row per record
    # What every run has comes first, for each row that is passed over takes time.
    match record:
        case r.RunStarted():
            _check(state, record, record.max_steps > 0, "without a budget")
            return replace(_to(state, "starting"), run_id=record.run_id, max_steps=record.max_steps)
        case r.Prepared():
            return _to(state, "ready")
        case r.ModelStarted():
            return _model_started(state, record)
        case r.ModelEnded():
            return _model_ended(state, record)
        case r.StepJudged():
            return _step_judged(state, record)
        case r.Finalised():
            calls = tuple(call if call.status in CLOSED else replace(call, status="aborted") for call in state.calls)
            return replace(_to(state, "closing"), calls=calls, reason=record.reason)
        case r.Finished():
            done = _to(state, "done")
            return done if record.tripwire is None else replace(done, reason="other")
        case r.Assessed():
            return _assessed(state, record)
        case r.ToolStarted():
            _check(state, record, not state.aborted and not state.blocked, "after an abort or a block")
            call = _call(state, record, record.call_id)
            _check(state, record, record.attempt == call.attempt + 1, f"after attempt {call.attempt}")
            return _move(state, call, "intended", attempt=record.attempt)
        case r.ToolEnded():
            call = _call(state, record, record.call_id)
            current = call.status != "intended" or record.attempt == call.attempt
            _check(state, record, current, f"in attempt {call.attempt}")
            moved = _move(state, call, record.outcome)
            return _with_refused(moved, call.id) if record.refused else moved
        case r.StepPrepared():
            due = state.step + (state.phase == "ready")
            _check(state, record, record.step == due, f"where step {due} is due")
            return state
        case r.AttemptFailed():
            _check_current(state, record)
            if record.again:
                return replace(_to(state, "retrying"), repeats=state.repeats + 1)
            failed = state.failed if record.model in state.failed else (*state.failed, record.model)
            return replace(_to(state, "retrying"), failed=failed)
        case r.StepRejected():
            return _step_rejected(state, record)
        case r.Blocked():
            return replace(state, blocked="other" if record.error is None else "error")
        case r.ProcessorState():
            return state
        case r.ModelFailed():
            _check_current(state, record)
            return replace(_to(state, "judged"), reason="error")
        case r.DataWritten():
            call = _call(state, record, record.call_id)
            _check(state, record, call.status == "intended", f"of a call that is {call.status!r}")
            return state
        case r.Decision():
            call = _call(state, record, record.call_id)
            _check(state, record, call.status in PENDING, f"of a call that is {call.status!r}")
            _check(state, record, not record.inner or call.status == "suspended", "inside a call that is not suspended")
            return _move(_to(state, "calling"), call, _decided(call, approved=record.approved or record.inner))
        case r.SegmentStarted():
            before = 0 if record.progress else state.recoveries
            return replace(state, recoveries=before + (record.cause == "recover"))
        case r.AbortRequested():
            return replace(state, aborted=True)
        case r.Parked():
            waiting = {call.id for call in state.open_calls}
            right = waiting == set(record.call_ids) and waiting == _ids(state, PENDING) != set()
            _check(state, record, right, "while it is not these calls, and these only, that are open")
            return _to(state, "parked")
        case _:
            assert_never(record)


def _model_started(state: RunState, record: r.ModelStarted) -> RunState:
    again = state.phase in {"modelling", "retrying"}
    due = (state.step, state.attempt + 1) if again else (state.step + 1, 1)
    _check(state, record, not state.aborted and not state.blocked, "after an abort or a block")
    _check(state, record, (record.step, record.attempt) == due, f"where step {due[0]}, attempt {due[1]} is due")
    _check(state, record, record.step <= state.max_steps, f"beyond the budget of {state.max_steps}")
    started = replace(_to(state, "modelling"), step=record.step, attempt=record.attempt, calls=())
    return replace(started, first_event=record.first_event)


def _model_ended(state: RunState, record: r.ModelEnded) -> RunState:
    _check_current(state, record)
    _check(state, record, len({call.id for call in record.calls}) == len(record.calls), "with one call id twice")
    calls = tuple(Call(call.id, call.name) for call in record.calls)
    return replace(_to(state, "calling"), calls=calls, reason=record.said.reason, recoveries=0, repeats=0)


def _step_rejected(state: RunState, record: r.StepRejected) -> RunState:
    _check_current(state, record)
    rejected = replace(state, recoveries=0, repeats=0)
    if not record.again:
        return replace(_to(rejected, "judged"), reason="tripwire")
    _check(state, record, state.step < state.max_steps, f"to go on beyond the budget of {state.max_steps}")
    return replace(_to(rejected, "ready"), reason="retry", rejections=state.rejections + 1)


def _assessed(state: RunState, record: r.Assessed) -> RunState:
    given = [call_id for call_id, _ in record.verdicts]
    _check(state, record, len(given) == len(set(given)), "with two verdicts on one call")
    _check(state, record, bool(given) and set(given) == _ids(state, {"decided"}), "on other calls than the undecided")
    moved = _to(state, "calling")
    for call_id, verdict in record.verdicts:
        moved = _move(moved, moved.call(call_id), _VERDICT_STATUS[verdict])
    return moved


def _step_judged(state: RunState, record: r.StepJudged) -> RunState:
    _check(state, record, record.step == state.step, f"in step {state.step}")
    _check(state, record, not state.open_calls, "while calls are open")
    accepted = not any(call.refused for call in state.calls)
    judged = replace(_to(state, "judged"), reason=record.reason, rejections=0 if accepted else state.rejections)
    if not record.go_on:
        return judged
    _check(state, record, state.step < state.max_steps, f"to go on beyond the budget of {state.max_steps}")
    return replace(_to(judged, "ready"), calls=())


def _decided(call: Call, *, approved: bool) -> CallStatus:
    if not approved:
        return "declined"
    return "resumed" if call.status == "suspended" else "approved"


def _ids(state: RunState, statuses: Collection[CallStatus]) -> set[str]:
    return {call.id for call in state.calls if call.status in statuses}


def _call(state: RunState, record: r.AnyRecord, call_id: str) -> Call:
    try:
        return state.call(call_id)
    except KeyError:
        raise _illegal(state, record, f"for {call_id!r}, which is no call of step {state.step}") from None


def _check_current(state: RunState, record: r.ModelEnded | r.AttemptFailed | r.StepRejected | r.ModelFailed) -> None:
    current = (record.step, record.attempt) == (state.step, state.attempt)
    _check(state, record, current, f"in step {state.step}, attempt {state.attempt}")


def _check(state: RunState, record: r.AnyRecord, fits: bool, why: str) -> None:  # noqa: FBT001 - what is checked
    if not fits:
        raise _illegal(state, record, why)


def _illegal(state: RunState, record: r.AnyRecord, why: str) -> IllegalTransition:
    message = f"Run {state.run_id!r}, record {state.seq}: {type(record).__name__} cannot come {why}."
    return IllegalTransition(message, details={"run_id": state.run_id, "seq": state.seq})


def _to(state: RunState, phase: Phase) -> RunState:
    if phase not in PHASES[state.phase]:
        message = f"Run {state.run_id!r} cannot go from {state.phase!r} to {phase!r}."
        raise IllegalTransition(message)
    return replace(state, phase=phase)


def _with_refused(state: RunState, call_id: str) -> RunState:
    calls = tuple(replace(each, refused=True) if each.id == call_id else each for each in state.calls)
    return replace(state, calls=calls, rejections=state.rejections + 1)


def _move(state: RunState, call: Call, status: CallStatus, *, attempt: int | None = None) -> RunState:
    if status not in CALL_TRANSITIONS[call.status]:
        message = f"Call {call.id!r} of run {state.run_id!r} cannot go from {call.status!r} to {status!r}."
        raise IllegalTransition(message)
    moved = replace(call, status=status, attempt=call.attempt if attempt is None else attempt)
    return replace(state, calls=tuple(moved if each.id == call.id else each for each in state.calls))
