"""Stored messages as UI messages of the AI SDK, and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from tenuto.core.ids import CountingIds
from tenuto.errors import ConfigurationError
from tenuto.messages import stored as s
from tenuto.messages.convert import to_turns
from tenuto.messages.gather import to_messages
from tenuto.messages.input import MessageReader
from tenuto.messages.turns import AssistantTurn, CallPart, FilePart, Reasoning, ResultPart, Text, ToolTurn, UserTurn
from tenuto.messages.ui import iso, to_ui_messages
from tenuto.testing import VirtualClock
from tests.messages import samples

NOW = VirtualClock().now()


def read(given):
    return MessageReader(CountingIds(), VirtualClock()).read(given)


def message(*parts, role="assistant", **more):
    return s.Message("m1", role, s.timestamp(NOW), s.Content(tuple(parts), **more))


def over_the_wire(value):
    return json.loads(json.dumps(value))


@settings(max_examples=60)
@given(samples.messages())
def test_there_and_back_is_the_same_message(stored):
    assert read([over_the_wire(stored.to_ui().to_dict())]) == [stored]


@settings(max_examples=40)
@given(samples.messages())
def test_the_stored_form_there_and_back(stored):
    assert read([over_the_wire(stored.to_dict())]) == [stored]


@settings(max_examples=60)
@given(samples.conversations())
def test_turns_there_and_back(turns):
    assert to_turns(to_messages(turns, CountingIds(), VirtualClock())) == turns
    assert to_turns(read(turns)) == turns


def tool(state, **more):
    return {"type": "tool-weather", "toolCallId": "c", "state": state, "input": {"city": "Rome"}, **more}


def invocation(state, **more):
    return s.ToolInvocationPart(s.ToolInvocation(state, "c", "weather", {"city": "Rome"}, **more))


STATES = {
    "input-streaming": (tool("input-streaming"), invocation("partial-call")),
    "input-available": (tool("input-available"), invocation("call")),
    "approval-requested": (
        tool("approval-requested", approval={"id": "a"}),
        invocation("approval-requested", approval=s.Approval("a")),
    ),
    "approval-responded": (
        tool("approval-responded", approval={"id": "a", "approved": True, "reason": "ok"}),
        invocation("approval-responded", approval=s.Approval("a", True, "ok")),
    ),
    "output-available": (tool("output-available", output={"c": 20}), invocation("result", result={"c": 20})),
    "output-error": (tool("output-error", errorText="no"), invocation("output-error", error_text="no")),
    "output-denied": (
        tool("output-denied", approval={"id": "a", "approved": False}),
        invocation("output-denied", approval=s.Approval("a", False)),
    ),
}


@pytest.mark.parametrize(("part", "found"), STATES.values(), ids=STATES)
def test_a_call_in_each_state(part, found):
    stored = read({"id": "m1", "role": "assistant", "parts": [part]})[0]
    assert stored.content.parts == (found,)
    assert stored.to_ui().parts == (part,)


def test_a_dynamic_tool_is_a_tool():
    part = {**tool("output-available", output=1), "type": "dynamic-tool", "toolName": "weather"}
    assert read({"role": "assistant", "parts": [part]})[0].content.parts == (invocation("result", result=1),)


def test_a_denied_call_always_shows_an_approval():
    part = message(invocation("output-denied", error_text="too dear")).to_ui().parts[0]
    assert part["approval"] == {"id": "c", "approved": False, "reason": "too dear"}


def test_a_whole_response():
    given = {
        "id": "mine",
        "role": "assistant",
        "metadata": {"createdAt": "2026-01-01T00:00:00.000Z", "mood": "good"},
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "hm", "providerMetadata": {"anthropic": {"signature": "signed"}}},
            tool("output-available", output="20"),
            {"type": "step-start"},
            {"type": "text", "text": "20 degrees", "state": "done"},
            {"type": "source-url", "sourceId": "s", "url": "https://x.org", "title": "X"},
            {"type": "source-document", "sourceId": "d", "mediaType": "application/pdf", "title": "D"},
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,aGk="},
            {"type": "data-chart", "id": "k", "data": [1]},
        ],
    }
    stored = read(given)[0]
    assert (stored.id, stored.content.metadata, iso(stored.created_at)) == (
        "mine",
        {"mood": "good"},
        "2026-01-01T00:00:00.000Z",
    )
    assert to_turns([stored]) == [
        AssistantTurn(
            (
                Reasoning("hm", "signed", {"anthropic": {"signature": "signed"}}),
                CallPart("c", "weather", {"city": "Rome"}),
            )
        ),
        ToolTurn((ResultPart("c", "weather", "20"),)),
        AssistantTurn((Text("20 degrees"), FilePart("image/png", data="aGk="))),
    ]
    shown = stored.to_ui().to_dict()
    assert [part["type"] for part in shown["parts"]] == [part["type"] for part in given["parts"]]
    assert shown["metadata"] == given["metadata"]


def test_version_4_without_parts():
    done = {"state": "result", "toolCallId": "c", "toolName": "weather", "args": {"city": "Rome"}, "result": "20"}
    given = {"id": "m", "role": "assistant", "content": "20 degrees", "toolInvocations": [done], "reasoning": "hm"}
    assert to_turns(read(given)) == [
        AssistantTurn((Reasoning("hm"), CallPart("c", "weather", {"city": "Rome"}))),
        ToolTurn((ResultPart("c", "weather", "20"),)),
        AssistantTurn((Text("20 degrees"),)),
    ]
    waiting = {**given, "reasoning": None, "toolInvocations": [{**done, "state": "call"}]}
    assert to_turns(read(waiting)) == [AssistantTurn((Text("20 degrees"), CallPart("c", "weather", {"city": "Rome"})))]


def test_version_4_steps_are_divided():
    calls = [
        {"state": "result", "toolCallId": name, "toolName": "f", "args": {}, "result": name, "step": step}
        for name, step in (("a", 0), ("b", 0), ("c", 1))
    ]
    turns = to_turns(read({"role": "assistant", "content": "", "toolInvocations": calls}))
    assert [len(turn.calls) for turn in turns if isinstance(turn, AssistantTurn)] == [2, 1]


def test_version_4_with_parts():
    given = {
        "id": "m",
        "role": "assistant",
        "content": "20 degrees",
        "parts": [
            {"type": "reasoning", "reasoning": "hm", "details": [{"type": "text", "text": "hm", "signature": "s"}]},
            {
                "type": "tool-invocation",
                "toolInvocation": {"state": "result", "toolCallId": "c", "toolName": "f", "args": {}, "result": 1},
            },
            {"type": "source", "source": {"id": "s", "sourceType": "url", "url": "https://x.org"}},
            {"type": "step-start"},
            {"type": "file", "mimeType": "image/png", "data": "aGk="},
            {"type": "text", "text": "20 degrees"},
        ],
    }
    kinds = [type(part).__name__ for part in read(given)[0].content.parts]
    assert kinds == [
        "ReasoningPart",
        "ToolInvocationPart",
        "SourcePart",
        "StepStartPart",
        "StoredFilePart",
        "TextPart",
    ]


def test_attachments_of_version_4():
    given = {
        "role": "user",
        "content": "what is this?",
        "experimental_attachments": [{"name": "a.png", "contentType": "image/png", "url": "https://x.org/a.png"}],
    }
    assert to_turns(read(given)) == [
        UserTurn((Text("what is this?"), FilePart("image/png", "https://x.org/a.png", None, "a.png")))
    ]


BROKEN = {
    "an unknown part": ([{"type": "text", "text": "a"}, {"type": "video"}], "part 1 is no part of a UI message"),
    "known forms are named": ([{"type": "video"}], "Known parts: text, reasoning, file, source-url"),
    "no part at all": ([3], "part 0 is no part of a UI message: 3"),
    "text without text": ([{"type": "text"}], "part 0 is no part"),
    "an unknown state": ([tool("thinking")], "Known states: input-streaming, input-available"),
    "a call without id": ([{"type": "tool-f", "state": "input-available"}], "without an id"),
    "a file without content": (
        [{"type": "file", "mediaType": "image/png"}],
        "part 0 is no file: its content is nothing",
    ),
    "a file of this computer": (
        [{"type": "file", "mediaType": "text/plain", "url": "file:///etc/passwd"}],
        "a file: URL is never read",
    ),
    "a document without title": ([{"type": "source-document", "sourceId": "d"}], "is incomplete"),
    "a source without url": ([{"type": "source-url"}], "part 0 is no part"),
    "no invocation": ([{"type": "tool-invocation", "toolInvocation": 3}], "has no call: 3"),
    "metadata that is none": ([{"type": "text", "text": "a", "providerMetadata": 3}], "no mapping by provider"),
}


@pytest.mark.parametrize(("parts", "said"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_ui_message_is_refused_with_its_place(parts, said):
    with pytest.raises(ConfigurationError) as caught:
        read(["hi", {"id": "m", "role": "assistant", "parts": parts}])
    assert said in str(caught.value)
    assert str(caught.value).startswith("Message 1: part ")
    assert caught.value.id == "AGENT_INVALID_MESSAGES"


def test_what_a_transform_hides_is_not_in_it():
    kept = {"mastra": {"toolPayloadTransform": {"transcript": {"output-available": {"transformed": "***"}}}}}
    assert s.TRANSFORMS in kept["mastra"]
    secret = s.ToolInvocation("result", "c", "f", {"card": "4111"}, result="4111")
    stored = message(s.ToolInvocationPart(secret, provider_metadata=kept))
    shown = json.dumps(stored.to_ui().to_dict())
    assert "4111" not in shown
    assert "***" in shown
    assert read([stored, json.loads(shown)]) == [stored]


def test_a_failed_response_shows_its_error():
    failed = message(s.TextPart("so f"), s.ErrorPart(s.ErrorText("ModelError", "cut off")))
    assert failed.to_ui().parts[1] == {"type": "data-error", "data": {"name": "ModelError", "message": "cut off"}}


def signal(kind, ident="s1"):
    envelope = {"id": ident, "type": kind, "tagName": kind, "createdAt": "2026-01-01T00:00:00.000Z"}
    content = s.Content((s.TextPart("look"),), metadata={"signal": envelope})
    return s.Message(ident, "signal", s.timestamp(NOW), content, type=kind)


def test_a_users_signal_is_a_users_message():
    shown = signal("user").to_ui()
    assert (shown.role, shown.parts) == ("user", ({"type": "text", "text": "look"},))
    assert shown.metadata["signal"]["id"] == "s1"


def test_another_signal_is_one_part_of_data():
    shown = signal("notification").to_ui()
    assert shown.role == "system"
    assert [part["type"] for part in shown.parts] == ["data-signal"]
    assert shown.parts[0]["data"]["contents"] == "look"


def test_such_a_signal_joins_the_assistant_beside_it():
    answer = message(s.TextPart("done"))
    kinds = lambda given: [(each.role, [part["type"] for part in each.parts]) for each in to_ui_messages(given)]
    assert kinds([answer, signal("state")]) == [("assistant", ["text", "data-signal"])]
    assert kinds([signal("state"), answer]) == [("assistant", ["data-signal", "text"])]
    assert kinds([signal("state")]) == [("assistant", ["data-signal"])]
    user = message(s.TextPart("hi"), role="user")
    assert kinds([signal("state"), user]) == [("assistant", ["data-signal"]), ("user", ["text"])]
