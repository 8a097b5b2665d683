"""Schemas a sampler can hold an answer to."""

from decimal import Decimal

import pytest
from pydantic import TypeAdapter

from tenuto.models.local.grammar import arguments_grammar, choice_grammar, simplified


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"type": "string", "pattern": "^(?!a)"}, {"type": "string"}),
        ({"type": "string", "format": "weird"}, {"type": "string"}),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"type": "array", "items": {"type": "string", "title": "X"}, "uniqueItems": True}, None),
        ({"not": {"type": "string"}}, {}),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"enum": ["a", "b"], "description": "x", "default": "a"}, {"enum": ["a", "b"]}),
        (True, {}),
    ],
)
def test_only_what_compiles_is_kept(given, kept):
    expected = {"type": "array", "items": {"type": "string"}} if kept is None else kept
    assert simplified(given) == expected


def test_references_keep_their_definitions():
    schema = {
        "type": "object",
        "properties": {"unit": {"$ref": "#/$defs/Unit"}},
        "$defs": {"Unit": {"enum": ["MB"], "title": "Unit"}},
    }
    kept = simplified(schema)
    assert kept["properties"] == {"unit": {"$ref": "#/$defs/Unit"}}
    assert kept["$defs"] == {"Unit": {"enum": ["MB"]}}


def test_a_property_named_like_a_keyword_is_a_property():
    assert simplified({"type": "object", "properties": {"pattern": {"type": "string"}}})["properties"] == {
        "pattern": {"type": "string"}
    }


def test_arguments_are_a_closed_object():
    schema = arguments_grammar({"properties": {"a": {"type": "integer"}}})
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["x-guidance"]["whitespace_flexible"] is False


def test_an_open_object_stays_open():
    assert arguments_grammar({"type": "object", "additionalProperties": {"type": "string"}})[
        "additionalProperties"
    ] == {"type": "string"}


def test_a_decimal_loses_only_its_pattern():
    schema = simplified(TypeAdapter(Decimal).json_schema())
    assert [option["type"] for option in schema["anyOf"]] == ["number", "string"]


def test_a_choice_is_one_of_the_names():
    assert choice_grammar(["a", "b"]) == {"enum": ["a", "b"]}
