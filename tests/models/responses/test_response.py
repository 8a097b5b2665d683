import json

import pytest

from tenuto.core.errors import ModelError, ModelHTTPError
from tenuto.core.payloads import (
    CustomPayload,
    FilePayload,
    ReasoningDeltaPayload,
    ReasoningEndPayload,
    ResponseMetadataPayload,
    SourcePayload,
    TextEndPayload,
    ToolResultPayload,
    Usage,
)
from tenuto.models.ports import ModelSettings, ProviderTool, RawEvent
from tenuto.testing.provider import Bytes, Call, FakeProvider, HTTPError, Raw, Reply
from tenuto.testing.provider.dialect import Wanted
from tenuto.testing.provider.responses import Responses
from tenuto.testing.provider.script import Made, ProviderCall
from tenuto.testing.provider.script import Usage as Counts
from tests.models.drive import F, calls_of, finish_of, kinds, model_of, request, run, text_of

PAYLOAD = "né 漢 🙂 done"
CREATED = {"type": "response.created", "response": {"id": "r1", "model": "m", "created_at": 1}}


def ended(kind="completed", **more):
    return {"type": f"response.{kind}", "response": {"id": "r1", "status": kind, **more}}


def added(index, **item):
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index, **item):
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def said(text, index=0, place=0, **more):
    return {
        "type": "response.output_text.delta", "output_index": index, "content_index": place, "delta": text, **more
    }  # fmt: skip


def arguments(text, index=0):
    return {"type": "response.function_call_arguments.delta", "output_index": index, "delta": text}


def message(*texts, id="msg_1"):
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": id, "role": "assistant", "content": content}


def function(id="call_1", args="{}", name="f"):
    return {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": args}


def answers(fake, **record):
    return model_of(fake, "test/m", api="responses", **record)


async def parts_of(*events, asked=None, **more):
    with FakeProvider([Raw(events=events, **more)]) as fake:
        return await run(answers(fake), asked)


async def reply_of(reply, asked=None):
    with FakeProvider([reply]) as fake:
        return await run(answers(fake), asked)


async def error_of(*replies):
    with FakeProvider(list(replies)) as fake:
        with pytest.raises(ModelError) as caught:
            await run(answers(fake))
        return caught.value


@pytest.mark.parametrize("cut", [1, 2, 3, 7])
async def test_A01_text_survives_every_cut(cut):
    parts = await reply_of(Reply(PAYLOAD, cut=cut, chunk_size=5))
    assert text_of(parts) == PAYLOAD


@pytest.mark.parametrize("line_ending", ["\n", "\r", "\r\n"])
async def test_A13_blocks_without_data(line_ending):
    reply = Reply(PAYLOAD, keepalives=(": ping", "retry: 3000", "id: 7"), line_ending=line_ending)
    assert text_of(await reply_of(reply)) == PAYLOAD


@pytest.mark.parametrize("cut", [0, 1])
async def test_A14_empty_data_and_unknown_events_between_arguments(cut):
    keepalives = ("data:", "data: ", "event: ping\ndata: {}", "event: odd\ndata: ")
    (call,) = calls_of(await reply_of(Reply(calls=[Call("f", {"text": PAYLOAD})], keepalives=keepalives, cut=cut)))
    assert call.args == {"text": PAYLOAD}


@pytest.mark.parametrize("before", [[], [CREATED, said("a"), said("b")]])
async def test_A15_an_error_event_is_never_success(before):
    error = await error_of(Raw(events=[*before, {"error": {"message": "queue full", "code": 429}}]))
    assert "queue full" in str(error)
    assert (error.code, error.status, error.retryable, error.provider) == ("429", 429, True, "test")


@pytest.mark.parametrize(
    ("event", "code", "type", "status", "retryable"),
    [
        (
            {"type": "error", "code": "context_length_exceeded", "message": "too long", "param": "input"},
            "context_length_exceeded", None, 400, False,
        ),
        (
            {"type": "error", "error": {"message": "no money", "type": "t", "code": "insufficient_quota"}},
            "insufficient_quota", "t", 429, False,
        ),
        ({"type": "error", "code": None, "message": "oops"}, None, None, None, False),
        (ended("failed", error={"code": "server_error", "message": "oops"}), "server_error", None, 500, True),
        (ended("failed", error={"code": "rate_limit_x", "message": "x"}), "rate_limit_x", None, 429, True),
        (ended("failed", error={"code": "invalid_prompt", "message": "x"}), "invalid_prompt", None, None, False),
        (ended("failed", error=None), None, None, None, False),
        (ended("cancelled"), None, None, None, False),
    ],
)  # fmt: skip
async def test_A16_code_type_and_status_survive(event, code, type, status, retryable):
    error = await error_of(Raw(events=[CREATED, said("a"), event]))
    assert (error.code, error.type, error.status, error.retryable) == (code, type, status, retryable)


async def test_A17_failed_is_an_error():
    failed = ended("failed", error={"code": "server_error", "message": "broke"})
    error = await error_of(Raw(events=[CREATED, said("a"), failed]))
    assert "broke" in str(error)


@pytest.mark.parametrize(
    ("reason", "expected"), [("max_output_tokens", "length"), ("content_filter", "content-filter"), ("odd", "other")]
)
async def test_A17_incomplete_keeps_the_text_and_says_why(reason, expected):
    parts = await parts_of(CREATED, said("partial"), ended("incomplete", incomplete_details={"reason": reason}))
    assert text_of(parts) == "partial"
    assert (finish_of(parts).reason, finish_of(parts).raw_reason) == (expected, reason)
    parts = await reply_of(Reply("partial", finish=reason))
    assert (text_of(parts), finish_of(parts).reason) == ("partial", expected)


async def test_A17_a_stream_without_its_end_is_cut_off():
    error = await error_of(Reply("hello", finish=""))
    assert (error.id, error.retryable) == ("MODEL_STREAM_CUT_OFF", True)


async def test_A29_text_after_a_call():
    parts = await parts_of(
        CREATED,
        said("a"),
        added(1, **function(args="")),
        arguments('{"a":1}', 1),
        done(1, **function(args='{"a":1}')),
        said("b", 2),
        ended(),
    )
    assert text_of(parts) == "ab"
    order = [kind for kind in kinds(parts) if kind in {"TextDelta", "ToolCall"}]
    assert order == ["TextDelta", "ToolCall", "TextDelta"]
    assert finish_of(parts).reason == "tool-calls"


async def test_a_plain_answer():
    parts = await reply_of(Reply("hello", usage=Counts(7, 3, cached=2, reasoning=1, cache_write=4)))
    assert text_of(parts) == "hello"
    (meta,) = [part for part in parts if isinstance(part, ResponseMetadataPayload)]
    assert (meta.id, meta.model_id, meta.timestamp) == ("resp_0", "m", 1_760_000_000_000)
    assert meta.headers["x-request-id"] == "req_0"
    finish = finish_of(parts)
    assert (finish.reason, finish.raw_reason) == ("stop", "completed")
    assert finish.usage == Usage(7, 3, 10, 1, 2, 4, finish.usage.raw)
    assert finish.provider_metadata == {"test": {"responseId": "resp_0", "serviceTier": "default"}}


async def test_parallel_calls_by_output_index():
    parts = await parts_of(
        CREATED,
        added(0, **function("a", "")),
        added(1, **function("b", "", "g")),
        arguments('{"x":', 0),
        arguments('{"y":2', 1),
        arguments("1}", 0),
        arguments("}", 1),
        done(1, **function("b", '{"y":2}', "g")),
        done(0, **function("a", '{"x":1}')),
        ended(),
    )
    assert sorted((call.tool_call_id, call.tool_name, str(call.args)) for call in calls_of(parts)) == [
        ("a", "f", "{'x': 1}"),
        ("b", "g", "{'y': 2}"),
    ]


async def test_a_call_without_arguments_and_one_that_is_no_json():
    parts = await reply_of(Reply(calls=[Call("f", ""), Call("f", "{oops")]))
    first, second = calls_of(parts)
    assert first.args == {}
    assert (second.args, second.raw_args) == (None, "{oops")


async def test_a_call_carries_what_its_provider_wants_back():
    item = function() | {"namespace": "n", "caller": {"type": "direct"}}
    (call,) = calls_of(await parts_of(CREATED, done(0, **item), ended()))
    own = {"itemId": "fc_call_1", "namespace": "n", "caller": {"type": "direct"}}
    assert call.provider_metadata == {"test": own}


async def test_reasoning_in_parts_ends_with_its_seal():
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}],
        "encrypted_content": "sealed",
    }
    thought = "response.reasoning_summary_text.delta"
    parts = await parts_of(
        CREATED,
        added(0, type="reasoning", id="rs_1", summary=[]),
        {"type": thought, "output_index": 0, "summary_index": 0, "delta": "one"},
        {"type": thought, "output_index": 0, "summary_index": 1, "delta": "tw"},
        done(0, **item),
        done(1, **message("hi")),
        ended(),
    )
    assert [part.text for part in parts if isinstance(part, ReasoningDeltaPayload)] == ["one", "tw", "o"]
    ends = [part.provider_metadata for part in parts if isinstance(part, ReasoningEndPayload)]
    assert ends == [None, {"test": {"itemId": "rs_1", "reasoningEncryptedContent": "sealed"}}]
    assert text_of(parts) == "hi"


async def test_sealed_reasoning_without_a_text_is_kept():
    parts = await reply_of(Reply("hi", redacted=["sealed"]))
    (end,) = [part for part in parts if isinstance(part, ReasoningEndPayload)]
    assert end.provider_metadata["test"]["reasoningEncryptedContent"] == "sealed"


async def test_open_reasoning_text():
    parts = await parts_of(
        CREATED,
        {"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": "hm"},
        done(0, type="reasoning", id="rs_1", summary=[], content=[{"type": "reasoning_text", "text": "hmm"}]),
        ended(),
    )
    (end,) = [part for part in parts if isinstance(part, ReasoningEndPayload)]
    assert end.provider_metadata["test"] == {"itemId": "rs_1", "reasoningContent": True}


async def test_citations_become_sources_once():
    reply = Reply("cited", sources=[("http://a", "A"), ("http://b", ""), ("http://a", "A")])
    parts = await reply_of(reply)
    found = [(part.url, part.title) for part in parts if isinstance(part, SourcePayload)]
    assert found == [("http://a", "A"), ("http://b", "")]
    (end,) = [part for part in parts if isinstance(part, TextEndPayload)]
    assert len(end.provider_metadata["test"]["annotations"]) == 3


@pytest.mark.parametrize(
    ("annotation", "title", "own"),
    [
        (
            {"type": "file_citation", "file_id": "file-1", "filename": "a.pdf", "index": 3},
            "a.pdf",
            {"type": "file_citation", "fileId": "file-1"},
        ),
        (
            {"type": "container_file_citation", "file_id": "cf", "container_id": "c", "filename": "b.csv"},
            "b.csv",
            {"type": "container_file_citation", "fileId": "cf", "containerId": "c"},
        ),
        ({"type": "file_path", "file_id": "file-2", "index": 0}, "file-2", {"type": "file_path", "fileId": "file-2"}),
    ],
)
async def test_cited_files_become_documents(annotation, title, own):
    event = {
        "type": "response.output_text.annotation.added", "output_index": 0, "content_index": 0,
        "annotation": annotation,
    }  # fmt: skip
    parts = await parts_of(CREATED, said("x"), event, ended())
    (source,) = [part for part in parts if isinstance(part, SourcePayload)]
    assert (source.source_type, source.title, source.provider_metadata) == ("document", title, {"test": own})


async def test_an_image_is_a_file_that_holds_its_item():
    parts = await reply_of(Reply(files=[Made("image/webp", "QUJD")]))
    (file,) = [part for part in parts if isinstance(part, FilePayload)]
    assert (file.base64, file.mime_type) == ("QUJD", "image/webp")
    assert file.provider_metadata["test"]["item"]["type"] == "image_generation_call"
    assert "result" not in file.provider_metadata["test"]["item"]
    assert finish_of(parts).reason == "stop"


async def test_an_image_that_failed_is_a_failed_call():
    item = {"type": "image_generation_call", "id": "ig_1", "status": "failed", "result": None}
    parts = await parts_of(CREATED, done(0, **item), ended())
    (result,) = [part for part in parts if isinstance(part, ToolResultPayload)]
    assert result.is_error
    assert not [part for part in parts if isinstance(part, FilePayload)]


async def test_a_refusal_is_text_and_says_that_it_is_one():
    parts = await reply_of(Reply(refusal="I will not."))
    assert text_of(parts) == "I will not."
    assert finish_of(parts).provider_metadata["test"]["refusal"] == "I will not."


async def test_logprobs_are_in_the_metadata():
    one, two = {"token": "a", "logprob": -1}, {"token": "b", "logprob": -2}
    parts = await parts_of(CREATED, said("a", logprobs=[one]), said("b", logprobs=[two]), ended())
    assert text_of(parts) == "ab"
    assert finish_of(parts).provider_metadata["test"]["logprobs"] == [one, two]


@pytest.mark.parametrize(
    ("call", "name", "args", "result", "failed"),
    [
        (
            ProviderCall("web_search", {"action": {"type": "search", "query": "q"}}), "search_the_web",
            {"type": "search", "query": "q"},
            {"status": "completed", "action": {"type": "search", "query": "q"}}, None,
        ),
        (
            ProviderCall("file_search", {"queries": ["q"]}, {"results": [{"file_id": "f"}]}), "file_search",
            {"queries": ["q"]}, {"status": "completed", "queries": ["q"], "results": [{"file_id": "f"}]}, None,
        ),
        (
            ProviderCall("code_interpreter", {"code": "1+1"}, {"outputs": [{"type": "logs", "logs": "2"}]}),
            "code_interpreter", {"code": "1+1", "container_id": "cntr_1"},
            {"status": "completed", "outputs": [{"type": "logs", "logs": "2"}]}, None,
        ),
        (ProviderCall("lookup", {"a": 1}, "found"), "lookup", {"a": 1}, {"server_label": "server", "output": "found"},
         None),
        (
            ProviderCall("lookup", {}, "broke", is_error=True), "lookup", {},
            {
                "server_label": "server",
                "error": {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "broke"}]},
            }, True,
        ),
    ],
)  # fmt: skip
async def test_tools_of_the_provider(call, name, args, result, failed):
    tools = (ProviderTool("openai.web_search_preview", "search_the_web"),)
    parts = await reply_of(Reply("so", provider_calls=[call]), request(provider_tools=tools))
    (made,) = calls_of(parts)
    (answer,) = [part for part in parts if isinstance(part, ToolResultPayload)]
    assert (made.tool_name, made.args, made.provider_executed) == (name, args, True)
    assert (answer.tool_call_id, answer.result, answer.is_error) == (made.tool_call_id, result, failed)
    assert answer.provider_metadata["test"]["item"]["id"] == made.tool_call_id
    assert finish_of(parts).reason == "stop"


@pytest.mark.parametrize(
    ("item", "name", "args"),
    [
        ({"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "x"}, "sql", {"input": "x"}),
        ({"type": "local_shell_call", "call_id": "c", "action": {"command": []}}, "local_shell", {"command": []}),
        ({"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}, "shell", {"commands": ["ls"]}),
        ({"type": "apply_patch_call", "call_id": "c", "operation": {"path": "a"}}, "apply_patch", {"path": "a"}),
        ({"type": "computer_call", "call_id": "c", "action": {"type": "wait"}}, "computer", {"type": "wait"}),
        ({"type": "computer_call", "call_id": "c", "actions": [1]}, "computer", {"actions": [1]}),
        (
            {"type": "mcp_approval_request", "id": "c", "server_label": "s", "name": "n", "arguments": "{}"},
            "mcp_approval_request", {"server_label": "s", "name": "n", "arguments": "{}"},
        ),
    ],
)  # fmt: skip
async def test_items_that_wait_for_us_are_calls(item, name, args):
    parts = await parts_of(CREATED, added(0, **item), done(0, **item), ended())
    (call,) = calls_of(parts)
    assert (call.tool_call_id, call.tool_name, call.args, call.provider_executed) == ("c", name, args, None)
    assert call.provider_metadata["test"]["item"] == item
    assert finish_of(parts).reason == "tool-calls"


@pytest.mark.parametrize(
    "item",
    [
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": []},
        {"type": "shell_call", "id": "sh_1", "environment": {"type": "container_reference"}},
        {"type": "from_the_future", "anything": [1]},
    ],
)
async def test_unknown_items_are_kept(item):
    parts = await parts_of(CREATED, done(0, **item), ended())
    (kept,) = [part for part in parts if isinstance(part, CustomPayload)]
    assert kept.kind == f"test.{item['type']}"
    assert kept.provider_metadata["test"]["item"] == item


async def test_unknown_events_and_fields_change_nothing():
    parts = await parts_of(
        CREATED,
        {"type": "response.new.delta", "output_index": 0, "delta": {"odd": 1}},
        {"type": "response.output_item.added", "output_index": 0, "item": None},
        {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": None},
        said("hi", 1, later=[1]),
        {"type": "codex.rate_limits"},
        ended(),
    )
    assert text_of(parts) == "hi"


async def test_two_messages_at_once():
    parts = await parts_of(CREATED, said("a", 0), said("b", 1), said("c", 0), ended())
    assert text_of(parts) == "abc"
    assert kinds(parts).count("TextStart") == 3


async def test_an_answer_that_was_not_streamed():
    reply = Reply(
        "hello", [Call("f", {"a": 1})], reasoning="hm", signature="sealed", sources=[("http://a", "A")],
        provider_calls=[ProviderCall("web_search")],
    )  # fmt: skip
    body = Responses().whole(reply, Wanted("m", stream=False, usage=True, results=0), 0)
    with FakeProvider([Bytes(body=body, content_type="application/json"), reply]) as fake:
        whole = await run(answers(fake), request(tools=(F,)))
        streamed = await run(answers(fake), request(tools=(F,)))
    assert text_of(whole) == "hello"
    assert [call.args for call in calls_of(whole)] == [call.args for call in calls_of(streamed)]
    assert set(kinds(whole)) == set(kinds(streamed))
    assert finish_of(whole).usage == finish_of(streamed).usage
    assert finish_of(whole).reason == finish_of(streamed).reason == "tool-calls"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": {"message": "boom", "code": "server_error"}}, "boom"),
        ({"id": "r", "status": "failed", "output": [], "error": {"code": "x", "message": "boom"}}, "boom"),
        ({"id": "r", "status": "in_progress", "output": []}, "in_progress"),
        ({}, "nothing"),
        ([], "not one of a response"),
    ],
)
async def test_a_whole_answer_that_is_none(body, text):
    error = await error_of(Bytes(body=json.dumps(body).encode(), content_type="application/json"))
    assert text in str(error)


async def test_an_error_answer():
    error = await error_of(HTTPError(429))
    assert isinstance(error, ModelHTTPError)
    assert (error.status, error.code, error.retryable) == (429, "rate_limit_exceeded", True)


@pytest.mark.parametrize("event", ["{oops", "[1]", '{"type":3}', "7"])
async def test_an_event_that_is_none(event):
    error = await error_of(Raw(events=[CREATED, event]))
    assert error.id == "MODEL_EVENT_INVALID"


async def test_the_word_of_another_dialect_at_the_end_is_no_harm():
    parts = await parts_of(CREATED, said("hi"), ended(), "[DONE]")
    assert text_of(parts) == "hi"


async def test_raw_events():
    parts = await parts_of(CREATED, said("hi"), ended(), asked=request(include_raw=True))
    assert [part.value["type"] for part in parts if isinstance(part, RawEvent)] == [
        "response.created",
        "response.output_text.delta",
        "response.completed",
    ]


FULL = Reply(
    "cited text", [Call("f", {"a": 1}), Call("g", {"b": [1, 2]})], reasoning="thinking", signature="sealed",
    sources=[("http://a", "A")], provider_calls=[ProviderCall("web_search")],
)  # fmt: skip


def content_of(parts):
    return text_of(parts), [(c.tool_name, c.args) for c in calls_of(parts)], finish_of(parts).reason


async def outcome_of(events):
    try:
        return content_of(await parts_of(*events))
    except ModelError as error:
        return error.id


@pytest.mark.parametrize("times", [0, 2])
async def test_an_event_that_is_lost_or_doubled_is_noticed_or_mended(times):
    events = Responses().events(FULL, Wanted("m", stream=True, usage=True, results=0), 0)
    expected = content_of(await parts_of(*events))
    for place in range(len(events)):
        changed = [*events[:place], *[events[place]] * times, *events[place + 1 :]]
        assert await outcome_of(changed) in (expected, "MODEL_STREAM_INVALID", "MODEL_STREAM_CUT_OFF"), events[place]


async def test_secrets_stay_out_of_errors():
    reply = Raw(events=[{"type": "error", "message": "bad key sk-canary"}])
    with FakeProvider([reply]) as fake, pytest.raises(ModelError) as caught:
        await run(answers(fake, api_key="sk-canary"), request(settings=ModelSettings(temperature=1)))
    assert "sk-canary" not in str(caught.value)


def numbered(*events, numbers=None):
    return [event | {"sequence_number": at} for at, event in zip(numbers or range(99), events, strict=False)]


SAID = (CREATED, added(0, type="message", id="m"), said("ha"), said("ha"), ended())


async def test_a_number_that_is_missing_is_a_lost_event():
    events = numbered(*SAID)
    error = await error_of(Raw(events=[*events[:2], *events[3:]]))
    assert (error.id, error.retryable) == ("MODEL_STREAM_INVALID", True)


async def test_an_event_that_comes_twice_is_one():
    events = numbered(*SAID)
    assert text_of(await parts_of(*events[:3], *events[2:])) == "haha"


@pytest.mark.parametrize(
    "numbers",
    [[0] * 5, [-1] * 5, [0, 1, 0, 1, 2], [7, 8, 9, 10, 11], [0, 1, 2, 0, 0], [None] * 5, ["a"] * 5, [1, 2, None, 3, 9]],
)
async def test_numbers_that_do_not_count_are_not_believed(numbers):
    assert text_of(await parts_of(*numbered(*SAID, numbers=numbers))) == "haha"


async def test_a_gap_is_no_loss_when_all_is_said_again():
    """Gateways that edit a stream drop or join deltas and leave the numbers as they were."""
    whole = message("haha")
    events = [CREATED, added(0, type="message", id="m"), said("haha"), done(0, **whole), ended(output=[whole])]
    parts = await parts_of(*numbered(*events, numbers=[0, 1, 9, 12, 13]))
    assert text_of(parts) == "haha"


async def test_text_that_is_missing_before_other_text_is_an_error():
    item = {"type": "reasoning", "id": "r", "summary": [{"text": "one"}, {"text": "two"}]}
    summary = {"type": "response.reasoning_summary_text.delta", "output_index": 0}
    events = [{**summary, "summary_index": 0, "delta": "on"}, {**summary, "summary_index": 1, "delta": "two"}]
    error = await error_of(Raw(events=[CREATED, *events, done(0, **item), ended()]))
    assert error.id == "MODEL_STREAM_INVALID"


async def test_arguments_without_their_call_are_an_error():
    error = await error_of(Raw(events=[CREATED, arguments('{"a":1}'), ended()]))
    assert error.id == "MODEL_STREAM_INVALID"


async def test_a_seal_that_comes_after_what_follows_it_is_an_error():
    thought = {"type": "reasoning", "id": "r", "summary": [{"text": "hm"}], "encrypted_content": "sealed"}
    summary = {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "hm"}
    text = message("hi")
    error = await error_of(Raw(events=[CREATED, summary, done(1, **text), ended(output=[thought, text])]))
    assert error.id == "MODEL_STREAM_INVALID"


@pytest.mark.parametrize("odd", [7, True, 1.5, [None], {"x": None}])
async def test_a_call_whose_labels_are_no_text(odd):
    (call,) = calls_of(await parts_of(CREATED, done(0, **function() | {"call_id": odd, "name": odd}), ended()))
    assert (call.tool_call_id, call.tool_name) == ("call_1_1", "unknown_tool")


@pytest.mark.parametrize("item", [{"type": [None]}, {"type": "message", "content": [{"type": []}]}])
async def test_an_item_of_no_kind_at_all_is_a_typed_error(item):
    assert (await error_of(Raw(events=[CREATED, done(0, **item), ended()]))).id == "MODEL_EVENT_INVALID"
