"""Each rule of the strict provider: a valid request passes, one change to it is refused for the named reason."""

from __future__ import annotations

import copy
import json
from typing import Any, get_args

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from tenuto.testing.provider import Call, FakeProvider, Reason, Reply
from tenuto.testing.provider.chat_request import KEYS
from tests.oracle import assert_valid_chat_body
from tests.testing.provider.wire import Client, Response, post

REMOVED = object()
STRICT_SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"$ref": "#/$defs/A"}}},
    "required": ["a"],
    "additionalProperties": False,
    "$defs": {"A": {"type": "object", "properties": {}, "required": [], "additionalProperties": False}},
}


def call(call_id: str, name: str = "add", arguments: str = '{"a": 1}') -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


VALID: dict[str, Any] = {
    "model": "fake",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "x"}}]},
        {"role": "assistant", "content": None, "tool_calls": [call("c1"), call("c2")]},
        {"role": "tool", "tool_call_id": "c2", "content": "3"},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "3"}]},
        {"role": "assistant", "content": "3", "tool_calls": [call("c3", arguments="{}")]},
        {"role": "tool", "tool_call_id": "c3", "content": ""},
        {"role": "assistant", "content": [{"type": "text", "text": "3"}]},
        {"role": "user", "content": "again"},
    ],
    "tools": [
        {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}},
        {"type": "function", "function": {"name": "sub", "parameters": STRICT_SCHEMA, "strict": True}},
    ],
    "tool_choice": {"type": "function", "function": {"name": "add"}},
    "parallel_tool_calls": True,
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": STRICT_SCHEMA, "strict": True}},
    "stream": True,
    "stream_options": {"include_usage": True},
    "temperature": 0.5,
    "max_completion_tokens": 100,
    "stop": ["x"],
}

# reason, where, what goes there (or REMOVED, or a function of what is there)
MUTATIONS: list[tuple[Reason, str, Any]] = [
    ("unknown_key", "zip", 1),
    ("unknown_key", "functions", []),
    ("unknown_key", "messages.0.zip", 1),
    ("unknown_key", "messages.2.reasoning_content", "think"),
    ("unknown_key", "messages.2.tool_calls.0.index", 0),
    ("unknown_key", "messages.2.tool_calls.0.function.zip", 0),
    ("unknown_key", "messages.1.content.0.zip", 0),
    ("unknown_key", "messages.8.tool_calls", []),
    ("unknown_key", "tools.0.zip", 1),
    ("unknown_key", "tools.0.function.zip", 1),
    ("unknown_key", "response_format.zip", 1),
    ("bad_parameter", "temperature", 3),
    ("bad_parameter", "temperature", "1"),
    ("bad_parameter", "max_tokens", 0),
    ("bad_parameter", "stop", []),
    ("bad_parameter", "stream_options", {"zip": 1}),
    ("bad_parameter", "metadata", {"a": 1}),
    ("missing_model", "model", REMOVED),
    ("missing_model", "model", ""),
    ("missing_model", "model", 3),
    ("missing_messages", "messages", REMOVED),
    ("empty_messages", "messages", []),
    ("bad_message", "messages", "hi"),
    ("bad_message", "messages.0", "hi"),
    ("bad_message", "messages.3.tool_call_id", REMOVED),
    ("bad_role", "messages.0.role", "robot"),
    ("bad_role", "messages.0.role", REMOVED),
    ("bad_role", "messages.3", {"role": "function", "name": "add", "content": "3"}),
    ("bad_content", "messages.0.content", REMOVED),
    ("bad_content", "messages.0.content", 3),
    ("bad_content", "messages.1.content", []),
    ("bad_content", "messages.1.content.0", "hi"),
    ("bad_content", "messages.1.content.0.text", 3),
    ("bad_content", "messages.1.content.0.type", "input_text"),
    ("bad_content", "messages.1.content.1.image_url", "x"),
    ("bad_content", "messages.4.content.0", {"type": "image_url", "image_url": {"url": "x"}}),
    ("bad_content", "messages.3.content", None),
    ("bad_content", "messages.7.content", {"text": "3"}),
    ("empty_assistant", "messages.7.content", REMOVED),
    ("empty_assistant", "messages.7.content", None),
    ("empty_tool_calls", "messages.7.tool_calls", []),
    ("bad_tool_call", "messages.7.tool_calls", None),
    ("bad_tool_call", "messages.2.tool_calls.0", "c1"),
    ("bad_tool_call", "messages.2.tool_calls.0.id", REMOVED),
    ("bad_tool_call", "messages.2.tool_calls.0.id", 1),
    ("bad_tool_call", "messages.2.tool_calls.0.type", "custom"),
    ("bad_tool_call", "messages.2.tool_calls.0.type", REMOVED),
    ("bad_tool_call", "messages.2.tool_calls.0.function", "add"),
    ("bad_arguments", "messages.2.tool_calls.0.function.arguments", ""),
    ("bad_arguments", "messages.2.tool_calls.0.function.arguments", "[1]"),
    ("bad_arguments", "messages.2.tool_calls.0.function.arguments", '{"a":'),
    ("bad_arguments", "messages.2.tool_calls.0.function.arguments", '{"a": NaN}'),
    ("bad_arguments", "messages.2.tool_calls.0.function.arguments", {"a": 1}),
    ("empty_id", "messages.2.tool_calls.0.id", ""),
    ("empty_id", "messages.3.tool_call_id", ""),
    ("duplicate_id", "messages.2.tool_calls.0.id", "c2"),
    ("duplicate_id", "messages.5.tool_calls.0.id", "c1"),
    ("orphan_result", "messages.3.tool_call_id", "c9"),
    ("orphan_result", "messages.5", {"role": "tool", "tool_call_id": "c3", "content": "3"}),
    ("duplicate_result", "messages.4.tool_call_id", "c2"),
    ("duplicate_result", "messages.6.tool_call_id", "c1"),
    ("unanswered_call", "messages.3", REMOVED),
    ("unanswered_call", "messages.6", {"role": "user", "content": "and?"}),
    ("unanswered_call", "messages", lambda messages: messages[:3]),
    ("empty_tools", "tools", []),
    ("bad_tool", "tools", {}),
    ("bad_tool", "tools.0", "add"),
    ("bad_tool", "tools.0.type", "custom"),
    ("bad_tool", "tools.0.function", REMOVED),
    ("bad_tool", "tools.0.function.description", None),
    ("bad_name", "tools.0.function.name", "has space"),
    ("bad_name", "tools.0.function.name", "é"),
    ("bad_name", "tools.0.function.name", ""),
    ("bad_name", "tools.0.function.name", "n" * 65),
    ("bad_name", "tools.0.function.name", "add\n"),
    ("bad_name", "tools.0.function.name", REMOVED),
    ("bad_name", "messages.2.tool_calls.0.function.name", ""),
    ("bad_name", "response_format.json_schema.name", "has space"),
    ("duplicate_tool", "tools.1.function.name", "add"),
    ("bad_schema", "tools.0.function.parameters", {}),
    ("bad_schema", "tools.0.function.parameters", None),
    ("bad_schema", "tools.0.function.parameters", {"type": "string"}),
    ("bad_schema", "tools.0.function.parameters", {"type": "object", "properties": []}),
    ("bad_schema", "tools.0.function.parameters", {"type": "object", "required": "a"}),
    ("bad_strict_schema", "tools.1.function.parameters.additionalProperties", REMOVED),
    ("bad_strict_schema", "tools.1.function.parameters.required", []),
    ("bad_strict_schema", "tools.1.function.parameters.properties.a.items", {"anyOf": [{"type": "object"}]}),
    ("bad_strict_schema", "response_format.json_schema.schema.$defs.A.additionalProperties", True),
    ("bad_strict_schema", "response_format.json_schema.schema", {"type": "array"}),
    ("bad_tool_choice", "tool_choice", "any"),
    ("bad_tool_choice", "tool_choice", None),
    ("bad_tool_choice", "tool_choice", {"type": "function", "name": "add"}),
    ("tool_choice_without_tools", "tools", REMOVED),
    ("unknown_tool_choice", "tool_choice.function.name", "mul"),
    (
        "unknown_tool_choice",
        "tool_choice",
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named("mul")]}},
    ),
    ("bad_response_format", "response_format", {"type": "xml"}),
    ("bad_response_format", "response_format.json_schema.schema", REMOVED),
    ("stream_options_without_stream", "stream", REMOVED),
]
# Rules about more than one valid body; their own tests are below.
ANTHROPIC: set[Reason] = {
    "missing_version",
    "first_not_user",
    "blank_text",
    "bad_thinking",
    "altered_block",
    "bad_last_block",
    "result_not_first",
    "too_many_marks",
    "prefill",
}
ELSEWHERE: set[Reason] = {
    "invalid_api_key",
    "request_too_large",
    "bad_content_type",
    "bad_utf8",
    "bad_json",
    "model_not_found",
    "system_not_first",
    "missing_reasoning",
    "bad_order",
    "missing_signature",
    "exclusive_parameters",
    "empty_input",
    "item_not_found",
    "altered_item",
    "reasoning_alone",
    "bad_id",
    "unsupported_parameter",
    "json_not_mentioned",
    "previous_response_not_found",
    *ANTHROPIC,
}


def mutated(path: str, change: Any) -> dict[str, Any]:
    body = copy.deepcopy(VALID)
    *way, last = [int(word) if word.isdecimal() else word for word in path.split(".")]
    where: Any = body
    for key in way:
        where = where[key]
    if change is REMOVED:
        del where[last]
    else:
        where[last] = change(where[last]) if callable(change) else change
    return body


async def refusal(body: Any, headers: dict[str, str] | None = None, **rules: Any) -> tuple[Response, FakeProvider]:
    async with FakeProvider(Reply("ok"), allow_refused=True, **rules) as provider:
        return await post(provider, body, headers), provider


async def test_the_valid_body_passes_and_the_vendor_agrees() -> None:
    assert_valid_chat_body(VALID)
    response, provider = await refusal(VALID)
    assert (response.status, provider.refused) == (200, [])


@pytest.mark.parametrize(("reason", "path", "change"), MUTATIONS)
async def test_one_change_is_refused(reason: Reason, path: str, change: Any) -> None:
    response, provider = await refusal(mutated(path, change))
    error = response.json["error"]
    assert (response.status, error["code"], error["type"]) == (400, reason, "invalid_request_error")
    assert error["message"]
    assert [each.reason for each in provider.refused] == [reason]
    assert provider.refused[0].request is provider.requests[0]


def test_the_table_has_every_reason() -> None:
    assert {reason for reason, _, _ in MUTATIONS} | ELSEWHERE == set(get_args(Reason))


def test_the_documented_keys_are_the_vendors() -> None:
    documented = set(CompletionCreateParamsBase.__annotations__) | {"stream"}
    assert documented - {"functions", "function_call"} == set(KEYS)


@pytest.mark.parametrize(
    "choice",
    [
        "auto",
        "none",
        "required",
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named("add")]}},
    ],
)
async def test_other_tool_choices_pass(choice: Any) -> None:
    response, _ = await refusal(mutated("tool_choice", choice))
    assert response.status == 200


async def test_a_refusal_says_where() -> None:
    _, provider = await refusal(mutated("messages.5.tool_calls.0.id", "c1"))
    assert str(provider.refused[0]) == "duplicate_id: The call id 'c1' is used twice. (messages[5].tool_calls[0].id)"


@pytest.mark.parametrize(
    ("reason", "raw"),
    [
        ("bad_utf8", json.dumps(VALID).encode().replace(b"again", b"\xff")),
        ("bad_utf8", json.dumps(VALID).encode().replace(b"again", b"\xed\xa0\xbd")),
        ("bad_json", json.dumps(VALID).encode().replace(b"0.5", b"NaN")),
        ("bad_json", json.dumps(VALID).encode().replace(b"0.5", b"Infinity")),
        ("bad_json", json.dumps(VALID).encode().replace(b"again", b"\\ud83d")),
        ("bad_json", b""),
        ("bad_json", b"[]"),
        ("bad_json", b"{}{}"),
    ],
)
async def test_bytes_that_are_not_json_are_refused(reason: Reason, raw: bytes) -> None:
    response, _ = await refusal(raw)
    assert (response.status, response.json["error"]["code"]) == (400, reason)


@pytest.mark.parametrize("kind", ["", "text/plain", "application/jsonl"])
async def test_the_content_type_is_checked(kind: str) -> None:
    response, _ = await refusal(VALID, {"content-type": kind})
    assert response.json["error"]["code"] == "bad_content_type"
    response, _ = await refusal(VALID, {"content-type": "application/json; charset=utf-8"})
    assert response.status == 200


@pytest.mark.parametrize("strict", [True, False])
async def test_the_key_is_checked(strict: bool) -> None:
    for sent in ("", "Bearer no", "k"):
        response, _ = await refusal(VALID, {"authorization": sent}, api_key="k", strict=strict)
        assert (response.status, response.json["error"]["code"]) == (401, "invalid_api_key")
    response, _ = await refusal(VALID, {"authorization": "Bearer k"}, api_key="k", strict=strict)
    assert response.status == 200


async def test_a_large_body_is_refused() -> None:
    size = len(json.dumps(VALID).encode())
    response, _ = await refusal(VALID, max_body=size - 1)
    assert (response.status, response.json["error"]["code"]) == (413, "request_too_large")
    response, _ = await refusal(VALID, max_body=size)
    assert response.status == 200


async def test_an_unknown_model_is_not_found() -> None:
    response, _ = await refusal(VALID, models={"other"})
    assert (response.status, response.json["error"]["code"]) == (404, "model_not_found")
    response, _ = await refusal(VALID, models={"fake"})
    assert response.status == 200


async def test_system_messages_first_is_an_option() -> None:
    late = mutated("messages", lambda messages: [*messages, {"role": "developer", "content": "x"}])
    assert (await refusal(late))[0].status == 200
    response, _ = await refusal(late, system_first=True)
    assert response.json["error"]["code"] == "system_not_first"
    assert (await refusal(VALID, system_first=True))[0].status == 200


async def test_extra_keys_can_be_allowed() -> None:
    body = mutated("messages.2.reasoning_content", "think") | {"top_k": 3}
    response, _ = await refusal(body, allow_extra={"top_k", "reasoning_content"})
    assert response.status == 200


async def test_an_unstrict_provider_takes_anything() -> None:
    response, _ = await refusal(b"whatever", {"content-type": "text/plain"}, strict=False)
    assert response.status == 200


@pytest.mark.parametrize(
    ("echo", "code"), [("think", None), (None, "missing_reasoning"), ("other", "missing_reasoning")]
)
async def test_a25_reasoning_is_to_be_echoed(echo: str | None, code: str | None) -> None:
    first = Reply(calls=[Call("add", {"a": 1}, id="c1")], reasoning="think")
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    async with FakeProvider(
        [first, Reply("done")], require_reasoning_echo=True, allow_refused=True, allow_unused=True
    ) as fp:
        message = (await post(fp, body)).json["choices"][0]["message"]
        assert message["reasoning_content"] == "think"
        kept = {"role": "assistant", "tool_calls": message["tool_calls"]} | (
            {"reasoning_content": echo} if echo else {}
        )
        answered = [kept, {"role": "tool", "tool_call_id": "c1", "content": "1"}]
        response = await post(fp, body | {"messages": body["messages"] + answered})
    assert response.json.get("error", {}).get("code") == code


async def test_a_provider_accepts_its_own_reasoning_back_without_the_rule() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    async with (
        FakeProvider([Reply(calls=[Call("add", id="c1")], reasoning="think"), Reply("done")]) as fp,
        Client(fp) as client,
    ):
        client.send(body)
        message = (await client.response()).json["choices"][0]["message"]
        client.send(
            body | {"messages": [*body["messages"], message, {"role": "tool", "tool_call_id": "c1", "content": "1"}]}
        )
        assert (await client.response()).status == 200
