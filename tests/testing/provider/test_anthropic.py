"""The official client reads our messages: the oracle for what the provider sends."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import Message
from anthropic.types.beta import BetaMessage

from tenuto.testing.provider import (
    Burst,
    Call,
    FakeProvider,
    HTTPError,
    ProviderCall,
    Raw,
    Refused,
    Reply,
    ToolRounds,
    Usage,
    message_events,
)
from tenuto.testing.provider.anthropic import Anthropic
from tenuto.testing.provider.strict import Rules

TEXT = "né 漢 🙂 and a longer tail"
ADD: dict[str, Any] = {"name": "add", "input_schema": {"type": "object"}}
HI: list[Any] = [{"role": "user", "content": "hi"}]


def client_of(provider: FakeProvider) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=provider.base_url.removesuffix("/v1"), api_key="x", max_retries=0)


async def streamed(provider: FakeProvider, **more: Any) -> Message:
    """Read a stream with the vendor's accumulator."""
    given: dict[str, Any] = {"model": "claude", "max_tokens": 9, "messages": HI, **more}
    async with client_of(provider) as client, client.messages.stream(**given) as stream:
        final = await stream.get_final_message()
    Message.model_validate(final.model_dump(), strict=True)
    return final


@pytest.mark.parametrize("size", [0, 1, 4])
async def test_text_and_usage(size: int) -> None:
    usage = Usage(70, 3, cached=20, cache_write=10, reasoning=1)
    async with FakeProvider(Reply(TEXT, usage=usage, chunk_size=size)) as provider:
        final = await streamed(provider)
    (block,) = final.content
    assert (block.type, getattr(block, "text", None), final.stop_reason, final.model) == (
        "text", TEXT, "end_turn", "claude",
    )  # fmt: skip
    assert (final.usage.input_tokens, final.usage.output_tokens) == (40, 3)
    assert (final.usage.cache_read_input_tokens, final.usage.cache_creation_input_tokens) == (20, 10)


def everything() -> Reply:
    hit = {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "e", "page_age": None}
    return Reply(
        "So:",
        [Call("add", {"a": 1}), Call("add", {"a": "é", "b": [2]}, id="mine"), Call("add")],
        reasoning="thinking",
        signature="sig",
        redacted=["sealed"],
        provider_calls=[ProviderCall("web_search", {"query": "q"}, [hit], id="srvtoolu_mine")],
        sources=[("http://a", "A")],
    )


async def test_everything_streamed_and_whole() -> None:
    async with FakeProvider(everything()) as provider, client_of(provider) as client:
        final = await streamed(provider, tools=[ADD])
        whole = await client.messages.create(model="claude", max_tokens=9, messages=HI, tools=[ADD])
    Message.model_validate(whole.model_dump(), strict=True)
    kinds = ["thinking", "redacted_thinking", "server_tool_use", "web_search_tool_result", "text", *["tool_use"] * 3]
    for message in (final, whole):
        assert [block.type for block in message.content] == kinds
        assert [getattr(block, "input", None) for block in message.content[5:]] == [
            {"a": 1}, {"a": "é", "b": [2]}, {},
        ]  # fmt: skip
        assert message.stop_reason == "tool_use"
    streamed_text, whole_text = final.content[4].model_dump(), whole.content[4].model_dump()
    assert streamed_text["citations"] == whole_text["citations"]
    assert final.content[0].model_dump() == whole.content[0].model_dump()
    assert final.content[3].model_dump() == whole.content[3].model_dump()


async def test_servers_of_others() -> None:
    reply = Reply("x", provider_calls=[ProviderCall("srv/echo", {"m": 1}, [{"type": "text", "text": "r"}])])
    async with (
        FakeProvider(reply) as provider,
        client_of(provider) as client,
        client.beta.messages.stream(model="claude", max_tokens=9, messages=HI) as stream,
    ):
        final = await stream.get_final_message()
    assert [block.type for block in final.content] == ["mcp_tool_use", "mcp_tool_result", "text"]
    assert BetaMessage.model_validate(final.model_dump())


async def test_refusals_and_finish_reasons() -> None:
    async with FakeProvider([Reply(refusal="no"), Reply("x", finish="pause_turn")]) as provider:
        assert (await streamed(provider)).stop_reason == "refusal"
        assert (await streamed(provider)).stop_reason == "pause_turn"


async def test_a_burst_is_a_text() -> None:
    burst = Burst(50)
    async with FakeProvider(burst) as provider:
        final = await streamed(provider)
    assert getattr(final.content[0], "text", None) == burst.text


async def test_tool_rounds_follow_the_history() -> None:
    messages: list[Any] = [{"role": "user", "content": "go"}]
    async with FakeProvider(ToolRounds(3, width=2)) as provider:
        for _ in range(3):
            final = await streamed(provider, messages=messages, tools=[ADD])
            messages.append({"role": "assistant", "content": [block.to_dict() for block in final.content]})
            calls = [block for block in final.content if block.type == "tool_use"]
            assert len(calls) == 2
            results = [{"type": "tool_result", "tool_use_id": call.id, "content": "3"} for call in calls]
            messages.append({"role": "user", "content": results})
        assert (await streamed(provider, messages=messages, tools=[ADD])).stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, anthropic.BadRequestError),
        (401, anthropic.AuthenticationError),
        (429, anthropic.RateLimitError),
        (529, anthropic.InternalServerError),
    ],
)
async def test_errors(status: int, error: type[anthropic.APIStatusError]) -> None:
    async with FakeProvider(HTTPError(status, headers={"Retry-After": "2"})) as provider:
        with pytest.raises(error) as caught:
            await streamed(provider)
    assert caught.value.response.headers["retry-after"] == "2"
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["type"] == "error"


async def test_an_error_in_the_stream() -> None:
    from tenuto.testing.provider import Event

    found = [Event(data=encoded(each), name=each["type"]) for each in message_events([{"type": "text", "text": "a"}])]
    failed = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    async with FakeProvider(Raw([*found[:3], Event(encoded(failed), "error")])) as provider:
        with pytest.raises(anthropic.APIError, match="Overloaded"):
            await streamed(provider)


def encoded(value: dict[str, Any]) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


async def test_the_key_and_the_version() -> None:
    async with FakeProvider(Reply("x"), api_key="right", allow_refused=True, allow_unused=True) as provider:
        with pytest.raises(anthropic.AuthenticationError):
            await streamed(provider)
        async with client_of(provider) as client:
            with pytest.raises(anthropic.BadRequestError, match="anthropic-version"):
                await client.messages.create(
                    model="m", max_tokens=1, messages=HI,
                    extra_headers={"x-api-key": "right", "anthropic-version": anthropic.omit},
                )  # fmt: skip


TEXT_BLOCK: dict[str, Any] = {"type": "text", "text": "hi"}
USE: dict[str, Any] = {"type": "tool_use", "id": "a", "name": "add", "input": {}}
RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "a", "content": "3"}
SEARCH: dict[str, Any] = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
FOUND: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
TIFF: dict[str, Any] = {
    "type": "image", "source": {"type": "base64", "media_type": "image/tiff", "data": "x"},
}  # fmt: skip
MARK: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}


def told(*turns: list[Any], **more: Any) -> dict[str, Any]:
    """A body whose turns are the user's and the model's in turn."""
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": blocks} for place, blocks in enumerate(turns)]
    return {"model": "claude-sonnet-4-5", "max_tokens": 2048, "messages": messages, **more}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"max_tokens": 1, "messages": HI}, "missing_model"),
        ({"model": "m", "messages": HI}, "bad_parameter"),
        (told([TEXT_BLOCK], zip=1), "unknown_key"),
        (told(), "empty_messages"),
        ({**told(), "messages": [{"role": "assistant", "content": "x"}]}, "first_not_user"),
        ({**told(), "messages": [{"role": "system", "content": "x"}]}, "bad_role"),
        (told([{"type": "text", "text": " "}]), "blank_text"),
        (told([]), "bad_content"),
        (told([TEXT_BLOCK | {"zip": 1}]), "unknown_key"),
        (told([TIFF]), "bad_content"),
        (told([TEXT_BLOCK], [USE]), "unanswered_call"),
        (told([TEXT_BLOCK], [USE], [TEXT_BLOCK, RESULT]), "result_not_first"),
        (told([TEXT_BLOCK], [TEXT_BLOCK], [RESULT]), "orphan_result"),
        (told([TEXT_BLOCK], [USE, USE], [RESULT]), "duplicate_id"),
        (told([TEXT_BLOCK], [SEARCH], [TEXT_BLOCK]), "unanswered_call"),
        (told([TEXT_BLOCK], [FOUND]), "orphan_result"),
        (told([TEXT_BLOCK], [{"type": "thinking", "thinking": "x", "signature": "s"}]), "bad_last_block"),
        (told([TEXT_BLOCK], [USE], [RESULT | {"is_error": True, "content": ""}]), "bad_content"),
        (told([TEXT_BLOCK], tools=[ADD, ADD]), "duplicate_tool"),
        (told([TEXT_BLOCK], tools=[{"name": "a b", "input_schema": {"type": "object"}}]), "bad_name"),
        (told([TEXT_BLOCK], tools=[{"name": "a", "input_schema": {"type": "object", "anyOf": []}}]), "bad_schema"),
        (told([TEXT_BLOCK], tool_choice={"type": "any"}), "tool_choice_without_tools"),
        (told([TEXT_BLOCK], tools=[ADD], tool_choice={"type": "tool", "name": "x"}), "unknown_tool_choice"),
        (told([TEXT_BLOCK], tools=[ADD], tool_choice={"type": "required"}), "bad_tool_choice"),
        (told([TEXT_BLOCK], thinking={"type": "enabled", "budget_tokens": 100}), "bad_thinking"),
        (told([TEXT_BLOCK], thinking={"type": "enabled", "budget_tokens": 4096}), "bad_thinking"),
        (told([TEXT_BLOCK], thinking={"type": "enabled", "budget_tokens": 1024}, temperature=0.5), "bad_thinking"),
        (told([TEXT_BLOCK], temperature=1.5), "bad_parameter"),
        (told([TEXT_BLOCK], temperature=1, top_p=1), "bad_parameter"),
        (told([TEXT_BLOCK], model="claude-opus-5", temperature=1), "bad_parameter"),
        (told([TEXT_BLOCK], [TEXT_BLOCK], model="claude-opus-5"), "prefill"),
        (told([TEXT_BLOCK], model="claude-opus-5-5", tools=[ADD], tool_choice={"type": "any"}), "bad_tool_choice"),
        (told([TEXT_BLOCK | MARK] * 3, system=[TEXT_BLOCK | MARK] * 2), "too_many_marks"),
        (told([TEXT_BLOCK], output_config={"effort": "high"}), "bad_parameter"),
        (told([TEXT_BLOCK], stop_sequences=[" "]), "bad_parameter"),
    ],
)  # fmt: skip
def test_what_is_refused(body: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused) as caught:
        Anthropic().check(body, Rules())
    assert caught.value.reason == reason
