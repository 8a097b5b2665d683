"""The scripted model, as users' tests use it."""

from __future__ import annotations

import asyncio

import pytest

from tenuto import Agent, tool
from tenuto.core import payloads as p
from tenuto.errors import ModelError
from tenuto.models.ports import Finish
from tenuto.testing import Batches, Call, Gate, Reply, ScriptedModel, ScriptExhausted, Usage, run_virtual


@tool(effects="none")
async def add(a: int, b: int) -> int:
    return a + b


def agent(model, **more):
    return Agent(id="a", model=model, tools=[add], **more)


async def test_a_list_is_used_up_and_the_requests_are_kept():
    model = ScriptedModel([Call("add", {"a": 1, "b": 2}), "Three."])
    result = await agent(model, instructions="Add.").generate("1 + 2?")
    assert result.text == "Three."
    first, second = model.requests
    assert [message["role"] for message in first.messages] == ["system", "user"]
    assert [message["role"] for message in second.messages] == ["system", "user", "assistant", "tool"]
    assert (first.last, second.last) == ("1 + 2?", "3")
    assert first.tool_names == ("add",)
    assert first.tool_choice == "auto"
    assert len(first.turns) == 2  # later steps did not change it
    assert first.messages[0]["content"] == "Add."
    model.assert_done()


async def test_parallel_calls_and_reasoning():
    model = ScriptedModel(
        [
            [Call("add", {"a": 1, "b": 2}), Call("add", {"a": 3, "b": 4}, id="mine")],
            Reply("Done.", reasoning="Hm.", usage=Usage(7, 3, cached=2, reasoning=1)),
        ]
    )
    result = await agent(model).generate("x")
    assert [call.payload.tool_call_id for call in result.tool_calls] == ["call_1_1", "mine"]
    assert [done.payload.result for done in result.tool_results] == [3, 7]
    assert result.reasoning_text == "Hm."
    assert result.steps[1].usage == p.Usage(7, 3, 10, 1, 2)


async def test_one_entry_answers_for_ever():
    model = ScriptedModel("Hello.")
    assert [(await agent(model).generate("x")).text for _ in range(3)] == ["Hello."] * 3
    assert len(model.requests) == 3


async def test_a_function_of_the_request_sync_or_async():
    async def later(request):
        await asyncio.sleep(0)
        return f"You said {request.last}."

    assert (await agent(ScriptedModel(lambda request: request.last.upper())).generate("ho")).text == "HO"
    assert (await agent(ScriptedModel([later])).generate("ho")).text == "You said ho."


@pytest.mark.parametrize("entry", [ValueError("boom"), ValueError, lambda request: ValueError("boom")])
async def test_an_exception_fails_the_call(entry):
    with pytest.raises(ModelError, match="ValueError") as caught:
        await agent(ScriptedModel([entry])).generate("x")
    assert type(caught.value.__cause__) is ValueError


async def test_the_end_of_the_script_says_what_to_do():
    model = ScriptedModel([Call("add", {"a": 1, "b": 2})])
    with pytest.raises(ModelError, match=r"the script has 1 entry, and this is call 2.*\"3\".*Add an entry") as caught:
        await agent(model).generate("x")
    assert isinstance(caught.value.__cause__, ScriptExhausted)
    model.add("Three.")
    assert (await agent(model).generate("x")).text == "Three."


async def test_what_is_left_over():
    model = ScriptedModel(["one", "two"])
    await agent(model).generate("x")
    assert model.remaining == 1
    with pytest.raises(AssertionError, match=r"1 of 2 entries were not used: \['two'\]"):
        model.assert_done()


async def test_exact_batches_with_a_gate_and_an_exception():
    gate = Gate()
    start = [p.TextStartPayload("t"), p.TextDeltaPayload("t", "Hel")]
    model = ScriptedModel([Batches([start, gate, ModelError("gone", retryable=True)])])
    stream = await agent(model).stream("x")
    await gate.wait_blocked()
    assert [chunk.type async for chunk in until(stream, "text-delta")][-1] == "text-delta"
    gate.release()
    result = await stream.get_full_output()
    assert (result.finish_reason, result.text) == ("error", "Hel")


async def until(stream, kind):
    async for chunk in stream.full_stream:
        yield chunk
        if chunk.type == kind:
            return


async def test_exact_batches_are_sent_as_they_are():
    call = p.ToolCallPayload("c9", "add", {"a": 2, "b": 2})
    model = ScriptedModel([Batches([[call], [Finish("stop", p.Usage())]]), "4"])
    result = await agent(model).generate("x")
    assert result.tool_calls[0].payload.tool_call_id == "c9"


async def test_a_gate_holds_a_reply_between_batches():
    gate = Gate(permits=2)
    model = ScriptedModel([Reply("abcdef", chunk_size=2, gate=gate)])
    stream = await agent(model).stream("x")
    await gate.wait_blocked()
    assert gate.passed == 2
    gate.open()
    assert await stream.text == "abcdef"


async def test_a_reply_that_is_cut_off():
    with pytest.raises(ModelError, match="cut off after 1 batches") as caught:
        await agent(ScriptedModel([Reply("abcdefgh", drop_after=1)])).generate("x")
    assert caught.value.retryable
    assert caught.value.result.text == "abcd"


async def test_a_reply_without_an_end_is_cut_off():
    with pytest.raises(ModelError, match="without its end marker"):
        await agent(ScriptedModel([Reply("ab", finish="")])).generate("x")


def test_a_reply_that_hangs_until_released_or_aborted():
    async def main():
        model = ScriptedModel(Reply("abcdefgh", hang_after=1))
        stream = await agent(model).stream("x")
        await asyncio.sleep(60)
        stream.abort()
        assert (await stream.get_full_output()).text == "abcd"
        again = await agent(model).stream("x")
        model.release()
        assert await again.text == "abcdefgh"

    run_virtual(main())


@pytest.mark.parametrize(("finish", "reason"), [("length", "length"), ("content_filter", "content-filter")])
async def test_finish_reasons(finish, reason):
    result = await agent(ScriptedModel([Reply("x", finish=finish)])).generate("x")
    assert result.finish_reason == reason
    assert result.steps[0].raw_finish_reason == finish


@pytest.mark.parametrize("entry", [3, [], ["text", Call("f")], None])
def test_what_is_no_entry(entry):
    with pytest.raises(TypeError, match="A script has text, Reply"):
        ScriptedModel([entry])


def test_what_needs_http():
    with pytest.raises(TypeError, match="cut, pace of a Reply need HTTP; use FakeProvider"):
        ScriptedModel([Reply("x", cut=1, pace=1)])


async def test_its_name():
    model = ScriptedModel("x", provider="acme", model_id="m1")
    assert repr(model) == "ScriptedModel(acme/m1)"
    result = await agent(model).generate("x")
    assert result.steps[0].model == "acme/m1"
    assert result.request.body["model"] == "m1"
