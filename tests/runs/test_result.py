"""What a run leaves behind: the fields of its result, and its messages as the start of the next turn."""

from __future__ import annotations

import json

import pytest

from tenuto import Agent, tool
from tenuto.core import payloads as p
from tenuto.models.ports import Finish
from tenuto.testing import Batches, Call, FakeProvider, HTTPError, Reply, ScriptedModel, Usage
from tenuto.tools import ToolFailed
from tests.agent.kit import agent_on, both, plain, run, sent


@tool(effects="none")
async def add(a: int = 1, b: int = 2) -> int:
    return a + b


@tool(effects="none")
async def fail() -> str:
    raise ValueError("boom")


@both
async def test_the_fields_of_a_run_with_tools(verb):
    script = [
        Reply("Let me see.", reasoning="Hm.", calls=[Call("add", {"a": 1}), Call("fail")], usage=Usage(10, 4, 2, 1)),
        Reply("It is 3.", usage=Usage(20, 6, 8, 2), headers={"x-request-id": "q1"}),
    ]
    async with FakeProvider(script) as provider:
        result = (await run(verb, agent_on(provider, [add, fail]))).result
    assert result.text == "Let me see.It is 3."
    assert result.finish_reason == "stop"
    first, second = result.steps
    assert (first.step_type, second.step_type) == ("initial", "tool-result")
    assert (first.text, second.text) == ("Let me see.", "It is 3.")
    assert (first.finish_reason, second.finish_reason) == ("tool-calls", "stop")
    assert (first.raw_finish_reason, second.raw_finish_reason) == ("tool_calls", "stop")
    assert (first.reasoning_text, second.reasoning_text) == ("Hm.", None)
    assert result.reasoning_text == "Hm."
    assert [call.payload.tool_name for call in result.tool_calls] == ["add", "fail"]
    assert result.tool_calls == first.tool_calls
    assert [done.payload.is_error for done in result.tool_results] == [None, True]
    assert "boom" in result.tool_results[1].payload.result
    assert result.tool_results == first.tool_results
    usage = result.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (30, 10, 40)
    assert (usage.cached_input_tokens, usage.reasoning_tokens) == (10, 3)
    assert usage.raw == second.usage.raw
    assert result.total_usage is result.usage
    assert result.response.headers["x-request-id"] == "q1"
    assert result.response.id == second.response.id != first.response.id
    assert result.response.model_id == "m"
    assert first.model == "test/m"
    assert {step.run_id for step in result.steps} == {result.run_id}


@both
async def test_a_run_without_usage(verb):
    async with FakeProvider([Reply("x", usage=None)]) as provider:
        ran = await run(verb, agent_on(provider))
    assert plain(ran.result.usage) == {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}


@both
async def test_sources_and_files(verb):
    source = p.SourcePayload("s", "url", "Title", "https://example.org")
    file = p.FilePayload("aGk=", "text/plain", "aGk=")
    batches = Batches([[source, file, Finish("stop", p.Usage(), provider_metadata={"x": {"y": 1}})]])
    ran = await run(verb, Agent(id="a", model=ScriptedModel(batches)))
    assert [chunk.payload for chunk in ran.result.sources] == [source]
    assert [chunk.payload for chunk in ran.result.files] == [file]
    assert ran.result.steps[0].sources == ran.result.sources
    assert ran.result.provider_metadata == {"x": {"y": 1}}


async def test_a_source_survives_into_the_messages():
    source = p.SourcePayload("s", "url", "Title", "https://example.org")
    model = ScriptedModel([Batches([[source, Finish("stop", p.Usage())]]), "ok"])
    one = Agent(id="a", model=model)
    result = await one.generate("x")
    await one.generate([*[message.to_dict() for message in result.messages], "y"])


@both
async def test_messages_are_one_conversation(verb):
    model = ScriptedModel([Reply("Well.", calls=[Call("add")]), "3"])
    ran = await run(verb, Agent(id="a", model=model, tools=[add]), [{"role": "user", "content": "hi", "id": "mine"}])
    user, answer = ran.result.messages
    assert (user.id, user.role, user.text) == ("mine", "user", "hi")
    assert (answer.id, answer.role) == (ran.chunks[0].payload.message_id, "assistant")
    assert answer.created_at > user.created_at
    kinds = [type(part).__name__ for part in answer.content.parts]
    assert kinds == ["StepStartPart", "TextPart", "ToolInvocationPart", "StepStartPart", "TextPart"]
    call = answer.content.parts[2].tool_invocation
    assert (call.state, call.tool_name, call.args, call.result, call.step) == ("result", "add", {}, 3, 1)
    assert ran.result.response.db_messages == (answer,)
    assert [type(turn).__name__ for turn in ran.result.response.messages] == [
        "AssistantTurn",
        "ToolTurn",
        "AssistantTurn",
    ]


FORMS = {
    "objects": list,
    "dicts": lambda messages: [message.to_dict() for message in messages],
    "json": lambda messages: json.loads(json.dumps([message.to_dict() for message in messages])),
    "mixed": lambda messages: [messages[0], *[message.to_dict() for message in messages[1:]]],
}


@both
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_messages_start_the_next_turn(verb, form):
    script = [
        Reply("Well.", reasoning="Hm.", calls=[Call("add", {"a": 1}), Call("fail"), Call("nope", "{broken")]),
        Reply("It is 3."),
        Reply("You are welcome."),
    ]
    async with FakeProvider(script) as provider:
        agent = agent_on(provider, [add, fail])
        first = await run(verb, agent)
        second = await run(verb, agent, [*form(first.result.messages), "thanks"])
        before, after = sent(provider, 1), sent(provider, 2)
    assert after[: len(before)] == before  # word for word what the model had read
    assert [message["role"] for message in after[len(before) :]] == ["assistant", "user"]
    assert [message.id for message in second.result.messages][:2] == [message.id for message in first.result.messages]
    assert len(second.result.messages) == 4
    times = [message.created_at for message in second.result.messages]
    assert times == sorted(set(times))


@both
async def test_messages_of_a_failed_run_start_the_next_turn(verb):
    script = [Reply("Well.", calls=[Call("add")]), HTTPError(500), Reply("ok")]
    async with FakeProvider(script) as provider:
        agent = agent_on(provider, [add])
        first = await run(verb, agent)
        await run(verb, agent, [*[message.to_dict() for message in first.result.messages], "again"])
        assert [message["role"] for message in sent(provider)] == ["user", "assistant", "tool", "user"]


@both
async def test_messages_of_a_run_at_its_step_limit_start_the_next_turn(verb):
    script = [Reply(calls=[Call("add")]), Reply("ok")]
    async with FakeProvider(script) as provider:
        agent = agent_on(provider, [add])
        first = await run(verb, agent, max_steps=1)
        await run(verb, agent, [*first.result.messages, "go on"])
        assert [message["role"] for message in sent(provider)] == ["user", "assistant", "tool", "user"]


async def test_an_empty_answer_is_no_message():
    result = await Agent(id="a", model=ScriptedModel(Reply(""))).generate("x")
    assert [message.role for message in result.messages] == ["user"]
    assert result.response.db_messages == ()


async def test_system_messages_of_the_input_are_sent_and_not_kept():
    model = ScriptedModel("ok")
    result = await Agent(id="a", model=model, instructions="Own.").generate(
        [{"role": "system", "content": "Once."}, "hi"]
    )
    assert [message["content"] for message in model.requests[0].messages] == ["Own.", "Once.", "hi"]
    assert [message.role for message in result.messages] == ["user", "assistant"]


async def test_chunks_and_messages_have_a_plain_form():
    stream = await Agent(id="a", model=ScriptedModel([Call("add"), "3"]), tools=[add]).stream("x")
    async for chunk in stream.full_stream:
        plain_form = chunk.to_dict()
        assert plain_form["type"] == chunk.type
        assert json.dumps(plain_form)
        assert "run_id" not in plain_form
        assert plain_form["runId"] == stream.run_id


@both
async def test_a_long_run_keeps_the_bodies_of_its_last_steps(verb):
    """Each holds the whole history, so all of them together would grow with the square of the steps."""

    @tool(effects="none")
    async def dump() -> str:
        return "x" * 40_000

    model = ScriptedModel(lambda _: Call("dump"))
    ran = await run(verb, Agent(id="a", model=model, tools=[dump]), max_steps=30)
    assert len(ran.result.request.body["messages"]) == 59
    kept = [step.request.size for step in ran.result.steps]
    assert kept[-1] > 1_000_000
    assert sum(kept[:-1]) < 1 << 20


@tool(effects="none", max_result_chars=300)
async def long() -> str:
    return "x" * 5_000


@tool
async def refuses() -> str:
    raise ToolFailed("Sold out; ask for another one.")


@tool
async def breaks() -> str:
    raise RuntimeError("halfway")


@tool(effects="none")
async def odd() -> dict[str, object]:
    return {"text": "é\u0000", "list": [1.5, None, True]}


@both
@pytest.mark.parametrize("call", ["long", "refuses", "breaks", "odd", "nope", "add", "broken"])
async def test_every_kind_of_answer_is_the_same_text_in_the_next_turn(verb, call):
    made = {"add": Call("add", {"a": "many"}), "broken": Call("add", "{oops")}.get(call, Call(call))
    async with FakeProvider([Reply(calls=[made]), Reply("ok"), Reply("bye")]) as provider:
        agent = agent_on(provider, [add, long, refuses, breaks, odd])
        first = await run(verb, agent)
        plain_form = json.loads(json.dumps([message.to_dict() for message in first.result.messages]))
        await run(verb, agent, [*plain_form, "again"])
        assert sent(provider, 2)[:3] == sent(provider, 1)
