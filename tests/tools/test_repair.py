"""Text that is almost JSON is mended without guessing, or refused."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.tools.repair import NotJSON, read_arguments, read_json
from tenuto.tools.validate import repair_arguments

MENDED = [
    ('{"a": 1}', {"a": 1}),
    ('<|start|>{"a": 1}<|end|>', {"a": 1}),
    ('{"a": 1,}', {"a": 1}),
    ('{"a": [1, 2,],}', {"a": [1, 2]}),
    ("{'a': 'it\\'s \"x\"'}", {"a": 'it\'s "x"'}),
    ("{a: 1, b_c: true}", {"a": 1, "b_c": True}),
    ('{"a": 1, b": 2}', {"a": 1, "b": 2}),
    ('{"a: 1}', {"a": 1}),
    ('{"a": True, "b": None}', {"a": True, "b": None}),
    ('{"day": 2026-11-30}', {"day": "2026-11-30"}),
    ("{at: 2026-11-30T10:00:00Z, n: -1.5e3}", {"at": "2026-11-30T10:00:00Z", "n": -1500}),
    ('{"a": "<|kept|>"}', {"a": "<|kept|>"}),
    ('{"a": "line\nbreak",}', {"a": "line\nbreak"}),
    ("{'a': '{b: 1,}'}", {"a": "{b: 1,}"}),
]


@pytest.mark.parametrize(("text", "value"), MENDED)
def test_mended(text, value):
    assert read_json(text) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"{"tagIds":[',
        '{"a": ',
        '{"a": "cut',
        "{a: word}",
        '{"a" 1}',
        "[1 2]",
        "{} {}",
        '{"a": 012}',
        "{'a': '\\ud800'}",
        "[" * 500,
    ],
)
def test_values_are_never_guessed(text):
    with pytest.raises(NotJSON):
        read_json(text)
    assert repair_arguments(text) is None


@pytest.mark.parametrize("args", [None, "", "  ", "null", {}, "{}"])
def test_no_arguments_are_an_empty_object(args):
    assert read_arguments(args) == {}


def test_a_json_text_in_a_json_text_is_read():
    assert read_arguments('"{\\"a\\": 1}"') == {"a": 1}


@pytest.mark.parametrize("args", [[1], "[1]", 3, "true"])
def test_arguments_are_an_object(args):
    with pytest.raises(NotJSON):
        read_arguments(args)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(values)
def test_valid_json_with_a_trailing_comma_keeps_its_value(value):
    text = msgspec.json.encode({"v": value}).decode()
    assert read_json(text[:-1] + ",}") == {"v": value}


@given(st.text())
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(NotJSON):
        read_json(text)
