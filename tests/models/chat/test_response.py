import json

import pytest

from tenuto.core.errors import ModelError, ModelHTTPError
from tenuto.core.payloads import FilePayload, ReasoningDeltaPayload, ResponseMetadataPayload, SourcePayload, Usage
from tenuto.models.ports import ModelSettings, RequestStart
from tenuto.testing.provider import Bytes, Call, FakeProvider, HTTPError, Raw, Reply
from tests.models.drive import F, calls_of, delta, finish_of, kinds, model_of, piece, request, run, text_of, tool_delta

PAYLOAD = "né 漢 🙂 done"
STOP = delta("stop")


async def parts_of(*events, **more):
    with FakeProvider([Raw(events=events, **more)]) as fake:
        return await run(model_of(fake))


async def error_of(*replies, **record):
    with FakeProvider(list(replies)) as fake:
        with pytest.raises(ModelError) as caught:
            await run(model_of(fake, **record))
        return caught.value


@pytest.mark.parametrize("cut", [1, 2, 3, 7])
async def test_A01_text_survives_every_cut(cut):
    with FakeProvider([Reply(PAYLOAD, cut=cut, chunk_size=5)]) as fake:
        parts = await run(model_of(fake))
    assert text_of(parts) == PAYLOAD
    assert "\ufffd" not in text_of(parts)


async def test_A04_empty_choices_before_and_after():
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    parts = await parts_of(
        {"id": "", "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
        delta(content="hel"),
        delta("stop", content="lo"),
        {"choices": [], "usage": usage},
    )
    assert text_of(parts) == "hello"
    assert finish_of(parts).reason == "stop"
    assert finish_of(parts).usage == Usage(3, 4, 7, raw=usage)
    (meta,) = [part for part in parts if isinstance(part, ResponseMetadataPayload)]
    assert (meta.id, meta.model_id, meta.timestamp) == ("r1", "m", 1000)


async def test_A07_no_index_one_call_in_pieces():
    parts = await parts_of(tool_delta(piece('{"a"', "f", id="c1")), tool_delta(piece(":1}")), delta("tool_calls"))
    (call,) = calls_of(parts)
    assert (call.tool_call_id, call.tool_name, call.args) == ("c1", "f", {"a": 1})


async def test_A07_no_index_two_whole_calls():
    parts = await parts_of(
        tool_delta(piece('{"a":1}', "f", id="c1")), tool_delta(piece('{"a":2}', "f", id="c2")), delta("stop")
    )
    assert [(call.tool_call_id, call.args) for call in calls_of(parts)] == [("c1", {"a": 1}), ("c2", {"a": 2})]
    assert finish_of(parts).reason == "tool-calls"
    assert finish_of(parts).raw_reason == "stop"


async def test_A11_arguments_before_the_name():
    parts = await parts_of(
        tool_delta(piece("{", index=0, id="c")),
        tool_delta(piece(None, "f", index=0)),
        tool_delta(piece("}", index=0)),
        delta("tool_calls"),
    )
    assert kinds(parts)[2:-1] == ["ToolInputStart", "ToolInputDelta", "ToolInputDelta", "ToolInputEnd", "ToolCall"]
    assert calls_of(parts)[0].args == {}


@pytest.mark.parametrize("line_ending", ["\n", "\r", "\r\n"])
async def test_A13_blocks_without_data(line_ending):
    reply = Reply(PAYLOAD, keepalives=(": ping", "retry: 3000", "id: 7"), line_ending=line_ending)
    with FakeProvider([reply]) as fake:
        assert text_of(await run(model_of(fake))) == PAYLOAD


@pytest.mark.parametrize("cut", [0, 1])
async def test_A14_empty_data_and_unknown_events_between_arguments(cut):
    keepalives = ("data:", "data: ", "event: ping\ndata: {}", "event: odd\ndata: ")
    reply = Reply(calls=[Call("f", {"text": PAYLOAD})], keepalives=keepalives, cut=cut)
    with FakeProvider([reply]) as fake:
        (call,) = calls_of(await run(model_of(fake)))
    assert call.args == {"text": PAYLOAD}


@pytest.mark.parametrize("before", [[], [delta(content="a"), delta(content="b")]])
async def test_A15_an_error_event_is_never_success(before):
    error = await error_of(Raw(events=[*before, {"error": {"message": "queue full", "code": 429}}]))
    assert "queue full" in str(error)
    assert (error.code, error.status, error.retryable, error.provider) == ("429", 429, True, "test")


@pytest.mark.parametrize(
    ("event", "code", "type", "status", "retryable"),
    [
        (
            {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"},
            "context_length_exceeded", "invalid_request_error", 400, False,
        ),
        ({"message": "slow down", "type": "rate_limit_error"}, None, "rate_limit_error", 429, True),
        ({"message": "no money", "code": "insufficient_quota"}, "insufficient_quota", None, 429, False),
        ({"message": "busy", "type": "overloaded_error"}, None, "overloaded_error", 503, True),
        ({"message": "oops", "code": 502}, "502", None, 502, True),
        ({"message": "who?", "code": "invalid_api_key"}, "invalid_api_key", None, 401, False),
        ("only text", None, None, None, False),
        ({"message": None}, None, None, None, False),
    ],
)  # fmt: skip
async def test_A16_code_type_and_status_survive(event, code, type, status, retryable):
    error = await error_of(Raw(events=[delta(content="a"), {"error": event}]))
    assert (error.code, error.type, error.status, error.retryable) == (code, type, status, retryable)


@pytest.mark.parametrize(
    "event",
    [
        {"object": "error", "message": "boom", "type": "BadRequestError", "code": 400},
        {"message": "boom", "code": 400},
        {"detail": "boom"},
        {"error": "boom"},
        {"type": "error", "error": {"message": "boom"}},
        [{"error": {"message": "boom"}}],
        {"choices": [{"delta": {}, "finish_reason": "error", "error": {"message": "boom"}}]},
        {"choices": [{"delta": {"content": ""}, "error": {"message": "boom", "code": 502}}]},
    ],
)
async def test_other_shapes_of_an_error_event(event):
    assert "boom" in str(await error_of(Raw(events=[delta(content="a"), json.dumps(event)])))


async def test_finish_reason_error_alone_is_an_error():
    assert "ended the answer with an error" in str(await error_of(Raw(events=[delta("error")])))


async def test_A29_text_after_a_call():
    parts = await parts_of(
        delta(content="a"), tool_delta(piece('{"a":1}', "f", index=0, id="c")), delta(content="b"), delta("tool_calls")
    )
    assert text_of(parts) == "ab"
    order = [kind for kind in kinds(parts) if kind in {"TextDelta", "ToolCall"}]
    assert order == ["TextDelta", "ToolCall", "TextDelta"]


async def test_B11_empty_tool_calls_is_a_plain_answer():
    parts = await parts_of(delta(content="hi", tool_calls=[]), delta("stop", tool_calls=[]))
    assert text_of(parts) == "hi"
    assert finish_of(parts).reason == "stop"
    assert calls_of(parts) == []


@pytest.mark.parametrize("id", ["", "c1", None])
@pytest.mark.parametrize("index", [True, False])
async def test_B13_missing_or_equal_ids(id, index):
    wire = [
        piece(json.dumps({"a": n}), "f", **({"index": n - 1} if index else {}), **({} if id is None else {"id": id}))
        for n in (1, 2)
    ]
    parts = await parts_of(tool_delta(*wire), delta("tool_calls"))
    assert [call.args for call in calls_of(parts)] == [{"a": 1}, {"a": 2}]
    assert len({call.tool_call_id for call in calls_of(parts)}) == 2


@pytest.mark.parametrize("text", ['{"{"tagIds":[', "[1, 2]", '"x"'])
async def test_B15_malformed_arguments_are_kept_not_raised(text):
    with FakeProvider([Reply(calls=[Call("f", text)])]) as fake:
        (call,) = calls_of(await run(model_of(fake)))
    assert call.args is None
    assert call.raw_args == text


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content-filter"),
        ("SAFETY", "other"),
        ("eos", "stop"),
    ],
)
async def test_finish_reasons(raw, reason):
    finish = finish_of(await parts_of(delta(raw, content="x")))
    assert (finish.reason, finish.raw_reason) == (reason, raw)


async def test_function_call_of_old():
    parts = await parts_of(
        delta(function_call={"name": "f", "arguments": '{"a"'}),
        delta(function_call={"arguments": ":1}"}),
        delta("function_call"),
    )
    assert calls_of(parts)[0].args == {"a": 1}
    assert finish_of(parts).reason == "tool-calls"


async def test_usage_is_the_last_value_not_a_sum():
    def usage(n):
        details = {"prompt_tokens_details": {"cached_tokens": n}, "completion_tokens_details": {"reasoning_tokens": n}}
        return {"prompt_tokens": n, "completion_tokens": n, **details}

    parts = await parts_of({**delta(content="a"), "usage": usage(1)}, {**STOP, "usage": usage(2)})
    found = finish_of(parts).usage
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (2, 2, 4)
    assert (found.cached_input_tokens, found.reasoning_tokens) == (2, 2)


async def test_groq_and_deepseek_say_usage_elsewhere():
    parts = await parts_of({**STOP, "x_groq": {"usage": {"prompt_tokens": 5, "prompt_cache_hit_tokens": 3}}})
    assert finish_of(parts).usage.input_tokens == 5
    assert finish_of(parts).usage.cached_input_tokens == 3


@pytest.mark.parametrize("usage", ["many", {"prompt_tokens": "x"}, [], 3])
async def test_odd_usage_is_no_crash(usage):
    assert finish_of(await parts_of({**STOP, "usage": usage})).usage.input_tokens == 0


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_not_the_answer(field):
    parts = await parts_of(delta(**{field: "th"}), delta(**{field: "ink"}), delta(content="x"), STOP)
    assert "".join(part.text for part in parts if isinstance(part, ReasoningDeltaPayload)) == "think"
    assert text_of(parts) == "x"


async def test_content_as_parts():
    parts = await parts_of(
        delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]),
        delta(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        STOP,
    )
    assert text_of(parts) == "ab"
    assert "ReasoningDelta" in kinds(parts)


async def test_refusal_is_text_and_metadata():
    with FakeProvider([Reply(refusal="I will not.")]) as fake:
        parts = await run(model_of(fake))
    assert text_of(parts) == "I will not."
    assert finish_of(parts).provider_metadata == {"test": {"refusal": "I will not."}}


async def test_sources_and_images():
    cite = {"type": "url_citation", "url_citation": {"url": "http://a", "title": "A"}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    parts = await parts_of(
        delta(content="x", annotations=[cite, cite]),
        {**delta(content="y"), "citations": ["http://a", "http://b"]},
        delta(images=[image]),
        STOP,
    )
    assert [(s.url, s.title) for s in parts if isinstance(s, SourcePayload)] == [("http://a", "A"), ("http://b", "")]
    assert [f.mime_type for f in parts if isinstance(f, FilePayload)] == ["image/png"]
    assert text_of(parts) == "xy"


async def test_logprobs_are_metadata():
    event = delta(content="x")
    event["choices"][0]["logprobs"] = {"content": [{"token": "x", "logprob": -0.1}]}
    finish = finish_of(await parts_of(event, STOP))
    assert finish.provider_metadata == {"test": {"logprobs": [{"token": "x", "logprob": -0.1}]}}


async def test_only_the_first_choice_is_read():
    second = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}
    parts = await parts_of(delta(content="x"), second, STOP)
    assert text_of(parts) == "x"
    assert finish_of(parts).reason == "stop"


async def test_headers_are_in_the_metadata():
    with FakeProvider([Reply("x", headers={"X-RateLimit-Remaining": "7", "Set-Cookie": "a=b"})]) as fake:
        parts = await run(model_of(fake))
    (meta,) = [part for part in parts if isinstance(part, ResponseMetadataPayload)]
    assert meta.headers["x-ratelimit-remaining"] == "7"
    assert "set-cookie" not in meta.headers


@pytest.mark.parametrize("events", [[], [delta(content="half")], [delta(content="half"), {"choices": [], "usage": {}}]])
@pytest.mark.parametrize("done", [True, False])
async def test_a_stream_without_a_finish_reason_was_cut_off(events, done):
    error = await error_of(Raw(events=events, done=done))
    assert error.id == "MODEL_STREAM_CUT_OFF"
    assert error.retryable


async def test_a_finish_reason_without_the_end_marker_is_enough():
    assert text_of(await parts_of(delta("stop", content="x"), done=False)) == "x"


async def test_a_last_block_without_its_blank_line_counts():
    body = b"data: " + json.dumps(delta("stop", content="x")).encode()
    with FakeProvider([Bytes(body)]) as fake:
        assert text_of(await run(model_of(fake))) == "x"


async def test_a_block_cut_in_the_middle_is_cut_off():
    body = b"data: " + json.dumps(delta(content="x")).encode() + b'\n\ndata: {"choi'
    assert (await error_of(Bytes(body))).id == "MODEL_STREAM_CUT_OFF"


@pytest.mark.parametrize("bad", ["{oops", "x" * 5000, '{"choices": 3}', "[" * 5000, b'{"choices": "\xff"}'])
async def test_an_event_that_is_no_chunk_is_a_bounded_error(bad):
    error = await error_of(Raw(events=[delta(content="a"), bad]))
    assert error.id == "MODEL_EVENT_INVALID"
    assert len(str(error)) < 500


async def test_a_whole_completion_instead_of_a_stream():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    message = {"role": "assistant", "content": "hi", "reasoning_content": "hm", "tool_calls": [call]}
    whole = {
        "id": "r", "model": "m", "created": 1, "usage": {"prompt_tokens": 2, "completion_tokens": 1},
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
    }  # fmt: skip
    with FakeProvider([Bytes(json.dumps(whole).encode(), content_type="application/json")]) as fake:
        parts = await run(model_of(fake))
    assert text_of(parts) == "hi"
    assert calls_of(parts)[0].args == {"a": 1}
    assert finish_of(parts).usage.total_tokens == 3


async def test_an_error_object_with_status_200():
    body = b'{"error": {"message": "no such model", "code": 404}}'
    error = await error_of(Bytes(body, content_type="application/json"))
    assert (error.status, error.retryable) == (404, False)


async def test_a_web_page_names_the_base_url():
    error = await error_of(Bytes(b"<html>hello</html>", content_type="text/html"))
    assert "base URL" in str(error)


@pytest.mark.parametrize(
    ("reply", "message", "code", "retryable"),
    [
        (HTTPError(400, {"error": {"message": "bad", "code": "c", "type": "t"}}), "bad", "c", False),
        (HTTPError(429, {"error": {"message": "slow"}}), "slow", None, True),
        (
            HTTPError(429, {"error": {"message": "pay", "code": "insufficient_quota"}}),
            "pay",
            "insufficient_quota",
            False,
        ),
        (HTTPError(500, "plain text"), "plain text", None, True),
        (HTTPError(502, "<html><style>p{}</style><h1>Bad &amp; gateway</h1></html>"), "Bad & gateway", None, True),
        (HTTPError(503, b""), "no message", None, True),
        (HTTPError(422, {"detail": [{"loc": ["body"], "msg": "wrong"}]}), "wrong", None, False),
        (HTTPError(400, {"message": "flat", "code": 1}), "flat", "1", False),
        (HTTPError(404, "x" * 100_000), "xxx", None, False),
        (HTTPError(307, "moved"), "moved", None, False),
    ],
)
async def test_http_errors(reply, message, code, retryable):
    error = await error_of(reply)
    assert isinstance(error, ModelHTTPError)
    assert message in str(error)
    assert (error.status, error.code, error.retryable) == (reply.status, code, retryable)
    assert error.request_id == "req_0"
    assert len(str(error)) < 800


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "2", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:10 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 10.0),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
async def test_retry_after(headers, seconds):
    assert (await error_of(HTTPError(429, headers=headers))).retry_after == seconds


async def test_a_key_never_comes_back_in_a_message():
    key = "sk-canary-123456"
    said = {"error": {"message": f"Incorrect API key provided: {key} / hunter22-token"}}
    record = {"api_key": key, "headers": {"x-token": "hunter22-token"}}
    for reply in (HTTPError(401, said), Raw(events=[said]), Raw(events=[f"no json {key} hunter22-token"])):
        error = await error_of(reply, **record)
        assert "canary" not in str(error)
        assert "hunter22" not in str(error)
        assert "canary" not in repr(error.details)


async def test_request_start_comes_first_with_the_body_and_warnings():
    with FakeProvider([Reply("x")]) as fake:
        asked = request(settings=ModelSettings(top_k=3, headers={"X-Own": "1"}), tools=(F,))
        parts = await run(model_of(fake), asked)
        (seen,) = fake.requests
    start = parts[0]
    assert isinstance(start, RequestStart)
    assert json.loads(bytes(start.body)) == seen.body
    assert start.warnings[0]["setting"] == "topK"
    assert seen.headers["x-own"] == "1"


async def test_reasoning_counted_beside_the_completion_is_output_too():
    """xAI's way; everyone else counts it within."""
    details = {"completion_tokens_details": {"reasoning_tokens": 30}}
    beside = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 45, **details}
    within = {"prompt_tokens": 10, "completion_tokens": 35, "total_tokens": 45, **details}
    for usage in (beside, within):
        parts = await parts_of(delta("stop", content="x"), {"choices": [], "usage": usage})
        assert finish_of(parts).usage == Usage(10, 35, 45, 30, raw=usage)


async def test_a_finish_for_calls_without_a_call_is_an_error():
    error = await error_of(Raw(events=[delta(content="I pay."), delta("tool_calls")]))
    assert (error.id, error.retryable) == ("MODEL_STREAM_INVALID", True)


async def test_an_event_of_whole_calls_that_comes_twice_is_one():
    event = tool_delta(piece('{"a":1}', "f"), piece('{"a":2}', "f"))
    parts = await parts_of(event, event, delta("tool_calls"))
    assert [call.args for call in calls_of(parts)] == [{"a": 1}, {"a": 2}]


async def test_pieces_that_look_the_same_are_both_kept():
    again = tool_delta(piece("1", "f", index=0, id="c"))
    parts = await parts_of(
        tool_delta(piece('{"a":', "f", index=0, id="c")),
        again,
        again,
        tool_delta(piece("}", index=0)),
        delta("tool_calls"),
    )
    assert calls_of(parts)[0].args == {"a": 11}


async def test_a_picture_that_comes_twice_is_one():
    event = delta(images=[{"image_url": {"url": "data:image/png;base64,AAAA"}}])
    parts = await parts_of(event, event, STOP)
    assert sum(isinstance(part, FilePayload) for part in parts) == 1


async def test_text_that_is_no_text_in_a_part_that_nobody_reads():
    error = await error_of(Raw(events=[b'{"zzz":"\xff"}', STOP]))
    assert error.id == "MODEL_EVENT_INVALID"
