"""The official client reads our chat completions: the oracle for what the provider sends."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tenuto.testing.provider import Burst, Call, FakeProvider, HTTPError, Raw, Reply, ToolRounds, Usage, chat_chunk
from tests.oracle import assert_valid_chat_body

ADD: dict[str, Any] = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
TEXT = "né 漢 🙂 and a longer tail"


def client_of(provider: FakeProvider) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=provider.base_url, api_key="x", max_retries=0)


async def streamed(provider: FakeProvider, **more: Any) -> tuple[list[ChatCompletionChunk], ChatCompletion]:
    """Read a stream with the vendor's accumulator, and check each chunk against its own type."""
    chunks: list[ChatCompletionChunk] = []
    async with (
        client_of(provider) as client,
        client.chat.completions.stream(
            model="gpt", messages=[{"role": "user", "content": "hi"}], stream_options={"include_usage": True}, **more
        ) as stream,
    ):
        async for event in stream:
            if event.type == "chunk":
                ChatCompletionChunk.model_validate(event.chunk.model_dump(), strict=True)
                chunks.append(event.chunk)
        return chunks, await stream.get_final_completion()


@pytest.mark.parametrize("size", [0, 1, 4])
async def test_text_and_usage(size: int) -> None:
    async with FakeProvider(Reply(TEXT, usage=Usage(7, 3, cached=2, reasoning=1), chunk_size=size)) as provider:
        chunks, final = await streamed(provider)
    choice = final.choices[0]
    assert (choice.message.content, choice.finish_reason, final.model) == (TEXT, "stop", "gpt")
    assert final.usage is not None
    assert final.usage.total_tokens == 10
    assert final.usage.prompt_tokens_details is not None
    assert final.usage.prompt_tokens_details.cached_tokens == 2
    assert [each.usage is not None for each in chunks] == [False] * (len(chunks) - 1) + [True]
    assert_valid_chat_body(provider.requests[0].body)


async def test_parallel_calls_with_text_and_reasoning() -> None:
    reply = Reply("So:", [Call("add", {"a": 1}), Call("add", {"a": "é", "b": [2]}, id="mine")], reasoning="thinking")
    async with FakeProvider(reply) as provider:
        chunks, final = await streamed(provider, tools=[ADD])
    choice = final.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("So:", "tool_calls")
    assert choice.message.tool_calls is not None
    read = [(each.id, each.function.name, json.loads(each.function.arguments)) for each in choice.message.tool_calls]
    assert read == [("call_0_0", "add", {"a": 1}), ("mine", "add", {"a": "é", "b": [2]})]
    extra = [(each.choices[0].delta.model_extra or {}).get("reasoning_content", "") for each in chunks if each.choices]
    assert "".join(extra) == "thinking"


async def test_one_body() -> None:
    reply = Reply("", [Call("add", {"a": 1})], usage=Usage(7, 3))
    async with (
        FakeProvider([reply, Reply("hi", refusal="no", finish="length")]) as provider,
        client_of(provider) as client,
    ):
        first = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
        second = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    for completion in (first, second):
        ChatCompletion.model_validate(completion.model_dump(), strict=True)
    assert first.choices[0].message.content is None
    assert first.choices[0].message.tool_calls is not None
    assert first.choices[0].finish_reason == "tool_calls"
    assert first.usage is not None
    assert first.usage.total_tokens == 10
    assert (second.choices[0].message.refusal, second.choices[0].finish_reason) == ("no", "length")
    assert first.id != second.id


async def test_the_request_decides_on_usage() -> None:
    async with FakeProvider(Reply("hi")) as provider, client_of(provider) as client:
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "x"}], stream=True
        )
        assert [each async for each in stream if each.usage or not each.choices] == []


async def test_finish_and_usage_can_be_left_out() -> None:
    async with (
        FakeProvider(Reply("hi", finish="", usage=None), strict=False) as provider,
        client_of(provider) as client,
    ):
        stream = await client.chat.completions.create(
            model="m", messages=[], stream=True, stream_options={"include_usage": True}
        )
        chunks = [each async for each in stream]
    assert all(each.usage is None and each.choices[0].finish_reason is None for each in chunks)


async def test_a_burst_is_a_text() -> None:
    burst = Burst(50)
    async with FakeProvider(burst) as provider:
        chunks, final = await streamed(provider)
        _, again = await streamed(provider)
    assert final.choices[0].message.content == again.choices[0].message.content == burst.text
    assert len(burst.text) == 200
    assert sum(bool(each.choices and each.choices[0].delta.content) for each in chunks) == 50


@pytest.mark.parametrize("stream", [True, False])
async def test_tool_rounds_follow_the_history(stream: bool) -> None:
    messages: list[Any] = [{"role": "user", "content": "go"}]
    async with FakeProvider(ToolRounds(3, width=2)) as provider, client_of(provider) as client:
        for _ in range(3):
            async with client.chat.completions.stream(model="m", messages=messages, tools=[ADD]) as events:
                streamed_message = (await events.get_final_completion()).choices[0].message
            whole = await client.chat.completions.create(model="m", messages=messages, tools=[ADD])
            message = streamed_message if stream else whole.choices[0].message
            assert whole.choices[0].message.tool_calls == message.tool_calls or stream
            assert message.tool_calls is not None
            assert len(message.tool_calls) == 2
            messages.append(message.model_dump(include={"role", "content", "tool_calls"}, exclude_unset=True))
            for call in messages[-1]["tool_calls"]:
                call["function"].pop("parsed_arguments", None)
                call.pop("index", None)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": "3"})
        final = await client.chat.completions.create(model="m", messages=messages, tools=[ADD])
        assert final.choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (429, openai.RateLimitError),
        (503, openai.InternalServerError),
    ],
)
async def test_errors(status: int, error: type[openai.APIStatusError]) -> None:
    async with FakeProvider(HTTPError(status, headers={"Retry-After": "2"})) as provider:
        with pytest.raises(error) as caught:
            await streamed(provider)
    assert caught.value.response.headers["retry-after"] == "2"
    assert caught.value.request_id == "req_0"
    assert str(status) in str(caught.value)
    assert caught.value.type is not None


async def test_an_error_in_the_stream() -> None:
    error = {"error": {"message": "queue full", "code": 429}}
    async with FakeProvider(Raw([chat_chunk({"content": "a"}), error])) as provider:
        with pytest.raises(openai.APIError, match="queue full"):
            await streamed(provider)


async def test_built_chunks_are_the_vendors() -> None:
    raw = Raw([chat_chunk({"content": "a"}), chat_chunk({}, finish="stop"), chat_chunk(usage=Usage(1, 2))])
    async with FakeProvider(raw) as provider:
        _, final = await streamed(provider)
    assert final.choices[0].message.content == "a"
    assert final.usage is not None
    assert final.usage.total_tokens == 3
    assert chat_chunk(choices=[], zip=1)["choices"] == []


async def test_what_the_dialect_has_no_place_for_is_a_failure_of_the_script() -> None:
    provider = FakeProvider([Reply("x", redacted=["sealed"])])
    with pytest.raises(openai.APIError):
        async with provider:
            await streamed(provider)
    assert "no place for redacted=" in str(provider.failures[0])
