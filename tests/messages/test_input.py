"""What a caller may pass as messages and as instructions."""

from __future__ import annotations

import base64

import pytest

from tenuto.core.ids import CountingIds
from tenuto.errors import ConfigurationError
from tenuto.messages.convert import to_turns
from tenuto.messages.input import MessageReader, system_turns
from tenuto.messages.stored import Message, StoredFilePart, TextPart
from tenuto.messages.turns import (
    AssistantTurn,
    CallPart,
    FilePart,
    Reasoning,
    ResultPart,
    SystemTurn,
    Text,
    ToolTurn,
    UserTurn,
)
from tenuto.testing import VirtualClock

HI = base64.b64encode(b"hi").decode()


def read(given):
    return MessageReader(CountingIds(), VirtualClock()).read(given)


def turns(given):
    return to_turns(read(given))


def user(*content):
    return UserTurn(tuple(content))


TEXTS = {
    "a string": ("hi", [user(Text("hi"))]),
    "an empty string": ("", [user(Text(""))]),
    "a list of strings": (["a", "b"], [user(Text("a")), user(Text("b"))]),
    "a message": ({"role": "user", "content": "hi"}, [user(Text("hi"))]),
    "a tuple": (({"role": "user", "content": "hi"},), [user(Text("hi"))]),
    "text parts": ({"role": "user", "content": ["a", {"type": "text", "text": "b"}]}, [user(Text("a"), Text("b"))]),
    "a system message": ([{"role": "system", "content": "s"}, "a"], [SystemTurn("s"), user(Text("a"))]),
    "an assistant": ({"role": "assistant", "content": "yes"}, [AssistantTurn((Text("yes"),))]),
    "reasoning": (
        {"role": "assistant", "content": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "yes"}]},
        [AssistantTurn((Reasoning("hm"), Text("yes")))],
    ),
}


@pytest.mark.parametrize(("given", "found"), TEXTS.values(), ids=TEXTS)
def test_texts(given, found):
    assert turns(given) == found


FILES = {
    "a link": ({"type": "image", "image": "https://x.org/a.png"}, FilePart("image/png", url="https://x.org/a.png")),
    "bytes": ({"type": "image", "image": b"hi", "mime_type": "image/gif"}, FilePart("image/gif", data=HI)),
    "camelCase": ({"type": "image", "image": b"hi", "mimeType": "image/gif"}, FilePart("image/gif", data=HI)),
    "base64": ({"type": "image", "image": HI}, FilePart("image/png", data=HI)),
    "a data link": ({"type": "image", "image": f"data:image/webp;base64,{HI}"}, FilePart("image/webp", data=HI)),
    "a file": (
        {"type": "file", "data": b"hi", "media_type": "text/plain", "filename": "a.txt"},
        FilePart("text/plain", data=HI, filename="a.txt"),
    ),
    "a linked file": (
        {"type": "file", "url": "https://x.org/a.pdf", "mediaType": "application/pdf"},
        FilePart("application/pdf", url="https://x.org/a.pdf"),
    ),
}


@pytest.mark.parametrize(("part", "found"), FILES.values(), ids=FILES)
def test_files(part, found):
    assert turns({"role": "user", "content": [part]}) == [user(found)]
    assert isinstance(read({"role": "user", "content": [part]})[0].content.parts[0], StoredFilePart)


@pytest.mark.parametrize(
    "call",
    [
        {"type": "tool-call", "tool_call_id": "c", "tool_name": "f", "args": {"a": 1}},
        {"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {"a": 1}},
    ],
)
@pytest.mark.parametrize(
    ("result", "text", "failed"),
    [
        ({"result": {"b": 2}}, '{"b":2}', None),
        ({"result": "two"}, "two", None),
        ({"output": {"type": "text", "value": "two"}}, "two", None),
        ({"output": {"type": "json", "value": [2]}}, "[2]", None),
        ({"output": {"type": "error-text", "value": "no"}}, "no", True),
        ({"result": "no", "is_error": True}, "no", True),
        ({"result": "no", "isError": True}, "no", True),
    ],
)
def test_a_tool_message_answers_its_call(call, result, text, failed):
    answer = {"type": "tool-result", "toolCallId": "c", "toolName": "f"} | result
    given = ["hi", {"role": "assistant", "content": [call]}, {"role": "tool", "content": [answer]}]
    assert turns(given)[1:] == [
        AssistantTurn((CallPart("c", "f", {"a": 1}),)),
        ToolTurn((ResultPart("c", "f", text, failed),)),
    ]


def test_a_call_without_an_answer_has_no_result():
    call = {"type": "tool-call", "tool_call_id": "c", "tool_name": "f", "args": {}}
    assert turns([{"role": "assistant", "content": [call]}]) == [AssistantTurn((CallPart("c", "f", {}),))]


def test_ids_and_times():
    messages = read(["a", {"role": "user", "content": "b", "id": "mine"}, "c"])
    assert [message.id for message in messages] == ["msg_1", "mine", "msg_2"]
    times = [message.created_at for message in messages]
    assert times == sorted(set(times))


def test_stored_messages_stay_as_they_are():
    stored = read(["a", {"role": "assistant", "content": "b"}])
    assert read(stored) == stored
    assert read([message.to_dict() for message in stored]) == stored
    assert read(stored[0].to_dict()) == stored[:1]
    assert read(stored[0]) == stored[:1]


BROKEN = {
    "a number": (3, "3 is not a message"),
    "bytes": (b"hi", "is not a message"),
    "None": (None, "None is not a message"),
    "a number in a list": (["a", 3], "Message 1 is not a message: 3"),
    "no role": ([{"content": "x"}], "Message 0 is not a message"),
    "no content": ([{"role": "user"}], "Message 0 is not a message"),
    "an unknown role": ([{"role": "robot", "content": "x"}], "Message 0 is not a message"),
    "content of a wrong type": ([{"role": "user", "content": 3}], "Message 0 is not a message: 3"),
    "an unknown part": (
        [{"role": "user", "content": [{"type": "zip"}]}],
        "Message 0 is not a message: {'type': 'zip'}",
    ),
    "a file without a type": ([{"role": "user", "content": [{"type": "file", "data": b"x"}]}], "Message 0"),
    "a call of the user's": ([{"role": "user", "content": [{"type": "tool-call", "tool_call_id": "c"}]}], "Message 0"),
    "a call without a name": (
        [{"role": "assistant", "content": [{"type": "tool-call", "tool_call_id": "c"}]}],
        "Message 0",
    ),
    "a result without its call": (
        ["a", {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "result": 1}]}],
        "Message 1 answers tool call 'c', which no assistant message before it makes",
    ),
    "a tool message of text": ([{"role": "tool", "content": "x"}], "Message 0 is not a message"),
    "a stored message that is none": (
        [{"role": "user", "content": {"parts": [{"type": "zip"}]}}],
        "Message 0 looks like a stored message but is not one",
    ),
}


@pytest.mark.parametrize(("given", "said"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_message_is_refused_with_its_place(given, said):
    with pytest.raises(ConfigurationError) as caught:
        read(given)
    assert said in str(caught.value)
    assert caught.value.id == "AGENT_INVALID_MESSAGES"
    assert len(str(caught.value)) < 600


def test_nothing_is_no_messages():
    assert read([]) == []


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, ()),
        ("", ()),
        ("a", (SystemTurn("a"),)),
        (["a", "", "b"], (SystemTurn("a"), SystemTurn("b"))),
        ({"role": "system", "content": "a"}, (SystemTurn("a"),)),
        (
            [{"role": "system", "content": "a", "providerOptions": {"x": {"y": 1}}}, SystemTurn("b")],
            (SystemTurn("a", {"x": {"y": 1}}), SystemTurn("b")),
        ),
        ({"role": "system", "content": "a", "provider_options": {"x": {}}}, (SystemTurn("a", {"x": {}}),)),
    ],
)
def test_instructions(given, found):
    assert system_turns(given) == found


@pytest.mark.parametrize("given", [3, [3], {"role": "user", "content": "a"}, {"content": "a"}, [None]])
def test_what_are_no_instructions(given):
    with pytest.raises(TypeError, match="Instructions are text or"):
        system_turns(given)


def test_a_messages_text():
    message = read({"role": "user", "content": ["a", {"type": "image", "image": b"x"}, "b"]})[0]
    assert isinstance(message, Message)
    assert message.text == "ab"
    assert message.content.parts[0] == TextPart("a")
    plain = message.to_dict()
    assert (plain["role"], plain["content"]["format"]) == ("user", 2)
    assert plain["createdAt"].endswith("Z")
