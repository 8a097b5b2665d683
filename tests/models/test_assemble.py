import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.core.payloads import Usage
from tenuto.models.assemble import Assembler, ToolDelta, parse_arguments
from tenuto.models.ports import Finish, Part
from tests.models.drive import calls_of, check_grammar, kinds


def piece(arguments=None, name=None, id=None, index=None):
    return ToolDelta(index, id, name, arguments)


def assembled(*events, used=()) -> list[Part]:
    """Each event is text, or a list of tool pieces."""
    assembler = Assembler("0", used)
    for event in events:
        if isinstance(event, str):
            assembler.text(event)
        else:
            assembler.tools(event)
    assembler.end()
    parts = assembler.take()
    check_grammar([*parts, Finish("stop", Usage())])
    return parts


def calls(*events, used=()):
    return [(call.tool_name, call.args) for call in calls_of(assembled(*events, used=used))]


ONE = [("f", {"a": 1})]
TWO = [("f", {"a": 1}), ("f", {"a": 2})]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([[piece("", "f", "c", 0)], [piece('{"a"', index=0)], [piece(":1}", index=0)]], ONE, id="usual"),
        pytest.param([[piece('{"a"', "f", "c")], [piece(":1}")]], ONE, id="no index"),
        pytest.param([[piece('{"a":1}', "f", "c1")], [piece('{"a":2}', "f", "c2")]], TWO, id="no index, two ids"),
        pytest.param([[piece('{"a":1}', "f", "c1"), piece('{"a":2}', "f", "c2")]], TWO, id="no index, one event"),
        pytest.param([[piece('{"a":1}', "f", "", 0), piece('{"a":2}', "f", "", 1)]], TWO, id="empty ids"),
        pytest.param([[piece('{"a":1}', "f", "c", 0), piece('{"a":2}', "f", "c", 1)]], TWO, id="equal ids"),
        pytest.param([[piece('{"a":1}', "f", ""), piece('{"a":2}', "f", "")]], TWO, id="empty ids, no index"),
        pytest.param([[piece('{"a":1}', "f", "c"), piece('{"a":2}', "f", "c")]], TWO, id="equal ids, no index"),
        pytest.param([[piece('{"a":1}', "f")], [piece('{"a":2}', "f")]], TWO, id="no ids at all"),
        pytest.param([[piece('{"a":1}', "f", "c", 0)], [piece('{"a":2}', "f", "c", 0)]], TWO, id="same id and index"),
        pytest.param([[piece('{"a":1}', "f", "a", 0)], [piece('{"a":2}', "f", "b", 0)]], TWO, id="index always 0"),
        pytest.param(
            [[piece("", "f", "c")], [piece('{"a":1}')], [piece("", "f", "c")], [piece('{"a":2}')]],
            TWO,
            id="equal ids, streamed",
        ),
        pytest.param(
            [[piece('{"a":1}', "f", "c")], [piece("", "g", "c")], [piece('{"a":2}')]],
            [("f", {"a": 1}), ("g", {"a": 2})],
            id="equal ids, another name",
        ),
        pytest.param([[piece('{"a":1}', "f", "c", 0)], [piece('{"a":2}', "f", "d", 7)]], TWO, id="index jumps"),
        pytest.param(
            [
                [piece("", "f", "c", 0)],
                [piece("", "f", "d", 1)],
                [piece('{"a":2}', index=1)],
                [piece('{"a":1}', index=0)],
            ],
            TWO,
            id="interleaved",
        ),
        pytest.param([[piece("{", id="c")], [piece(name="f")], [piece("}")]], [("f", {})], id="name after arguments"),
        pytest.param([[piece("", "f", "c", 0)], [piece('{"a":1}', "f", "c", 0)]], ONE, id="name twice"),
        pytest.param(
            [[piece("", "get_", "c", 0)], [piece('{"a":1}', "f", "c", 0)]], [("get_f", {"a": 1})], id="name in pieces"
        ),
        pytest.param([[piece('{"a":', "f", "c", 0)], [piece("1}", "f", "c", 0)]], ONE, id="name in each piece"),
        pytest.param(
            [[piece('{"a"', "f", "c", 0)], [piece(":1}", index=0)], [piece('{"a":1}', index=0)]], ONE, id="repeated"
        ),
        pytest.param(
            [[piece('{"a":1}', "f", "c", 0)], "text", [piece('{"a":1}', "f", "c", 0)]], ONE, id="repeated after text"
        ),
        pytest.param([[piece(None, "f", "c", 0)]], [("f", {})], id="no arguments"),
        pytest.param([[piece("  ", "f", "c", 0)]], [("f", {})], id="blank arguments"),
        pytest.param([[piece(None, None, "c", 0)]], [], id="nothing at all"),
        pytest.param([[piece('{"a":1}', None, "c", 0)]], [("unknown_tool", {"a": 1})], id="no name ever"),
    ],
)
def test_calls(events, expected):
    assert calls(*events) == expected


@pytest.mark.parametrize("text", ['{"{"tagIds":[', '{"a":', "[1]", "1", "nope", "[" * 100_000])
def test_arguments_that_are_no_object_are_kept_as_text(text):
    (call,) = calls_of(assembled([piece(text, "f", "c", 0)]))
    assert call.args is None
    assert call.raw_args == text
    assert parse_arguments(text) == (None, text)


def test_ids_are_unique_and_not_those_of_the_history():
    events = [[piece('{"a":1}', "f", "c1", 0), piece('{"a":2}', "f", "c1", 1), piece("{}", "f", "", 2)]]
    ids = [call.tool_call_id for call in calls_of(assembled(*events, used={"c1", "call_0_1"}))]
    assert len({*ids, "c1", "call_0_1"}) == 5
    assert [call.tool_call_id for call in calls_of(assembled([piece("{}", "f", "c1", 0)]))] == ["c1"]


def test_the_start_carries_the_name_and_comes_first():
    parts = assembled([piece("{", id="c")], [piece(name="f")], [piece("}")])
    assert kinds(parts) == ["ToolInputStart", "ToolInputDelta", "ToolInputDelta", "ToolInputEnd", "ToolCall"]
    assert parts[0].tool_name == "f"


def test_text_after_a_call_is_a_new_part_after_it():
    parts = assembled("a", [piece('{"a":1}', "f", "c", 0)], "b")
    assert kinds(parts) == [
        "TextStart", "TextDelta", "TextEnd", "ToolInputStart", "ToolInputDelta", "ToolInputEnd", "ToolCall",
        "TextStart", "TextDelta", "TextEnd",
    ]  # fmt: skip
    assert parts[0].id != parts[7].id


def test_empty_text_opens_nothing_and_reasoning_is_its_own_part():
    assembler = Assembler("3")
    assembler.text("")
    assembler.reasoning("")
    assembler.reasoning("r")
    assembler.text("t")
    assembler.reasoning("r2")
    assembler.end()
    assert kinds(assembler.take()) == [
        "ReasoningStart", "ReasoningDelta", "ReasoningEnd", "TextStart", "TextDelta", "TextEnd",
        "ReasoningStart", "ReasoningDelta", "ReasoningEnd",
    ]  # fmt: skip


PIECES = st.builds(
    ToolDelta,
    st.one_of(st.none(), st.integers(0, 2)),
    st.sampled_from([None, "", "c", "d"]),
    st.sampled_from([None, "", "f", "g"]),
    st.sampled_from([None, "", "{", "}", '{"a":1}', '{"a":2}', '"a"', ":1", " "]),
)


@given(st.lists(st.one_of(st.text(max_size=2), st.lists(PIECES, max_size=3)), max_size=10))
def test_whatever_comes_the_grammar_holds(events):
    parts = assembled(*events, used={"c"})
    assert "c" not in [call.tool_call_id for call in calls_of(parts)]


def test_formats_that_say_where_parts_begin_and_end():
    assembler = Assembler("1")
    assembler.block("reasoning", {"p": {"itemId": "r1"}})
    assembler.reasoning("hm")
    assembler.signature("signed")
    assembler.close(signature="signed")
    assembler.block("reasoning")
    assembler.close({"p": {"itemId": "r2"}})
    assembler.redacted("sealed")
    assembler.block("text")
    assembler.text("a")
    assembler.block("text")
    assembler.text("b")
    assembler.end()
    kinds = [type(part).__name__.removesuffix("Payload") for part in assembler.take()]
    assert kinds == [
        "ReasoningStart", "ReasoningDelta", "ReasoningSignature", "ReasoningEnd", "ReasoningStart", "ReasoningEnd",
        "RedactedReasoning", "TextStart", "TextDelta", "TextEnd", "TextStart", "TextDelta", "TextEnd",
    ]  # fmt: skip


def test_a_tool_of_the_provider_gets_an_id_nobody_has_used():
    assembler = Assembler("1", used={"w"})
    call_id = assembler.provider_call("w", "web_search", {"query": "q"})
    assembler.provider_result(call_id, "web_search", [1], is_error=True)
    call, result = assembler.take()
    assert call.tool_call_id == result.tool_call_id == call_id != "w"
    assert call.provider_executed
    assert result.provider_executed
    assert assembler.calls == 0


def test_a_call_that_is_said_to_be_complete_is_closed_at_once():
    assembler = Assembler("1")
    assembler.tools([ToolDelta(0, "a", "f", "")])
    assembler.tools([ToolDelta(0, None, None, '{"x":1}')])
    assembler.end_call(0, {"p": {"itemId": "fc"}})
    call = assembler.take()[-1]
    assert (call.args, call.provider_metadata) == ({"x": 1}, {"p": {"itemId": "fc"}})
    assembler.end_call(0)
    assembler.end()
    assert assembler.take() == []
