"""What an answer becomes."""

from __future__ import annotations

import json

import pytest

from tenuto.core.errors import ModelError
from tenuto.core.payloads import (
    CustomPayload,
    FilePayload,
    ResponseMetadataPayload,
    SourcePayload,
    ToolResultPayload,
)
from tenuto.models.gemini.partial_args import steps_of
from tenuto.models.ports import RawEvent
from tenuto.testing.provider import Bytes, FakeProvider, HTTPError, Raw, Reply, Usage, gemini_chunk
from tests.models.drive import calls_of, finish_of, kinds, request, run, text_of
from tests.models.gemini.kit import LATER, PNG, SEAL, gemini, parts_of

STOP = gemini_chunk({"text": ""}, finish="STOP")


def of(kind, parts):
    return [part for part in parts if isinstance(part, kind)]


async def test_text_thoughts_and_usage():
    usage = Usage(7, 5, cached=2, reasoning=3)
    async with FakeProvider(Reply("né 漢 🙂", reasoning="hm", usage=usage, chunk_size=1)) as provider:
        parts = await run(gemini(provider))
    assert text_of(parts) == "né 漢 🙂"
    assert "".join(part.text for part in parts if type(part).__name__ == "ReasoningDeltaPayload") == "hm"
    finish = finish_of(parts)
    assert (finish.reason, finish.raw_reason) == ("stop", "STOP")
    found = finish.usage
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (7, 5, 12)
    assert (found.reasoning_tokens, found.cached_input_tokens) == (3, 2)
    assert found.raw["promptTokenCount"] == 7
    (said,) = of(ResponseMetadataPayload, parts)
    assert (said.id, said.model_id) == ("resp-0", "gemini-3-pro")


async def test_tokens_of_tool_results_are_input():
    usage = {
        "promptTokenCount": 17,
        "candidatesTokenCount": 37,
        "toolUsePromptTokenCount": 308,
        "thoughtsTokenCount": 333,
    }
    parts = await parts_of({**STOP, "usageMetadata": {**usage, "totalTokenCount": 695, "serviceTier": "flex"}})
    found = finish_of(parts).usage
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (325, 370, 695)
    assert finish_of(parts).provider_metadata == {"google": {"serviceTier": "flex"}}


async def test_usage_after_the_finish_reason_counts():
    parts = await parts_of(STOP, {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}})
    assert finish_of(parts).usage.total_tokens == 7


async def test_a_finish_reason_in_each_event_is_not_the_end():
    events = [gemini_chunk({"text": text}, finish="STOP") for text in "abc"]
    assert text_of(await parts_of(*events)) == "abc"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content-filter"),
        ("RECITATION", "content-filter"),
        ("BLOCKLIST", "content-filter"),
        ("PROHIBITED_CONTENT", "content-filter"),
        ("SPII", "content-filter"),
        ("IMAGE_SAFETY", "content-filter"),
        ("MALFORMED_FUNCTION_CALL", "error"),
        ("UNEXPECTED_TOOL_CALL", "error"),
        ("OTHER", "other"),
        ("LANGUAGE", "other"),
        ("SOMETHING_NEW", "other"),
    ],
)
async def test_finish_reasons(raw, reason):
    last = gemini_chunk(finish=raw, finishMessage="why", safetyRatings=[{"category": "c"}])
    finish = finish_of(await parts_of(last))
    assert (finish.reason, finish.raw_reason) == (reason, raw)
    assert finish.provider_metadata == {"google": {"finishMessage": "why", "safetyRatings": [{"category": "c"}]}}


async def test_a_blocked_prompt_is_a_content_filter():
    finish = finish_of(
        await parts_of({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}})
    )
    assert (finish.reason, finish.raw_reason, finish.usage.input_tokens) == ("content-filter", "SAFETY", 4)


@pytest.mark.parametrize(
    "events", [[], [gemini_chunk({"text": "a"})], [gemini_chunk({"text": "a"}, finish="FINISH_REASON_UNSPECIFIED")]]
)
async def test_a_cut_answer_is_an_error(events):
    with pytest.raises(ModelError, match="cut off") as caught:
        await parts_of(*events)
    assert (caught.value.id, caught.value.retryable) == ("MODEL_STREAM_CUT_OFF", True)


async def test_a_signed_part_is_a_part_of_its_own():
    parts = await parts_of(
        gemini_chunk({"text": "a", "thought": True}),
        gemini_chunk({"text": "b"}),
        gemini_chunk({"text": "c", "thoughtSignature": SEAL}),
        gemini_chunk({"text": "d"}),
        gemini_chunk({"text": "", "thoughtSignature": LATER}, finish="STOP"),
    )
    starts = [part for part in parts if type(part).__name__ == "TextStartPayload"]
    assert [part.provider_metadata for part in starts] == [
        None,
        {"google": {"thoughtSignature": SEAL}},
        None,
        {"google": {"thoughtSignature": LATER}},
    ]
    assert text_of(parts) == "bcd"


async def test_calls():
    parts = await parts_of(
        gemini_chunk({"functionCall": {"name": "f", "args": {"a": 1.50}, "id": "x"}, "thoughtSignature": SEAL}),
        gemini_chunk({"functionCall": {"name": "f"}}, {"functionCall": {"name": "f", "args": None, "id": "x"}}),
        STOP,
    )
    first, second, third = calls_of(parts)
    assert (first.tool_call_id, first.args) == ("x", {"a": 1.5})
    assert first.provider_metadata == {"google": {"thoughtSignature": SEAL}}
    assert (second.args, second.provider_metadata, third.args) == ({}, None, {})
    assert second.tool_call_id.startswith("order_")
    assert third.tool_call_id.startswith("order_")
    assert finish_of(parts).reason == "tool-calls"


def streamed(**call):
    return gemini_chunk({"functionCall": call})


async def test_arguments_in_pieces():
    def piece(path, going_on=None, **value):
        return streamed(partialArgs=[{"jsonPath": path, "willContinue": going_on, **value}], willContinue=True)

    parts = await parts_of(
        gemini_chunk({"functionCall": {"name": "f", "willContinue": True}, "thoughtSignature": SEAL}),
        piece("$.a[0].name", stringValue="Las", going_on=True),
        piece("$.a[0].name", stringValue="agna", going_on=True),
        piece("$.a[0].name", stringValue=""),
        piece("$.a[1]['the size']", numberValue=2),
        piece("$.b", boolValue=False),
        piece("$.c", nullValue="NULL_VALUE"),
        piece("nonsense", stringValue="x"),
        streamed(),
        streamed(name="g", willContinue=True),
        streamed(),
        STOP,
    )
    first, second = calls_of(parts)
    assert first.args == {"a": [{"name": "Lasagna"}, {"the size": 2}], "b": False, "c": None}
    assert first.provider_metadata == {"google": {"thoughtSignature": SEAL}}
    assert (second.tool_name, second.args) == ("g", {})


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$.a", ["a"]),
        ("$['a.b'][2].c", ["a.b", 2, "c"]),
        ('$["it\'s"]', ["it's"]),
        ("$", None),
        ("a", None),
        ("$..a", None),
    ],
)
def test_paths(path, steps):
    assert steps_of(path) == steps


async def test_files_and_sources():
    grounding = {
        "groundingChunks": [
            {"web": {"uri": "https://a.example", "title": "A"}},
            {"retrievedContext": {"uri": "gs://b/report.pdf", "title": "Report"}},
            {"maps": {"uri": "https://maps.example/x", "title": "X"}},
            {"image": {"sourceUri": "https://c.example", "imageUri": "https://c.example/i.png"}},
            {"retrievedContext": {"fileSearchStore": "fileSearchStores/s", "title": "S"}},
            {"newKind": {}},
        ],
        "webSearchQueries": ["q"],
    }
    parts = await parts_of(
        gemini_chunk({"text": "a"}, groundingMetadata={"groundingChunks": grounding["groundingChunks"][:1]}),
        gemini_chunk({"inlineData": {"mimeType": "image/png", "data": PNG}, "thoughtSignature": SEAL}),
        gemini_chunk({"fileData": {"mimeType": "video/mp4", "fileUri": "https://v.example"}, "thought": True}),
        gemini_chunk(finish="STOP", groundingMetadata=grounding, urlContextMetadata={"urlMetadata": []}),
    )
    found = [
        (part.source_type, part.url or part.filename, part.title, part.mime_type) for part in of(SourcePayload, parts)
    ]
    assert found == [
        ("url", "https://a.example", "A", None),
        ("document", "report.pdf", "Report", "application/pdf"),
        ("url", "https://maps.example/x", "X", None),
        ("url", "https://c.example", "", None),
        ("document", "s", "S", "application/octet-stream"),
    ]
    image, video = of(FilePayload, parts)
    assert (image.base64, image.mime_type, image.provider_metadata) == (
        PNG,
        "image/png",
        {"google": {"thoughtSignature": SEAL}},
    )
    assert (video.data, video.base64, video.provider_metadata) == (
        "https://v.example",
        None,
        {"google": {"thought": True}},
    )
    metadata = finish_of(parts).provider_metadata
    assert metadata == {"google": {"groundingMetadata": grounding, "urlContextMetadata": {"urlMetadata": []}}}


async def test_code_that_google_ran():
    parts = await parts_of(
        gemini_chunk({"executableCode": {"language": "PYTHON", "code": "1"}}),
        gemini_chunk({"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "x"}}),
        STOP,
    )
    (call,) = calls_of(parts)
    (result,) = of(ToolResultPayload, parts)
    assert (call.tool_name, call.args, call.provider_executed) == (
        "code_execution",
        {"language": "PYTHON", "code": "1"},
        True,
    )
    assert (result.tool_call_id, result.is_error, result.provider_executed) == (call.tool_call_id, True, True)
    assert finish_of(parts).reason == "stop"


@pytest.mark.parametrize("event", ["{}", '{"futureField": 1}', '{"candidates": []}', '{"candidates": null}', "[DONE]"])
async def test_unknown_events_are_skipped(event):
    assert text_of(await parts_of(event, gemini_chunk({"text": "a", "futureField": 1}), event, STOP)) == "a"


async def test_an_unknown_part_is_kept_whole():
    part = {"futurePart": {"x": [1]}, "thoughtSignature": SEAL}
    parts = await parts_of(gemini_chunk({"text": "a"}, part, {}), STOP)
    (kept,) = of(CustomPayload, parts)
    assert (kept.kind, kept.provider_metadata) == ("google.part", {"google": {"part": part}})


@pytest.mark.parametrize("before", [0, 2])
async def test_a15_an_error_inside_a_good_answer(before):
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    with pytest.raises(ModelError, match="overloaded") as caught:
        await parts_of(*[gemini_chunk({"text": "a"})] * before, error, STOP)
    found = caught.value
    assert (found.code, found.type, found.status, found.retryable) == ("503", "UNAVAILABLE", 503, True)


async def test_an_event_that_is_not_json():
    with pytest.raises(ModelError, match="not a Gemini response") as caught:
        await parts_of(gemini_chunk({"text": "a"}), "{", STOP)
    assert caught.value.id == "MODEL_EVENT_INVALID"


QUOTA = {
    "code": 429,
    "message": "You exceeded your current quota.",
    "status": "RESOURCE_EXHAUSTED",
    "details": [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.4s"},
    ],
}


@pytest.mark.parametrize("body", [{"error": QUOTA}, json.dumps([{"error": QUOTA}])])
async def test_error_bodies(body):
    async with FakeProvider([HTTPError(429, body)]) as provider:
        with pytest.raises(ModelError, match="429: You exceeded") as caught:
            await run(gemini(provider))
    found = caught.value
    assert (found.status, found.type, found.retryable, found.retry_after) == (429, "RESOURCE_EXHAUSTED", True, 34.4)


async def test_a_wait_in_a_header_counts_before_that_of_the_body():
    async with FakeProvider([HTTPError(429, {"error": QUOTA}, headers={"retry-after": "2"})]) as provider:
        with pytest.raises(ModelError) as caught:
            await run(gemini(provider))
    assert caught.value.retry_after == 2


async def test_in_band_waits():
    with pytest.raises(ModelError) as caught:
        await parts_of({"error": QUOTA})
    assert (caught.value.status, caught.value.retry_after) == (429, 34.4)


WHOLE = gemini_chunk(
    {"text": "a", "thought": True}, {"text": "b"}, {"functionCall": {"name": "f"}}, finish="STOP", usage=Usage()
)


@pytest.mark.parametrize(
    "body", [json.dumps(WHOLE), json.dumps([gemini_chunk({"text": "b"}), {**WHOLE, "candidates": WHOLE["candidates"]}])]
)
async def test_answers_that_are_not_streamed(body):
    async with FakeProvider(Bytes(body.encode(), content_type="application/json")) as provider:
        parts = await run(gemini(provider))
    assert text_of(parts).strip("b") == ""
    assert (len(calls_of(parts)), finish_of(parts).reason) == (1, "tool-calls")


async def test_a_body_that_is_no_answer():
    async with FakeProvider(Bytes(b"[", content_type="application/json")) as provider:
        with pytest.raises(ModelError, match="not a Gemini response"):
            await run(gemini(provider))


async def test_only_the_first_candidate_is_read():
    other = {"content": {"parts": [{"text": "z"}]}, "index": 1, "finishReason": "STOP"}
    first = gemini_chunk({"text": "a"}, finish="STOP")
    assert text_of(await parts_of({**first, "candidates": [*first["candidates"], other]}, STOP)) == "a"


async def test_raw_events_stand_before_their_parts():
    async with FakeProvider(Raw(events=[gemini_chunk({"text": "a"}), STOP])) as provider:
        parts = await run(gemini(provider), request(include_raw=True))
    assert kinds(parts)[1] == "RawEvent"
    assert [part.value for part in of(RawEvent, parts)] == [gemini_chunk({"text": "a"}), STOP]


async def test_a29_text_after_a_call():
    parts = await parts_of(
        gemini_chunk({"text": "a"}),
        gemini_chunk({"functionCall": {"name": "f", "args": {}}}),
        gemini_chunk({"text": "b"}, finish="STOP"),
    )
    assert kinds(parts)[2:-1] == [
        "TextStart", "TextDelta", "TextEnd", "ToolInputStart", "ToolInputDelta", "ToolInputEnd", "ToolCall",
        "TextStart", "TextDelta", "TextEnd",
    ]  # fmt: skip


async def failed(*events):
    with pytest.raises(ModelError) as caught:
        await parts_of(*events)
    return caught.value.id


async def test_a_call_with_an_id_that_comes_twice_is_made_once():
    call = gemini_chunk({"functionCall": {"name": "pay", "args": {"a": 1}, "id": "x"}})
    parts = await parts_of(
        call, call, gemini_chunk({"functionCall": {"name": "pay", "args": {"a": 2}, "id": "x"}}), STOP
    )
    assert [each.args for each in calls_of(parts)] == [{"a": 1}, {"a": 2}]


async def test_the_providers_own_calls_that_come_twice_are_one():
    ran = [
        gemini_chunk({"executableCode": {"code": "1", "language": "PYTHON", "id": "c"}}),
        gemini_chunk({"codeExecutionResult": {"outcome": "OUTCOME_OK", "id": "c"}}),
        gemini_chunk({"toolCall": {"toolType": "T", "id": "t"}}),
        gemini_chunk({"toolResponse": {"toolType": "T", "id": "t", "response": {}}}),
    ]
    parts = await parts_of(*(event for each in ran for event in (each, each)), STOP)
    assert [kind for kind in kinds(parts) if kind.startswith(("Tool", "Custom"))] == ["ToolCall", "ToolResult"] * 2


GOES_ON = streamed(partialArgs=[{"jsonPath": "$.a", "stringValue": "x", "willContinue": True}], willContinue=True)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([streamed(name="f", willContinue=True)], id="no end"),
        pytest.param([streamed(name="f", willContinue=True), streamed(name="g", args={})], id="another begins"),
        pytest.param([GOES_ON, streamed()], id="no beginning"),
        pytest.param([streamed()], id="an end alone"),
        pytest.param([streamed(name="f", willContinue=True), GOES_ON, streamed()], id="half a text"),
    ],
)
async def test_arguments_in_pieces_that_are_not_whole_are_an_error(events):
    assert await failed(*events, STOP) == "MODEL_STREAM_INVALID"


@pytest.mark.parametrize("feedback", [[None], {"blockReason": 7}])
async def test_feedback_of_the_wrong_kind_is_a_typed_error(feedback):
    assert await failed({"promptFeedback": feedback}, STOP) == "MODEL_EVENT_INVALID"
