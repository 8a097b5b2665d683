"""Client tools, toolsets and provider tools of a call: what is offered, what ends a run, and its results."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import Agent, create_tool, tool
from tenuto.errors import ConfigurationError
from tenuto.testing import Call, FakeProvider, Reply, ScriptedModel
from tenuto.tools import provider_tool
from tests.agent.kit import agent_on, answers, both, run, sent

LOCATION = {"description": "Where the user is.", "input_schema": {"type": "object", "properties": {}}}


@tool(effects="none")
async def look() -> str:
    """Look."""
    return "seen"


def answered(result: Any, call_id: str, output: Any) -> list[Any]:
    """The run's messages, and the client's answer."""
    part = {"type": "tool-result", "toolCallId": call_id, "toolName": "where", "result": output}
    return [*result.messages, {"role": "tool", "content": [part]}]


@both
async def test_conformance_08_a_client_tool_ends_the_run_and_its_result_goes_on(verb):
    script = [Reply(calls=[Call("where", {}, "c1"), Call("look", {}, "c2")]), Reply("You are in Oslo.")]
    async with FakeProvider(script) as provider:
        agent = agent_on(provider, [look])
        first = await run(verb, agent, client_tools={"where": LOCATION})
        assert len(provider.requests) == 1
        assert (first.result.finish_reason, first.error) == ("tool-calls", None)
        assert [call.payload.tool_name for call in first.result.tool_calls] == ["where", "look"]
        assert [done.payload.tool_name for done in first.result.tool_results] == ["look"]
        assert first.of("step-finish")[-1].payload.step_result.is_continued is False
        states = [
            p.tool_invocation.state for p in first.result.messages[1].content.parts if hasattr(p, "tool_invocation")
        ]
        assert states == ["call", "result"]
        second = await run(verb, agent, answered(first.result, "c1", "Oslo"), client_tools={"where": LOCATION})
        assert answers(provider) == ["Oslo", "seen"]
        assert [message["role"] for message in sent(provider)] == ["user", "assistant", "tool", "tool"]
    assert second.result.text == "You are in Oslo."
    assert [message.role for message in second.result.messages] == ["user", "assistant", "assistant"]


async def test_a_call_that_the_client_never_answers_does_not_spoil_the_next_request():
    async with FakeProvider([Reply(calls=[Call("where", {}, "c1")]), Reply("ok")]) as provider:
        agent = agent_on(provider)
        first = await agent.generate("hi", client_tools={"where": LOCATION})
        second = await agent.generate([*first.messages, "never mind"], client_tools={"where": LOCATION})
    assert second.text == "ok"


@both
async def test_an_agent_s_own_client_tool_and_functions_given_as_client_tools(verb):
    where = create_tool(id="where", description="Where the user is.")
    model = ScriptedModel([Call("where")])
    ran = await run(verb, Agent(id="a", model=model, tools=[where]))
    assert ran.result.finish_reason == "tool-calls"
    model = ScriptedModel([Call("look")])
    ran = await run(verb, Agent(id="a", model=model), client_tools=[look])
    assert (ran.result.finish_reason, ran.result.tool_results) == ("tool-calls", ())
    assert model.requests[0].tools[0].description == "Look."


async def test_of_one_name_the_client_s_wins_over_a_toolset_s_over_the_agent_s():
    @tool(effects="none")
    async def other() -> str:
        return "the toolset's"

    model = ScriptedModel([Call("look"), "ok"])
    agent = Agent(id="a", model=model, tools=[look])
    result = await agent.generate("hi", toolsets={"mine": {"look": other}, "more": [look]})
    assert result.tool_results[0].payload.result == "seen"
    model.add(Call("look"), "ok")
    result = await agent.generate("hi", toolsets={"mine": {"look": other}})
    assert result.tool_results[0].payload.result == "the toolset's"
    model.add(Call("look"))
    result = await agent.generate("hi", toolsets={"mine": {"look": other}}, client_tools={"look": LOCATION})
    assert result.tool_results == ()


async def test_a_toolset_s_name_is_no_part_of_its_tools_names_and_they_are_made_fit():
    model = ScriptedModel([Call("docs_search"), "ok"])
    result = await Agent(id="a", model=model).generate("hi", toolsets={"server": {"docs.search": look}})
    assert model.requests[0].tool_names == ("docs_search",)
    assert result.tool_results[0].payload.result == "seen"
    with pytest.raises(ConfigurationError) as refused:
        await Agent(id="a", model=model).generate("hi", toolsets={"server": {"a.b": look, "a_b": look}})
    assert refused.value.id == "AGENT_TOOL_NAME_COLLISION"


async def test_tools_of_a_call_are_dynamic_and_made_once_a_run():
    asked = []

    async def toolsets(context):
        asked.append(context.get("plan"))
        return {"all": [look]}

    model = ScriptedModel([Call("look"), Call("where")])
    agent = Agent(id="a", model=model)
    await agent.generate(
        "hi", toolsets=toolsets, client_tools=lambda: {"where": LOCATION}, request_context={"plan": "pro"}
    )
    assert asked == ["pro"]
    assert model.requests[1].tool_names == ("look", "where")


async def test_defaults_and_a_call_s_tools_are_taken_together():
    model = ScriptedModel(["ok"])
    agent = Agent(id="a", model=model, default_options={"client_tools": {"a": LOCATION}, "toolsets": {"x": [look]}})
    await agent.generate("hi", client_tools={"b": LOCATION})
    assert model.requests[0].tool_names == ("look", "a", "b")


async def test_what_is_no_description_of_a_client_tool_is_named():
    agent = Agent(id="a", model=ScriptedModel())
    with pytest.raises(ConfigurationError, match="no key 'inputs'"):
        await agent.generate("hi", client_tools={"x": {"inputs": {}}})
    with pytest.raises(ConfigurationError, match="needs an id"):
        await agent.generate("hi", client_tools=[LOCATION])


async def test_a_provider_s_tool_is_offered_to_the_model_and_filtered_like_any():
    model = ScriptedModel(["a", "b", "c"])
    agent = Agent(id="a", model=model, tools=[provider_tool("openai.web_search"), look])
    await agent.generate("hi")
    await agent.generate("hi", active_tools=["look"])
    await agent.generate("hi", active_tools=["web_search"])
    offered = [[each.id for each in request.provider_tools] for request in model.requests]
    assert offered == [["openai.web_search"], [], ["openai.web_search"]]
    assert [request.tool_names for request in model.requests] == [("look",), ("look",), ()]


async def test_chat_completions_say_that_they_have_no_such_tool():
    async with FakeProvider([Reply("ok")]) as provider:
        result = await agent_on(provider, [provider_tool("openai.web_search")]).generate("hi")
    assert result.warnings[0]["tool"] == "web_search"


async def test_a_tool_that_the_provider_defines_and_we_run():
    shell = provider_tool("anthropic.bash_20250124", execute=lambda args: args["command"].upper(), effects="none")
    model = ScriptedModel([Call("bash", {"command": "ls"}), "ok"])
    result = await Agent(id="a", model=model, tools=[shell]).generate("hi")
    assert result.tool_results[0].payload.result == "LS"


async def test_calls_run_one_after_the_other_where_a_person_may_have_to_be_asked():
    running, most = 0, []

    @tool(effects="none")
    async def busy() -> int:
        nonlocal running
        running += 1
        most.append(running)
        await asyncio.sleep(0)
        running -= 1
        return running

    async def most_at_once(**options: Any) -> int:
        most.clear()
        model = ScriptedModel([[Call("busy"), Call("busy"), Call("busy")], "ok"])
        await Agent(id="a", model=model, tools=[busy, *options.pop("tools", [])]).generate("hi", **options)
        return max(most)

    asks = tool(id="asks", require_approval=True)(lambda: 1)
    assert await most_at_once() == 3
    assert await most_at_once(tools=[asks]) == 1
    assert await most_at_once(tools=[asks], tool_call_concurrency=10) == 3
    assert await most_at_once(require_tool_approval=lambda _: False) == 1
    assert await most_at_once(tools=[tool(id="waits", suspend_schema={"type": "object"})(lambda: 1)]) == 1
