"""Cases of class A on Gemini's wire, and a conversation that must come back part for part."""

from __future__ import annotations

import base64
import json

import pytest

from tenuto import Agent
from tenuto.errors import ModelError
from tenuto.testing import Call, FakeProvider, Made, ProviderCall, Raw, Reply, gemini_chunk
from tests.agent.kit import both, run

TEXT = "né 漢 🙂"
SEAL, LATER, IMAGE = (base64.b64encode(each).decode() for each in (b"seal", b"later", b"image"))
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n....").decode()
STOP = gemini_chunk({"text": ""}, finish="STOP")


def agent_on(provider, tools=(), **more):
    model = {"id": "google/gemini-3-pro", "url": provider.base_url, "api": "google"}
    return Agent(id="agent", model=model, tools=tools, **more)


def contents(provider, place=-1):
    return provider.requests[place].body["contents"]


def add(a: int, b: int) -> int:
    """Add.

    Args:
        a: One.
        b: Other.
    """
    return a + b


@both
@pytest.mark.parametrize("cut", [1, 2, 3, 7])
async def test_a01_text_survives_any_split_of_its_bytes(verb, cut):
    async with FakeProvider([Reply(TEXT, cut=cut), Reply("again")]) as provider:
        agent = agent_on(provider)
        ran = await run(verb, agent)
        await run(verb, agent, [*ran.result.messages, "and now?"])
    assert ran.text == ran.result.text == contents(provider)[1]["parts"][0]["text"] == TEXT


@both
async def test_a07_whole_calls_without_ids(verb):
    calls = [Call("add", {"a": 1, "b": 2}, id=""), Call("add", {"a": 3, "b": 4}, id="")]
    async with FakeProvider([Reply(calls=calls), Reply("ok")]) as provider:
        ran = await run(verb, agent_on(provider, [add]))
    assert [each.payload.result for each in ran.result.tool_results] == [3, 7]
    assert [part["functionResponse"] for part in contents(provider)[-1]["parts"]] == [
        {"name": "add", "response": {"output": "3"}},
        {"name": "add", "response": {"output": "7"}},
    ]


@both
@pytest.mark.parametrize("ending", ["\n", "\r", "\r\n"])
async def test_a13_blocks_without_data(verb, ending):
    noise = [": ping", "retry: 3000", "id: 7"]
    async with FakeProvider([Reply(TEXT, chunk_size=1, keepalives=noise, line_ending=ending)]) as provider:
        ran = await run(verb, agent_on(provider))
    assert ran.text == ran.result.text == TEXT
    assert not ran.of("error")


@both
async def test_a14_empty_data_and_unknown_events(verb):
    noise = ["data:", "data: ", "event: ping\ndata: {}"]
    script = [Reply(calls=[Call("add", {"a": 1, "b": 2})], keepalives=noise), Reply("ok", keepalives=noise)]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent_on(provider, [add]))
    assert ([each.payload.result for each in ran.result.tool_results], ran.result.text, ran.error) == ([3], "ok", None)


@both
@pytest.mark.parametrize("deltas", [0, 2])
async def test_a15_an_error_inside_a_good_answer(verb, deltas):
    events = [*[gemini_chunk({"text": "ab"})] * deltas, {"error": {"code": 429, "message": "queue full"}}]
    async with FakeProvider([Raw(events=events)]) as provider:
        ran = await run(verb, agent_on(provider))
    assert isinstance(ran.error, ModelError)
    assert ("queue full" in str(ran.error), ran.error.code, ran.error.status) == (True, "429", 429)
    assert (ran.result.finish_reason, ran.result.text) == ("error", "ab" * deltas)


@both
async def test_a23_parallel_calls_with_one_signature(verb):
    """One model content with both calls, the first signed, then one with both results; also from stored form."""
    calls = [Call("add", {"a": 1, "b": 2}, id=""), Call("add", {"a": 3, "b": 4}, id="")]
    script = [Reply(calls=calls, signature=SEAL), Reply("ok"), Reply("again")]
    async with FakeProvider(script) as provider:
        agent = agent_on(provider, [add])
        ran = await run(verb, agent)
        stored = json.loads(json.dumps([each.to_dict() for each in ran.result.messages]))
        await run(verb, agent, [*stored, "more"])
    model = {
        "role": "model",
        "parts": [
            {"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}, "thoughtSignature": SEAL},
            {"functionCall": {"name": "add", "args": {"a": 3, "b": 4}}},
        ],
    }
    answers = {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "add", "response": {"output": "3"}}},
            {"functionResponse": {"name": "add", "response": {"output": "7"}}},
        ],
    }
    assert contents(provider, 1)[1:] == [model, answers]
    assert contents(provider, 2)[1:3] == [model, answers]


@both
async def test_a29_text_after_a_call(verb):
    events = [
        gemini_chunk({"text": "a"}),
        gemini_chunk({"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}, "thoughtSignature": SEAL}),
        gemini_chunk({"text": "b"}, finish="STOP"),
    ]
    async with FakeProvider([Raw(events=events), Reply("ok")]) as provider:
        ran = await run(verb, agent_on(provider, [add]))
    ids = [each.payload.id for each in ran.of("text-start")][:2]
    assert len(set(ids)) == 2
    assert [next(iter(part)) for part in contents(provider)[1]["parts"]] == ["text", "functionCall", "text"]


FIRST = Raw(
    events=[
        gemini_chunk({"text": "First ", "thought": True}),
        gemini_chunk({"text": "I add.", "thought": True}),
        gemini_chunk({"text": "Adding"}),
        gemini_chunk({"executableCode": {"language": "PYTHON", "code": "1", "id": "x1"}}),
        gemini_chunk({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1", "id": "x1"}}),
        gemini_chunk({"functionCall": {"name": "add", "args": {"a": 1, "b": 2}, "id": "c1"}, "thoughtSignature": SEAL}),
        gemini_chunk({"functionCall": {"name": "add", "args": {"a": 3, "b": 4}, "id": "c2"}}),
        STOP,
    ]
)
SECOND = Raw(
    events=[
        gemini_chunk({"toolCall": {"id": "s1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}}}),
        gemini_chunk(
            {
                "toolResponse": {"id": "s1", "toolType": "GOOGLE_SEARCH_WEB", "response": {"n": 1}},
                "thoughtSignature": LATER,
            }
        ),
        gemini_chunk({"text": "Here: "}),
        gemini_chunk({"inlineData": {"mimeType": "image/png", "data": PNG}, "thoughtSignature": IMAGE}),
        gemini_chunk({"text": "", "thoughtSignature": LATER}, finish="STOP"),
    ]
)
SAID_FIRST = [
    {"text": "First I add.", "thought": True},
    {"text": "Adding"},
    {"executableCode": {"language": "PYTHON", "code": "1", "id": "x1"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1", "id": "x1"}},
    {"functionCall": {"id": "c1", "name": "add", "args": {"a": 1, "b": 2}}, "thoughtSignature": SEAL},
    {"functionCall": {"id": "c2", "name": "add", "args": {"a": 3, "b": 4}}},
]
ANSWERS = [
    {"functionResponse": {"id": "c1", "name": "add", "response": {"output": "3"}}},
    {"functionResponse": {"id": "c2", "name": "add", "response": {"output": "7"}}},
]
SAID_SECOND = [
    {"toolCall": {"id": "s1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}}},
    {"toolResponse": {"id": "s1", "toolType": "GOOGLE_SEARCH_WEB", "response": {"n": 1}}, "thoughtSignature": LATER},
    {"text": "Here: "},
    {"inlineData": {"mimeType": "image/png", "data": PNG}, "thoughtSignature": IMAGE},
    {"text": "", "thoughtSignature": LATER},
]


@both
@pytest.mark.parametrize("stored", [False, True])
async def test_a_conversation_comes_back_part_for_part(verb, stored):
    """Thoughts, code, two calls under one signature, results, a search, an image, over three requests."""
    async with FakeProvider([FIRST, SECOND, Reply("Bye")]) as provider:
        agent = agent_on(provider, [add])
        ran = await run(verb, agent)
        messages = ran.result.messages
        if stored:
            messages = json.loads(json.dumps([each.to_dict() for each in messages]))
        await run(verb, agent, [*messages, "thanks"])
    begun = [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": SAID_FIRST}]
    answered = [*begun, {"role": "user", "parts": ANSWERS}]
    assert contents(provider, 1) == answered
    assert contents(provider, 2) == [
        *answered,
        {"role": "model", "parts": SAID_SECOND},
        {"role": "user", "parts": [{"text": "thanks"}]},
    ]


@both
async def test_every_field_of_a_reply_arrives(verb):
    reply = Reply(
        "So",
        reasoning="hm",
        provider_calls=[ProviderCall("code_execution", {"code": "1"}, "1")],
        sources=[("https://a.example", "A")],
        files=[Made("image/png", PNG)],
        signature=SEAL,
    )
    async with FakeProvider([reply]) as provider:
        ran = await run(verb, agent_on(provider))
    assert (ran.result.text, ran.result.reasoning_text, ran.result.finish_reason) == ("So", "hm", "stop")
    assert [each.payload.url for each in ran.of("source")] == ["https://a.example"]
    assert [each.payload.base64 for each in ran.of("file")] == [PNG]
    assert [each.payload.tool_name for each in ran.of("tool-result")] == ["code_execution"]


@both
async def test_a_signature_alone_is_no_answer(verb):
    last = gemini_chunk({"text": "", "thoughtSignature": SEAL}, finish="OTHER")
    async with FakeProvider([Raw(events=[last])]) as provider:
        ran = await run(verb, agent_on(provider))
    assert isinstance(ran.error, ModelError)
    assert ran.error.code == "OTHER"
