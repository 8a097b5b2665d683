"""`prepare_step` of a run that another process, or another segment, goes on with."""

from __future__ import annotations

import pytest

from tenuto import durable_function, tool
from tenuto.machine.records import StepPrepared, decode_record
from tenuto.testing import Call, FakeProvider, Gate, Reply, ScriptedModel
from tests.durable.kit import clerk, in_memory

asked: list[int] = []


@tool(effects="none")
async def look() -> str:
    return "seen"


@tool(require_approval=True)
async def pay(order: str) -> str:
    return f"paid {order}"


LOOK, PAY = Reply(calls=[Call("look", {}, "c1")]), Reply(calls=[Call("pay", {"order": "A"}, "c1")])


@durable_function("narrow the first step")
def narrow(step):
    asked.append(step.step_number)
    if step.step_number == 0:
        settings = {"temperature": 0.5, "headers": {"x-api-key": "sk-canary-5", "x-team": "red"}}
        return {"active_tools": ["look"], "model_settings": settings, "system": "Only look.", "messages": "Look!"}
    return None


@pytest.fixture(autouse=True)
def nobody_asked():
    asked.clear()


async def recovered(world, process):
    world.clock.jump(60)
    output = await process.call(lambda agent: agent.recover("r"))
    return await output.get_full_output()


def shown(request):
    body = request.body
    return (
        [m["content"] for m in body["messages"]],
        [t["function"]["name"] for t in body["tools"]],
        body.get("temperature"),
    )


@pytest.mark.parametrize("registered", [True, False])
@pytest.mark.parametrize("point", ["model.mid_stream", "model.after_commit"])
async def test_a_step_is_made_again_as_it_was_prepared(world, registered, point):
    hook = narrow if registered else (lambda step: narrow(step))  # noqa: PLW0108 - another function, unregistered
    broken = Reply("Let me", chunk_size=1, gate=Gate(permits=3))
    replies = iter([broken, LOOK, Reply("done")] if point == "model.mid_stream" else [LOOK, Reply("done")])
    async with FakeProvider(lambda _: next(replies)) as provider:
        first = world.process(clerk(provider, [look, pay]))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r", prepare_step=hook), point)
        kept = b"".join(await world.store.records("r", resource=None))
        result = await recovered(world, world.process(clerk(provider, [look, pay])))
        sent = [shown(request) for request in provider.requests]
    assert result.text == "done"
    assert b"sk-canary" not in kept
    assert sent[0] == (["Only look.", "Look!"], ["look"], 0.5)
    if point == "model.mid_stream":
        assert sent[1] == sent[0]
        assert provider.requests[1].headers["x-team"] == "red"
    assert sent[-1][1:] == (["look", "pay"], None)
    assert asked == ([0, 1] if registered else [0])  # never again about a step that it was asked about
    lost = {"prepare_step.model_settings.headers.x-api-key"}
    assert set(result.degraded) == (lost if registered else {*lost, "prepare_step"})


async def test_what_json_cannot_hold_is_named(world):
    other = ScriptedModel([PAY], model_id="other")
    async with FakeProvider([Reply("done")]) as provider:
        first = world.process(clerk(provider, [look]))
        hook = lambda step: {"model": other, "tools": [pay]} if step.step_number == 0 else None
        result = await first.call(lambda agent: agent.generate("hi", run_id="r", prepare_step=hook))
        assert result.finish_reason == "suspended"
        second = world.process(clerk(provider, [look, pay]))
        result = await second.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
    assert result.tool_results[0].payload.result == "paid A"
    assert set(result.degraded) == {"prepare_step", "prepare_step.model", "prepare_step.tools"}


@pytest.mark.parametrize("durable", [True, False])
async def test_tools_of_a_step_are_there_for_its_decision(world, durable):
    async with FakeProvider([PAY, Reply("done")]) as provider:
        process = world.process(clerk(provider, [look]), durable=durable)
        hook = lambda step: {"tools": [pay]} if step.step_number == 0 else None
        result = await process.call(lambda agent: agent.generate("hi", run_id="r", prepare_step=hook))
        assert result.finish_reason == "suspended"
        result = await process.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
        tools = [[t["function"]["name"] for t in request.body["tools"]] for request in provider.requests]
    assert (result.text, result.tool_results[0].payload.result, result.degraded) == ("done", "paid A", ())
    assert tools == [["pay"], ["look"]]


@in_memory
async def test_a_step_without_a_change_is_recorded_as_asked(world):
    async with FakeProvider([Reply("done")]) as provider:
        process = world.process(clerk(provider))
        await process.call(lambda agent: agent.generate("hi", run_id="r", prepare_step=lambda _: None))
    records = [decode_record(raw) for raw in await world.store.records("r", resource=None)]
    assert [each for each in records if isinstance(each, StepPrepared)] == [StepPrepared(1)]
