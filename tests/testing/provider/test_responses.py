"""The official client reads our responses: the oracle for what the provider sends."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

from tenuto.testing.provider import Burst, Call, FakeProvider, HTTPError, Reply, ToolRounds, Usage
from tenuto.testing.provider.responses_request import check_request
from tenuto.testing.provider.script import Made, ProviderCall
from tenuto.testing.provider.strict import Refused, Rules
from tests.oracle_responses import assert_valid_responses_body

ADD: dict[str, Any] = {
    "type": "function",
    "name": "add",
    "parameters": {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    "strict": True,
}
TEXT = "né 漢 🙂 and a longer tail"
FULL = Reply(
    TEXT,
    [Call("add", {"a": 1}), Call("add", {"a": "é"}, id="mine")],
    reasoning="thinking",
    signature="sealed",
    redacted=["more"],
    provider_calls=[
        ProviderCall("web_search"),
        ProviderCall("file_search", {"queries": ["q"]}),
        ProviderCall("code_interpreter", {"code": "1"}),
        ProviderCall("mcp_list_tools"),
        ProviderCall("lookup", {"a": 1}, "found"),
        ProviderCall("lookup", {"a": 1}, "broke", is_error=True),
    ],
    sources=[("http://a", "A")],
    files=[Made("image/png", "QUJD")],
    refusal="but not that",
    usage=Usage(7, 3, cached=2, reasoning=1),
)


EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def client_of(provider: FakeProvider) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=provider.base_url, api_key="x", max_retries=0)


async def streamed(provider: FakeProvider, **more: Any) -> Any:
    """Read a stream with the vendor's accumulator, then again to check each event against its own type."""
    async with client_of(provider) as client:
        async with client.responses.stream(model="gpt", input="hi", **more) as stream:
            async for _ in stream:
                pass
            final = await stream.get_final_response()
        numbers: list[int] = []
        async for event in await client.responses.create(model="gpt", input="hi", stream=True, **more):
            EVENT.validate_json(event.model_dump_json(exclude_unset=True), strict=True)
            numbers.append(event.sequence_number)
        assert numbers == list(range(len(numbers)))
    return final


@pytest.mark.parametrize("size", [0, 1, 4])
async def test_text_and_usage(size: int) -> None:
    async with FakeProvider(Reply(TEXT, usage=Usage(7, 3, cached=2, reasoning=1), chunk_size=size)) as provider:
        final = await streamed(provider)
    assert (final.output_text, final.status, final.model) == (TEXT, "completed", "gpt")
    assert final.usage is not None
    assert (final.usage.total_tokens, final.usage.input_tokens_details.cached_tokens) == (10, 2)
    assert_valid_responses_body(provider.requests[0].body)


async def test_everything_at_once_streamed_and_whole() -> None:
    async with FakeProvider(FULL) as provider, client_of(provider) as client:
        final = await streamed(provider, tools=[ADD])
        whole = await client.responses.create(model="gpt", input="hi")
    kinds = [item.type for item in whole.output]
    assert kinds == [
        "reasoning", "reasoning", "web_search_call", "file_search_call", "code_interpreter_call", "mcp_list_tools",
        "mcp_call", "mcp_call", "message", "image_generation_call", "function_call", "function_call",
    ]  # fmt: skip
    assert [item.type for item in final.output] == kinds
    Response.model_validate_json(whole.model_dump_json(exclude_unset=True), strict=True)
    message: Any = whole.output[8]
    assert message.content[0].annotations[0].url == "http://a"
    assert message.content[1].refusal == "but not that"


@pytest.mark.parametrize("finish", ["max_output_tokens", "content_filter"])
async def test_an_incomplete_response(finish: str) -> None:
    async with FakeProvider(Reply("part", finish=finish)) as provider, client_of(provider) as client:
        whole = await client.responses.create(model="gpt", input="hi")
    assert whole.status == "incomplete"
    assert whole.incomplete_details is not None
    assert whole.incomplete_details.reason == finish


async def test_a_burst_and_tool_rounds() -> None:
    burst = Burst(50)
    async with FakeProvider(burst) as provider:
        assert (await streamed(provider)).output_text == burst.text
    items: list[Any] = [{"role": "user", "content": "go"}]
    async with FakeProvider(ToolRounds(2, width=2)) as provider, client_of(provider) as client:
        for _ in range(2):
            response = await client.responses.create(model="m", input=items, tools=[ADD], store=False)
            calls: list[Any] = [each for each in response.output if each.type == "function_call"]
            assert len(calls) == 2
            items += [each.to_dict() for each in calls]
            items += [{"type": "function_call_output", "call_id": each.call_id, "output": "3"} for each in calls]
        last = await client.responses.create(model="m", input=items, tools=[ADD], store=False)
    assert last.output_text


async def test_errors_are_the_vendors() -> None:
    async with (
        FakeProvider([HTTPError(429), HTTPError(500)], allow_refused=True, api_key="x") as provider,
        client_of(provider) as client,
    ):
        with pytest.raises(openai.RateLimitError):
            await client.responses.create(model="m", input="x")
        with pytest.raises(openai.InternalServerError):
            await client.responses.create(model="m", input="x")
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="m", input=[])
    assert caught.value.code == "empty_input"


HI: dict[str, Any] = {"role": "user", "content": "hi"}
CALL: dict[str, Any] = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
DONE: dict[str, Any] = {"type": "function_call_output", "call_id": "c", "output": ""}
SEALED: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "s"}
BARE: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": []}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}


def body(*items: Any, **more: Any) -> dict[str, Any]:
    return {"model": "gpt", "input": [HI, *items], "store": False, **more}


@pytest.mark.parametrize(
    "given",
    [
        body(),
        body(input="hi"),
        body(CALL, DONE),
        body(SEALED, CALL, {"type": "message", "id": "msg_1", "role": "assistant", "content": "x"}, DONE),
        body(DONE, previous_response_id="resp_1"),
        body({"type": "item_reference", "id": "msg_1"}, store=True),
        body(text={"format": {"type": "json_object"}}, instructions="JSON"),
        body(tools=[{"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}], tool_choice="required"),
        body(model="gpt-5.1", temperature=1, reasoning={"effort": "none"}),
    ],
)
def test_what_is_accepted(given: dict[str, Any]) -> None:
    check_request(given, Rules(), {}, {"resp_1"})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"model": "gpt"}, "missing_messages"),
        (body(input=[]), "empty_input"),
        (body(model=""), "missing_model"),
        (body(stop=["a"]), "unknown_key"),
        (body(temperature=3), "bad_parameter"),
        (body(max_output_tokens=3), "bad_parameter"),
        (body(reasoning={"effort": "odd"}), "bad_parameter"),
        (body(background=True), "bad_parameter"),
        (body(stream_options={}), "stream_options_without_stream"),
        (body(previous_response_id="resp_9"), "previous_response_not_found"),
        (body(previous_response_id="resp_1", conversation="c"), "exclusive_parameters"),
        (body(model="gpt-5-mini", temperature=1), "unsupported_parameter"),
        (body(model="gpt-4.1", include=["reasoning.encrypted_content"]), "unsupported_parameter"),
        (body(model="gpt-4.1", reasoning={"effort": "low"}), "unsupported_parameter"),
        (body({"type": "odd"}), "bad_message"),
        (body({"role": "robot", "content": "x"}), "bad_role"),
        (body({"role": "user", "content": []}), "bad_content"),
        (body({"role": "user", "content": [{"type": "output_text", "text": "x"}]}), "bad_content"),
        (body({"role": "user", "content": [{"type": "input_file", "file_url": "u", "file_id": "f"}]}), "bad_content"),
        (body({"role": "user", "content": "x", "name": "n"}), "unknown_key"),
        (body({"type": "message", "id": "x", "role": "assistant", "content": "x"}), "bad_id"),
        (body(CALL | {"arguments": "{"}, DONE), "bad_arguments"),
        (body(CALL | {"name": "a b"}, DONE), "bad_name"),
        (body(CALL), "unanswered_call"),
        (body(DONE), "orphan_result"),
        (body(CALL, DONE, DONE), "duplicate_result"),
        (body(CALL, HI, DONE), "unanswered_call"),
        (body(BARE, CALL, DONE), "item_not_found"),
        (body({"type": "item_reference", "id": "msg_1"}), "item_not_found"),
        (body(SEALED), "reasoning_alone"),
        (body(SEALED, HI), "reasoning_alone"),
        (body(SEALED | {"id": "rs_2"}, CALL, DONE), "altered_item"),
        (body(tools=[{"type": "function", "name": "f", "parameters": SCHEMA}]), "bad_strict_schema"),
        (body(tools=[{"type": "odd"}]), "bad_tool"),
        (body(tools=[{"type": "file_search"}]), "bad_tool"),
        (body(tools=[ADD, ADD]), "duplicate_tool"),
        (body(tools=[ADD | {"x": 1}]), "unknown_key"),
        (body(tool_choice="auto"), "tool_choice_without_tools"),
        (body(tools=[ADD], tool_choice="odd"), "bad_tool_choice"),
        (body(tools=[ADD], tool_choice={"type": "web_search"}), "bad_tool_choice"),
        (body(tools=[ADD], tool_choice={"type": "function", "name": "g"}), "unknown_tool_choice"),
        (body(text={"format": {"type": "json_object"}}), "json_not_mentioned"),
        (body(text={"format": {"type": "odd"}}), "bad_response_format"),
        (
            body(text={"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}}),
            "bad_strict_schema",
        ),
    ],
)
def test_what_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused) as caught:
        check_request(given, Rules(), {"rs_2": "other"}, {"resp_1"})
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    "change",
    [
        {"zip": 1},
        {"temperature": "1"},
        {"input": [HI | {"zip": 1}]},
        {"input": [CALL | {"arguments": {}}]},
        {"reasoning": {"zip": 1}},
        {"tools": [ADD | {"zip": 1}]},
        {"text": {"format": {"type": "json_schema", "name": "n"}}},
    ],
)
def test_the_request_oracle_catches_one_change(change: dict[str, Any]) -> None:
    good = {"model": "gpt", "stream": True, **body(CALL, DONE, SEALED, tools=[ADD])}
    assert_valid_responses_body(good)
    with pytest.raises(ValidationError):
        assert_valid_responses_body(good | change)
