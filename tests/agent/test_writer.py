"""`ctx.writer` and `to_model_output`: what a tool shows while it runs, and what its model is told of the result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import Agent, ToolContext, tool
from tenuto.core.chunks import Data
from tenuto.errors import ToolError
from tenuto.messages.turns import FilePart, Text, ToolTurn
from tenuto.testing import Call, FakeProvider, Reply, ScriptedModel
from tests.agent.kit import agent_on, answers, both, run, sent

PNG = "iVBORw0KGgo="


@tool(effects="none")
async def work(ctx: ToolContext) -> str:
    await ctx.writer.write({"step": 1})
    await ctx.writer.custom({"type": "data-progress", "data": {"done": 1}, "id": "p"})
    await ctx.writer.custom({"type": "data-ping", "data": None, "transient": True})
    await ctx.writer.custom({"type": "data-progress", "data": {"done": 2}, "id": "p"})
    await ctx.writer.write("end")
    return "ok"


def shown(chunks: list[Any]) -> list[Any]:
    return [
        chunk.data if isinstance(chunk, Data) else chunk.payload.output
        for chunk in chunks
        if isinstance(chunk, Data) or chunk.type == "tool-output"
    ]


@both
async def test_what_is_written_is_shown_in_order_before_the_result(verb):
    model = ScriptedModel([Call("work", {}, "c1"), "done"])
    ran = await run(verb, Agent(id="a", model=model, tools=[work]))
    assert shown(ran.chunks) == [{"step": 1}, {"done": 1}, None, {"done": 2}, "end"]
    first = ran.of("tool-output")[0]
    assert (first.from_, first.payload.tool_call_id, first.payload.tool_name) == ("USER", "c1", "work")
    assert ran.types.index("tool-result") > max(at for at, kind in enumerate(ran.types) if kind == "tool-output")


async def test_data_that_is_not_transient_becomes_a_part_of_the_message_and_can_be_given_back():
    model = ScriptedModel([Call("work"), "done", "again"])
    agent = Agent(id="a", model=model, tools=[work])
    result = await agent.generate("hi")
    plain = [message.to_dict() for message in result.messages]
    parts = [part for part in plain[1]["content"]["parts"] if part["type"].startswith("data-")]
    assert parts == [{"type": "data-progress", "data": {"done": 2}, "id": "p"}]
    again = await agent.generate([*plain, "and?"])
    assert again.messages[1] == result.messages[1]
    assert "done" not in str(model.requests[2].messages[1])  # a model never sees it


async def test_a_sync_tool_writes_from_its_thread():
    @tool(effects="none")
    def slow(ctx: ToolContext) -> int:
        ctx.writer.write_sync("a")
        ctx.writer.custom_sync({"type": "data-x", "data": 1})
        return 1

    ran = await run("stream", Agent(id="a", model=ScriptedModel([Call("slow"), "ok"]), tools=[slow]))
    assert shown(ran.chunks) == ["a", 1]


async def test_a_stream_can_be_piped():
    async def source():
        yield {"n": 1}
        yield Data("data-inner", 2)

    @tool(effects="none")
    async def outer(ctx: ToolContext) -> int:
        await ctx.writer.pipe(source())
        return 1

    ran = await run("stream", Agent(id="a", model=ScriptedModel([Call("outer"), "ok"]), tools=[outer]))
    assert shown(ran.chunks) == [{"n": 1}, 2]
    assert len(ran.of("data-inner")) == 1


async def test_after_its_call_has_its_outcome_a_tool_writes_nothing():
    kept: list[ToolContext] = []

    @tool(effects="none")
    async def leak(ctx: ToolContext) -> int:
        kept.append(ctx)
        return 1

    await Agent(id="a", model=ScriptedModel([Call("leak"), "ok"]), tools=[leak]).generate("hi")
    for write in (lambda w: w.write("late"), lambda w: w.custom({"type": "data-x", "data": 1})):
        with pytest.raises(ToolError) as refused:
            await write(kept[0].writer)
        assert refused.value.id == "TOOL_CALL_OVER"


NO_CHUNKS = [
    {"type": "text-delta", "data": 1},
    {"type": "data-x"},
    {"data": 1},
    {"type": "data-x", "data": 1, "a": 2},
    3,
]


@pytest.mark.parametrize("chunk", NO_CHUNKS, ids=str)
async def test_a_chunk_of_another_form_is_refused(chunk):
    with pytest.raises(ToolError, match="data-<name>") as refused:
        await ToolContext().writer.custom(chunk)
    assert refused.value.id == "TOOL_CHUNK_INVALID"


async def test_a_tool_called_by_a_test_keeps_what_it_writes():
    ctx = ToolContext()
    await work(ctx)
    assert ctx.writer.written[0] == {"step": 1}
    assert ctx.writer.written[1] == Data("data-progress", {"done": 1}, "p")


async def test_writers_of_parallel_calls_keep_their_own_order():
    @tool(effects="none")
    async def count(ctx: ToolContext, name: str) -> int:
        for n in range(5):
            await ctx.writer.write([name, n])
            await ctx.writer.custom({"type": "data-n", "data": [name, n], "transient": True})
            await asyncio.sleep(0)
        return 5

    model = ScriptedModel([[Call("count", {"name": "a"}), Call("count", {"name": "b"})], "ok"])
    ran = await run("stream", Agent(id="a", model=model, tools=[count]))
    for name in ("a", "b"):
        mine = [value[1] for value in shown(ran.chunks) if value[0] == name]
        assert mine == [n for n in range(5) for _ in range(2)]


# -- to_model_output ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ("short", "short"),
        ({"a": 1}, '{"a":1}'),
        ({"type": "text", "value": "in words"}, "in words"),
        ({"type": "json", "value": [1]}, "[1]"),
        ({"type": "content", "value": [{"type": "text", "text": "one"}, "two"]}, "one\ntwo"),
    ],
    ids=str,
)
@both
async def test_the_model_is_told_this_and_the_user_gets_the_result(verb, told, text):
    @tool(effects="none", to_model_output=lambda result: told)
    async def big() -> dict[str, int]:
        return {"rows": 10_000}

    model = ScriptedModel([Call("big"), "ok", "again"])
    agent = Agent(id="a", model=model, tools=[big])
    ran = await run(verb, agent)
    assert ran.result.tool_results[0].payload.result == {"rows": 10_000}
    assert model.requests[1].last == text
    await agent.generate([*ran.result.messages, "more"])
    assert [m["content"] for m in model.requests[2].messages if m["role"] == "tool"] == [text]


async def test_an_image_reaches_a_model_of_chat_completions_after_the_results():
    async def picture(result):
        return {
            "type": "content",
            "value": [{"type": "text", "text": "The chart:"}, {"type": "media", "data": PNG, "mediaType": "image/png"}],
        }

    @tool(effects="none", to_model_output=picture)
    async def chart() -> str:
        return "chart-1"

    @tool(effects="none")
    async def look() -> str:
        return "seen"

    script = [Reply(calls=[Call("chart", {}, "c1"), Call("look", {}, "c2")]), Reply("Nice."), Reply("Yes.")]
    async with FakeProvider(script) as provider:
        agent = agent_on(provider, [chart, look])
        result = await agent.generate("hi")
        first, again = sent(provider), None
        assert answers(provider) == ["The chart:\n[File of type image/png: see the message after the results]", "seen"]
        await agent.generate([*result.messages, "sure?"])
        again = sent(provider)
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    assert [message["role"] for message in first] == ["user", "assistant", "tool", "tool", "user"]
    assert image in first[-1]["content"]
    assert again[:5] == first[:5]
    model = ScriptedModel([Call("chart"), "ok"])
    await Agent(id="a", model=model, tools=[chart]).generate("hi")
    (turn,) = [turn for turn in model.requests[1].turns if isinstance(turn, ToolTurn)]
    assert turn.results[0].content == (Text("The chart:"), FilePart("image/png", None, PNG))


@both
@pytest.mark.parametrize("told", [ValueError("no words"), {"type": "content", "value": [{"type": "song"}]}])
async def test_a_function_that_fails_tells_the_model_nothing_of_the_result(verb, told):
    def words(result):
        if isinstance(told, Exception):
            raise told
        return told

    @tool(effects="none", to_model_output=words)
    async def secret() -> str:
        return "canary"

    model = ScriptedModel([Call("secret"), "ok"])
    ran = await run(verb, Agent(id="a", model=model, tools=[secret]))
    assert len(ran.of("tool-error")) == 1
    assert "its to_model_output failed" in model.requests[1].last
    assert "canary" not in model.requests[1].last
    assert ran.result.text == "ok"
