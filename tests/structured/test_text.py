"""The JSON in what a model wrote, whole or growing."""

import pytest

from tenuto.structured.text import NotJSON, begin, find_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":1}', {"a": 1}),
        (' \n{"a":1}\n', {"a": 1}),
        ('"Rome"', "Rome"),
        ("[1,2]", [1, 2]),
        ("null", None),
        ('```json\n{"a":1}\n```', {"a": 1}),
        ('```\n{"a":1}\n```', {"a": 1}),
        ('Here you are:\n```json\n{"a":1}\n```\nAnything else?', {"a": 1}),
        ('First ```json\n{"a":1}\n``` then better ```json\n{"a":2}\n```', {"a": 2}),
        ('Sure! {"a":{"b":1}} Hope {that} helps.', {"a": {"b": 1}}),
        ('Either {"a":1} or {"a":2}', {"a": 2}),
        ('See [1]: {"a":1} as in [2]', {"a": 1}),
        ("The list is [1, 2].", [1, 2]),
        ('<think>maybe {"a":1}</think>\n{"a":2}', {"a": 2}),
        ('maybe {"a":1}</think>{"a":2}', {"a": 2}),
        ('<thinking>hm</thinking>```json\n{"a":2}\n```', {"a": 2}),
        ('<|channel|>final<|message|>{"a":1}', {"a": 1}),
        ('{"a":"</think> stays <think>"}', {"a": "</think> stays <think>"}),
        ('{"a":"```json\\n{}\\n```"}', {"a": "```json\n{}\n```"}),
        ('{"a":"one\ntwo\tthree"}', {"a": "one\ntwo\tthree"}),
        ('{"a":1,}', {"a": 1}),
        ("{'a': 'it'}", {"a": "it"}),
        ('Use {curly braces. {"a":1}', {"a": 1}),
    ],
)
def test_the_value_is_found(text, value):
    assert find_json(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no data at all",
        '{"a":{"b":1},"c":',
        'Here: {"a":{"b":1},"c":',
        '{"elements":[{"a":1},{"a":2}',
        '<think>maybe {"a":1}',
        '{"a":NaN}',
        '{"a":1e999}',
        '{"a":"\\ud800"}',
        '{"a":' * 5_000,
        "[" * 100_000,
        "{ " * 50_000,
    ],
)
def test_half_a_value_is_none(text):
    with pytest.raises(NotJSON):
        find_json(text)


@pytest.mark.parametrize(
    ("text", "begun"),
    [
        ("", None),
        ("  ", None),
        ("<thi", None),
        ('<think>maybe {"a":1}', None),
        ('<think>maybe {"a":1}</think>\n{"a', '{"a'),
        ("``", None),
        ("```json", None),
        ('```json\n{"a"', '{"a"'),
        ('```json\n{"a":1}\n```\nBye', '{"a":1}\n'),
        ('Sure: {"a":1}', None),
        ("<|message|>[1", "[1"),
        ('{"a":"<|message|>', '{"a":"<|message|>'),
        ('"Ro', '"Ro'),
    ],
)
def test_what_grows_is_shown_from_where_it_surely_begins(text, begun):
    assert begin(text) == begun
