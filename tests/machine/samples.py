"""Records, and the states they lead to, for the tests of the machine."""

from datetime import UTC, datetime

from tenuto.core.payloads import ErrorInfo, StepMetadata, TripwirePayload, Usage
from tenuto.machine import records as r
from tenuto.machine.decisions import fold
from tenuto.messages.stored import Content, Message, TextPart
from tenuto.messages.turns import AssistantTurn, CallPart, Reasoning, SystemTurn, Text

SAID = r.Said(AssistantTurn((Text("hi"),)), "aborted", Usage(1, 1, 2))
FAILURE = ErrorInfo("ModelError", "no", id="X", status=500, retryable=True, details={"n": 1})


def run_started(max_steps=2):
    return r.RunStarted("r1", "agent", "m1", max_steps)


def prepared():
    message = Message("m0", "user", datetime(2026, 1, 1, tzinfo=UTC), Content((TextPart("hello"),)))
    return r.Prepared((SystemTurn("Be brief."),), (), (message,))


def step_prepared(step=1):
    message = Message("m1", "user", datetime(2026, 1, 1, tzinfo=UTC), Content((TextPart("other"),)))
    return r.StepPrepared(
        step, {"active_tools": ["pay"]}, (SystemTurn("Now pay."),), (message,), ("prepare_step.tools",)
    )


def model_started(step=1, attempt=1):
    return r.ModelStarted(step, attempt)


def model_ended(*calls, step=1, attempt=1, reason="tool-calls"):
    decided = tuple(r.DecidedCall(call, "pay") for call in calls)
    parts = (Reasoning("hm", "sig"), *(CallPart(call, "pay", {"n": 1}) for call in calls))
    said = r.Said(AssistantTurn(parts), reason, Usage(1, 2, 3), "openai/x", StepMetadata("resp"))
    return r.ModelEnded(step, attempt, said, decided)


def model_failed(step=1, attempt=1):
    return r.ModelFailed(step, attempt, SAID, FAILURE)


def attempt_failed(step=1, attempt=1, model="openai/x"):
    return r.AttemptFailed(step, attempt, model, FAILURE)


def step_rejected(step=1, attempt=1, *, again=True):
    said = r.Said(AssistantTurn(()), "retry" if again else "tripwire", Usage(1, 2, 3))
    return r.StepRejected(step, attempt, said, TripwirePayload("too short", True, {"n": 1}, "p"), again)


def blocked(error=None):
    return r.Blocked(None if error else TripwirePayload("no", None, None, "p"), error)


def processor_state():
    return r.ProcessorState({"p": {"n": 1}})


def assessed(**verdicts):
    return r.Assessed(tuple(verdicts.items()))


def tool_started(call="c1", attempt=1):
    return r.ToolStarted(call, attempt)


def tool_ended(call="c1", attempt=1, outcome="ok"):
    return r.ToolEnded(call, attempt, outcome, "done", {"id": 7})


def decision(call="c1", *, approved=True):
    return r.Decision(call, approved, "because", {"n": 2}, {"note": "ok"})


def segment(cause="recover"):
    return r.SegmentStarted(cause, ("stop_when",))


def judged(step=1, *, go_on=True, reason="tool-calls"):
    return r.StepJudged(step, go_on, reason)


def aborted():
    return r.AbortRequested(SAID)


def parked(*calls):
    return r.Parked(calls or ("c1",))


def finalised(reason="stop"):
    return r.Finalised(reason, FAILURE)


READY = (run_started(), prepared())
MODELLING = (*READY, model_started())
CALLED = (*MODELLING, model_ended("c1"))
ANSWERED = (*CALLED, assessed(c1="run"), tool_started(), tool_ended())

PHASE_PATHS = {
    "new": (),
    "starting": READY[:1],
    "ready": READY,
    "modelling": MODELLING,
    "retrying": (*MODELLING, attempt_failed()),
    "calling": CALLED,
    "parked": (*CALLED, assessed(c1="ask"), parked()),
    "judged": (*ANSWERED, judged(go_on=False)),
    "closing": (*ANSWERED, judged(go_on=False), finalised()),
    "done": (*ANSWERED, judged(go_on=False), finalised(), r.Finished()),
}
"""One way to each phase."""

STATUS_PATHS = {
    "decided": CALLED,
    "awaiting": (*CALLED, assessed(c1="ask")),
    "approved": (*CALLED, assessed(c1="run")),
    "declined": (*CALLED, assessed(c1="ask"), decision(approved=False)),
    "refused": (*CALLED, assessed(c1="refuse")),
    "client": (*CALLED, assessed(c1="client")),
    "intended": (*CALLED, assessed(c1="run"), tool_started()),
    "ok": ANSWERED,
    "failed": (*CALLED, assessed(c1="refuse"), tool_ended(attempt=0, outcome="failed")),
    "unknown": (*CALLED, assessed(c1="run"), tool_started(), tool_ended(outcome="unknown")),
    "suspended": (*CALLED, assessed(c1="run"), tool_started(), tool_ended(outcome="suspended")),
    "resumed": (*CALLED, assessed(c1="run"), tool_started(), tool_ended(outcome="suspended"), decision()),
    "denied": (*CALLED, assessed(c1="ask"), decision(approved=False), tool_ended(attempt=0, outcome="denied")),
    "aborted": (*CALLED, assessed(c1="run"), tool_started(), tool_ended(outcome="aborted")),
}
"""One way to each status of a call, without an abort."""


def at_phase(phase):
    state = fold(PHASE_PATHS[phase])
    assert state.phase == phase
    return state


def at_status(status):
    state = fold(STATUS_PATHS[status])
    assert state.call("c1").status == status
    return state
