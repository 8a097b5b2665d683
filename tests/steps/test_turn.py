"""A model's parts folded into chunks and one turn, and what breaks the port's rules."""

from __future__ import annotations

import pytest

from tenuto.core import payloads as p
from tenuto.errors import ModelError
from tenuto.messages.turns import AssistantTurn, CallPart, Custom, FilePart, ProviderResult, Reasoning, Text
from tenuto.models.ports import Finish, RawEvent, RequestStart
from tenuto.steps.turn import TurnBuilder

FINISH = Finish("stop", p.Usage(1, 2, 3))
TEXT = [p.TextStartPayload("t"), p.TextDeltaPayload("t", "a"), p.TextDeltaPayload("t", "b"), p.TextEndPayload("t")]
CALL = p.ToolCallPayload("c", "f", {"x": 1})


def built(*batches):
    builder = TurnBuilder("r")
    taken = [builder.take(batch) for batch in batches]
    return builder, [chunk for chunks, _ in taken for chunk in chunks], sum(deltas for _, deltas in taken)


def test_text():
    builder, chunks, deltas = built([RequestStart({"m": 1})], TEXT, [FINISH])
    assert [chunk.type for chunk in chunks] == ["text-start", "text-delta", "text-delta", "text-end"]
    assert {(chunk.run_id, chunk.from_) for chunk in chunks} == {("r", "AGENT")}
    assert deltas == 2
    assert builder.turn == AssistantTurn((Text("ab"),))
    assert (builder.finish, builder.start, builder.empty) == (FINISH, RequestStart({"m": 1}), False)


def test_the_split_into_batches_changes_nothing():
    parts = [RequestStart(None), *TEXT, CALL, FINISH]
    whole = built(parts)
    single = built(*[[part] for part in parts])
    assert whole[1:] == single[1:]
    assert whole[0].turn == single[0].turn


def test_parts_may_interleave_and_keep_the_order_of_their_beginning():
    builder, _, _ = built(
        [p.ReasoningStartPayload("r"), p.TextStartPayload("t"), p.TextDeltaPayload("t", "a")],
        [p.ReasoningDeltaPayload("r", "hm"), CALL, p.TextDeltaPayload("t", "b"), p.TextEndPayload("t")],
        [p.ReasoningEndPayload("r", "signed")],
    )
    assert builder.turn == AssistantTurn((Reasoning("hm", "signed"), Text("ab"), CallPart("c", "f", {"x": 1})))


def test_what_was_said_before_the_end_is_there():
    builder, _, _ = built(TEXT[:2])
    assert builder.turn == AssistantTurn((Text("a"),))
    assert builder.finish is None


def test_signatures_and_redacted_reasoning():
    builder, chunks, _ = built(
        [
            p.ReasoningStartPayload("r"),
            p.ReasoningSignaturePayload("r", "signed"),
            p.ReasoningEndPayload("r", provider_metadata={"x": {}}),
            p.RedactedReasoningPayload("q", "secret"),
        ]
    )
    assert builder.turn == AssistantTurn((Reasoning("", "signed", {"x": {}}), Reasoning("", redacted="secret")))
    assert [chunk.type for chunk in chunks][-1] == "redacted-reasoning"
    assert builder.empty  # nothing that a user or a tool could use


def test_sources_and_files_are_kept():
    source = p.SourcePayload("s", "url", "T")
    file = p.FilePayload("aGk=", "text/plain")
    builder, chunks, _ = built([source, file])
    assert [chunk.payload for chunk in chunks] == [source, file]
    assert not builder.empty


def test_empty_parts_leave_no_trace_in_the_turn():
    builder, chunks, _ = built([p.TextStartPayload("t"), p.TextEndPayload("t")])
    assert builder.turn == AssistantTurn(())
    assert len(chunks) == 2
    assert builder.empty


@pytest.mark.parametrize(
    "parts",
    [
        [p.TextDeltaPayload("t", "a")],
        [*TEXT, p.TextDeltaPayload("t", "a")],
        [p.ReasoningDeltaPayload("t", "a")],
        [p.TextEndPayload("t")],
        [p.TextStartPayload("t"), p.TextStartPayload("t")],
        [CALL, CALL],
        [FINISH, FINISH],
        [FINISH, *TEXT],
        [FINISH, CALL],
        [FINISH, p.TextDeltaPayload("t", "a")],
    ],
)
def test_a_broken_stream_is_an_error(parts):
    with pytest.raises(ModelError, match="broke its rules") as caught:
        built(parts)
    assert caught.value.id == "MODEL_STREAM_INVALID"
    assert len(str(caught.value)) < 400


def test_what_only_the_provider_knows_stands_in_the_turn():
    search = p.ToolCallPayload("w", "web_search", {"query": "q"}, provider_executed=True)
    found = p.ToolResultPayload("w", "web_search", [{"url": "u"}], provider_executed=True)
    picture = p.FilePayload("AAAA", "image/png", "AAAA", provider_metadata={"google": {"thoughtSignature": "s"}})
    opaque = p.CustomPayload("openai.compaction", {"openai": {"itemId": "i"}})
    builder, chunks, _ = built([search, found, picture, opaque])
    assert builder.turn == AssistantTurn(
        (
            CallPart("w", "web_search", {"query": "q"}, None, True),
            ProviderResult("w", "web_search", [{"url": "u"}]),
            FilePart("image/png", data="AAAA", provider_metadata={"google": {"thoughtSignature": "s"}}),
            Custom("openai.compaction", {"openai": {"itemId": "i"}}),
        )
    )
    assert [chunk.type for chunk in chunks] == ["tool-call", "tool-result", "file", "custom"]


def test_a_raw_event_is_shown_and_leaves_no_trace():
    builder, chunks, _ = built([RawEvent({"n": 1})])
    assert [(chunk.type, chunk.payload) for chunk in chunks] == [("raw", {"n": 1})]
    assert builder.turn == AssistantTurn(())


def test_a_result_of_our_own_tool_is_none_of_the_models_business():
    with pytest.raises(ModelError, match="broke its rules"):
        built([p.ToolResultPayload("c", "f", 1)])
