"""What a caller may pass as messages and as instructions."""

from __future__ import annotations

import base64

import pytest

from tenuto.core.ids import CountingIds
from tenuto.errors import ConfigurationError
from tenuto.messages.convert import to_turns
from tenuto.messages.input import MessageReader, system_turns
from tenuto.messages.stored import Message, StoredFilePart, TextPart, timestamp
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
PNG = b"\x89PNG\r\n\x1a\n...."
B64PNG = base64.b64encode(PNG).decode()
B64GIF = base64.b64encode(b"GIF89a....").decode()


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
    "bytes that show their type": ({"type": "image", "image": PNG}, FilePart("image/png", data=B64PNG)),
    "base64 that shows its type": ({"type": "image", "image": B64GIF}, FilePart("image/gif", data=B64GIF)),
    "a link that shows no type": (
        {"type": "image", "image": "https://x.org/a"},
        FilePart("image/*", url="https://x.org/a"),
    ),
    "a link with a query": (
        {"type": "image", "image": "https://x.org/a.JPG?w=3"},
        FilePart("image/jpeg", url="https://x.org/a.JPG?w=3"),
    ),
    "a link of a provider's own store": (
        {"type": "file", "data": "gs://b/a.pdf"},
        FilePart("application/pdf", url="gs://b/a.pdf"),
    ),
    "a file that shows its type": (
        {"type": "file", "data": b"%PDF-1.7"},
        FilePart("application/pdf", data="JVBERi0xLjc="),
    ),
    "a data link of plain text": (
        {"type": "file", "data": "data:,h%69"},
        FilePart("text/plain", data=HI),
    ),
    "url-safe base64": ({"type": "file", "data": "-_-_", "mediaType": "a/b"}, FilePart("a/b", data="+/+/")),
    "a provider's id": (
        {"type": "file", "data": "file-abc123", "mediaType": "application/pdf"},
        FilePart("application/pdf", data="file-abc123"),
    ),
    "options of a part": (
        {"type": "image", "image": HI, "providerOptions": {"openai": {"imageDetail": "low"}}},
        FilePart("image/png", data=HI, provider_metadata={"openai": {"imageDetail": "low"}}),
    ),
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
        "Message 0: part 0 is no part of a message of role 'user': {'type': 'zip'}. Known parts: text, image, file.",
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


def test_a_path_is_read_and_text_never_taken_for_one(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    given = lambda image: {"role": "user", "content": [{"type": "image", "image": image}]}
    assert turns(given(path)) == [user(FilePart("image/png", data=B64PNG, filename="a.png"))]
    with pytest.raises(ConfigurationError, match="cannot be read \\(No such file"):
        read(given(tmp_path / "b.png"))
    with pytest.raises(ConfigurationError, match="text that is neither a URL nor base64"):
        read(given(str(path)))
    with pytest.raises(ConfigurationError, match="a file: URL is never read"):
        read(given(path.as_uri()))


@pytest.mark.parametrize("source", ["file:///etc/passwd", "FILE:///etc/passwd", "../../etc/passwd", "~/.ssh/id_rsa"])
@pytest.mark.parametrize("form", ["image", "file", "ui"])
def test_j03_a_file_of_this_computer_cannot_be_named(source, form):
    given = {
        "image": {"role": "user", "content": [{"type": "image", "image": source}]},
        "file": {"role": "user", "content": [{"type": "file", "data": source, "mediaType": "text/plain"}]},
        "ui": {"role": "user", "parts": [{"type": "file", "url": source, "mediaType": "text/plain"}]},
    }
    with pytest.raises(ConfigurationError, match=r"part 0 .*is no file"):
        read(given[form])


def test_j03_text_that_looks_like_a_path_is_base64_like_any_other():
    part = {"type": "file", "data": "/etc/passwd/", "mediaType": "text/plain"}
    assert turns({"role": "user", "content": [part]}) == [user(FilePart("text/plain", data="/etc/passwd/"))]


def test_options_of_a_message_and_its_parts_stay():
    cached = {"anthropic": {"cacheControl": {"type": "ephemeral"}}}
    given = [
        {"role": "system", "content": "s", "providerOptions": cached},
        {
            "role": "user",
            "content": [{"type": "text", "text": "a", "providerOptions": cached}],
            "providerOptions": cached,
        },
        {"role": "assistant", "content": "b", "provider_options": cached},
    ]
    assert turns(given) == [
        SystemTurn("s", cached),
        UserTurn((Text("a", cached),), cached),
        AssistantTurn((Text("b"),), cached),
    ]


def test_signed_and_sealed_reasoning():
    given = {
        "role": "assistant",
        "content": [
            {"type": "reasoning", "text": "hm", "signature": "v4"},
            {"type": "reasoning", "text": "hm", "providerOptions": {"anthropic": {"signature": "v5"}}},
            {"type": "redacted-reasoning", "data": "sealed"},
        ],
    }
    found = turns(given)[0].content
    assert [part.signature for part in found] == ["v4", "v5", None]
    assert found[2].redacted == "sealed"


def test_a_provider_tools_result_in_the_models_own_message():
    call = {"type": "tool-call", "toolCallId": "w", "toolName": "web_search", "input": {}, "providerExecuted": True}
    answer = {
        "type": "tool-result",
        "toolCallId": "w",
        "toolName": "web_search",
        "output": {"type": "json", "value": [1]},
    }
    given = {"role": "assistant", "content": [call, answer, {"type": "text", "text": "done"}]}
    kinds = [type(part).__name__ for part in turns(given)[0].content]
    assert kinds == ["CallPart", "ProviderResult", "Text"]


def test_a_denied_call():
    call = {"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {}}
    answer = {"type": "tool-result", "toolCallId": "c", "output": {"type": "execution-denied", "reason": "no"}}
    given = [{"role": "assistant", "content": [call]}, {"role": "tool", "content": [answer]}]
    assert read(given)[0].content.parts[0].tool_invocation.state == "output-denied"


def test_openais_own_form_is_refused_with_the_remedy():
    given = {"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}
    with pytest.raises(ConfigurationError, match="a field of OpenAI's own messages"):
        read(given)


@pytest.mark.parametrize("said", ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00", 1_577_836_800_000])
def test_a_time_of_the_callers(said):
    assert read({"role": "user", "content": "a", "createdAt": said})[0].created_at == timestamp(1_577_836_800)


@pytest.mark.parametrize("form", [{"content": "a"}, {"parts": [{"type": "text", "text": "a"}]}])
def test_no_clock_of_a_client_reaches_into_the_future(form):
    now = timestamp(VirtualClock().now())
    assert read({"role": "user", "createdAt": "2999-01-01T00:00:00Z", **form})[0].created_at == now
    stored = {
        "role": "user",
        "createdAt": "2999-01-01T00:00:00Z",
        "content": {"parts": [{"type": "text", "text": "a"}]},
    }
    assert read(stored)[0].created_at == now


def test_a_time_that_is_none():
    with pytest.raises(ConfigurationError, match="Message 0 has a createdAt that is no time: 'yesterday'"):
        read({"role": "user", "content": "a", "createdAt": "yesterday"})


def test_d01_order_is_that_of_the_list_whatever_the_clocks_say():
    given = [
        {"role": "user", "content": "a", "createdAt": "2020-01-02T00:00:00Z"},
        {"role": "assistant", "content": "b", "createdAt": "2020-01-01T00:00:00Z"},
        "c",
        "d",
    ]
    found = read(given)
    assert [message.text for message in found] == ["a", "b", "c", "d"]
    assert [message.created_at for message in found] == sorted({message.created_at for message in found})


def test_empty_messages_become_no_turns():
    assert turns([{"role": "user", "content": []}, {"role": "assistant", "content": ""}, "a"]) == [
        AssistantTurn((Text(""),)),
        user(Text("a")),
    ]


def test_half_a_character_in_a_stored_or_ui_message_is_mended():
    stored = {"role": "user", "content": {"parts": [{"type": "text", "text": "\ud83d"}], "metadata": {"a": "\ud83d"}}}
    message = read(stored)[0]
    assert (message.text, message.content.metadata) == ("\ufffd", {"a": "\ufffd"})
    assert read({"role": "user", "parts": [{"type": "text", "text": "\ud83d"}]})[0].text == "\ufffd"


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
