"""What a journal tells: each kind of record, and what it means after what came before."""

from __future__ import annotations

import pytest

from tenuto.cli.runs.show import read_run
from tenuto.cli.runs.timeline import Known, timeline
from tenuto.core.payloads import ErrorInfo, TripwirePayload, Usage
from tenuto.machine import records as r
from tenuto.machine.decisions import fold
from tenuto.messages.turns import AssistantTurn, CallPart, Text
from tenuto.store import InMemoryStore
from tenuto.store.ports import EffectRow, RunRow, Scope, Write
from tenuto.tools.effects import call_key

BEGUN = [r.RunStarted("run_1", "clerk", "msg_1", 3), r.Prepared((), (), ())]
RECOVERED = r.SegmentStarted("recover")
LOST = ErrorInfo("ToolError", "the outcome is unknown after a restart")


def said(*content, reason="tool-calls"):
    return r.Said(AssistantTurn(content), reason, Usage(10, 5, 15), "test/m")


def called(*names, text=""):
    """A model call that decides on a call of each tool: `a` of `pay`, `b` of the second, ..."""
    parts = [CallPart(call_id, name, {"n": 1}) for call_id, name in zip("abc", names, strict=False)]
    turn = said(*([Text(text)] if text else []), *parts)
    decided = tuple(r.DecidedCall(part.tool_call_id, part.tool_name) for part in parts)
    return [r.ModelStarted(1, 1), r.ModelEnded(1, 1, turn, decided)]


def verdicts(**given):
    return r.Assessed(tuple(given.items()))


def told(*records, known=Known()):  # noqa: B008 - a value
    """The lines after the beginning, of a journal that the machine accepts."""
    fold([*BEGUN, *records])
    return [(entry.kind, entry.text) for entry in timeline([*BEGUN, *records], known)[2:]]


ONE = [*called("pay"), verdicts(a="run"), r.ToolStarted("a", 1)]
AFTER_ONE = 3  # its lines: model, call, begins


@pytest.mark.parametrize(
    ("records", "lines"),
    [
        pytest.param([r.ToolEnded("a", 1, "ok", "done")], ["#1 pay ok: done"], id="ok"),
        pytest.param(
            [r.ToolEnded("a", 1, "ok", "done", deduplicated=True)],
            ["#1 pay ok, deduplicated: an earlier call with the same key gave done"],
            id="deduplicated",
        ),
        pytest.param(
            [r.ToolEnded("a", 1, "failed", "text", error=ErrorInfo("E", "no"))], ["#1 pay failed: no"], id="failed"
        ),
        pytest.param(
            [r.ToolEnded("a", 1, "unknown", "text", error=ErrorInfo("E", "timed out"))],
            ["#1 pay unknown, it may have taken effect: timed out"],
            id="unknown",
        ),
        pytest.param(
            [RECOVERED, r.ToolEnded("a", 1, "unknown", "text", error=LOST)],
            [
                "#1 pay: no outcome was stored of attempt 1",
                "recovered: its process was gone",
                "#1 pay unknown, it may have taken effect: the outcome is unknown after a restart",
            ],
            id="unknown after a crash",
        ),
        pytest.param(
            [RECOVERED, r.ToolEnded("a", 1, "ok", "done")],
            [
                "#1 pay: no outcome was stored of attempt 1",
                "recovered: its process was gone",
                "#1 pay ok, by its reconcile: done",
            ],
            id="reconciled after a crash",
        ),
        pytest.param(
            [RECOVERED, r.ToolStarted("a", 2), r.ToolEnded("a", 2, "ok", "done")],
            [
                "#1 pay: no outcome was stored of attempt 1",
                "recovered: its process was gone",
                "#1 pay begins again, attempt 2",
                "#1 pay ok: done",
            ],
            id="idempotent after a crash",
        ),
        pytest.param(
            [
                RECOVERED,
                r.ToolEnded("a", 1, "suspended", "{}", asks="outcome"),
                r.Parked(("a",)),
                r.SegmentStarted("resume"),
                r.Decision("a", approved=True, resume_data={"outcome": "applied", "result": 7}),
                r.ToolStarted("a", 2),
                r.ToolEnded("a", 2, "ok", "7"),
            ],
            [
                "#1 pay: no outcome was stored of attempt 1",
                "recovered: its process was gone",
                "#1 pay waits for somebody's word on whether it took effect",
                "waits for a decision; nothing is held",
                "taken up again",
                '#1 pay: {"outcome": "applied", "result": 7}',
                "#1 pay is settled by that word; its body is not run",
                "#1 pay ok, by somebody's word: 7",
            ],
            id="told by somebody",
        ),
        pytest.param(
            [
                r.ToolEnded("a", 1, "suspended", "", {"q": 1}, asks="data"),
                r.Decision("a", approved=True, resume_data={"which": 2}),
                r.ToolStarted("a", 2),
            ],
            ['#1 pay waits for data: {"q": 1}', '#1 pay gets {"which": 2}', "#1 pay begins again, attempt 2"],
            id="data",
        ),
        pytest.param(
            [r.AbortRequested(said(CallPart("a", "pay", {}))), r.Finalised("aborted")],
            ["requested", "aborted"],
            id="aborted while it ran",
        ),
        pytest.param(
            [r.AbortRequested(), r.ToolEnded("a", 1, "aborted", "aborted"), r.Finalised("aborted")],
            ["requested", "#1 pay was cut short by the abort, it may have taken effect", "aborted"],
            id="cut short",
        ),
    ],
)
def test_what_becomes_of_a_call(records, lines):
    assert [text for _, text in told(*ONE, *records)[AFTER_ONE:]] == lines


def test_verdicts_and_decisions():
    records = [
        *called("pay", "old", "mine", text="Let me see."),
        verdicts(a="ask", b="refuse", c="client"),
        r.ToolEnded("b", 0, "failed", "there is no such tool"),
        r.Decision("a", approved=False, reason="too much"),
        r.ToolEnded("a", 0, "denied", "too much"),
    ]
    assert told(*records) == [
        ("model", "step 1: test/m, tool-calls, 10 tokens in, 5 out"),
        ("said", "Let me see."),
        ("call", "#1 pay(n=1) [a]"),
        ("call", "#2 old(n=1) [b]"),
        ("call", "#3 mine(n=1) [c]"),
        ("call", "#1 pay waits for approval"),
        ("call", "#2 old is refused: the model is offered no such tool"),
        ("call", "#3 mine is for the caller to answer"),
        ("tool", "#2 old failed: there is no such tool"),
        ("decision", "#1 pay declined: too much"),
        ("tool", "#1 pay did not run: too much"),
    ]


def test_attempts_of_a_model_call():
    half = said(Text("Half"), reason="error")
    records = [r.ModelStarted(1, 1), RECOVERED, r.ModelStarted(1, 2), r.ModelFailed(1, 2, half, ErrorInfo("E", "no"))]
    assert told(*records, r.Finalised("error", ErrorInfo("E", "no"))) == [
        ("model", "step 1: its process ended before an answer was stored"),
        ("segment", "recovered: its process was gone"),
        ("model", "step 1, attempt 2: failed: no"),
        ("said", "Half"),
        ("end", "error: no"),
    ]
    assert told(r.ModelStarted(1, 1)) == [("model", "step 1: no answer yet")]


def test_what_processors_said():
    tripwire = TripwirePayload("too short", True, None, "judge")
    error = ErrorInfo("ModelError", "overloaded")
    started, again = r.ModelStarted(1, 1), r.ModelStarted(1, 2)
    rejected = r.StepRejected(1, 2, said(reason="retry"), tripwire, True)
    state = r.ProcessorState({"judge": {"n": 1}})
    records = [
        started,
        r.AttemptFailed(1, 1, "test/m", error, again=True),
        again,
        state,
        rejected,
        r.ModelStarted(2, 1),
    ]
    assert told(*records, r.Blocked(tripwire, None, said(Text("So"), reason="other"))) == [
        ("model", "step 1: test/m failed (overloaded); it is asked again"),
        ("model", "step 1, attempt 2: not accepted by a processor: too short; the model is told"),
        ("model", "step 2: cut short by a processor"),
        ("blocked", "by processor judge: too short"),
    ]
    assert told(*records[:-1], r.Blocked(error=error))[-1] == ("blocked", "a processor failed")


def test_an_abort_in_the_middle_of_an_answer():
    records = [r.ModelStarted(1, 1), r.AbortRequested(said(Text("Half"), reason="aborted")), r.Finalised("aborted")]
    assert told(*records, known=Known(abort_reason="enough")) == [
        ("model", "step 1: cut short by the abort"),
        ("said", "Half"),
        ("abort", "requested: enough"),
        ("end", "aborted"),
    ]


def test_what_a_later_process_will_not_have():
    records = [r.RunStarted("run_1", "clerk", "msg_1", 3, degraded=("on_chunk", "deps"))]
    assert timeline(records, Known())[0].text == "agent clerk, at most 3 steps; not in other processes: on_chunk, deps"
    records += [BEGUN[1], r.SegmentStarted("recover", ("deps",))]
    assert timeline(records, Known())[-1].text == "recovered: its process was gone; without deps"


async def test_a_body_that_ended_late_is_told_of_from_the_ledger():
    store = InMemoryStore()
    row = RunRow(run_id="run_1", agent_id="clerk", scope=Scope("run", "run_1"), durable=True)
    fence = await store.claim(row.scope, "owner", run=row)
    records = (*BEGUN, *ONE, r.ToolEnded("a", 1, "unknown", "text", error=ErrorInfo("E", "timed out")))
    effect = EffectRow(
        key=call_key("run_1", 1, 0), run_id="run_1", call_id="a", tool_name="pay", status="ok", attempt=1, late=True
    )
    await store.commit(fence, Write(run_id="run_1", records=records, effects=(effect,)))
    shown = await read_run(store, await store.run("run_1", resource=None))
    assert shown.entries[-1].text == (
        "#1 pay unknown, it may have taken effect: timed out (late: its body then ended well)"
    )
    await store.aclose()


def test_a_model_call_says_what_it_cost_when_that_is_known():
    turn = r.Said(AssistantTurn((Text("Yes."),)), "stop", Usage(10, 5, 15, cost=0.0012), "openai/gpt-5")
    lines = told(r.ModelStarted(1, 1), r.ModelEnded(1, 1, turn, ()))
    assert lines[0] == ("model", "step 1: openai/gpt-5, stop, 10 tokens in, 5 out, $0.0012")
