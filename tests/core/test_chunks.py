"""Every chunk, and the exact bytes' meaning on the wire: the names are a contract with other clients."""

import json
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.core import chunks as c
from tenuto.core import codec
from tenuto.core import payloads as p
from tenuto.core.errors import StoreError

META = {"openai": {"itemId": "i1"}}
CALL = {"toolCallId": "c1", "toolName": "pay"}
USAGE = p.Usage(1, 2, 3, 4, 5, 6, {"x": 1})
WIRE_USAGE = {
    "inputTokens": 1,
    "outputTokens": 2,
    "totalTokens": 3,
    "reasoningTokens": 4,
    "cachedInputTokens": 5,
    "cacheCreationInputTokens": 6,
    "raw": {"x": 1},
}
ERROR = p.ErrorInfo("ModelError", "no", "X", "THIRD_PARTY", "rate", "limit", 429, retryable=True, details={"n": 1})
WIRE_ERROR = {
    "name": "ModelError",
    "message": "no",
    "id": "X",
    "category": "THIRD_PARTY",
    "code": "rate",
    "type": "limit",
    "status": 429,
    "retryable": True,
    "details": {"n": 1},
}
STEP = (
    "m1",
    p.StepOutcome("tool-calls", is_continued=True, warnings=("w",), raw_reason="tool_calls"),
    p.StepOutput("hi", (p.ToolCallPayload("c1", "pay", {"n": 1}),), USAGE),
    p.StepMetadata("resp", 5, "gpt", {"x-a": "b"}, META),
)
WIRE_STEP = {
    "messageId": "m1",
    "stepResult": {"reason": "tool-calls", "isContinued": True, "warnings": ["w"], "rawReason": "tool_calls"},
    "output": {"text": "hi", "toolCalls": [{**CALL, "args": {"n": 1}}], "usage": WIRE_USAGE},
    "metadata": {
        "id": "resp",
        "timestamp": 5,
        "modelId": "gpt",
        "headers": {"x-a": "b"},
        "providerMetadata": META,
    },
}

CATALOGUE = [
    (
        c.IsTaskComplete,
        p.IsTaskCompletePayload(
            1, False, (p.ScorerVerdict(0.5, False, "s", "S", 1.5, "no", errored=True),), 2.5, True, False, False, "no"
        ),
        "is-task-complete",
        {
            "iteration": 1,
            "passed": False,
            "results": [
                {
                    "score": 0.5,
                    "passed": False,
                    "scorerId": "s",
                    "scorerName": "S",
                    "duration": 1.5,
                    "reason": "no",
                    "errored": True,
                }
            ],
            "duration": 2.5,
            "timedOut": True,
            "maxIterationReached": False,
            "suppressFeedback": False,
            "reason": "no",
        },
    ),
    (c.Start, p.StartPayload("a", "m1"), "start", {"id": "a", "messageId": "m1"}),
    (
        c.StepStart,
        p.StepStartPayload("m1", {"body": {}}, ("w",), 17),
        "step-start",
        {"messageId": "m1", "request": {"body": {}}, "warnings": ["w"], "startedAt": 17},
    ),
    (
        c.StepStart,
        p.StepStartPayload("m1", None, ()),
        "step-start",
        {"messageId": "m1", "request": None, "warnings": []},
    ),
    (
        c.ResponseMetadata,
        p.ResponseMetadataPayload("resp", 17, "gpt", {"x-a": "b"}),
        "response-metadata",
        {"id": "resp", "timestamp": 17, "modelId": "gpt", "headers": {"x-a": "b"}},
    ),
    (c.ResponseMetadata, p.ResponseMetadataPayload(), "response-metadata", {}),
    (c.TextStart, p.TextStartPayload("t"), "text-start", {"id": "t"}),
    (c.TextStart, p.TextStartPayload("t", META), "text-start", {"id": "t", "providerMetadata": META}),
    (c.TextDelta, p.TextDeltaPayload("t", "hi"), "text-delta", {"id": "t", "text": "hi"}),
    (
        c.TextDelta,
        p.TextDeltaPayload("t", "", META),
        "text-delta",
        {"id": "t", "text": "", "providerMetadata": META},
    ),
    (c.TextEnd, p.TextEndPayload("t", META), "text-end", {"id": "t", "providerMetadata": META}),
    (
        c.ReasoningStart,
        p.ReasoningStartPayload("t", "s", META),
        "reasoning-start",
        {"id": "t", "signature": "s", "providerMetadata": META},
    ),
    (
        c.ReasoningDelta,
        p.ReasoningDeltaPayload("t", "hm", META),
        "reasoning-delta",
        {"id": "t", "text": "hm", "providerMetadata": META},
    ),
    (
        c.ReasoningEnd,
        p.ReasoningEndPayload("t", "s", META),
        "reasoning-end",
        {"id": "t", "signature": "s", "providerMetadata": META},
    ),
    (
        c.ReasoningSignature,
        p.ReasoningSignaturePayload("t", "s", META),
        "reasoning-signature",
        {"id": "t", "signature": "s", "providerMetadata": META},
    ),
    (
        c.RedactedReasoning,
        p.RedactedReasoningPayload("t", "d", META),
        "redacted-reasoning",
        {"id": "t", "data": "d", "providerMetadata": META},
    ),
    (
        c.Source,
        p.SourcePayload("s", "url", "", "http://x", "text/html", "x.html", META),
        "source",
        {
            "id": "s",
            "sourceType": "url",
            "title": "",
            "url": "http://x",
            "mimeType": "text/html",
            "filename": "x.html",
            "providerMetadata": META,
        },
    ),
    (
        c.File,
        p.FilePayload("aGk=", "text/plain", "aGk=", "f", META),
        "file",
        {"data": "aGk=", "mimeType": "text/plain", "base64": "aGk=", "filename": "f", "providerMetadata": META},
    ),
    (c.ReasoningFile, p.FilePayload("http://x", "a/b"), "reasoning-file", {"data": "http://x", "mimeType": "a/b"}),
    (c.Custom, p.CustomPayload("xai.x", META), "custom", {"kind": "xai.x", "providerMetadata": META}),
    (
        c.ToolInputStart,
        p.ToolInputStartPayload("c1", "pay", "Pay", provider_executed=True, dynamic=False, provider_metadata=META),
        "tool-call-input-streaming-start",
        {**CALL, "title": "Pay", "providerExecuted": True, "dynamic": False, "providerMetadata": META},
    ),
    (
        c.ToolInputDelta,
        p.ToolInputDeltaPayload("c1", '{"n"', "pay", META),
        "tool-call-delta",
        {**CALL, "argsTextDelta": '{"n"', "providerMetadata": META},
    ),
    (
        c.ToolInputEnd,
        p.ToolInputEndPayload("c1", META),
        "tool-call-input-streaming-end",
        {"toolCallId": "c1", "providerMetadata": META},
    ),
    (c.ToolCall, p.ToolCallPayload("c1", "pay", {"n": 1}), "tool-call", {**CALL, "args": {"n": 1}}),
    (c.ToolCall, p.ToolCallPayload("c1", "pay", {}), "tool-call", {**CALL, "args": {}}),
    (
        c.ToolCall,
        p.ToolCallPayload("c1", "pay", None, "Pay", True, True, {"o": 1}, META, '{"n'),
        "tool-call",
        {
            **CALL,
            "title": "Pay",
            "providerExecuted": True,
            "dynamic": True,
            "output": {"o": 1},
            "providerMetadata": META,
            "rawArgs": '{"n',
        },
    ),
    (c.ToolOutput, p.ToolOutputPayload({"n": 1}, "c1", "pay"), "tool-output", {**CALL, "output": {"n": 1}}),
    (c.ToolResult, p.ToolResultPayload("c1", "pay", None), "tool-result", {**CALL, "result": None}),
    (
        c.ToolResult,
        p.ToolResultPayload("c1", "pay", 7, {"n": 1}, True, False, True, META),
        "tool-result",
        {
            **CALL,
            "result": 7,
            "args": {"n": 1},
            "isError": True,
            "providerExecuted": False,
            "dynamic": True,
            "providerMetadata": META,
        },
    ),
    (
        c.ToolError,
        p.ToolErrorPayload("c1", "pay", ERROR, {"n": 1}, provider_executed=True, provider_metadata=META),
        "tool-error",
        {**CALL, "error": WIRE_ERROR, "args": {"n": 1}, "providerExecuted": True, "providerMetadata": META},
    ),
    (
        c.ToolCallApproval,
        p.ToolCallApprovalPayload("c1", "pay", {"n": 1}, "{}"),
        "tool-call-approval",
        {**CALL, "args": {"n": 1}, "resumeSchema": "{}"},
    ),
    (
        c.ToolCallSuspended,
        p.ToolCallSuspendedPayload("c1", "pay", {"n": 1}, {"q": 1}, "{}"),
        "tool-call-suspended",
        {**CALL, "args": {"n": 1}, "suspendPayload": {"q": 1}, "resumeSchema": "{}"},
    ),
    (
        c.ToolOutputDenied,
        p.ToolOutputDeniedPayload("c1", "pay", p.ApprovalInfo("c1", approved=False, reason="no"), {"n": 1}),
        "tool-output-denied",
        {**CALL, "approval": {"id": "c1", "approved": False, "reason": "no"}, "args": {"n": 1}},
    ),
    (c.StepFinish, p.StepFinishPayload(*STEP), "step-finish", WIRE_STEP),
    (c.Finish, p.FinishPayload(*STEP), "finish", WIRE_STEP),
    (
        c.Tripwire,
        p.TripwirePayload("bad", retry=True, metadata={"n": 1}, processor_id="p"),
        "tripwire",
        {"reason": "bad", "retry": True, "metadata": {"n": 1}, "processorId": "p"},
    ),
    (c.Error, p.ErrorPayload(ERROR), "error", {"error": WIRE_ERROR}),
    (c.Error, p.ErrorPayload(p.ErrorInfo("E", "m")), "error", {"error": {"name": "E", "message": "m"}}),
    (c.Abort, p.AbortPayload(), "abort", {}),
    (c.Raw, {"choices": [None, 1.5]}, "raw", {"choices": [None, 1.5]}),
    (c.Raw, None, "raw", None),
    (
        c.AttemptRestarted,
        p.AttemptRestartedPayload(1, 2, 9),
        "attempt-restarted",
        {"step": 1, "attempt": 2, "discardFrom": 9},
    ),
    (c.Gap, p.GapPayload(0, 7), "gap", {"requested": 0, "first": 7}),
]
WHOLE = [
    (c.Object("r1", "AGENT", {"a": 1}), {"type": "object", "runId": "r1", "from": "AGENT", "object": {"a": 1}}),
    (c.Object("r1", "AGENT", None), {"type": "object", "runId": "r1", "from": "AGENT", "object": None}),
    (
        c.ObjectResult("r1", "AGENT", [1], {"fallback": True}),
        {"type": "object-result", "runId": "r1", "from": "AGENT", "object": [1], "metadata": {"fallback": True}},
    ),
    (c.Data("data-x", {"n": 1}), {"type": "data-x", "data": {"n": 1}}),
    (
        c.Data("data-x", None, "i1", transient=True),
        {"type": "data-x", "data": None, "id": "i1", "transient": True},
    ),
]
CASES = [
    *(
        (kind("r1", "AGENT", payload), {"type": name, "runId": "r1", "from": "AGENT", "payload": wire})
        for kind, payload, name, wire in CATALOGUE
    ),
    *WHOLE,
]


def test_every_chunk_of_the_union_is_in_the_catalogue():
    assert {type(chunk) for chunk, _ in CASES} == set(get_args(c.AnyChunk))


@pytest.mark.parametrize(("chunk", "wire"), CASES, ids=lambda value: getattr(value, "type", ""))
def test_a_chunk_on_the_wire_and_back(chunk, wire):
    raw = codec.encode(chunk)
    assert json.loads(raw) == wire
    assert next(iter(json.loads(raw))) == "type"
    assert chunk.type == wire["type"]
    assert json.loads(json.dumps(chunk.to_dict())) == wire
    again = codec.decode_chunk(raw)
    assert type(again) is type(chunk)
    assert again == chunk


@pytest.mark.parametrize("origin", get_args(c.ChunkFrom))
def test_where_a_chunk_comes_from(origin):
    chunk = c.ToolOutput("r1", origin, p.ToolOutputPayload(1, "c1", "pay"))
    assert json.loads(codec.encode(chunk))["from"] == origin
    assert codec.decode_chunk(codec.encode(chunk)) == chunk


@pytest.mark.parametrize("reason", get_args(p.FinishReason))
def test_every_finish_reason_comes_back(reason):
    outcome = p.StepOutcome(reason, is_continued=False, warnings=())
    payload = p.FinishPayload("m1", outcome, p.StepOutput("", (), p.Usage()), p.StepMetadata())
    assert codec.decode_chunk(codec.encode(c.Finish("r1", "AGENT", payload))).payload == payload


def test_tokens_are_on_the_wire_even_when_there_are_none():
    assert json.loads(codec.encode(p.Usage())) == {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}


@pytest.mark.parametrize(
    "struct",
    [
        value
        for module in (c, p)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, msgspec.Struct)
    ],
    ids=lambda struct: struct.__name__,
)
def test_only_an_absent_field_is_left_out(struct):
    """A default other than None would vanish from the wire when a value happens to equal it."""
    if struct is msgspec.Struct:
        return
    assert struct.__struct_config__.frozen
    defaults = {field.default for field in msgspec.structs.fields(struct)}
    assert defaults <= {None, msgspec.NODEFAULT}


def test_usage_adds_up():
    a = p.Usage(1, 2, 3, None, 4, None, {"a": 1})
    b = p.Usage(10, 20, 30, 5, None, None, {"b": 1})
    assert a + b == p.Usage(11, 22, 33, 5, 4, None, {"b": 1})


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("id", "id"),
        ("from_", "from"),
        ("tool_call_id", "toolCallId"),
        ("base64", "base64"),
        ("args_text_delta", "argsTextDelta"),
    ],
)
def test_wire_names(name, wire):
    assert p.wire_name(name) == wire


@pytest.mark.parametrize("kind", ["", "data", "DATA-x", "text-delta", " data-x"])
def test_a_data_chunk_is_named_data(kind):
    with pytest.raises(ValueError, match="data-<name>"):
        c.Data(kind, 1)


SECRET = "sk-canary"


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b'{"type":"from-the-future","payload":"sk-canary"}', "from-the-future"),
        (b'{"type":"text-delta","runId":"r1","from":"AGENT","payload":{"id":"sk-canary"}}', "text-delta"),
        (b'{"type":"text-delta","runId":"r1","from":"sk-canary","payload":{"id":"t","text":""}}', "text-delta"),
        (b'{"type":"data-x","sk-canary":1}', "data-x"),
        (b'{"payload":"sk-canary"}', ""),
        (b'{"type":7,"x":"sk-canary"}', ""),
        (b'["sk-canary"]', ""),
        (b"sk-canary", ""),
        (b"", ""),
        (b'{"type":"raw","runId":"r","from":"AGENT","payload":' + b"[" * 9_999 + b"]" * 9_999 + b"}", ""),
    ],
    ids=lambda value: str(value[:30]),
)
def test_what_is_no_chunk_is_an_error_that_shows_its_type_only(raw, kind):
    with pytest.raises(StoreError) as caught:
        codec.decode_chunk(raw)
    assert (caught.value.id, caught.value.details) == ("CHUNK_UNKNOWN", {"type": kind})
    assert SECRET not in str(caught.value)


def test_fields_of_a_newer_version_are_passed_over():
    raw = b'{"type":"text-delta","runId":"r1","from":"AGENT","payload":{"id":"t","text":"a","new":1},"new":2}'
    assert codec.decode_chunk(raw) == c.TextDelta("r1", "AGENT", p.TextDeltaPayload("t", "a"))


ROUND: list = []
ROUND.append(ROUND)


@pytest.mark.parametrize("value", [object(), {"a": {1, object()}}, "\ud800", {("a", "b"): 1}, ROUND, len], ids=repr)
def test_what_json_cannot_hold_is_a_type_error(value):
    with pytest.raises(TypeError, match="JSON cannot hold this"):
        codec.encode(c.Raw("r1", "AGENT", value))


texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(values, texts)
def test_any_json_comes_back(value, text):
    for chunk in (
        c.Raw(text, "AGENT", value),
        c.Object(text, "AGENT", value),
        c.Data(f"data-{text}", value),
        c.ToolResult(text, "USER", p.ToolResultPayload(text, text, value, value)),
        c.TextDelta(text, "AGENT", p.TextDeltaPayload(text, text)),
    ):
        assert codec.decode_chunk(codec.encode(chunk)) == chunk
