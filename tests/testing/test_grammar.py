"""The checker itself: it takes what is right and names what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.testing import check_stream

R = "r"
ERROR = p.ErrorInfo("E", "e")


def start() -> c.AnyChunk:
    return c.Start(R, "AGENT", p.StartPayload("a", "m"))


def step() -> c.AnyChunk:
    return c.StepStart(R, "AGENT", p.StepStartPayload("m", {}, ()))


def step_end(*calls: str, go_on: bool = False) -> c.AnyChunk:
    made = tuple(p.ToolCallPayload(each, "f") for each in calls)
    outcome, output = p.StepOutcome("stop", go_on, ()), p.StepOutput("", made, p.Usage())
    return c.StepFinish(R, "AGENT", p.StepFinishPayload("m", outcome, output, p.StepMetadata()))


def rejected(*calls: str, reason: Any = "retry") -> c.AnyChunk:
    made = tuple(p.ToolCallPayload(each, "f") for each in calls)
    outcome, output = p.StepOutcome(reason, reason == "retry", (), None, "no"), p.StepOutput("", made, p.Usage())
    return c.StepFinish(R, "AGENT", p.StepFinishPayload("m", outcome, output, p.StepMetadata()))


def finish(reason: Any = "stop", run_id: str = R) -> c.AnyChunk:
    outcome, output = p.StepOutcome(reason, False, ()), p.StepOutput("", (), p.Usage())
    return c.Finish(run_id, "AGENT", p.FinishPayload("m", outcome, output, p.StepMetadata()))


def text(id: str = "t") -> list[c.AnyChunk]:
    return [text_start(id), delta(id), text_end(id)]


def text_start(id: str = "t") -> c.AnyChunk:
    return c.TextStart(R, "AGENT", p.TextStartPayload(id))


def delta(id: str = "t") -> c.AnyChunk:
    return c.TextDelta(R, "AGENT", p.TextDeltaPayload(id, "x"))


def text_end(id: str = "t") -> c.AnyChunk:
    return c.TextEnd(R, "AGENT", p.TextEndPayload(id))


def thought(id: str = "t") -> list[c.AnyChunk]:
    return [
        c.ReasoningStart(R, "AGENT", p.ReasoningStartPayload(id)),
        c.ReasoningDelta(R, "AGENT", p.ReasoningDeltaPayload(id, "x")),
        c.ReasoningEnd(R, "AGENT", p.ReasoningEndPayload(id)),
    ]


def input_start(id: str = "c", name: str = "f") -> c.AnyChunk:
    return c.ToolInputStart(R, "AGENT", p.ToolInputStartPayload(id, name))


def input_delta(id: str = "c", name: str | None = None) -> c.AnyChunk:
    return c.ToolInputDelta(R, "AGENT", p.ToolInputDeltaPayload(id, "{}", name))


def input_end(id: str = "c") -> c.AnyChunk:
    return c.ToolInputEnd(R, "AGENT", p.ToolInputEndPayload(id))


def call(id: str = "c", name: str = "f", **more: Any) -> c.AnyChunk:
    return c.ToolCall(R, "AGENT", p.ToolCallPayload(id, name, {}, **more))


def result(id: str = "c", name: str = "f", **more: Any) -> c.AnyChunk:
    return c.ToolResult(R, "AGENT", p.ToolResultPayload(id, name, 1, **more))


def failed(id: str = "c") -> c.AnyChunk:
    return c.ToolError(R, "AGENT", p.ToolErrorPayload(id, "f", ERROR))


def output(id: str = "c") -> c.AnyChunk:
    return c.ToolOutput(R, "USER", p.ToolOutputPayload(1, id, "f"))


def approval(id: str = "c") -> c.AnyChunk:
    return c.ToolCallApproval(R, "AGENT", p.ToolCallApprovalPayload(id, "f", {}, "{}"))


def restarted() -> c.AnyChunk:
    return c.AttemptRestarted(R, "AGENT", p.AttemptRestartedPayload(1, 2, 1))


GAP = c.Gap(R, "SYSTEM", p.GapPayload(0, 7))
ABORT = c.Abort(R, "AGENT", p.AbortPayload())
BROKEN = c.Error(R, "AGENT", p.ErrorPayload(ERROR))
CHECKED = c.IsTaskComplete(R, "AGENT", p.IsTaskCompletePayload(1, True, (), 0.0, False, False, False))
BLOCKED = c.Tripwire(R, "AGENT", p.TripwirePayload("no"))
DATA = c.Data("data-x", 1)
SOURCE = c.Source(R, "AGENT", p.SourcePayload("s", "url", "t"))

RIGHT = {
    "text": [start(), step(), *text(), step_end(), finish()],
    "interleaved parts": [
        start(), step(), text_start("a"), text_start("b"), delta("b"), delta("a"), text_end("a"), text_end("b"),
        step_end(), finish(),
    ],
    "one id for text and reasoning": [start(), step(), *thought(), *text(), step_end(), finish()],
    "a tool round": [
        start(), step(), *text(), input_start(), input_delta(name="f"), input_end(), call(), output(), result(),
        step_end("c", go_on=True), step(), *text("u"), step_end(), finish(),
    ],
    "a call without streamed input": [start(), step(), call(), failed(), step_end("c"), finish()],
    "results in the order of completion": [
        start(), step(), call("a"), call("b"), result("b"), failed("a"), step_end("a", "b"), finish(),
    ],
    "data anywhere": [start(), DATA, step(), DATA, text_start(), DATA, text_end(), step_end(), DATA, finish()],
    "a model error": [start(), step(), text_start(), delta(), input_start("c"), BROKEN, step_end(), finish("error")],
    "a model error after a call": [start(), step(), call(), BROKEN, step_end("c"), finish("error")],
    "an error at the end": [start(), BROKEN],
    "an abort in the text": [start(), step(), text_start(), delta(), ABORT, finish("abort")],
    "an abort in a tool": [start(), step(), call("a"), call("b"), result("a"), failed("b"), ABORT, finish("abort")],
    "an abort between steps": [start(), ABORT, finish("abort")],
    "a check of the task": [
        start(), step(), *text(), CHECKED, step_end(go_on=True), step(), call(), result(), CHECKED, DATA, step_end("c"),
        finish(),
    ],
    "a tripwire that had asked for another answer": [
        start(), step(), text_start(), delta(), c.Tripwire(R, "AGENT", p.TripwirePayload("no", retry=True)),
    ],
    "an answer that is asked for again": [
        start(), step(), text_start(), delta(), call(), failed(), rejected("c"), step(), *text("u"), step_end(),
        finish(),
    ],
    "an answer that is not accepted": [start(), step(), *text(), rejected(reason="tripwire"), finish("tripwire")],
    "a call that was taken out of an answer": [
        start(), step(), call("a"), call("b"), failed("b"), result("a"), step_end("a", go_on=True), step(), *text(),
        step_end(), finish(),
    ],
    "a tripwire": [start(), step(), text_start(), delta(), BLOCKED],
    "waiting for a decision": [start(), step(), call("a"), call("b"), approval("a"), result("b")],
    "a call that the provider runs": [start(), step(), call(provider_executed=True), *text(), step_end("c"), finish()],
    "another attempt": [
        start(), step(), text_start(), call(), restarted(), step(), *text("u"), call(), result(), step_end("c"),
        finish(),
    ],
}  # fmt: skip

WRONG = {
    "`start` is the first chunk": [step(), *text(), step_end(), finish()],
    "`start` comes once": [start(), start(), finish()],
    "nothing comes after `finish`": [start(), finish(), DATA],
    "nothing comes after `tripwire`": [start(), step(), BLOCKED, finish()],
    "all chunks have one runId": [start(), finish(run_id="s")],
    "a stream ends with": [start(), step(), *text(), step_end()],
    "an abort closes each call": [start(), step(), call(), ABORT, finish("abort")],
    "after `abort` only `finish` comes": [start(), step(), ABORT, step_end(), finish("abort")],
    "after `error` only": [start(), step(), BROKEN, text_start()],
    "reason `abort` and": [start(), finish("abort")],
    "reason `error` and": [start(), finish("error")],
    "`finish` comes after the last": [start(), step(), finish()],
    "a step starts when": [start(), step(), step()],
    "`step-finish` ends a step": [start(), step_end()],
    "`step-finish` lists": [start(), step(), step_end("c")],
    "`step-finish` lists the step's calls": [start(), step(), call(), result(), step_end()],
    "content stands inside a step": [start(), text_start()],
    "content comes before the outcomes": [start(), step(), call(), result(), SOURCE],
    "the text id 't' is opened once": [start(), step(), *text(), *text()],
    "a delta belongs to a text part": [start(), step(), delta()],
    "a delta belongs to a text part that is open": [start(), step(), *text(), text_end()],
    "each part ends before its step": [start(), step(), text_start(), step_end()],
    "the call id 'c' is used once": [start(), step(), call(), result(), step_end("c"), step(), input_start()],
    "`tool-call` comes once": [start(), step(), call(), call()],
    "arguments belong to a call": [start(), step(), input_start(), input_end(), input_delta()],
    "a call's input ends once": [start(), step(), input_end()],
    "`tool-call` comes after the end": [start(), step(), input_start(), call()],
    "a call keeps its tool's name": [start(), step(), input_start(), input_end(), call(name="g")],
    "a call whose input began is made": [start(), step(), input_start(), input_end(), step_end()],
    "each call has one outcome": [start(), step(), call(), step_end("c")],
    "a call has one outcome": [start(), step(), call(), result(), failed()],
    "an outcome belongs to a `tool-call`": [start(), step(), result()],
    "outcomes stand inside their step": [start(), result()],
    "`is-task-complete` stands inside": [start(), CHECKED],
    "`is-task-complete` comes once": [start(), step(), *text(), CHECKED, CHECKED],
    "`is-task-complete` comes after": [start(), step(), call(), CHECKED],
    "content comes before the outcomes of the step's calls": [start(), step(), CHECKED, SOURCE],
}  # fmt: skip


@pytest.mark.parametrize("chunks", RIGHT.values(), ids=RIGHT)
def test_right(chunks):
    check_stream(chunks)
    for length in range(len(chunks)):
        check_stream(chunks[:length], complete=False)


@pytest.mark.parametrize(("rule", "chunks"), WRONG.items(), ids=WRONG)
def test_wrong(rule, chunks):
    with pytest.raises(AssertionError) as caught:
        check_stream(chunks)
    assert rule in str(caught.value)


def test_the_message_names_the_place():
    with pytest.raises(AssertionError, match=r"rule at chunk 2 \(text-delta\): a delta belongs") as caught:
        check_stream([start(), step(), delta(), finish()])
    assert "> 2 TextDelta(" in str(caught.value)


def test_a_resumed_stream_has_no_start():
    check_stream([result(), step_end("c", go_on=True), step(), *text(), step_end(), finish()], resumed=True)
    check_stream([step(), *text(), step_end(), finish()], resumed=True)
    check_stream([restarted(), step(), *text(), step_end(), finish()], resumed=True)
    check_stream([finish()], resumed=True)
    check_stream([approval()], resumed=True)
    with pytest.raises(AssertionError, match="content stands inside a step"):
        check_stream([*text()], resumed=True)
    with pytest.raises(AssertionError, match="never after a resume"):
        check_stream([start()], resumed=True)


def test_a_segment_may_end_where_the_run_waits_on():
    check_stream([result("a")], resumed=True)
    check_stream([], resumed=True)


def test_a_viewer_may_begin_anywhere():
    whole = [
        start(), step(), *text(), input_start(), input_delta(), input_end(), call(), result(),
        step_end("c", go_on=True), step(), *text("u"), step_end(), finish(),
    ]  # fmt: skip
    for first in range(len(whole) + 1):
        check_stream(whole[first:], middle=True)
        check_stream([GAP, *whole[first:]])
    with pytest.raises(AssertionError, match="a step starts when"):
        check_stream([delta(), text_end(), step_end(), step(), step()], middle=True)


def test_every_call_but_the_pending_one_is_settled_at_a_suspension():
    with pytest.raises(AssertionError, match="each call has one outcome"):
        check_stream([start(), step(), call("a"), call("b"), approval("a")])


def test_an_empty_stream_is_not_complete():
    with pytest.raises(AssertionError, match="at the end"):
        check_stream([])
