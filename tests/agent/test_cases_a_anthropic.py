"""Cases of class A in the messages dialect, seen through an agent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tenuto.errors import ModelError
from tenuto.testing import Call, FakeProvider, Reply, Usage
from tenuto.testing import Raw as Exactly
from tenuto.testing.provider import message_events
from tests.agent.kit import agent_on, both, merged, run, sent

TEXT = "né 漢 🙂"
MODEL = "anthropic/claude-sonnet-4-5"


def agent(provider: FakeProvider, tools: Any = (), **more: Any):
    return agent_on(provider, tools, model=MODEL, api="anthropic", **more)


def says(*texts: str, stop: str | None = "end_turn") -> list[dict[str, Any]]:
    return list(message_events([{"type": "text", "text": text} for text in texts], stop=stop))


class Seen:
    """A tool that remembers its arguments."""

    def __init__(self) -> None:
        self.args: list[dict[str, object]] = []

    async def f(self, a: int | None = None) -> str:
        """Do it."""
        self.args.append({"a": a} if a is not None else {})
        return "ok"


@both
@pytest.mark.parametrize("cut", [1, 2, 3, 7])
async def test_a01_text_survives_any_split_of_its_bytes(verb, cut):
    async with FakeProvider([Reply(TEXT, cut=cut), Reply("again")]) as provider:
        ran = await run(verb, agent(provider))
        await run(verb, agent(provider), [*ran.result.messages, "and now?"])
        recalled = sent(provider)[1]["content"][0]["text"]
    assert ran.text == ran.result.text == recalled == TEXT


@both
@pytest.mark.parametrize("ending", ["\n", "\r", "\r\n"])
async def test_a13_blocks_without_data(verb, ending):
    keepalives = [": ping", "retry: 3000", "id: 7"]
    async with FakeProvider([Reply(TEXT, chunk_size=1, keepalives=keepalives, line_ending=ending)]) as provider:
        ran = await run(verb, agent(provider))
    assert ran.text == ran.result.text == TEXT
    assert not ran.of("error")


@both
async def test_a14_empty_data_and_unknown_events(verb):
    seen = Seen()
    noise = ["data:", "data: ", "event: ping\ndata: {}", 'event: ping\ndata: {"type": "ping"}', "event: new\ndata: {}"]
    script = [Reply(calls=[Call("f", {"a": 123456789})], chunk_size=1, keepalives=noise), Reply("ok", keepalives=noise)]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent(provider, [seen.f]))
    assert seen.args == [{"a": 123456789}]
    assert (ran.result.text, ran.error) == ("ok", None)


QUEUE_FULL = {"error": {"message": "queue full", "code": 429}}


@both
@pytest.mark.parametrize("texts", [(), ("ab", "ab")])
async def test_a15_an_error_inside_a_good_answer(verb, texts):
    async with FakeProvider([Exactly(events=[*says(*texts)[:-1], QUEUE_FULL])]) as provider:
        ran = await run(verb, agent(provider))
    assert isinstance(ran.error, ModelError)
    assert "queue full" in str(ran.error)
    assert ran.error.code == "429"
    assert ran.result.finish_reason == "error"
    assert ran.result.text == "".join(texts)
    assert [each.payload.step_result.reason for each in ran.of("finish")] == ["error"]


@both
@pytest.mark.parametrize(
    ("error", "status", "retryable"),
    [
        ({"type": "invalid_request_error", "message": "prompt is too long"}, 400, False),
        ({"type": "rate_limit_error", "message": "slow down"}, 429, True),
        ({"type": "overloaded_error", "message": "Overloaded"}, 529, True),
    ],
)
async def test_a16_an_error_event_keeps_what_the_provider_said(verb, error, status, retryable):
    events = [*says("a")[:-1], {"type": "error", "error": error}]
    async with FakeProvider([Exactly(events=events)]) as provider:
        ran = await run(verb, agent(provider))
        assert len(provider.requests) == 1  # what came late is not asked for again
    found, shown = ran.error, ran.of("error")[0].payload.error
    assert (found.type, found.status, found.retryable) == (error["type"], status, retryable)
    assert (shown.type, shown.status, shown.retryable) == (error["type"], status, retryable)
    assert error["message"] in str(found)


@both
@pytest.mark.parametrize("restart", [False, True])
async def test_a19_reasoning_that_is_not_shown_goes_back(verb, restart):
    """Empty reasoning with a seal, and encrypted reasoning: unchanged, before the call; also from storage."""
    seen = Seen()
    script = [Reply(calls=[Call("f", {"a": 1})], signature="EqQBCg+/=", redacted=["EmwKAhgB"]), Reply("ok")]
    async with FakeProvider([*script, *([Reply("bye")] if restart else [])]) as provider:
        ran = await run(verb, agent(provider, [seen.f]))
        if restart:
            stored = [msgspec.json.decode(msgspec.json.encode(each.to_dict())) for each in ran.result.messages]
            await run(verb, agent(provider, [seen.f]), [*stored, "and?"])
        (said, *_) = [message["content"] for message in sent(provider) if message["role"] == "assistant"]
    assert said == BLOCKS
    assert ran.result.text == "ok"


BLOCKS = [
    {"type": "thinking", "thinking": "", "signature": "EqQBCg+/="},
    {"type": "redacted_thinking", "data": "EmwKAhgB"},
    {"type": "tool_use", "id": "toolu_0_0", "name": "f", "input": {"a": 1}},
]


def counted(events: list[dict[str, Any]]) -> Exactly:
    """The case's counts: cumulative, so those at the end hold those of the start."""
    cached = {"cache_creation_input_tokens": 4425, "cache_read_input_tokens": 0}
    events[0]["message"]["usage"] = {"input_tokens": 317, "output_tokens": 1, **cached}
    events[-1]["usage"] = {"output_tokens": 16, **cached}
    return Exactly(events)


@both
async def test_a21_counts_are_taken_once(verb):
    seen = Seen()
    use = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    script = [counted(list(message_events([use], stop="tool_use"))), counted(says("ok"))]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent(provider, [seen.f]))
    for usage, times in ((ran.result.steps[0].usage, 1), (ran.result.steps[1].usage, 1), (ran.result.usage, 2)):
        assert (usage.cache_creation_input_tokens, usage.cached_input_tokens) == (4425 * times, 0)
        assert (usage.input_tokens, usage.output_tokens) == ((317 + 4425) * times, 16 * times)
        assert usage.raw["input_tokens"] == 317


@both
async def test_counts_of_a_reply(verb):
    async with FakeProvider([Reply("x", usage=Usage(100, 5, cached=60, cache_write=30))]) as provider:
        ran = await run(verb, agent(provider))
    usage = ran.result.usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.cache_creation_input_tokens) == (100, 60, 30)


@both
async def test_a29_text_after_a_call(verb):
    seen = Seen()
    blocks = [
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
        {"type": "text", "text": "b"},
    ]
    async with FakeProvider([Exactly(list(message_events(blocks, stop="tool_use"))), Reply("ok")]) as provider:
        ran = await run(verb, agent(provider, [seen.f]))
        assert sent(provider)[1]["content"] == blocks
    ids = [chunk.payload.id for chunk in ran.of("text-start")]
    assert len(set(ids)) == len(ids) == 3
    assert ran.result.steps[0].text == "ab"
    kinds = [type(part).__name__ for part in ran.result.messages[-1].content.parts]
    assert kinds == ["StepStartPart", "TextPart", "ToolInvocationPart", "TextPart", "StepStartPart", "TextPart"]


@both
async def test_parallel_calls_are_answered_in_one_message(verb):
    seen = Seen()
    script = [Reply("So:", [Call("f", {"a": 1}), Call("f", {"a": 2})], reasoning="hm", chunk_size=2), Reply("ok")]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent(provider, [seen.f], instructions="Be brief."))
        assert provider.requests[0].body["system"] == [{"type": "text", "text": "Be brief."}]
        results = sent(provider)[2]["content"]
    assert sorted(each["a"] for each in seen.args) == [1, 2]
    assert [(each["type"], each["content"]) for each in results] == [("tool_result", "ok")] * 2
    assert ran.result.steps[0].reasoning_text == "hm"
    assert merged(ran.types)[0] == "start"


@both
async def test_a_pause_is_gone_on_with(verb):
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    script = [
        Exactly(list(message_events([search], stop="pause_turn"))),
        Exactly(list(message_events([found, {"type": "text", "text": "found"}]))),
    ]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent(provider))
        assert sent(provider)[-1] == {"role": "assistant", "content": [search]}
    assert ran.result.text.endswith("found")
    assert ran.result.finish_reason == "stop"


@both
@pytest.mark.parametrize("name", ["claude-sonnet-4-5", "claude-3-haiku-20240307", "kimi-k2"])
async def test_data_by_a_schema_or_by_a_tool(verb, name):
    """The same answer, in the form that the model takes."""
    native = name == "claude-sonnet-4-5"

    def answer(request):
        tools = [each["name"] for each in request.body.get("tools", ())]
        return Reply('{"city": "Rome"}') if native else Reply(calls=[Call(tools[-1], {"city": "Rome"})])

    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    async with FakeProvider(answer) as provider:
        asked = agent_on(provider, model=f"anthropic/{name}", api="anthropic")
        ran = await run(verb, asked, structured_output={"schema": schema})
        body = provider.requests[0].body
    assert ran.result.object == {"city": "Rome"}
    assert ("output_config" in body, body.get("tool_choice", {}).get("type")) == (native, None if native else "tool")
