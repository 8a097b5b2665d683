import json

import pytest

from tenuto.core.errors import ModelError, ModelHTTPError
from tenuto.core.payloads import (
    CustomPayload,
    ResponseMetadataPayload,
    SourcePayload,
    TextEndPayload,
    ToolCallPayload,
    ToolResultPayload,
)
from tenuto.core.payloads import Usage as Counted
from tenuto.models.ports import RawEvent
from tenuto.testing.provider import (
    Bytes,
    Call,
    FakeProvider,
    HTTPError,
    ProviderCall,
    Raw,
    Reply,
    Usage,
    message_events,
)
from tests.models.drive import F, calls_of, finish_of, kinds, model_of, request, run, text_of

TEXT = "né 漢 🙂"


async def parts_of(reply, **more):
    with FakeProvider([reply]) as fake:
        return await run(model_of(fake, "anthropic/claude-sonnet-4-5", api="anthropic"), request(tools=(F,), **more))


async def error_of(reply, **record):
    with FakeProvider([reply]) as fake, pytest.raises(ModelError) as caught:
        await run(model_of(fake, "anthropic/claude-sonnet-4-5", api="anthropic", **record))
    return caught.value


def events(*blocks, **more):
    return list(message_events(list(blocks), **more))


def start(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, kind, **fields):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index):
    return {"type": "content_block_stop", "index": index}


@pytest.mark.parametrize("cut", [0, 1, 7])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
async def test_text(cut, ending):
    parts = await parts_of(Reply(TEXT, cut=cut, line_ending=ending, chunk_size=2, usage=Usage(7, 3)))
    assert text_of(parts) == TEXT
    assert kinds(parts)[1:3] == ["ResponseMetadata", "TextStart"]
    finish = finish_of(parts)
    assert (finish.reason, finish.raw_reason) == ("stop", "end_turn")
    assert (finish.usage.input_tokens, finish.usage.output_tokens, finish.usage.total_tokens) == (7, 3, 10)


async def test_metadata():
    parts = await parts_of(Reply("x", headers={"anthropic-ratelimit-requests-remaining": "5"}))
    (found,) = [part for part in parts if isinstance(part, ResponseMetadataPayload)]
    assert (found.id, found.model_id) == ("msg_0", "claude-sonnet-4-5")
    assert found.headers["anthropic-ratelimit-requests-remaining"] == "5"


async def test_everything_in_its_order():
    reply = Reply(
        "So:", [Call("f", {"a": 1}), Call("f")], reasoning="think", signature="sig", redacted=["sealed"],
        provider_calls=[ProviderCall("web_search", {"query": "q"}, [])],
    )  # fmt: skip
    parts = await parts_of(reply)
    order = [kind for kind in kinds(parts) if not kind.endswith(("Delta", "Start", "End"))]
    assert order == [
        "ResponseMetadata", "ReasoningSignature", "RedactedReasoning", "ToolCall", "ToolResult", "ToolCall", "ToolCall",
        "Finish",
    ]  # fmt: skip
    assert [call.args for call in calls_of(parts)] == [{"query": "q"}, {"a": 1}, {}]
    assert finish_of(parts).reason == "tool-calls"


async def test_an_answer_that_was_not_streamed():
    reply = Reply("So:", [Call("f", {"a": 1})], reasoning="think", signature="sig", sources=[("http://a", "A")])
    with FakeProvider([reply], strict=False) as fake:
        streamed = await run(model_of(fake, "anthropic/m", api="anthropic"))
        body = anthropic_body(reply)
        fake.add(Bytes(body, content_type="application/json"))
        whole = await run(model_of(fake, "anthropic/m", api="anthropic"))
    assert [kind for kind in kinds(whole) if kind not in kinds(streamed)] == []
    assert text_of(whole) == text_of(streamed)
    assert [call.args for call in calls_of(whole)] == [call.args for call in calls_of(streamed)]
    assert finish_of(whole) == finish_of(streamed)


def anthropic_body(reply):
    from tenuto.testing.provider.anthropic import Anthropic
    from tenuto.testing.provider.dialect import Wanted

    return Anthropic().whole(reply, Wanted("m", stream=False, usage=True, results=0), 1)


@pytest.mark.parametrize(
    ("raw_reason", "calls", "reason"),
    [
        ("end_turn", False, "stop"),
        ("end_turn", True, "tool-calls"),
        ("stop_sequence", False, "stop"),
        ("tool_use", True, "tool-calls"),
        ("max_tokens", True, "length"),
        ("model_context_window_exceeded", False, "length"),
        ("refusal", False, "content-filter"),
        ("pause_turn", False, "other"),
        ("compaction", False, "other"),
        ("new_one", False, "other"),
    ],
)
async def test_stop_reasons(raw_reason, calls, reason):
    finish = finish_of(await parts_of(Reply("x", [Call("f")] if calls else (), finish=raw_reason)))
    assert (finish.reason, finish.raw_reason) == (reason, raw_reason)


async def test_a21_usage_is_cumulative():
    cached = {"cache_creation_input_tokens": 4425, "cache_read_input_tokens": 0}
    begun, *middle, ended = events({"type": "text", "text": "x"})
    begun["message"]["usage"] = {"input_tokens": 317, "output_tokens": 1, **cached}
    ended["usage"] = {"output_tokens": 16, "input_tokens": None, **cached}
    usage = finish_of(await parts_of(Raw([begun, *middle, ended]))).usage
    assert (usage.cache_creation_input_tokens, usage.cached_input_tokens, usage.output_tokens) == (4425, 0, 16)
    assert usage.input_tokens - usage.cache_creation_input_tokens == usage.raw["input_tokens"] == 317
    assert usage.total_tokens == 317 + 4425 + 16


async def test_counts_of_every_kind():
    usage = finish_of(await parts_of(Reply("x", usage=Usage(100, 9, cached=20, reasoning=4, cache_write=30)))).usage
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens) == (100, 9, 4)
    assert (usage.cached_input_tokens, usage.cache_creation_input_tokens) == (20, 30)
    assert (usage.cache_creation_input_tokens_5m, usage.cache_creation_input_tokens_1h) == (30, 0)


@pytest.mark.parametrize("usage", [{"output_tokens": "many"}, {"output_tokens": -5}])
async def test_counts_that_are_none(usage):
    *rest, ended = events({"type": "text", "text": "x"})
    ended["usage"] = usage
    found = finish_of(await parts_of(Raw([*rest, ended]))).usage
    assert (found.input_tokens, found.output_tokens) == (0, 0)
    assert isinstance(found, Counted)


async def test_a29_text_after_a_call():
    blocks = [
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
        {"type": "text", "text": "b"},
    ]
    parts = await parts_of(Raw(events(*blocks, stop="tool_use")))
    starts = [part.id for part in parts if type(part).__name__ == "TextStartPayload"]
    assert len(set(starts)) == 2
    order = [kind for kind in kinds(parts) if kind in {"TextDelta", "ToolCall"}]
    assert order == ["TextDelta", "ToolCall", "TextDelta"]


async def test_input_that_is_no_json_is_kept_as_text():
    (call,) = calls_of(await parts_of(Reply(calls=[Call("f", '{"a": ')], chunk_size=2, finish="max_tokens")))
    assert (call.args, call.raw_args) == (None, '{"a": ')


async def test_who_called_is_kept_with_the_call():
    caller = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
    block = {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}, "caller": caller}
    (call,) = calls_of(await parts_of(Raw(events(block))))
    assert call.provider_metadata == {"anthropic": {"caller": caller}}


async def test_content_that_is_there_from_the_start():
    begun = events()[0]
    begun["message"]["content"] = [{"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}]
    begun["message"]["stop_reason"] = "tool_use"
    (call,) = calls_of(await parts_of(Raw([begun])))
    assert call.args == {"a": 1}


SEARCHED = [
    {"type": "web_search_result", "url": "http://a", "title": "A", "encrypted_content": "E", "page_age": "1 day"},
    {"type": "web_search_result", "url": "http://b", "title": "B", "encrypted_content": "F", "page_age": None},
]


async def test_the_providers_own_tools():
    failed = {"type": "web_fetch_tool_result_error", "error_code": "url_not_accessible"}
    reply = Reply(
        "x",
        provider_calls=[
            ProviderCall("web_search", {"query": "q"}, SEARCHED),
            ProviderCall("web_fetch", {"url": "u"}, failed),
            ProviderCall("srv/echo", {"m": 1}, [{"type": "text", "text": "no"}], is_error=True),
        ],
        sources=[("http://a", "A"), ("http://c", "C")],
    )
    parts = await parts_of(reply)
    calls = [part for part in parts if isinstance(part, ToolCallPayload)]
    answers = [part for part in parts if isinstance(part, ToolResultPayload)]
    assert all(part.provider_executed for part in [*calls, *answers])
    assert [call.tool_name for call in calls] == [answer.tool_name for answer in answers]
    assert [call.tool_call_id for call in calls] == [answer.tool_call_id for answer in answers]
    assert [answer.is_error for answer in answers] == [None, True, True]
    assert answers[0].result == SEARCHED
    assert calls[2].provider_metadata["anthropic"]["server_name"] == "srv"
    assert [(part.url, part.title) for part in parts if isinstance(part, SourcePayload)] == [
        ("http://a", "A"), ("http://b", "B"), ("http://c", "C"),
    ]  # fmt: skip
    assert finish_of(parts).reason == "stop"


async def test_documents_that_are_cited():
    page = {"type": "page_location", "cited_text": "so", "document_index": 0, "document_title": "Book", "file_id": None,
            "start_page_number": 1, "end_page_number": 2}  # fmt: skip
    found = {"type": "search_result_location", "cited_text": "so", "source": "https://kb/1", "title": "KB"}
    parts = await parts_of(Raw(events({"type": "text", "text": "x", "citations": [page, found]})))
    document, other = [part for part in parts if isinstance(part, SourcePayload)]
    assert (document.source_type, document.title, document.mime_type) == ("document", "Book", "application/pdf")
    assert document.provider_metadata["anthropic"]["start_page_number"] == 1
    assert (other.source_type, other.url, other.title) == ("url", "https://kb/1", "KB")
    (end,) = [part for part in parts if isinstance(part, TextEndPayload)]
    assert end.provider_metadata == {"anthropic": {"citations": [page, found]}}


async def test_what_nobody_knows_yet():
    begun, ping, *rest = events({"type": "text", "text": "x"})
    strange = [
        {"type": "new_event", "index": 3, "delta": {"a": 1}},
        start(9, type="compaction", content=None),
        delta(9, "compaction_delta", content="sum"),
        delta(9, "compaction_delta", content="mary"),
        stop(9),
        start(8, type="hologram", parts=[1]),
        stop(8),
        {"no": "type"},
    ]
    parts = await parts_of(Raw([begun, ping, *strange, *rest]))
    customs = [part for part in parts if isinstance(part, CustomPayload)]
    assert [part.kind for part in customs] == ["anthropic.compaction", "anthropic.hologram"]
    assert customs[0].provider_metadata["anthropic"] == {"type": "compaction", "content": "summary"}
    assert text_of(parts) == "x"


async def test_what_is_said_at_the_end():
    *rest, ended = events({"type": "text", "text": "x"}, stop="refusal")
    details = {"type": "refusal", "category": "bio", "explanation": "no"}
    ended["delta"] |= {"stop_sequence": "END", "stop_details": details, "container": {"id": "c1", "expires_at": "t"}}
    ended["context_management"] = {"applied_edits": []}
    parts = await parts_of(Raw([*rest, ended]))
    assert finish_of(parts).provider_metadata == {
        "anthropic": {
            "stop_sequence": "END", "stop_details": details, "container": {"id": "c1", "expires_at": "t"},
            "context_management": {"applied_edits": []},
        }
    }  # fmt: skip
    (kept,) = [part for part in parts if isinstance(part, CustomPayload)]
    assert (kept.kind, kept.provider_metadata["anthropic"]["id"]) == ("anthropic.container", "c1")


def everything():
    return events(
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "abc"},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
        stop="tool_use",
        usage=Usage(5, 5),
    )


DELTAS = frozenset({"content_block_delta"})


@pytest.mark.parametrize("place", range(len(everything())))
async def test_an_event_twice(place):
    whole = await parts_of(Raw(everything()))
    found = everything()
    if found[place]["type"] in DELTAS:
        return  # a piece twice is two pieces: nothing tells them apart
    parts = await parts_of(Raw([*found[: place + 1], *found[place:]]))
    assert parts[1:] == whole[1:]


@pytest.mark.parametrize("place", [*range(len(everything())), None])
async def test_an_event_that_is_missing(place):
    """The same answer, or an error; a piece of text that is gone is the one thing nobody can see."""
    whole = await parts_of(Raw(everything()))
    found = everything()
    kind = "message_stop" if place is None else found[place]["type"]
    if place is not None:
        del found[place]
    if kind in DELTAS:
        return
    reply = Raw(found, done=place is not None)
    if kind in {"ping", "content_block_stop"}:
        assert (await parts_of(reply))[1:] == whole[1:]
    else:
        assert (await error_of(reply)).retryable


@pytest.mark.parametrize("events_sent", range(1, 9))
async def test_a_stream_that_is_cut_off(events_sent):
    error = await error_of(Reply("hello", reasoning="hm", drop_after=events_sent))
    assert error.retryable


@pytest.mark.parametrize(
    ("error", "status", "retryable"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, 529, True),
        ({"type": "rate_limit_error", "message": "slow"}, 429, True),
        ({"type": "invalid_request_error", "message": "too long"}, 400, False),
        ({"type": "billing_error", "message": "pay"}, 402, False),
        ({"type": "api_error", "message": "oops"}, 500, True),
        ({"type": "strange", "message": "?"}, None, False),
    ],
)
async def test_a_failure_in_the_middle(error, status, retryable):
    found = events({"type": "text", "text": "abc"})[:4]
    caught = await error_of(Raw([*found, {"type": "error", "error": error}]))
    assert error["message"] in str(caught)
    assert (caught.type, caught.status, caught.retryable) == (error["type"], status, retryable)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 429, 500, 529])
async def test_http_errors(status):
    error = await error_of(HTTPError(status, headers={"retry-after": "3", "request-id": "req_x"}))
    assert isinstance(error, ModelHTTPError)
    assert (error.status, error.retryable, error.retry_after) == (status, status in {429, 500, 529}, 3.0)
    assert error.type.endswith(("_error", "_large"))


@pytest.mark.parametrize(
    "body", [b'{"type":"error","error":{"type":"api_error","message":"oops"}}', b'{"error":"oops"}']
)
async def test_an_error_with_status_200(body):
    assert "oops" in str(await error_of(Bytes(body, content_type="application/json")))


@pytest.mark.parametrize("event", ["no json", '{"type":3}', '{"type":"message_start","message":{"id":4}}', "[1]"])
async def test_an_event_that_cannot_be_read(event):
    error = await error_of(Raw([event]))
    assert error.id == "MODEL_EVENT_INVALID"


async def test_a_key_never_comes_back_in_a_message():
    key = "sk-ant-canary-123456"
    said = {"type": "error", "error": {"type": "authentication_error", "message": f"invalid x-api-key {key}"}}
    for reply in (HTTPError(401, said), Raw([said]), Raw([f"no json {key}"])):
        error = await error_of(reply, api_key=key)
        assert "canary" not in str(error)
        assert "canary" not in repr(error.details)


async def test_raw_events():
    parts = await parts_of(Reply("x"), include_raw=True)
    found = [part.value["type"] for part in parts if isinstance(part, RawEvent)]
    assert found[0] == "message_start"
    assert found[-1] == "message_stop"


async def test_many_small_pieces():
    text = json.dumps(list(range(500)))
    (call,) = calls_of(await parts_of(Reply(calls=[Call("f", {"a": text})], chunk_size=1)))
    assert call.args == {"a": text}


async def broken(*made):
    return (await error_of(Raw(made))).id


async def test_a_block_whose_beginning_was_lost_is_an_error():
    found = events({"type": "redacted_thinking", "data": "a"}, {"type": "text", "text": "hi"})
    lost = [event for event in found if event.get("content_block", {}).get("type") != "redacted_thinking"]
    assert len(lost) == len(found) - 1
    assert await broken(*lost) == "MODEL_STREAM_INVALID"


async def test_a_message_whose_beginning_was_lost_is_an_error():
    assert await broken(*(event for event in events() if event["type"] != "message_start")) == "MODEL_STREAM_INVALID"


async def test_a_stop_for_a_call_without_a_call_is_an_error():
    assert await broken(*events({"type": "text", "text": "I pay."}, stop="tool_use")) == "MODEL_STREAM_INVALID"


async def test_a_citation_that_comes_twice_is_one():
    cited = {"type": "page_location", "cited_text": "x", "document_title": "D"}
    first, last = events({"type": "text", "text": "hi", "citations": [cited]}), []
    for event in first:
        last += [event, event] if "citation" in event.get("delta", {}) else [event]
    parts = await parts_of(Raw(last))
    assert sum(isinstance(part, SourcePayload) for part in parts) == 1


@pytest.mark.parametrize("odd", [7, True, [None], {"x": None}])
async def test_fields_that_are_no_text(odd):
    blocks = [start(0, type="text", text=odd), stop(0), start(1, type="tool_use", id=odd, name="f", input={}), stop(1)]
    found = events(stop="tool_use")
    (call,) = calls_of(parts := await parts_of(Raw([*found[:2], *blocks, found[-1]])))
    assert (text_of(parts), call.tool_call_id, call.tool_name) == ("", "call_1_1", "f")
