"""Google's official client reads our Gemini responses: the oracle for what the provider sends."""

from __future__ import annotations

import base64
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors, types
from pydantic import ValidationError

from tenuto.testing.provider import Call, FakeProvider, HTTPError, Made, ProviderCall, Reply, Usage
from tests.oracle_gemini import assert_valid_gemini_body
from tests.testing.provider.wire import Client

TEXT = "né 漢 🙂 and a longer tail"
SEAL = base64.b64encode(b"seal").decode()
HELLO: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
PATH = "/v1/models/gemini-x:streamGenerateContent?alt=sse"


@asynccontextmanager
async def client_of(provider: FakeProvider) -> AsyncIterator[genai.client.AsyncClient]:
    url = provider.base_url.removesuffix("/v1")
    async with httpx2.AsyncClient() as http:
        options = types.HttpOptions(base_url=url, api_version="v1", httpx_async_client=http)
        yield genai.Client(api_key="k", http_options=options).aio


async def streamed(provider: FakeProvider, **config: Any) -> list[types.GenerateContentResponse]:
    async with client_of(provider) as client:
        asked = types.GenerateContentConfig(**config)
        stream = await client.models.generate_content_stream(model="gemini-x", contents="hi", config=asked)
        return [chunk async for chunk in stream]


def parts_of(chunks: list[types.GenerateContentResponse]) -> list[types.Part]:
    return [part for chunk in chunks for part in chunk.candidates[0].content.parts]  # type: ignore[index, union-attr]


@pytest.mark.parametrize("size", [0, 1, 4])
async def test_text_thoughts_and_usage(size: int) -> None:
    usage = Usage(7, 3, cached=2, reasoning=1)
    async with FakeProvider(Reply(TEXT, reasoning="hm", signature=SEAL, usage=usage, chunk_size=size)) as provider:
        chunks = await streamed(provider)
    parts = parts_of(chunks)
    assert "".join(part.text for part in parts if part.text and not part.thought) == TEXT
    assert "".join(part.text for part in parts if part.text and part.thought) == "hm"
    assert (parts[-1].text, parts[-1].thought_signature) == ("", b"seal")
    last = chunks[-1]
    assert last.candidates is not None
    assert last.candidates[0].finish_reason == types.FinishReason.STOP
    said = last.usage_metadata
    assert said is not None
    counts = (said.prompt_token_count, said.candidates_token_count, said.thoughts_token_count, said.total_token_count)
    assert counts == (7, 2, 1, 10)
    assert said.cached_content_token_count == 2
    assert_valid_gemini_body(provider.requests[0].body)


async def test_calls_with_one_signature() -> None:
    reply = Reply(calls=[Call("add", {"a": 1}), Call("add", {"a": "é"}, id="mine"), Call("go", id="")], signature=SEAL)
    async with FakeProvider(reply) as provider:
        chunks = await streamed(provider)
    parts = [part for part in parts_of(chunks) if part.function_call]
    assert [part.function_call.args for part in parts] == [{"a": 1}, {"a": "é"}, {}]  # type: ignore[union-attr]
    assert [part.function_call.id for part in parts] == ["fc-0-0", "mine", None]  # type: ignore[union-attr]
    assert [part.thought_signature for part in parts] == [b"seal", None, None]


async def test_all_else_that_a_reply_may_hold() -> None:
    reply = Reply(
        "So",
        provider_calls=[
            ProviderCall("code_execution", {"code": "print(1)"}, "1"),
            ProviderCall("google_search_web", {"queries": ["x"]}, {"found": 1}),
        ],
        sources=[("https://a.example", "A")],
        files=[Made("image/png", base64.b64encode(b"png").decode())],
        finish="MAX_TOKENS",
    )
    async with FakeProvider(reply) as provider:
        chunks = await streamed(provider)
    code, result, call, answer, _, image, _ = parts_of(chunks)
    assert (code.executable_code.code, result.code_execution_result.output) == ("print(1)", "1")  # type: ignore[union-attr]
    assert (call.tool_call.id, answer.tool_response.response) == ("srv-0-1", {"found": 1})  # type: ignore[union-attr]
    assert image.inline_data.data == b"png"  # type: ignore[union-attr]
    last = chunks[-1].candidates[0]  # type: ignore[index]
    assert last.finish_reason == types.FinishReason.MAX_TOKENS
    assert last.grounding_metadata.grounding_chunks[0].web.uri == "https://a.example"  # type: ignore[union-attr, index]


async def test_a_whole_answer() -> None:
    async with FakeProvider(Reply(TEXT, [Call("f")], reasoning="hm")) as provider, client_of(provider) as client:
        answer = await client.models.generate_content(model="gemini-x", contents="hi")
    parts = answer.candidates[0].content.parts  # type: ignore[index, union-attr]
    assert [bool(part.thought) for part in parts] == [True, False, False]  # type: ignore[union-attr]
    assert answer.function_calls is not None


@pytest.mark.parametrize(
    ("status", "name"), [(429, "RESOURCE_EXHAUSTED"), (503, "UNAVAILABLE"), (400, "INVALID_ARGUMENT")]
)
async def test_errors(status: int, name: str) -> None:
    async with FakeProvider(HTTPError(status)) as provider:
        with pytest.raises(errors.APIError) as caught:
            await streamed(provider)
    assert (caught.value.code, caught.value.status) == (status, name)


async def post(provider: FakeProvider, body: Any, headers: dict[str, str] | None = None) -> Any:
    async with Client(provider) as client:
        client.send(body, headers, PATH)
        return await client.response()


async def test_keys_and_models() -> None:
    async with FakeProvider(Reply("x"), api_key="k", models={"gemini-y"}, allow_refused=True) as provider:
        without = await post(provider, HELLO)
        wrong = await post(provider, HELLO, {"x-goog-api-key": "z"})
        missing = await post(provider, HELLO, {"x-goog-api-key": "k"})
    assert (without.status, without.json["error"]["status"]) == (403, "PERMISSION_DENIED")
    assert (wrong.status, wrong.json["error"]["details"][0]["reason"]) == (400, "API_KEY_INVALID")
    assert (missing.status, missing.json["error"]["status"]) == (404, "NOT_FOUND")


USER = {"role": "user", "parts": [{"text": "hi"}]}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def fc(name: str = "f", **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}, **more}}


def fr(name: str = "f", **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": "x"}, **more}}


DECLARED = [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"zip": 1}, "unknown_key"),
        ({"contents": []}, "empty_messages"),
        ({"contents": [user()]}, "bad_content"),
        ({"contents": [user({"text": ""})]}, "bad_content"),
        ({"contents": [user({"text": "a", "zip": 1})]}, "unknown_key"),
        ({"contents": [user({"text": "a", "inlineData": {"mimeType": "a/b", "data": ""}})]}, "bad_content"),
        ({"contents": [{"role": "system", "parts": [{"text": "a"}]}]}, "bad_content"),
        ({"contents": [model({"text": "a"}), USER]}, "bad_order"),
        ({"contents": [USER, model({"text": "a"})]}, "bad_order"),
        ({"contents": [USER, USER]}, "bad_order"),
        ({"contents": [USER, model(fc()), USER]}, "unanswered_call"),
        ({"contents": [USER, model(fc(), fc()), user(fr())]}, "unanswered_call"),
        ({"contents": [USER, model({"text": "a"}), user(fr())]}, "orphan_result"),
        ({"contents": [USER, model(fc(id="a")), user(fr(id="b"))]}, "orphan_result"),
        ({"contents": [USER, model(fc(id="a"), fc(id="a")), user(fr(id="a"), fr(id="a"))]}, "duplicate_id"),
        ({"contents": [USER, model(fc("1f")), user(fr("1f"))]}, "bad_name"),
        ({"generationConfig": {"temperature": 3}}, "bad_parameter"),
        ({"generationConfig": {"stopSequences": list("abcdef")}}, "bad_parameter"),
        (
            {"generationConfig": {"thinkingConfig": {"thinkingBudget": 1, "thinkingLevel": "low"}}},
            "exclusive_parameters",
        ),
        ({"generationConfig": {"responseJsonSchema": {}}}, "bad_response_format"),
        ({"cachedContent": "cachedContents/a", "tools": DECLARED}, "exclusive_parameters"),
        ({"tools": [{}]}, "bad_tool"),
        ({"tools": [*DECLARED, *DECLARED]}, "duplicate_tool"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, "tool_choice_without_tools"),
        (
            {
                "tools": DECLARED,
                "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["g"]}},
            },
            "unknown_tool_choice",
        ),
        (
            {"tools": DECLARED, "toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["f"]}}},
            "bad_tool_choice",
        ),
    ],
)
async def test_refusals(change: dict[str, Any], reason: str) -> None:
    async with FakeProvider(Reply("x"), allow_refused=True, allow_unused=True) as provider:
        answer = await post(provider, HELLO | change)
    assert answer.status == 400
    assert answer.json["error"]["status"] == "INVALID_ARGUMENT"
    assert [each.reason for each in provider.refused] == [reason]


async def test_a_signature_that_is_lost_is_refused() -> None:
    async with FakeProvider(Reply(calls=[Call("f", id="")], signature=SEAL), allow_refused=True) as provider:
        await post(provider, HELLO)
        lost = await post(provider, {"contents": [USER, model(fc()), user(fr())]})
        kept = await post(provider, {"contents": [USER, model(fc() | {"thoughtSignature": SEAL}), user(fr())]})
        earlier = await post(provider, {"contents": [USER, model(fc()), user(fr()), model({"text": "a"}), USER]})
    assert [lost.status, kept.status, earlier.status] == [400, 200, 200]
    assert [each.reason for each in provider.refused] == ["missing_signature"]


VALID: dict[str, Any] = {
    "contents": [USER, model(fc(id="a") | {"thoughtSignature": SEAL}), user(fr(id="a"))],
    "systemInstruction": {"parts": [{"text": "be"}]},
    "generationConfig": {"temperature": 1, "thinkingConfig": {"thinkingLevel": "low"}},
    "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
}


@pytest.mark.parametrize(
    "path",
    [
        ("zip",),
        ("contents", 0, "zip"),
        ("contents", 1, "parts", 0, "zip"),
        ("contents", 1, "parts", 0, "functionCall", "zip"),
        ("generationConfig", "zip"),
        ("generationConfig", "thinkingConfig", "zip"),
        ("tools", 0, "zip"),
        ("tools", 0, "functionDeclarations", 0, "zip"),
        ("toolConfig", "functionCallingConfig", "zip"),
    ],
)
def test_the_request_oracle_refuses_an_unknown_key(path: tuple[Any, ...]) -> None:
    assert_valid_gemini_body(VALID)
    body: Any = copy.deepcopy(VALID)
    where = body
    for key in path[:-1]:
        where = where[key]
    where[path[-1]] = 1
    with pytest.raises(ValidationError):
        assert_valid_gemini_body(body)
