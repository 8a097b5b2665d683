"""The tables against every record in every reachable state."""

from typing import get_args

import pytest
from msgspec.structs import replace

from tenuto.machine import commands as c
from tenuto.machine import records as r
from tenuto.machine.decisions import ACCEPTED, IllegalTransition, apply, goes_on, next_commands
from tenuto.machine.state import CALL_TRANSITIONS, CLOSED, PENDING, PHASES, CallStatus, Phase, RunState
from tests.machine import samples as s

RECORDS = get_args(r.AnyRecord)


def candidates():
    """Every kind of record, in each variant that a state of two steps and one call can tell apart."""
    yield s.run_started()
    yield s.prepared()
    for step in (1, 2, 3):
        yield s.step_prepared(step)
        for attempt in (1, 2, 3):
            yield s.model_started(step, attempt)
            yield s.model_failed(step, attempt)
            yield s.attempt_failed(step, attempt)
            yield s.step_rejected(step, attempt)
            yield s.step_rejected(step, attempt, again=False)
            yield s.model_ended(step=step, attempt=attempt, reason="stop")
            yield s.model_ended("c1", step=step, attempt=attempt)
        yield s.judged(step, go_on=True)
        yield s.judged(step, go_on=False)
    for verdict in get_args(r.Verdict):
        yield s.assessed(c1=verdict)
    for attempt in (0, 1, 2, 3):
        yield s.tool_started(attempt=attempt)
        for outcome in get_args(r.ToolEnd):
            yield s.tool_ended(attempt=attempt, outcome=outcome)
    yield r.DataWritten("c1", "data-x")
    yield s.decision(approved=True)
    yield s.decision(approved=False)
    yield s.parked()
    yield s.segment()
    yield s.aborted()
    yield s.finalised()
    yield r.Finished()
    yield s.processor_state()
    yield s.blocked()


def explore():
    """Each accepted move `(before, record, after)` between states, their `seq` set to 0."""
    records = list(candidates())
    seen = {RunState()}
    todo = [RunState()]
    moves = []
    while todo:
        before = todo.pop()
        for record in records:
            try:
                after = replace(apply(before, record), seq=0, recoveries=0, rejections=0)
            except IllegalTransition:
                continue
            moves.append((before, record, after))
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return moves


@pytest.fixture(scope="module")
def moves():
    return explore()


def status_of(state):
    return state.calls[0].status if state.calls else None


def test_the_tables_speak_of_every_phase_status_and_record():
    assert set(PHASES) == set(get_args(Phase))
    assert set(CALL_TRANSITIONS) == set(get_args(CallStatus))
    assert set(ACCEPTED) == set(RECORDS)
    assert set(get_args(c.Command)) == {
        value for value in vars(c).values() if getattr(value, "__module__", "") == c.__name__
    }


def test_a_phase_is_followed_by_what_its_table_says_and_by_nothing_else(moves):
    staying = {r.AbortRequested, r.SegmentStarted, r.StepPrepared, r.Blocked, r.ProcessorState}
    found = {(before.phase, after.phase) for before, record, after in moves if type(record) not in staying}
    passing = {(before.phase, "judged") for before, record, _ in moves if isinstance(record, r.StepJudged)}
    through = {
        ("judged", after.phase) for _, record, after in moves if isinstance(record, r.StepJudged) and record.go_on
    }
    found -= {("calling", "ready")}  # a judgement passes through "judged"
    assert found | passing | through == {(before, after) for before, row in PHASES.items() for after in row}


def test_a_call_is_followed_by_what_its_table_says_and_by_nothing_else(moves):
    table = {(before, after) for before, row in CALL_TRANSITIONS.items() for after in row}
    same_call = (r.Assessed, r.ToolStarted, r.ToolEnded, r.Decision, r.Finalised)
    found = {
        (status_of(before), status_of(after))
        for before, record, after in moves
        if isinstance(record, same_call)
        and before.calls
        and (status_of(before) not in CLOSED or before.calls != after.calls)
    }
    assert found == table


def test_a_record_is_accepted_in_the_phases_of_its_table_and_in_no_other(moves):
    found = {(type(record), before.phase) for before, record, _ in moves}
    assert found == {(record, phase) for record, phases in ACCEPTED.items() for phase in phases}


def test_closed_calls_never_change(moves):
    for before, record, after in moves:
        if status_of(before) in CLOSED and not isinstance(record, r.ModelStarted | r.StepJudged):
            assert after.calls == before.calls


def test_only_a_decision_answers_a_pending_call(moves):
    for before, record, after in moves:
        if status_of(before) in PENDING and before.calls != after.calls:
            ends = isinstance(record, r.Finalised) or (isinstance(record, r.ToolEnded) and record.outcome == "aborted")
            assert ends or isinstance(record, r.Decision)


def test_only_an_assessment_or_a_decision_lets_a_call_run(moves):
    for before, record, after in moves:
        if status_of(after) == "approved" != status_of(before):
            assert isinstance(record, r.Assessed if status_of(before) == "decided" else r.Decision)


def test_nothing_begins_after_an_abort(moves):
    begun = [
        record for before, record, _ in moves if before.aborted and isinstance(record, r.ModelStarted | r.ToolStarted)
    ]
    assert begun == []


def test_the_budget_is_never_exceeded(moves):
    assert max(after.step for _, _, after in moves) == 2


def test_no_state_is_a_dead_end(moves):
    for _, _, state in moves:
        waits = state.phase == "parked" and not state.aborted and not state.blocked
        assert bool(next_commands(state)) != (waits or state.phase == "done")


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("new", ()),
        ("starting", (c.Prepare(),)),
        ("ready", (c.CallModel(1, 1),)),
        ("modelling", (c.CallModel(1, 2),)),
        ("retrying", (c.CallModel(1, 2),)),
        ("calling", (c.AssessCalls(("c1",)),)),
        ("parked", ()),
        ("judged", (c.Finalise("tool-calls"),)),
        ("closing", (c.Finish(),)),
        ("done", ()),
    ],
)
def test_what_comes_next_in_a_phase(phase, expected):
    state = s.at_phase(phase)
    assert next_commands(state) == expected
    if phase not in {"new", "done"}:
        stopped = apply(state, s.aborted())
        assert next_commands(stopped) == ((c.Finish(),) if phase == "closing" else (c.Finalise("aborted"),))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("decided", c.AssessCalls(("c1",))),
        ("awaiting", c.Park(("c1",))),
        ("approved", c.RunTool("c1", 1)),
        ("declined", c.RefuseCall("c1")),
        ("refused", c.RefuseCall("c1")),
        ("intended", c.SettleUnknown("c1", 1)),
        ("suspended", c.Park(("c1",))),
        ("resumed", c.RunTool("c1", 2)),
        *((status, c.JudgeStep(1)) for status in ("ok", "failed", "unknown", "denied", "client", "aborted")),
    ],
)
def test_what_comes_next_for_a_call(status, expected):
    assert next_commands(s.at_status(status)) == (expected,)


def test_the_calls_of_a_step_do_not_wait_for_each_other():
    ids = [f"c{n}" for n in range(1, 6)]
    verdicts = dict(zip(ids, ("ask", "run", "refuse", "client", "run"), strict=True))
    path = (*s.MODELLING, s.model_ended(*ids), s.assessed(**verdicts))
    state = s.fold(path)
    assert next_commands(state) == (c.RunTool("c2", 1), c.RefuseCall("c3"), c.RunTool("c5", 1))
    for record in (
        s.tool_started("c2"),
        s.tool_ended("c3", 0, "failed"),
        s.tool_started("c5"),
        s.tool_ended("c2", 1, "suspended"),
        s.tool_ended("c5"),
    ):
        state = apply(state, record)
    assert next_commands(state) == (c.Park(("c1", "c2")),)
    state = apply(apply(state, s.parked("c2", "c1")), s.decision("c2"))
    assert next_commands(state) == (c.RunTool("c2", 2),)
    state = apply(apply(state, s.tool_started("c2", 2)), s.tool_ended("c2", 2))
    assert next_commands(state) == (c.Park(("c1",)),)
    state = apply(state, s.decision("c1", approved=False))
    assert next_commands(state) == (c.RefuseCall("c1"),)
    state = apply(state, s.tool_ended("c1", 0, "denied"))
    assert next_commands(state) == (c.JudgeStep(1),)


def test_an_end_closes_what_is_open_and_keeps_what_is_answered():
    path = (*s.MODELLING, s.model_ended("c1", "c2"), s.assessed(c1="run", c2="run"), s.tool_started(), s.tool_ended())
    state = s.fold((*path, s.tool_started("c2"), s.aborted(), s.finalised("aborted")))
    assert [call.status for call in state.calls] == ["ok", "aborted"]
    assert (state.phase, state.reason, state.open_calls) == ("closing", "aborted", ())


WAITING = (*s.CALLED, s.assessed(c1="ask"))
INTENDED = s.STATUS_PATHS["intended"]
BOTH = (*s.MODELLING, s.model_ended("c1", "c2"))


@pytest.mark.parametrize(
    ("path", "record"),
    [
        pytest.param((), s.run_started(0), id="no budget"),
        pytest.param(s.READY, s.model_started(2), id="a step is skipped"),
        pytest.param(s.READY, s.step_prepared(2), id="another step is prepared"),
        pytest.param(s.MODELLING, s.step_prepared(2), id="the next step is prepared without an end"),
        pytest.param(s.READY, s.model_started(1, 2), id="a first attempt is skipped"),
        pytest.param(s.MODELLING, s.model_started(1, 1), id="an attempt begins twice"),
        pytest.param(s.MODELLING, s.model_started(2, 1), id="the next step begins without an end"),
        pytest.param(s.MODELLING, s.model_ended(step=2), id="another step ends"),
        pytest.param(s.MODELLING, s.model_ended(attempt=2), id="another attempt ends"),
        pytest.param(s.MODELLING, s.model_failed(attempt=2), id="another attempt fails"),
        pytest.param(s.MODELLING, s.attempt_failed(attempt=2), id="another attempt fails for its model"),
        pytest.param(s.PHASE_PATHS["retrying"], s.model_ended(), id="an attempt that failed ends"),
        pytest.param(s.PHASE_PATHS["retrying"], s.model_failed(), id="an attempt that failed fails for good"),
        pytest.param(s.PHASE_PATHS["retrying"], s.model_started(1, 1), id="an attempt that failed begins again"),
        pytest.param((*s.PHASE_PATHS["retrying"], s.aborted()), s.model_started(1, 2), id="a fallback after an abort"),
        pytest.param(s.MODELLING, s.model_ended("c1", "c1"), id="one call id twice"),
        pytest.param(s.CALLED, s.assessed(c2="run"), id="a verdict on an unknown call"),
        pytest.param(s.CALLED, r.Assessed(()), id="no verdict"),
        pytest.param(s.CALLED, r.Assessed((("c1", "ask"), ("c1", "run"))), id="two verdicts on a call"),
        pytest.param(BOTH, s.assessed(c1="run"), id="an undecided call without a verdict"),
        pytest.param(WAITING, s.assessed(c1="run"), id="a verdict instead of a decision"),
        pytest.param(s.CALLED, s.decision(), id="a decision nobody asked for"),
        pytest.param(WAITING, s.decision("c2"), id="a decision on an unknown call"),
        pytest.param(s.PHASE_PATHS["parked"], s.decision("c2"), id="an unknown call wakes the run"),
        pytest.param(s.CALLED, s.tool_started(), id="a body begins without a verdict"),
        pytest.param(s.STATUS_PATHS["approved"], s.tool_started("c2"), id="an unknown call begins"),
        pytest.param(s.STATUS_PATHS["approved"], s.tool_started(attempt=2), id="a body's attempt is skipped"),
        pytest.param(INTENDED, s.tool_started(attempt=1), id="a body begins twice in one attempt"),
        pytest.param(s.STATUS_PATHS["approved"], s.tool_ended(), id="an outcome without an intent"),
        pytest.param(INTENDED, s.tool_ended("c2"), id="the outcome of an unknown call"),
        pytest.param(INTENDED, s.tool_ended(attempt=2), id="the outcome of another attempt"),
        pytest.param((*INTENDED, s.tool_started(attempt=2)), s.tool_ended(attempt=1), id="a late outcome"),
        pytest.param(s.ANSWERED, s.tool_ended(), id="two outcomes"),
        pytest.param(s.CALLED, s.judged(), id="a judgement over an undecided call"),
        pytest.param(WAITING, s.judged(go_on=False), id="a judgement over a waiting call"),
        pytest.param(s.ANSWERED, s.judged(2), id="a judgement of another step"),
        pytest.param((s.run_started(1), *s.ANSWERED[1:]), s.judged(), id="going on beyond the budget"),
        pytest.param(s.CALLED, s.parked(), id="parking on an undecided call"),
        pytest.param(s.ANSWERED, s.parked("c1"), id="parking on an answered call"),
        pytest.param(s.ANSWERED, r.Parked(()), id="parking on nothing"),
        pytest.param(WAITING, s.parked("c1", "c2"), id="parking on an unknown call"),
        pytest.param(
            (*BOTH, s.assessed(c1="ask", c2="run")), s.parked("c1"), id="parking while another call has work to do"
        ),
        pytest.param((*s.READY, s.aborted()), s.model_started(), id="a model call after an abort"),
        pytest.param((*s.STATUS_PATHS["approved"], s.aborted()), s.tool_started(), id="a body after an abort"),
    ],
)
def test_an_impossible_record_is_refused_and_changes_nothing(path, record):
    state = s.fold(path)
    with pytest.raises(IllegalTransition, match="cannot") as caught:
        apply(state, record)
    assert caught.value.id == "RUN_ILLEGAL_TRANSITION"
    assert state == s.fold(path)


def test_an_abort_may_be_found_again_after_a_crash():
    state = s.fold((*s.CALLED, s.aborted(), s.aborted()))
    assert state.aborted


def test_every_record_counts():
    assert [s.fold(s.ANSWERED[:n]).seq for n in range(len(s.ANSWERED) + 1)] == list(range(len(s.ANSWERED) + 1))


@pytest.mark.parametrize(
    ("reason", "called", "expected"),
    [
        ("stop", True, True),
        ("tool-calls", True, True),
        ("other", True, True),
        ("length", True, False),
        ("error", True, False),
        ("content-filter", True, False),
        ("stop", False, False),
        ("tool-calls", False, False),
        ("other", False, True),
        ("length", False, False),
        ("error", False, False),
        ("content-filter", False, False),
    ],
)
def test_whether_a_completed_model_call_asks_for_another(reason, called, expected):
    assert goes_on(reason, called=called) is expected


def test_a_model_that_failed_is_out_for_the_rest_of_the_run():
    path = (*s.MODELLING, s.attempt_failed(), s.model_started(1, 2), s.attempt_failed(attempt=2, model="openai/y"))
    state = s.fold((*path, s.model_started(1, 3), s.model_ended(attempt=3), s.judged()))
    assert (state.phase, state.failed) == ("ready", ("openai/x", "openai/y"))
    again = s.fold((*s.MODELLING, s.attempt_failed(), s.model_started(1, 2), s.attempt_failed(attempt=2)))
    assert again.failed == ("openai/x",)
