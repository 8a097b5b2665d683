"""Answers that grow: what is shown of them, and what that costs."""

import json
from typing import Literal

import pydantic_core
import pytest
from pydantic import TypeAdapter

from tenuto.structured.partial import PartialReader
from tenuto.structured.unwrap import Unwrapper


def shown(schema, text, size=1):
    reader = PartialReader(schema if isinstance(schema, dict) else TypeAdapter(schema).json_schema())
    fed = [reader.feed(text[at : at + size]) for at in range(0, len(text), size)]
    return [value for value, changed in fed if changed]


def test_an_object_grows():
    assert shown({"type": "object"}, '{"a":"xy","b":[1]}') == [
        {}, {"a": ""}, {"a": "x"}, {"a": "xy"}, {"a": "xy", "b": []}, {"a": "xy", "b": [1]},
    ]  # fmt: skip


def test_a_list_begins_empty_and_shows_whole_elements_and_the_last_one_when_there_is_something_in_it():
    text = '[{"a":1},{"b":2}]'
    assert shown(list[dict[str, int]], text)[:3] == [[], [{"a": 1}], [{"a": 1}, {"b": 2}]]
    assert shown(list[int], "[10, 20]")[-1] == [10, 20]
    assert [1] not in shown(list[int], "[10, 20]")


def test_a_choice_is_shown_once_only_one_begins_so():
    schema = Literal["summer", "spring", "winter"]
    assert shown(schema, '"spring"') == ["s", "spring"]
    assert shown(schema, '"winter"') == ["winter"]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_c05_a_thought_is_never_shown(size):
    text = '<think>maybe {"valid":true}</think>\n{"valid":false}'
    assert all(value in ({}, {"valid": False}) for value in shown({"type": "object"}, text, size))
    assert shown({"type": "object"}, text, 1)[-1] == {"valid": False}


def test_the_cost_grows_with_the_size_and_not_with_its_square(monkeypatch):
    parsed = []
    real = pydantic_core.from_json
    monkeypatch.setattr(pydantic_core, "from_json", lambda text, **how: parsed.append(len(text)) or real(text, **how))
    for count in (100, 1_000, 10_000):
        parsed.clear()
        text = json.dumps([{"name": f"city {place}", "people": place} for place in range(count)])
        shown(list[dict[str, object]], text, 4)
        assert sum(parsed) < 12 * len(text)


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ('{"elements":[{"a":1},{"b":{}}]}', '[{"a":1},{"b":{}}]'),
        (' { "elements" : [1, 2] } \n', "[1, 2]"),
        ('{"elements":[]}', "[]"),
        ("[1,2]", "[1,2]"),
        ('{"other":{"elements":[1]}}', '{"other":{"elements":[1]}}'),
        ("Sorry, no.", "Sorry, no."),
        ("", ""),
        ('{"elem', '{"elem'),
        ('{"elements":[1, 2', "[1, 2"),
    ],
)
def test_the_wrapper_is_taken_off_as_it_comes(text, bare, size):
    unwrapper = Unwrapper("elements")
    pieces = [unwrapper.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join([*pieces, unwrapper.end()]) == bare
