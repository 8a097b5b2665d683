"""Public bug reports of category e, where sub-agents are concerned: each test is named after its case."""

from __future__ import annotations

import gc
from itertools import product
from typing import Any

import pytest

from tenuto import Agent, tool
from tenuto.processors import Processor
from tenuto.store import InMemoryStore
from tenuto.testing import Call, FakeProvider, Reply, ScriptedModel
from tests.durable.kit import in_memory
from tests.durable.test_sub_agents import GO, Bank, script, tree

PAY = Call("pay", {"order": "a"})
RUN, TOOL, CALLBACK = (False, True), (False, True), ("no", "yes", "raises")


@in_memory
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(("run_level", "tool_level", "callback"), list(product(RUN, TOOL, CALLBACK)))
async def test_E03_the_union_of_rules_in_a_sub_agent(world, durable, run_level, tool_level, callback):
    """The sub-agent's options, agent and tool each can only add the need for approval; one that raises does."""
    paid: list[str] = []

    @tool(effects="once", require_approval=tool_level)
    async def pay(order: str) -> str:
        paid.append(order)
        return "paid"

    def policy(_: Any) -> bool:
        if callback == "raises":
            raise ValueError("no idea")
        return callback == "yes"

    sub = Agent(
        id="sub",
        model=ScriptedModel(
            lambda asked: "ok" if asked.messages[-1]["role"] == "tool" else Call("pay", {"order": "a"})
        ),
        tools=[pay],
        require_tool_approval=policy,
        default_options={"require_tool_approval": run_level},
    )
    boss_model = ScriptedModel(lambda asked: "done" if asked.messages[-1]["role"] == "tool" else GO["boss"])
    process = world.process(Agent(id="boss", model=boss_model, agents={"x": sub}), durable=durable)
    result = await process.call(lambda agent: agent.generate("hi"))
    asks = run_level or tool_level or callback != "no"
    assert (result.finish_reason, paid) == (("suspended", []) if asks else ("stop", ["a"]))
    assert [each.tool_name for each in result.pending] == (["pay"] if asks else [])


async def test_E11_a_nested_approval_after_everything_of_the_process_is_gone(world):
    """The approval completes; two runs of the same snapshot are independent: one approved, one declined."""
    banks = {name: Bank() for name in ("first", "approved", "declined")}
    async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"})]})) as provider:
        for run_id in ("r", "s"):
            process = world.process(tree(provider, banks["first"], levels=2, require_approval=True))
            await process.call(lambda agent, run_id=run_id: agent.generate("hi", run_id=run_id))
            await process.kill()
        del process
        gc.collect()
        one = world.process(tree(provider, banks["approved"], levels=2, require_approval=True))
        approved = await one.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
        declined = await one.call(lambda agent: agent.decline_tool_call_generate(run_id="s", reason="no"))
    assert (approved.finish_reason, declined.finish_reason) == ("stop", "stop")
    assert approved.pending == declined.pending == ()
    assert (banks["first"].paid, banks["approved"].paid) == ([], ["a"])


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("nested", [False, True])
async def test_E15_input_processors_run_once_per_input(world, cold, nested):
    """Not again on a resume, where there is no input: of a run, and of a sub-agent's."""
    seen: list[list[str]] = []

    class Counting(Processor):
        id = "counting"

        def process_input(self, context: Any) -> None:
            texts = [message.text for message in context.messages]
            seen.append(texts)
            if not texts:
                context.abort("there is no input")

    async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"})]})) as provider:

        def agent() -> Agent[Any, Any]:
            boss = tree(provider, Bank(), require_approval=True)
            sub = boss._given["agents"]["x"].replace(input_processors=[Counting()])
            return boss.replace(agents={"x": sub}) if nested else sub

        process = world.process(agent())
        result = await process.call(lambda agent: agent.generate("hi", run_id="r"))
        assert result.finish_reason == "suspended"
        if cold:
            await process.kill()
            process = world.process(agent())
        result = await process.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
    assert result.finish_reason == "stop"
    assert len(seen) == 1
    assert seen[0][-1] == ("go" if nested else "hi")


async def test_conformance_14_sub_agent_delegation():
    """Context filtered, hook rejection, modified prompt, abort reaches it, chunks wrapped; see test_sub_agents.py."""
    sub_model = ScriptedModel(lambda asked: f"for: {asked.last}")
    sub = Agent(id="sub", model=sub_model)
    calls = [Call("agent-x", {"prompt": "one"}, "d1"), Call("agent-x", {"prompt": "two"}, "d2")]
    model = ScriptedModel([Reply("I ask.", calls=calls), "Done."])
    boss = Agent(id="boss", model=model, agents={"x": sub}, store=InMemoryStore())

    def start(context: Any) -> dict[str, Any]:
        if context.prompt == "two":
            return {"proceed": False, "rejectionReason": "one is enough"}
        return {"modifiedPrompt": "one, please"}

    stream = await boss.stream("hi", delegation={"onDelegationStart": start})
    chunks = [chunk async for chunk in stream.full_stream]
    told = [message["content"] for message in model.requests[1].messages if message["role"] == "tool"]
    assert told == ["for: one, please", "[Delegation Rejected] one is enough"]
    (asked,) = sub_model.requests
    assert [(m["role"], m["content"]) for m in asked.messages] == [("user", "hi"), ("user", "one, please")]
    outputs = [chunk for chunk in chunks if chunk.type == "tool-output"]
    assert {chunk.payload.tool_call_id for chunk in outputs} == {"d1"}
    assert outputs[-1].payload.output["type"] == "finish"
