"""What another process makes of a call's tools, hooks and transform: S76 and the lines of durable.md 3.4."""

from __future__ import annotations

from typing import Any

from tenuto import tool
from tenuto.testing import Call, FakeProvider, Reply
from tests.agent.test_transform import SECRET, registered, stars
from tests.agent.test_writer import shown, work
from tests.durable.kit import clerk
from tests.durable.test_degradation import stored


@tool(require_approval=True)
async def pay(card: str) -> str:
    return f"paid with {card}"


@tool(effects="none")
async def look() -> str:
    return "seen"


PAY = Reply(calls=[Call("pay", {"card": SECRET}, "c1")])


async def resumed(world: Any, replies: list[Any], agent_options: dict[str, Any], **options: Any) -> Any:
    """A run that one process begins with `options` and another one ends; its result, requests and stored events."""
    async with FakeProvider([PAY, *replies]) as provider:
        first = world.process(clerk(provider, [pay], **agent_options))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r", **options))
        await output.get_full_output()
        await first.stop()
        second = world.process(clerk(provider, [pay], **agent_options))
        result = await second.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
        return result, provider.requests


def events(kept: list[Any]) -> str:
    return str([event.chunk for event in kept])


async def test_S76_a_call_s_transform_is_gone_and_its_targets_are_hidden(world):
    result, _ = await resumed(world, [Reply("ok")], {}, transform={"transform_tool_payload": stars})
    assert "transform" in result.degraded
    kept = events(await world.store.events("r", resource=None))
    assert SECRET not in kept
    assert "'hidden': True" in kept
    assert SECRET not in str([message.to_transcript() for message in result.messages])
    assert result.tool_results[0].payload.result == f"paid with {SECRET}"


async def test_S76_the_agent_s_transform_holds_in_every_process(world):
    agent = {"transform": {"transform_tool_payload": stars}}
    result, _ = await resumed(world, [Reply("ok")], agent)
    assert result.degraded == ()
    kept = events(await world.store.events("r", resource=None))
    assert SECRET not in kept
    assert "result='paid'" in kept


async def test_S76_a_registered_function_survives(world):
    result, _ = await resumed(world, [Reply("ok")], {}, transform={"transform_tool_payload": registered})
    assert result.degraded == ()
    assert "result='paid'" in events(await world.store.events("r", resource=None))


async def test_a_call_s_hooks_are_named_and_the_agent_s_apply(world):
    before: list[str] = []
    agent = {"hooks": {"before_tool_call": lambda event: before.append(f"agent {event.tool_name}")}}
    mine = {"before_tool_call": lambda event: before.append("call")}
    result, _ = await resumed(world, [Reply("ok")], agent, hooks=mine)
    assert "hooks" in result.degraded
    assert before == ["agent pay"]


async def test_client_tools_are_kept_and_toolsets_are_named(world):
    where = {"where": {"description": "Where.", "input_schema": {"type": "object", "properties": {}}}}
    replies = [Reply(calls=[Call("look", {}, "c2"), Call("where", {}, "c3")])]
    result, requests = await resumed(world, replies, {}, client_tools=where, toolsets={"more": [look]})
    assert result.degraded == ("toolsets",)
    assert [each["function"]["name"] for each in requests[1].body["tools"]] == ["pay", "where"]
    assert "not found" in result.tool_results[1].payload.result
    assert result.finish_reason == "tool-calls"


async def test_what_a_tool_writes_is_stored_in_its_order(world):
    async with FakeProvider([Reply(calls=[Call("work", {}, "c1")]), Reply("ok")]) as provider:
        process = world.process(clerk(provider, [work]))
        output = await process.call(lambda agent: agent.stream("hi", run_id="r"))
        result = await process.call(lambda _: output.get_full_output())
    kept = [event.chunk for event in await world.store.events("r", resource=None)]
    assert shown(kept) == [{"step": 1}, {"done": 1}, None, {"done": 2}, "end"]
    parts = [part for part in result.messages[1].to_dict()["content"]["parts"] if part["type"] == "data-progress"]
    assert parts == [{"type": "data-progress", "data": {"done": 2}, "id": "p"}]
    assert await stored(world, "r")
