"""Hooks around every tool call: of the agent, a toolset, the client; what they may answer, and their failures."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto import Agent, ToolContext, create_tool, tool
from tenuto.testing import Call, FakeProvider, Reply, ScriptedModel
from tests.agent.kit import agent_on, answers, both, run
from tests.agent.test_client_tools import LOCATION, answered


@tool(effects="none")
async def add(a: int, b: int = 2) -> int:
    return a + b


@tool(effects="none")
async def fail() -> None:
    raise ValueError("boom")


class Seen:
    """Hooks that keep what they are given."""

    def __init__(self, answer: Any = None) -> None:
        self.before: list[Any] = []
        self.after: list[Any] = []
        self._answer = answer

    @property
    def hooks(self) -> Any:
        return {"before_tool_call": self.on_before, "after_tool_call": self.on_after}

    def on_before(self, event):
        self.before.append(event)
        return self._answer

    async def on_after(self, event):
        self.after.append(event)


@both
async def test_hooks_see_every_call(verb):
    seen = Seen()
    model = ScriptedModel([[Call("add", {"a": "1"}), Call("fail"), Call("add", {"a": "x"})], "ok"])
    agent = Agent(id="agent", name="Support", model=model, tools=[add], hooks=seen.hooks)
    await run(verb, agent, toolsets={"more": [fail]})
    assert [event.tool_name for event in seen.before] == ["add", "fail", "add"]
    first = seen.before[0]
    assert first.input == {"a": "1"}  # as the model gave it
    assert (first.metadata.agent_id, first.metadata.agent_name) == ("agent", "Support")
    assert first.context.run_id
    ended = {(event.tool_name, str(event.input)): event for event in seen.after}
    assert ended["add", "{'a': '1'}"].output == 3
    assert str(ended["fail", "{}"].error) == "boom"
    assert ended["fail", "{}"].output is None
    assert ended["add", "{'a': 'x'}"].output["error"] is True


@both
async def test_before_may_answer_in_the_tool_s_place_and_after_is_not_called_then(verb):
    seen = Seen({"proceed": False, "output": {"blocked": True}})
    async with FakeProvider([Reply(calls=[Call("fail", {})]), Reply("ok")]) as provider:
        ran = await run(verb, agent_on(provider, [fail]), hooks=seen.hooks)
        assert answers(provider) == ['{"blocked":true}']
    assert ran.result.tool_results[0].payload.result == {"blocked": True}
    assert (len(seen.before), seen.after) == (1, [])


async def test_a_call_s_hooks_take_the_place_of_the_agent_s_key_by_key():
    mine, theirs = Seen(), Seen()
    model = ScriptedModel([Call("add", {"a": 1}), "ok"])
    agent = Agent(id="a", model=model, tools=[add], hooks=mine.hooks)
    await agent.generate("hi", hooks={"beforeToolCall": theirs.on_before})
    assert [len(each) for each in (mine.before, mine.after, theirs.before, theirs.after)] == [0, 1, 1, 0]


async def test_hooks_are_dynamic_and_may_ask_for_the_app():
    seen, asked = Seen(), []

    async def hooks(context, *, app):
        asked.append((context.get("user"), app))
        return seen.hooks

    model = ScriptedModel([Call("add", {"a": 1}), Call("add", {"a": 2}), "ok"])
    await Agent(id="a", model=model, tools=[add], hooks=hooks).generate("hi", request_context={"user": "ann"})
    assert asked == [("ann", None)]
    assert len(seen.before) == len(seen.after) == 2


@both
@pytest.mark.parametrize("answer", [ValueError("no"), {"procced": False}, "stop", {"proceed": "no"}])
async def test_a_before_hook_that_fails_fails_the_call_and_nothing_runs(verb, answer):
    ran_it = []

    def before(event):
        if isinstance(answer, Exception):
            raise answer
        return answer

    @tool
    async def pay() -> str:
        ran_it.append(1)
        return "paid"

    model = ScriptedModel([Call("pay"), "ok"])
    ran = await run(verb, Agent(id="a", model=model, tools=[pay]), hooks={"before_tool_call": before})
    assert ran_it == []
    assert len(ran.of("tool-error")) == 1
    assert "stopped before the tool ran" in model.requests[1].last
    assert ran.result.text == "ok"


@both
async def test_an_after_hook_that_fails_is_a_tool_error_and_says_what_the_effect_may_be(verb):
    def after(event):
        raise ValueError("audit is down")

    @tool
    async def pay() -> str:
        return "paid"

    model = ScriptedModel([Call("pay"), Call("add", {"a": 1}), Call("fail"), "ok"])
    ran = await run(verb, Agent(id="a", model=model, tools=[pay, add, fail]), hooks={"after_tool_call": after})
    assert len(ran.of("tool-error")) == 3
    said = [request.last for request in model.requests[1:]]
    assert "audit is down" in said[0]
    assert "may have taken effect" in said[0]
    assert "may have taken effect" not in said[1]
    assert said[2] == "ValueError: boom"  # a failure stays what it was


async def test_an_effect_that_took_place_is_known_although_its_after_hook_failed():
    paid = []

    @tool(key=("order",))
    async def pay(order: str) -> str:
        paid.append(order)
        return "paid"

    failing = iter([True, False])

    def after(event):
        if next(failing):
            raise ValueError("audit is down")

    model = ScriptedModel([Call("pay", {"order": "A"}), Call("pay", {"order": "A"}), "ok"])
    result = await Agent(id="a", model=model, tools=[pay]).generate("hi", hooks={"after_tool_call": after})
    assert paid == ["A"]
    assert result.tool_results[1].payload.result == "paid"


@both
async def test_c6_before_sees_a_client_tool_s_call_and_after_its_result_in_the_later_call(verb):
    seen = Seen()
    model = ScriptedModel([[Call("where", {"a": 1}, "c1"), Call("add", {"a": 1})], "You are in Oslo.", "Bye."])
    agent = Agent(id="a", model=model, tools=[add], hooks=seen.hooks)
    first = await run(verb, agent, client_tools={"where": LOCATION})
    assert first.result.finish_reason == "tool-calls"
    assert [event.tool_name for event in seen.before] == ["where", "add"]
    assert [event.tool_name for event in seen.after] == ["add"]
    second = await run(verb, agent, answered(first.result, "c1", "Oslo"), client_tools={"where": LOCATION})
    (_, brought) = seen.after
    assert (brought.tool_name, brought.output, brought.input) == ("where", "Oslo", {"a": 1})
    assert brought.context.tool_call_id == "c1"
    await run(verb, agent, [*second.result.messages, "thanks"], client_tools={"where": LOCATION})
    assert len(seen.after) == 2  # a history that is sent again brings nothing new


@both
async def test_c6_before_may_answer_a_client_tool_s_call_and_the_run_goes_on(verb):
    seen = Seen({"proceed": False, "output": "Paris"})
    model = ScriptedModel([Call("where"), "You are in Paris."])
    ran = await run(verb, Agent(id="a", model=model), client_tools={"where": LOCATION}, hooks=seen.hooks)
    assert ran.result.text == "You are in Paris."
    assert ran.result.tool_results[0].payload.result == "Paris"


async def test_the_agent_s_own_client_tool_says_what_becomes_of_the_result():
    outputs = []
    ours = create_tool(id="where", to_model_output=lambda city: f"City: {city}", on_output=outputs.append)
    model = ScriptedModel([Call("where", {}, "c1"), "ok"])
    agent = Agent(id="a", model=model, tools=[ours])
    first = await agent.generate("hi", client_tools={"where": LOCATION})
    second = await agent.generate(answered(first, "c1", "Oslo"), client_tools={"where": LOCATION})
    assert model.requests[1].last == "City: Oslo"
    assert [event.output for event in outputs] == ["Oslo"]
    model.add("ok")
    await agent.generate([*second.messages, "again"], client_tools={"where": LOCATION})
    assert [m["content"] for m in model.requests[2].messages if m["role"] == "tool"] == ["City: Oslo"]
    assert len(outputs) == 1


async def test_listeners_of_a_tool_in_their_order():
    heard: list[tuple[str, Any]] = []

    def listen(name: str, field: str | None = None):
        def told(event):
            heard.append((name, getattr(event, field) if field else event.tool_call_id))
            raise RuntimeError("a listener's failure is nobody's")

        return told

    @tool(
        effects="none",
        title="Add up",
        on_input_start=listen("start"),
        on_input_delta=listen("delta", "input_text_delta"),
        on_input_available=listen("available", "input"),
        on_output=listen("output", "output"),
    )
    async def plus(ctx: ToolContext, a: int) -> int:
        heard.append(("execute", a))
        return a + 1

    model = ScriptedModel([Reply(calls=[Call("plus", {"a": "1"}, "c1")]), "ok"])
    ran = await run("stream", Agent(id="a", model=model, tools=[plus]))
    assert heard == [
        ("start", "c1"),
        ("delta", '{"a"'),
        ("delta", ':"1"'),
        ("delta", "}"),
        ("available", {"a": "1"}),
        ("execute", 1),
        ("output", 2),
    ]
    assert ran.of("tool-call")[0].payload.title == "Add up"
    assert ran.of("tool-call-input-streaming-start")[0].payload.title == "Add up"
    assert ran.result.tool_calls[0].payload.title == "Add up"
    (part,) = [part for part in ran.result.messages[1].content.parts if hasattr(part, "tool_invocation")]
    assert part.title == "Add up"
