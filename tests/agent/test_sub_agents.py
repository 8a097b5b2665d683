"""Sub-agents: what a delegation sends, what comes back, and what its hooks may change."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from pydantic import BaseModel

from tenuto import AbortController, Agent, RequestContext, ToolContext, tool
from tenuto.errors import ConfigurationError, TenutoError
from tenuto.steps.delegation import DEEPEST
from tenuto.steps.delegation_hooks import HOOK_ERRORS
from tenuto.store import InMemoryStore
from tenuto.testing import Call, FakeProvider, Gate, HTTPError, Reply, ScriptedModel, Usage
from tests.agent.kit import agent_on, both, run

ASK = Call("agent-research", {"prompt": "Find the year."}, "d1")


@tool(effects="none")
async def look(ctx: ToolContext, what: str) -> str:
    """Look something up."""
    return f"{what}: 1903"


def researcher(script: Any = ("It was 1903.",), **more: Any) -> Agent[Any, Any]:
    model = more.pop("model", None) or ScriptedModel(list(script))
    given = {"id": "researcher", "description": "Finds facts.", "instructions": "Be exact.", **more}
    return Agent(model=model, **given)


def boss(sub: Agent[Any, Any], script: Any = (), **more: Any) -> Agent[Any, Any]:
    model = ScriptedModel([Reply(calls=[ASK]), "Done."] if not script else list(script))
    return Agent(**{"id": "boss", "name": "Boss", "model": model, "agents": {"research": sub}, **more})


def model_of(agent: Agent[Any, Any]) -> ScriptedModel:
    return agent.setup().definition.model


def nested(chunks: list[Any]) -> list[dict[str, Any]]:
    return [chunk.payload.output for chunk in chunks if chunk.type == "tool-output"]


# -- the tool --------------------------------------------------------------------------------------------------------


@both
async def test_a_sub_agent_is_a_tool(verb):
    agent = boss(researcher())
    ran = await run(verb, agent)
    spec = model_of(agent).requests[0].tools[0]
    assert (spec.name, spec.description) == ("agent-research", "Finds facts.")
    assert spec.parameters["required"] == ["prompt"]
    assert list(spec.parameters["properties"]) == ["prompt", "threadId", "resourceId", "instructions", "maxSteps"]
    assert model_of(agent).requests[1].last == "It was 1903."
    assert ran.result.tool_results[0].payload.result == {"text": "It was 1903."}
    assert ran.result.text == "Done."


async def test_without_a_description_the_key_stands_for_it():
    agent = boss(researcher(description=""))
    await agent.generate("hi")
    assert model_of(agent).requests[0].tools[0].description == "Agent: research"


async def test_agents_may_be_a_function_of_the_request():
    async def agents(request_context: RequestContext) -> dict[str, Agent[Any, Any]]:
        return {"research": researcher()} if request_context.get("plan") == "pro" else {}

    pro, free = boss(researcher(), agents=agents), boss(researcher(), script=["No."], agents=agents)
    await pro.generate("hi", request_context={"plan": "pro"})
    await free.generate("hi")
    assert model_of(pro).requests[0].tool_names == ("agent-research",)
    assert model_of(free).requests[0].tool_names == ()


@pytest.mark.parametrize(
    ("agents", "error"),
    [
        ([researcher()], "takes a dict"),
        ({"research": "openai/gpt"}, "which is no agent"),
        ({"my researcher": researcher()}, "my researcher"),
        ({"research": Agent}, "which is no agent"),
    ],
)
def test_agents_that_are_none(agents, error):
    with pytest.raises(ConfigurationError, match=error):
        boss(researcher(), agents=agents)


async def test_an_agents_function_that_gives_nothing():
    with pytest.raises(ConfigurationError) as caught:
        await boss(researcher(), agents=lambda: None).generate("hi")
    assert caught.value.id == "AGENT_GET_AGENTS_FUNCTION_EMPTY_RETURN"


async def test_a_tool_of_the_same_name_is_refused():
    @tool(id="agent-research", effects="none")
    async def other() -> str:
        return ""

    with pytest.raises(ConfigurationError) as caught:
        await boss(researcher(), tools=[other]).generate("hi")
    assert caught.value.id == "AGENT_TOOL_NAME_COLLISION"


async def test_the_tools_of_a_boss_are_put_together_once():
    agent = boss(researcher(["a", "b"]), script=[Reply(calls=[ASK]), "x", Reply(calls=[ASK]), "y"], tools=[look])
    await agent.generate("hi")
    await agent.generate("hi")
    first, _, third, _ = model_of(agent).requests
    assert first.tool_names == ("look", "agent-research")
    assert first.tools is third.tools


@pytest.mark.parametrize("steps", ["4", 4])
async def test_max_steps_of_the_model(steps):
    sub = researcher(model=ScriptedModel(lambda _: Call("look", {"what": "x"})), tools=[look])
    call = Call("agent-research", {"prompt": "x", "maxSteps": steps})
    await boss(sub, script=[Reply(calls=[call]), "Done."]).generate("hi")
    assert len(model_of(sub).requests) == 4


async def test_the_agents_own_limit_caps_what_the_model_asks_for():
    sub = researcher(
        model=ScriptedModel(lambda _: Call("look", {"what": "x"})), tools=[look], default_options={"max_steps": 3}
    )
    call = Call("agent-research", {"prompt": "x", "maxSteps": 50})
    agent = boss(sub, script=[Reply(calls=[call]), "Done."])
    result = await agent.generate("hi")
    assert len(model_of(sub).requests) == 3
    assert model_of(agent).requests[1].last == "[The agent gave no answer; its run ended with 'tool-calls'.]"
    assert result.tool_results[0].payload.result["text"] == ""


@pytest.mark.parametrize(
    "args", [{}, {"prompt": 3}, {"prompt": " "}, {"prompt": "x", "maxSteps": 2}, {"prompt": "x", "instructions": 3}]
)
async def test_arguments_that_do_not_fit(args):
    sub = researcher()
    agent = boss(sub, script=[Reply(calls=[Call("agent-research", args)]), "Sorry."])
    result = await agent.generate("hi")
    assert "do not fit its schema" in model_of(agent).requests[1].last
    assert model_of(sub).requests == []
    assert result.text == "Sorry."


# -- what the sub-agent is given -------------------------------------------------------------------------------------


async def test_the_context_has_what_was_said_and_no_tool():
    sub = researcher()
    script = [Reply("I look.", calls=[Call("look", {"what": "A"})]), Reply("I ask.", calls=[ASK]), "Done."]
    await boss(sub, script=script, tools=[look], instructions="You are the boss.").generate("When was it?")
    asked = model_of(sub).requests[0]
    assert [message["role"] for message in asked.messages] == ["system", "user", "assistant", "user"]
    assert [message["content"] for message in asked.messages] == [
        "Be exact.",
        "When was it?",
        "I look.",
        "Find the year.",
    ]
    assert all("tool_calls" not in message for message in asked.messages)


async def test_instructions_of_the_model_come_after_the_agents_own():
    call = Call("agent-research", {"prompt": "x", "instructions": "One word."})
    for own, expected in (("Be exact.", ["Be exact.\n\nOne word."]), (["A.", "B."], ["A.", "B.", "One word."])):
        sub = researcher(instructions=own)
        await boss(sub, script=[Reply(calls=[call]), "Done."]).generate("hi")
        said = [each["content"] for each in model_of(sub).requests[0].messages if each["role"] == "system"]
        assert said == expected


async def test_request_values_are_the_bosss_and_stay_apart():
    seen: list[Any] = []

    @tool(effects="none")
    async def note(ctx: ToolContext) -> str:
        seen.append(ctx.request_context.all)
        ctx.request_context.set("sub", 1)
        return "noted"

    context = RequestContext({"tenant": "acme", "MastraMemory": {"thread": "t"}, "mastra__threadId": "t"})
    sub = researcher([Call("note"), "Fine."], tools=[note])
    await boss(sub).generate("hi", request_context=context)
    assert seen == [{"tenant": "acme"}]
    assert "sub" not in context


async def test_dependencies_of_the_boss_serve_agents_that_have_none():
    seen: list[Any] = []

    @tool(effects="none")
    async def use(ctx: ToolContext) -> str:
        seen.append(ctx.deps)
        return "used"

    await boss(researcher([Call("use"), "Fine."], tools=[use])).generate("hi", deps="the boss's")
    await boss(researcher([Call("use"), "Fine."], tools=[use], deps="its own")).generate("hi", deps="the boss's")
    assert seen == ["the boss's", "its own"]


async def test_default_options_of_the_sub_agent_hold():
    class Year(BaseModel):
        year: int

    finished: list[str] = []
    sub = researcher(
        ['{"year": 1903}'],
        default_options={
            "structured_output": Year,
            "model_settings": {"temperature": 0.5},
            "on_finish": lambda result: finished.append(result.object.year),
        },
    )
    agent = boss(sub)
    await agent.generate("hi", model_settings={"temperature": 1.0})
    assert finished == [1903]
    assert model_of(sub).requests[0].settings.temperature == 0.5
    assert model_of(agent).requests[1].last == '{"year":1903}'


# -- what comes back -------------------------------------------------------------------------------------------------


@both
async def test_the_sub_agents_chunks_are_on_the_stream(verb):
    sub = researcher([Call("look", {"what": "A"}), "It was 1903."], tools=[look])
    ran = await run(verb, boss(sub))
    outputs = [chunk for chunk in ran.chunks if chunk.type == "tool-output"]
    assert {(each.payload.tool_call_id, each.payload.tool_name) for each in outputs} == {("d1", "agent-research")}
    assert [each.payload.index for each in outputs] == list(range(len(outputs)))
    inner = nested(ran.chunks)
    assert (inner[0]["type"], inner[-1]["type"]) == ("start", "finish")
    assert "".join(each["payload"]["text"] for each in inner if each["type"] == "text-delta") == "It was 1903."
    assert len({each["runId"] for each in inner}) == 1
    place = ran.types.index("tool-output")
    assert ran.types[place - 1] == "tool-call"
    assert ran.types[place + len(outputs)] == "tool-result"


async def test_data_chunks_pass_as_they_are():
    @tool(effects="none")
    async def draw(ctx: ToolContext) -> str:
        await ctx.writer.custom({"type": "data-chart", "data": [1, 2]})
        return "drawn"

    ran = await run("stream", boss(researcher([Call("draw"), "Fine."], tools=[draw])))
    assert [chunk.data for chunk in ran.of("data-chart")] == [[1, 2]]


@both
async def test_usage_is_counted_once(verb):
    sub = researcher(
        [Reply(calls=[Call("look", {"what": "A"})], usage=Usage(10, 5)), Reply("Fine.", usage=Usage(20, 5))],
        tools=[look],
    )
    script = [Reply(calls=[ASK], usage=Usage(1, 1)), Reply("Done.", usage=Usage(2, 1))]
    ran = await run(verb, boss(sub, script=script))
    assert ran.result.usage.total_tokens == 2 + 40 + 3
    assert [step.usage.total_tokens for step in ran.result.steps] == [42, 3]
    assert ran.chunks[-1].payload.output.usage.total_tokens == 45


async def test_tool_results_are_for_the_user_unless_the_model_is_to_have_them():
    def sub() -> Agent[Any, Any]:
        return researcher([Call("look", {"what": "A"}, "l1"), "It was 1903."], tools=[look])

    plain, shown = boss(sub()), boss(sub())
    result = await plain.generate("hi")
    (given,) = result.tool_results[0].payload.result["subAgentToolResults"]
    assert given == {"toolName": "look", "toolCallId": "l1", "result": "A: 1903", "args": {"what": "A"}}
    assert model_of(plain).requests[1].last == "It was 1903."
    await shown.generate("hi", delegation={"includeSubAgentToolResultsInModelContext": True})
    assert '"result":"A: 1903"' in model_of(shown).requests[1].last
    again = Agent(id="boss", model=ScriptedModel(["Again."]))
    await again.generate([*result.messages, "And?"])
    told = [message["content"] for message in model_of(again).requests[0].messages if message["role"] == "tool"]
    assert told == ["It was 1903."]


@both
async def test_a_sub_agent_that_fails_is_an_error_of_its_call(verb):
    async with FakeProvider([HTTPError(500, {"error": {"message": "sk-secret at db.internal"}})]) as down:
        sub = agent_on(down)
        agent = boss(sub)
        ran = await run(verb, agent)
    (failed,) = ran.of("tool-error")
    assert failed.payload.error.id == "AGENT_AGENT_TOOL_EXECUTION_FAILED"
    said = model_of(agent).requests[1].last
    assert said.startswith("The agent 'research' failed (MODEL_")
    assert "secret" not in said + failed.payload.error.message
    assert (ran.result.text, ran.error) == ("Done.", None)


async def test_a_sub_agent_that_cannot_start_is_an_error_of_its_call():
    def broken(request_context: RequestContext) -> str:
        raise RuntimeError("no instructions today")

    agent = boss(researcher(instructions=broken))
    result = await agent.generate("hi")
    assert "failed" in model_of(agent).requests[1].last
    assert result.text == "Done."


async def test_delegations_of_one_step_run_at_once():
    gate = Gate()
    sub = researcher(model=ScriptedModel(lambda _: Reply("ok", gate=gate)))
    calls = [Call("agent-research", {"prompt": str(place)}) for place in range(3)]
    started = asyncio.ensure_future(boss(sub, script=[Reply(calls=calls), "Done."]).generate("hi"))
    while len(model_of(sub).requests) < 3:  # noqa: ASYNC110 - what it waits for is the code's under test
        await asyncio.sleep(0)
    gate.open()
    assert (await started).text == "Done."


async def test_tool_call_concurrency_bounds_delegations():
    running, most = 0, 0

    async def answer(_: Any) -> str:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        await asyncio.sleep(0)
        running -= 1
        return "ok"

    sub = researcher(model=ScriptedModel(answer))
    calls = [Call("agent-research", {"prompt": str(place)}) for place in range(4)]
    await boss(sub, script=[Reply(calls=calls), "Done."]).generate("hi", tool_call_concurrency=2)
    assert most == 2


async def test_fallback_models_of_a_sub_agent():
    models = [ScriptedModel(RuntimeError("down"), model_id="a"), ScriptedModel(["From b."], model_id="b")]
    agent = boss(Agent(id="researcher", model=models))
    await agent.generate("hi")
    assert model_of(agent).requests[1].last == "From b."


async def test_tool_hooks_see_a_delegation():
    seen: list[Any] = []
    sub = researcher()
    agent = boss(sub)
    hooks = {"before_tool_call": lambda c: seen.append(c.tool_name), "after_tool_call": lambda c: seen.append(c.output)}
    await agent.generate("hi", hooks=hooks)
    assert seen == ["agent-research", {"text": "It was 1903."}]
    agent = boss(sub)
    await agent.generate("hi", hooks={"before_tool_call": lambda _: {"proceed": False, "output": "no need"}})
    assert model_of(agent).requests[1].last == "no need"
    assert len(model_of(sub).requests) == 1


async def test_a_delegation_may_need_approval_itself():
    sub = researcher()
    agent = boss(sub, store=InMemoryStore())
    result = await agent.generate("hi", require_tool_approval=True)
    (asked,) = result.pending
    assert (asked.id, asked.tool_name, asked.args) == ("d1", "agent-research", {"prompt": "Find the year."})
    assert model_of(sub).requests == []
    result = await agent.approve_tool_call_generate(run_id=result.run_id, args={"prompt": "Find the day."})
    assert model_of(sub).requests[0].last == "Find the day."
    assert result.text == "Done."


# -- hooks -----------------------------------------------------------------------------------------------------------


@both
async def test_on_delegation_start_is_told_and_changes(verb):
    seen: list[Any] = []

    async def start(context: Any) -> dict[str, Any]:
        seen.append(context)
        context.request_context.set("lang", "en")
        return {"modifiedPrompt": "Find the day.", "modified_instructions": "Short.", "modified_max_steps": 1}

    sub = researcher(model=ScriptedModel(lambda _: Call("look", {"what": "x"})), tools=[look])
    ran = await run(verb, boss(sub), "When?", delegation={"on_delegation_start": start})
    (context,) = seen
    assert (context.primitive_id, context.primitive_type, context.prompt) == ("researcher", "agent", "Find the year.")
    assert (context.parent_agent_id, context.parent_agent_name, context.tool_call_id) == ("boss", "Boss", "d1")
    assert (context.run_id, context.iteration) == (ran.result.run_id, 1)
    assert [message.text for message in context.messages] == ["When?"]
    (request,) = model_of(sub).requests
    assert request.last == "Find the day."
    assert request.messages[0]["content"] == "Be exact.\n\nShort."


async def test_a_delegation_that_is_rejected():
    completed: list[Any] = []
    sub = researcher()
    agent = boss(sub)
    hooks = {
        "on_delegation_start": lambda _: {"proceed": False, "rejectionReason": "not on Sundays"},
        "on_delegation_complete": completed.append,
    }
    result = await agent.generate("hi", delegation=hooks)
    assert model_of(agent).requests[1].last == "[Delegation Rejected] not on Sundays"
    assert result.tool_results[0].payload.is_error is None
    assert model_of(sub).requests == completed == []
    agent = boss(sub)
    await agent.generate("hi", delegation={"on_delegation_start": lambda _: {"proceed": False}})
    assert "[Delegation Rejected] the delegation was rejected by a hook" in model_of(agent).requests[1].last


async def test_message_filter_chooses_what_is_shown():
    seen: list[Any] = []

    def only_last(context: Any) -> Any:
        seen.append((context.prompt, [message.text for message in context.messages]))
        return context.messages[-1:]

    sub = researcher()
    hooks = {"message_filter": only_last, "on_delegation_start": lambda _: {"modified_prompt": "Find it."}}
    await boss(sub).generate(["First.", "Second."], delegation=hooks)
    assert seen == [("Find it.", ["First.", "Second."])]
    said = [message["content"] for message in model_of(sub).requests[0].messages[1:]]
    assert said == ["Second.", "Find it."]


async def test_on_delegation_complete_is_told():
    seen: list[Any] = []
    sub = researcher([Reply("It was 1903.", usage=Usage(3, 4))])
    await boss(sub).generate("hi", delegation={"on_delegation_complete": seen.append})
    (context,) = seen
    assert (context.success, context.error, context.prompt) == (True, None, "Find the year.")
    assert (context.result.text, context.result.finish_reason) == ("It was 1903.", "stop")
    assert context.result.usage.total_tokens == 7
    assert context.duration >= 0


@both
async def test_feedback_steers_the_next_step_and_is_kept(verb):
    def complete(_: Any) -> dict[str, str]:
        return {"feedback": "Name the source."}

    agent = boss(researcher())
    ran = await run(verb, agent, delegation={"on_delegation_complete": complete})
    roles = [(m["role"], m.get("content")) for m in model_of(agent).requests[1].messages]
    assert roles[-2:] == [("tool", "It was 1903."), ("user", "Name the source.")]
    kept = [message for message in ran.result.messages if message.text == "Name the source."]
    assert [message.role for message in kept] == ["assistant"]
    assert kept[0].content.metadata == {"completionResult": {"suppressFeedback": True}}


async def test_result_text_is_what_the_model_is_told():
    agent = boss(researcher())
    result = await agent.generate(
        "hi", delegation={"on_delegation_complete": lambda _: {"resultText": "Roughly 1900."}}
    )
    assert model_of(agent).requests[1].last == "Roughly 1900."
    assert result.tool_results[0].payload.result["text"] == "Roughly 1900."


async def test_bail_ends_the_run_after_the_step():
    def complete(context: Any) -> dict[str, str]:
        context.bail()
        return {"feedback": "Enough."}

    sub = researcher(model=ScriptedModel(lambda _: "ok"))
    calls = [Call("agent-research", {"prompt": str(place)}) for place in range(2)]
    agent = boss(sub, script=[Reply(calls=calls)])
    result = await agent.generate("hi", delegation={"on_delegation_complete": complete})
    assert len(model_of(agent).requests) == 1
    assert [each.payload.result for each in result.tool_results] == [{"text": "ok"}, {"text": "ok"}]
    assert "Enough." in [message.text.split("\n")[0] for message in result.messages]


@pytest.mark.parametrize("hook", ["on_delegation_start", "on_delegation_complete", "message_filter"])
async def test_a_hook_that_fails_is_noted(hook, caplog):
    def broken(_: Any) -> Any:
        raise ValueError("oops")

    context = RequestContext()
    sub = researcher()
    agent = boss(sub)
    with caplog.at_level(logging.ERROR, "tenuto"):
        result = await agent.generate("secret history", delegation={hook: broken}, request_context=context)
    assert (result.text, model_of(agent).requests[1].last) == ("Done.", "It was 1903.")
    (noted,) = context.get(HOOK_ERRORS)
    assert (noted["name"], noted["message"], noted["toolCallId"]) == ("ValueError", "oops", "d1")
    assert hook in caplog.text
    shown = [message["content"] for message in model_of(sub).requests[0].messages]
    assert ("secret history" in shown) == (hook != "message_filter")


@pytest.mark.parametrize("hook", ["on_delegation_start", "on_delegation_complete", "message_filter"])
async def test_a_hook_that_fails_may_fail_the_delegation(hook):
    def broken(_: Any) -> Any:
        return "nonsense"

    agent = boss(researcher())
    result = await agent.generate("hi", delegation={hook: broken, "hook_error_strategy": "throw"})
    said = model_of(agent).requests[1].last
    assert said == f"The hook {hook} of the delegation to 'researcher' failed: TypeError."
    assert result.text == "Done."


async def test_on_delegation_complete_hears_of_a_failure():
    seen: list[Any] = []

    def complete(context: Any) -> dict[str, str]:
        seen.append(context)
        return {"result_text": "Try another one."}

    agent = boss(researcher(model=ScriptedModel(RuntimeError("down"))))
    await agent.generate("hi", delegation={"on_delegation_complete": complete})
    (context,) = seen
    assert (context.success, context.result.finish_reason) == (False, "error")
    assert isinstance(context.error, TenutoError)
    assert model_of(agent).requests[1].last == "Try another one."


# -- abort, limits ---------------------------------------------------------------------------------------------------


@both
async def test_an_abort_reaches_the_sub_agents_tools(verb):
    began, controller = asyncio.Event(), AbortController()
    seen: list[bool] = []

    @tool(effects="none")
    async def wait(ctx: ToolContext) -> str:
        began.set()
        await ctx.abort_signal.wait()
        seen.append(ctx.abort_signal.aborted)
        return "stopped"

    agent = boss(researcher([Call("wait")], tools=[wait]))
    task = asyncio.ensure_future(run(verb, agent, abort_signal=controller.signal))
    await began.wait()
    controller.abort("enough")
    ran = await task
    assert seen == [True]
    assert ran.result.finish_reason == "aborted"
    assert ran.types[-2:] == ["abort", "finish"]
    assert [each["type"] for each in nested(ran.chunks)][-2:] == ["abort", "finish"]


async def test_a_tool_of_a_sub_agent_that_does_not_stop_is_cancelled():
    began, controller = asyncio.Event(), AbortController()
    ended: list[str] = []

    @tool(effects="none")
    async def sleep(ctx: ToolContext) -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return ""

    for own, above in ((0.01, 5.0), (5.0, 0.01), (0.01, 0.01)):
        began.clear()
        sub = researcher([Call("sleep")], tools=[sleep], abort_grace=own)
        task = asyncio.ensure_future(run("stream", boss(sub, abort_grace=above), abort_signal=controller.signal))
        await began.wait()
        controller.abort()
        assert (await task).result.finish_reason == "aborted"
        controller = AbortController()
    assert ended == ["cancelled"] * 3


async def test_an_agent_that_lists_itself_comes_to_an_end():
    made: dict[str, Agent[Any, Any]] = {}
    model = ScriptedModel(
        lambda asked: (
            f"{asked.last}!" if asked.messages[-1]["role"] == "tool" else Call("agent-me", {"prompt": "deeper"})
        )
    )
    made["me"] = Agent(id="me", model=model, agents=lambda: made)
    result = await made["me"].generate("go")
    assert f"{DEEPEST} agents stand above this one already (me > me" in result.text
    assert len(model.requests) == 2 * (DEEPEST + 1)
