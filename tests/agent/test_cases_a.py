"""Cases of class A: what providers put on the wire, seen through an agent."""

from __future__ import annotations

import pytest

from tenuto import tool
from tenuto.errors import ModelError
from tenuto.testing import Bytes, Call, FakeProvider, HTTPError, Reply, Usage, chat_chunk
from tenuto.testing import Raw as Exactly
from tests.agent.kit import agent_on, both, calls, hasty, merged, piece, raw, run, says, sent

TEXT = "né 漢 🙂"


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
        agent = agent_on(provider)
        ran = await run(verb, agent)
        await run(verb, agent, [*ran.result.messages, "and now?"])
        recalled = sent(provider)[1]["content"]
    assert ran.text == ran.result.text == recalled == TEXT


@both
async def test_a04_chunks_without_choices(verb):
    script = Exactly(
        events=[
            {"id": "", "object": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": [{}]},
            chat_chunk(says("Hel")),
            chat_chunk(says("lo"), finish="stop"),
            chat_chunk(usage=Usage(7, 2)),
        ]
    )
    async with FakeProvider([script]) as provider:
        ran = await run(verb, agent_on(provider))
    assert (ran.text, ran.result.finish_reason) == ("Hello", "stop")
    assert (ran.result.usage.input_tokens, ran.result.usage.output_tokens) == (7, 2)


@both
async def test_a07_arguments_without_an_index(verb):
    seen = Seen()
    script = [
        raw(calls(piece('{"a"', "f", id="c")), calls(piece(":1}")), finish="tool_calls"),
        Reply("ok"),
    ]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent_on(provider, [seen.f]))
    assert seen.args == [{"a": 1}]
    assert len(ran.result.tool_calls) == 1


@both
async def test_a07_two_whole_calls_without_an_index(verb):
    seen = Seen()
    both_calls = calls(piece('{"a":1}', "f", id="c"), piece('{"a":2}', "f", id="d"))
    async with FakeProvider([raw(both_calls, finish="tool_calls"), Reply("ok")]) as provider:
        await run(verb, agent_on(provider, [seen.f]))
    assert seen.args == [{"a": 1}, {"a": 2}]


@both
async def test_a11_arguments_before_the_name(verb):
    seen = Seen()
    script = [
        raw(calls(piece("{", id="c", index=0)), calls(piece(None, "f", index=0)), calls(piece("}", index=0))),
        Reply("ok"),
    ]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent_on(provider, [seen.f]))
    (began,) = ran.of("tool-call-input-streaming-start")
    assert began.payload.tool_name == "f"
    of_the_call = [kind for kind in merged(ran.types) if kind.startswith("tool-call")]
    assert of_the_call == [
        "tool-call-input-streaming-start",
        "tool-call-delta",
        "tool-call-input-streaming-end",
        "tool-call",
    ]
    assert "".join(each.payload.args_text_delta for each in ran.of("tool-call-delta")) == "{}"
    assert seen.args == [{}]


KEEPALIVES = [": ping", "retry: 3000", "id: 7"]


@both
@pytest.mark.parametrize("ending", ["\n", "\r", "\r\n"])
async def test_a13_blocks_without_data(verb, ending):
    async with FakeProvider([Reply(TEXT, chunk_size=1, keepalives=KEEPALIVES, line_ending=ending)]) as provider:
        ran = await run(verb, agent_on(provider))
    assert ran.text == ran.result.text == TEXT
    assert not ran.of("error")


@both
async def test_a14_empty_data_and_unknown_events(verb):
    seen = Seen()
    noise = ["data:", "data: ", "event: ping\ndata: {}"]
    script = [Reply(calls=[Call("f", {"a": 123456789})], chunk_size=1, keepalives=noise), Reply("ok", keepalives=noise)]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent_on(provider, [seen.f]))
    assert seen.args == [{"a": 123456789}]
    assert (ran.result.text, ran.error) == ("ok", None)


QUEUE_FULL = {"error": {"message": "queue full", "code": 429}}


@both
@pytest.mark.parametrize("deltas", [0, 2])
async def test_a15_an_error_inside_a_good_answer(verb, deltas):
    events = [*[chat_chunk(says("ab")) for _ in range(deltas)], QUEUE_FULL]
    async with FakeProvider([Exactly(events=events)]) as provider:
        ran = await run(verb, agent_on(provider))
    assert isinstance(ran.error, ModelError)
    assert "queue full" in str(ran.error)
    assert ran.error.code == "429"
    assert ran.error.result is ran.result
    assert ran.result.finish_reason == "error"
    assert ran.result.text == "ab" * deltas
    assert [each.payload.step_result.reason for each in ran.of("finish")] == ["error"]
    (failed,) = ran.of("error")
    assert (failed.payload.error.message, failed.payload.error.code) == (str(ran.error), "429")
    if deltas:  # kept, and marked as what a failure left
        parts = ran.result.messages[-1].content.parts
        assert [type(part).__name__ for part in parts] == ["StepStartPart", "TextPart", "ErrorPart"]


TOO_LONG = {"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}}


@both
@pytest.mark.parametrize(
    ("event", "status", "retryable"),
    [
        (TOO_LONG, 400, False),
        ({"error": {"message": "slow down", "type": "rate_limit_error", "code": None}}, 429, True),
        ({"error": {"message": "busy", "type": "overloaded_error"}}, 503, True),
    ],
)
async def test_a16_an_error_event_keeps_what_the_provider_said(verb, event, status, retryable):
    async with FakeProvider([Exactly(events=[chat_chunk(says("a")), event])]) as provider:
        ran = await run(verb, agent_on(provider))
        assert len(provider.requests) == 1  # what came late is not asked for again
    error, shown = ran.error, ran.of("error")[0].payload.error
    assert (error.type, error.code) == (event["error"]["type"], event["error"].get("code"))
    assert (error.status, error.retryable) == (status, retryable)
    assert (shown.type, shown.code, shown.status, shown.retryable) == (error.type, error.code, status, retryable)


@both
async def test_a16_an_early_error_event_is_asked_again_where_that_may_help(verb):
    overloaded = {"error": {"message": "busy", "type": "overloaded_error"}}
    async with FakeProvider([Exactly(events=[overloaded]), Reply("fine")]) as provider:
        agent, waits = hasty(agent_on(provider, max_retries=1))
        ran = await run(verb, agent)
        assert len(provider.requests) == 2
    assert (ran.result.text, waits) == ("fine", [1.0])
    async with FakeProvider([Exactly(events=[TOO_LONG])]) as provider:
        ran = await run(verb, agent_on(provider, max_retries=1))
        assert len(provider.requests) == 1
    assert ran.error.code == "context_length_exceeded"


@both
@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        ({"retry-after": "2"}, [2.0]),
        ({"retry-after": "2", "retry-after-ms": "1500"}, [1.5]),
        ({"retry-after-ms": "200"}, [1.0]),
        ({"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT", "date": "Fri, 31 Dec 1999 23:59:49 GMT"}, [10.0]),
        ({"retry-after": "86400"}, []),
    ],
    ids=str,
)
async def test_a27_the_provider_is_never_asked_sooner_than_it_said(verb, headers, waits):
    async with FakeProvider([HTTPError(429, headers=headers), *[Reply("fine")] * len(waits)]) as provider:
        agent, waited = hasty(agent_on(provider, max_retries=1))
        ran = await run(verb, agent)
        assert len(provider.requests) == 1 + len(waits)
    assert waited == waits
    assert (ran.error is None) is bool(waits)


@both
async def test_a25_reasoning_goes_back_with_its_call(verb):
    seen = Seen()
    script = [Reply(calls=[Call("f", {"a": 1})], reasoning="think"), Reply("ok")]
    async with FakeProvider(script, require_reasoning_echo=True) as provider:
        ran = await run(verb, agent_on(provider, [seen.f], model="deepseek/m"))
        assert sent(provider)[1]["reasoning_content"] == "think"
    assert (ran.result.text, ran.text) == ("ok", "ok")
    assert ran.result.reasoning_text == "think"


@both
@pytest.mark.parametrize("echo", [True, False])
async def test_a25_the_echo_is_a_switch(verb, echo):
    seen = Seen()
    script = [Reply(calls=[Call("f", {"a": 1})], reasoning="think"), Reply("ok")]
    async with FakeProvider(script, allow_extra={"reasoning_content"}) as provider:
        options = {"test": {"echo_reasoning": echo}}
        await run(verb, agent_on(provider, [seen.f]), provider_options=options)
        assert ("reasoning_content" in sent(provider)[1]) is echo


@both
async def test_a25_the_echo_survives_a_next_turn(verb):
    seen = Seen()
    script = [Reply(calls=[Call("f", {"a": 1})], reasoning="think"), Reply("ok"), Reply("bye")]
    async with FakeProvider(script, require_reasoning_echo=True) as provider:
        agent = agent_on(provider, [seen.f], model="deepseek/m")
        ran = await run(verb, agent)
        await run(verb, agent, [*[message.to_dict() for message in ran.result.messages], "and?"])


@both
async def test_a29_text_after_a_call(verb):
    seen = Seen()
    script = [
        raw(says("a"), calls(piece('{"a":1}', "f", id="c", index=0)), says("b"), finish="tool_calls"),
        Reply("ok"),
    ]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent_on(provider, [seen.f]))
        said = sent(provider)[1]
    ids = [chunk.payload.id for chunk in ran.of("text-start")]
    assert len(set(ids)) == len(ids) == 3
    assert ran.result.steps[0].text == "ab"
    assert said["content"] == "ab"
    kinds = [type(part).__name__ for part in ran.result.messages[-1].content.parts]
    assert kinds == ["StepStartPart", "TextPart", "ToolInvocationPart", "TextPart", "StepStartPart", "TextPart"]


@both
async def test_an_answer_that_is_cut_off_is_an_error(verb):
    async with FakeProvider([Reply("Hello world", drop_after=2)]) as provider:
        ran = await run(verb, agent_on(provider))
    assert isinstance(ran.error, ModelError)
    assert ran.error.retryable
    assert ran.result.finish_reason == "error"


@both
async def test_a_page_instead_of_an_answer_is_an_error(verb):
    async with FakeProvider([Bytes(b"<html>hi</html>", content_type="text/html")]) as provider:
        ran = await run(verb, agent_on(provider))
    assert "base URL" in str(ran.error)


@both
async def test_a_tool_that_is_a_coroutine_function_in_a_list(verb):
    @tool
    async def f() -> str:
        return "ok"

    async with FakeProvider([Reply(calls=[Call("f")]), Reply("done")]) as provider:
        ran = await run(verb, agent_on(provider, [f]))
    assert ran.result.text == "done"
