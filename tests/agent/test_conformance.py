"""The minimum conformance scenarios of the agent specification, each under its number."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from tenuto import AbortController, Agent, ToolContext, step_count_is, tool
from tenuto.evals import Scorer, create_scorer
from tenuto.evals.declared import fraction_of
from tenuto.processors import Processor
from tenuto.store import InMemoryStore
from tenuto.testing import Call, FakeProvider, Gate, HTTPError, Raw, Reply, ScriptedModel, Usage, chat_chunk
from tests.agent.kit import agent_on, all_ended, all_scored, answers, both, merged, run, says, sent

OVERLOADED = {"error": {"message": "busy", "type": "overloaded_error"}}


@tool(effects="none")
async def weather(city: str) -> dict[str, int]:
    """The weather."""
    return {"temp": 31}


@tool(effects="none")
async def add(a: int, b: int = 2) -> int:
    return a + b


FIRST = [
    "start", "step-start", "response-metadata", "tool-call-input-streaming-start", "tool-call-delta",
    "tool-call-input-streaming-end", "tool-call", "tool-result", "step-finish",
]  # fmt: skip
SECOND = ["step-start", "response-metadata", "text-start", "text-delta", "text-end", "step-finish", "finish"]


@both
async def test_conformance_01_the_chunks_of_a_two_step_run_and_its_usage(verb):
    script = [
        Reply(calls=[Call("weather", {"city": "Lagos"}, "c1")], usage=Usage(10, 4)),
        Reply("It is 31 degrees.", usage=Usage(20, 6)),
    ]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent_on(provider, [weather]))
    assert merged(ran.types) == FIRST + SECOND
    start, finish = ran.chunks[0], ran.chunks[-1]
    assert start.payload.id == "agent"
    assert {chunk.payload.message_id for chunk in ran.of("step-start")} == {start.payload.message_id}
    deltas = ran.of("tool-call-delta")
    assert "".join(each.payload.args_text_delta for each in deltas) == '{"city":"Lagos"}'
    assert {each.payload.tool_name for each in deltas} == {"weather"}
    (call,), (done,) = ran.of("tool-call"), ran.of("tool-result")
    assert (call.payload.tool_call_id, call.payload.args) == ("c1", {"city": "Lagos"})
    assert (done.payload.tool_call_id, done.payload.result) == ("c1", {"temp": 31})
    ends = ran.of("step-finish")
    assert [(e.payload.step_result.reason, e.payload.step_result.is_continued) for e in ends] == [
        ("tool-calls", True),
        ("stop", False),
    ]
    assert [end.payload.output.usage.total_tokens for end in ends] == [14, 26]
    assert finish.payload.step_result.reason == "stop"
    for usage in (finish.payload.output.usage, ran.result.usage, ran.result.total_usage):
        assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (30, 10, 40)


@both
async def test_conformance_02_two_calls_and_one_raises(verb):
    slow_done = asyncio.Event()

    @tool(effects="none")
    async def good() -> str:
        await slow_done.wait()
        return "fine"

    @tool(effects="none")
    async def bad() -> str:
        try:
            raise ValueError("boom")
        finally:
            slow_done.set()

    script = [Reply(calls=[Call("good", {}, "g"), Call("bad", {}, "b")]), Reply("done")]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent_on(provider, [good, bad]))
        said = answers(provider)
    outcomes = [chunk.type for chunk in ran.chunks if chunk.type in {"tool-error", "tool-result"}]
    assert outcomes == ["tool-error", "tool-result"]  # in the order of completion
    assert said[0] == "fine"  # in the order of the calls
    assert "ValueError: boom" in said[1]
    assert (ran.error, ran.result.text, ran.result.finish_reason) == (None, "done", "stop")
    good_one, bad_one = ran.result.tool_results
    assert (good_one.payload.result, good_one.payload.is_error) == ("fine", None)
    assert (bad_one.payload.result, bad_one.payload.is_error) == (said[1], True)


@both
async def test_conformance_03_calls_that_cannot_run(verb):
    script = [
        Reply(calls=[Call("subtract", {}), Call("add", "{broken"), Call("add", {"a": "many"})]),
        Reply("sorry"),
    ]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent_on(provider, [add]))
        unknown, broken, invalid = answers(provider)
    assert "not found" in unknown
    assert "Available tools: add" in unknown
    assert "not valid JSON" in broken
    assert "do not fit its schema" in invalid
    assert "a: " in invalid
    assert ran.result.text == "sorry"
    assert len(ran.of("tool-call")) == len(ran.of("tool-error")) + len(ran.of("tool-result")) == 3


@both
async def test_conformance_04_the_step_limit_is_no_error(verb):
    async with FakeProvider(lambda _: Reply(calls=[Call("add", {"a": 1})])) as provider:
        ran = await run(verb, agent_on(provider, [add]), max_steps=2)
        assert len(provider.requests) == 2
    assert (ran.result.finish_reason, ran.error, ran.result.text) == ("tool-calls", None, "")
    assert ran.types[-1] == "finish"
    assert len(ran.result.tool_results) == 2


@both
@pytest.mark.parametrize(("limit", "count", "calls"), [(2, 4, 2), (4, 2, 2), (3, 3, 3)])
async def test_conformance_05_stop_when_or_max_steps_whichever_is_first(verb, limit, count, calls):
    async with FakeProvider(lambda _: Reply(calls=[Call("add", {"a": 1})])) as provider:
        ran = await run(verb, agent_on(provider, [add]), max_steps=limit, stop_when=step_count_is(count))
        assert len(provider.requests) == calls
    assert ran.result.finish_reason == "tool-calls"


async def test_conformance_09_abort_during_the_model_stream():
    gate, store = Gate(permits=2), InMemoryStore()
    async with FakeProvider([Reply("Hello world", gate=gate)]) as provider:
        agent = agent_on(provider, store=store)
        stream = await agent.stream("hi", run_id="r1")
        async for chunk in stream.full_stream:
            if chunk.type == "text-delta":
                stream.abort()
                break
        result = await stream.get_full_output()
        await provider.wait_for_disconnect()
    row = await store.run("r1", resource=None)
    assert (row.status, stream.status) == ("canceled", "canceled")
    assert (result.finish_reason, result.error) == ("aborted", None)
    assert result.text == "Hell"
    assert await stream.text == "Hell"
    assert [message.role for message in result.messages] == ["user", "assistant"]
    assert result.messages[1].text == "Hell"
    types = [chunk.type async for chunk in stream.full_stream]
    assert types[-2:] == ["abort", "finish"]


@both
async def test_conformance_09_abort_during_a_tool(verb):
    store, entered, controller = InMemoryStore(), asyncio.Event(), AbortController()

    @tool
    async def wait(ctx: ToolContext) -> str:
        entered.set()
        await ctx.abort_signal.wait()
        raise RuntimeError("stopped")

    model = ScriptedModel([Reply("Let me see.", calls=[Call("wait", {}, "c1")])])
    agent = Agent(id="agent", model=model, tools=[wait], store=store)
    task = asyncio.create_task(run(verb, agent, run_id="r1", abort_signal=controller.signal))
    await entered.wait()
    controller.abort("enough")
    ran = await task
    assert (await store.run("r1", resource=None)).status == "canceled"
    assert (ran.result.finish_reason, ran.error) == ("aborted", None)
    (left,) = ran.of("tool-error")
    assert (left.payload.tool_call_id, left.payload.error.message) == ("c1", "aborted")
    assert ran.result.text == "Let me see."
    assert ran.result.tool_results == ()
    assert ran.types[-2:] == ["abort", "finish"]
    assert ran.chunks[-1].payload.step_result.reason == "abort"


@both
@pytest.mark.parametrize("in_band", [False, True])
async def test_conformance_10_the_fallback_answers(verb, in_band):
    failure = Raw(events=[chat_chunk(says("Wel")), OVERLOADED]) if in_band else HTTPError(503)
    async with FakeProvider([failure]) as first, FakeProvider([Reply("Hello.")]) as second:
        models = [{"id": f"test/{n}", "url": each.base_url} for n, each in enumerate((first, second))]
        ran = await run(verb, Agent(id="agent", model=models))
    assert (ran.result.text, ran.error, ran.result.finish_reason) == ("Hello.", None, "stop")
    assert [step.model for step in ran.result.steps] == ["test/1"]
    assert [(each.role, each.text) for each in ran.result.messages] == [("user", "hi"), ("assistant", "Hello.")]
    kept = ran.chunks
    if in_band:
        forget = ran.types.index("attempt-restarted")
        kept = [*kept[: kept[forget].payload.discard_from], *kept[forget + 1 :]]
    assert merged([chunk.type for chunk in kept]) == ["start", *SECOND]
    assert "".join(chunk.payload.text for chunk in kept if chunk.type == "text-delta") == "Hello."


async def test_conformance_15_readers_of_one_stream():
    gate, store = Gate(permits=4), InMemoryStore()
    async with FakeProvider([Reply("Hello world, good day", gate=gate)]) as provider:
        stream = await agent_on(provider, store=store).stream("hi", run_id="r1")
        early = asyncio.create_task(collect(stream))
        leaving = stream.full_stream
        assert (await anext(leaving)).type == "start"
        await leaving.aclose()
        await gate.wait_blocked()
        late = asyncio.create_task(collect(stream))
        await asyncio.sleep(0)
        gate.open()
        first, second = await early, await late
    assert first == second
    assert first[-1].type == "finish"
    assert first == await collect(stream)  # after the end, too
    assert (await store.run("r1", resource=None)).status == "success"


async def test_conformance_15_a_run_that_nobody_reads_finishes_and_saves():
    store, told = InMemoryStore(), asyncio.Event()
    async with FakeProvider([Reply("Hello")]) as provider:
        async with agent_on(provider, store=store).stream("hi", run_id="r1", on_finish=lambda _: told.set()):
            pass
        await told.wait()
        assert sent(provider)[-1]["content"] == "hi"
    await all_ended()
    assert (await store.run("r1", resource=None)).status == "success"


async def collect(stream):
    return [chunk async for chunk in stream.full_stream]


class Order(BaseModel):
    item: str
    note: str = "none"


STRATEGIES: dict[str, Any] = {"strict": {}, "warn": {}, "fallback": {"fallback_value": {"item": "?"}}}


@both
@pytest.mark.parametrize("way", ["direct", "separate"])
@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_conformance_11_strategies_of_structured_output(verb, way, strategy):
    def asking(answer):
        if way == "direct":
            return ScriptedModel([answer]), {"schema": Order}
        return ScriptedModel(["A book."]), {"schema": Order, "model": ScriptedModel([answer])}

    more = {"error_strategy": strategy, **STRATEGIES[strategy]}
    for bad in ('{"note":"x"}', Reply('{"item":"book"}', finish="length"), "no data"):
        model, wanted = asking(bad)
        ran = await run(verb, Agent(id="a", model=model), structured_output={**wanted, **more})
        assert (ran.error is not None) is (strategy == "strict")
        assert ran.result.object_or_none == (Order(item="?") if strategy == "fallback" else None)
        assert ran.result.used_fallback_value is (strategy == "fallback")
    for good, given, expected in (
        ('{"item":"book","note":null}', Order, Order(item="book")),
        ('{"elements":[{"item":"a","note":null}]}', list[Order], [Order(item="a")]),
        ('{"result":"small"}', Literal["small", "large"], "small"),
    ):
        model, wanted = asking(good)
        ran = await run(verb, Agent(id="a", model=model), structured_output={**wanted, "schema": given})
        assert (ran.error, ran.result.object) == (None, expected)


def always_1(id: str) -> Scorer:
    return create_scorer(id=id, score=lambda _: 1)


@both
async def test_conformance_17_sampling_of_scorers(verb):
    """Ratio 0 never, ratio 1 always, the same decision for two scorers of one run, `none` always."""
    store = InMemoryStore()

    def ratio(rate):
        return {"type": "ratio", "rate": rate}

    given = {
        "never": {"scorer": always_1("never"), "sampling": ratio(0)},
        "always": {"scorer": always_1("always"), "sampling": ratio(1)},
        "none": {"scorer": always_1("none"), "sampling": {"type": "none"}},
        "half": {"scorer": always_1("half"), "sampling": ratio(0.5)},
        "other half": {"scorer": always_1("other"), "sampling": ratio(0.5)},
    }
    one = Agent(id="a", model=ScriptedModel(lambda _: "x"), store=store, scorers=given)
    results = [(await run(verb, one)).result for _ in range(20)]
    runs = {result.run_id: result.trace_id or result.run_id for result in results}
    await all_scored()
    rows = await store.scores(resource=None, limit=1000)
    by = {
        name: {row.run_id for row in rows if row.scorer_id == name}
        for name in ("never", "always", "none", "half", "other")
    }
    assert by["never"] == set()
    assert by["always"] == by["none"] == set(runs)
    assert by["half"] == by["other"] == {run_id for run_id, key in runs.items() if fraction_of(key) < 0.5}


class Guard(Processor):
    """Blocks where `where` says so."""

    id = "guard"

    def __init__(self, where: str, *, retry: bool = False) -> None:
        self.where, self.retry = where, retry

    def process_input(self, context: Any) -> None:
        if self.where == "input":
            context.abort("not that")

    def process_output_stream(self, context: Any) -> Any:
        part = context.part
        if self.where == "stream" and part.type == "text-delta" and "bad" in part.payload.text:
            context.abort("bad word")
        return part

    def process_output_step(self, context: Any) -> None:
        if self.where == "step" and "bad" in context.text:
            context.abort("bad word", retry=self.retry)


def guarded(guard: Guard, model: ScriptedModel, ran: list[str]) -> Agent[Any, Any]:
    @tool(effects="none")
    async def note() -> str:
        ran.append("ran")
        return "noted"

    processors: dict[str, Any] = {"input_processors": [guard], "output_processors": [guard]}
    return Agent(id="a", model=model, tools=[note], max_processor_retries=1, **processors)


@both
async def test_conformance_12_tripwires(verb):
    calls: list[str] = []
    model = ScriptedModel()
    ran = await run(verb, guarded(Guard("input"), model, calls))
    assert (ran.types, model.requests) == (["start", "tripwire"], [])
    assert (ran.result.text, ran.result.finish_reason, ran.result.tripwire.reason) == ("", "other", "not that")

    model = ScriptedModel([Reply("good and bad", calls=[Call("note")])])
    ran = await run(verb, guarded(Guard("stream"), model, calls))
    assert (ran.result.text, ran.types[-1]) == ("good and", "tripwire")

    model = ScriptedModel([Reply("bad", calls=[Call("note")]), "better"])
    ran = await run(verb, guarded(Guard("step", retry=True), model, calls))
    assert (ran.result.text, ran.result.tripwire) == ("better", None)
    assert [(step.text, step.finish_reason) for step in ran.result.steps] == [("", "retry"), ("better", "stop")]
    assert "bad word" in model.requests[1].messages[0]["content"]

    model = ScriptedModel(lambda _: Reply("bad", calls=[Call("note")]))
    ran = await run(verb, guarded(Guard("step", retry=True), model, calls))
    assert (ran.result.text, ran.result.finish_reason, len(model.requests)) == ("", "tripwire", 2)
    assert ran.result.tripwire.reason == "bad word"
    assert calls == []
