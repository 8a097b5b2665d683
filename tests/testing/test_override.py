"""Putting other parts in an agent's place, for the length of a block."""

from __future__ import annotations

import asyncio

import pytest

from tenuto import Agent, ToolContext
from tenuto.errors import ConfigurationError
from tenuto.testing import Call, ScriptedModel, override


async def who(ctx: ToolContext[str]) -> str:
    return ctx.deps


async def other() -> str:
    return "other"


def agent(**more):
    return Agent(id="a", model=ScriptedModel("own"), deps="own deps", tools=[who], instructions="Own.", **more)


async def test_each_part():
    one = agent()
    assert (await one.generate("x")).text == "own"  # the model is resolved already
    model = ScriptedModel([Call("who"), "done"])
    with override(one, model=model, deps="fake deps", instructions="Fake."):
        result = await one.generate("x")
    assert (result.text, result.tool_results[0].payload.result) == ("done", "fake deps")
    assert model.requests[0].messages[0]["content"] == "Fake."
    assert (await one.generate("x")).text == "own"


async def test_tools_as_a_list_and_as_a_dict():
    one = agent()
    for tools in ([other], {"other": other}, lambda context: [other]):
        model = ScriptedModel([Call("other"), "done"])
        with override(one, model=model, tools=tools):
            assert (await one.generate("x")).tool_results[0].payload.result == "other"
        assert model.requests[0].tool_names == ("other",)


async def test_it_wins_over_the_call():
    one = agent()
    model = ScriptedModel([Call("who"), "fake"])
    with override(one, model=model, deps="fake deps", instructions="Fake."):
        result = await one.generate("x", model=ScriptedModel("call"), deps="call deps", instructions="Call.")
    assert (result.text, result.tool_results[0].payload.result) == ("fake", "fake deps")
    assert model.requests[0].messages[0]["content"] == "Fake."


async def test_blocks_nest():
    one = agent()
    with override(one, model=ScriptedModel("outer"), instructions="Outer."):
        inner = ScriptedModel("inner")
        with override(one, model=inner):
            assert (await one.generate("x")).text == "inner"
        assert inner.requests[0].messages[0]["content"] == "Outer."
        assert (await one.generate("x")).text == "outer"


async def test_other_agents_and_copies_are_untouched():
    one, two = agent(), agent()
    with override(one, model=ScriptedModel("fake")):
        assert (await two.generate("x")).text == "own"
        assert (await one.replace(id="copy").generate("x")).text == "own"


async def test_tasks_inherit_it_and_others_do_not_see_it():
    one = agent()
    started, go_on = asyncio.Event(), asyncio.Event()

    async def outside():
        await go_on.wait()
        return (await one.generate("x")).text

    task = asyncio.create_task(outside())
    with override(one, model=ScriptedModel("fake")):
        inside = asyncio.create_task(one.generate("x"))
        go_on.set()
        started.set()
        assert (await inside).text == "fake"
        assert await task == "own"


async def test_a_run_keeps_its_parts_when_the_block_ends():
    one = agent()
    model = ScriptedModel([Call("who"), "late"])
    with override(one, model=model, deps="fake deps"):
        stream = await one.stream("x")
    assert await stream.text == "late"


def test_sync_calls_see_it():
    one = agent()
    with override(one, model=ScriptedModel("fake")):
        assert one.generate_sync("x").text == "fake"
    assert one.generate_sync("x").text == "own"


async def test_it_is_undone_after_an_exception():
    one = agent()
    with pytest.raises(ZeroDivisionError), override(one, model=ScriptedModel("fake")):
        raise ZeroDivisionError
    assert (await one.generate("x")).text == "own"


def test_bad_tools_are_refused_at_once():
    with pytest.raises(ConfigurationError), override(agent(), tools=[other, other]):
        pass
