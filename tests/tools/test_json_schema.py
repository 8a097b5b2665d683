"""JSON Schema of data: what fits, what does not, and which schemas are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from tenuto.tools.json_schema import problem, violations

TREE = {
    "$ref": "#/$defs/node",
    "$defs": {"node": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
}

FITS = [
    (True, 1, True),
    (False, 1, False),
    ({}, None, True),
    ({"type": "null"}, None, True),
    ({"type": "number"}, True, False),
    ({"type": "integer"}, 1.0, True),
    ({"type": "integer"}, 1.5, False),
    ({"type": ["string", "null"]}, None, True),
    ({"type": ["string", "null"]}, 1, False),
    ({"enum": [1, "a", None]}, 1.0, True),
    ({"enum": [1, "a"]}, True, False),
    ({"enum": [1, "a"]}, "1", False),
    ({"const": {"a": [1]}}, {"a": [1.0]}, True),
    ({"minimum": 1, "exclusiveMaximum": 3}, 1, True),
    ({"minimum": 1, "exclusiveMaximum": 3}, 3, False),
    ({"maximum": 1, "exclusiveMinimum": 0}, 0, False),
    ({"minimum": 1}, "a", True),
    ({"multipleOf": 0.1}, 0.3, True),
    ({"multipleOf": 2}, 3, False),
    ({"minLength": 2, "maxLength": 3}, "ab", True),
    ({"minLength": 2, "maxLength": 3}, "abcd", False),
    ({"pattern": "^a"}, "ba", False),
    ({"pattern": "a"}, "ba", True),
    ({"minItems": 1, "maxItems": 2}, [], False),
    ({"minItems": 1, "maxItems": 2}, [1, 2, 3], False),
    ({"uniqueItems": True}, [1, 1.0], False),
    ({"uniqueItems": True}, [1, True, "1"], True),
    ({"items": {"type": "string"}}, ["a", 1], False),
    ({"prefixItems": [{"type": "string"}], "items": False}, ["a"], True),
    ({"prefixItems": [{"type": "string"}], "items": False}, ["a", 1], False),
    ({"required": ["a"]}, {}, False),
    ({"required": ["a"]}, [], True),
    ({"properties": {"a": {"type": "string"}}}, {"a": 1}, False),
    ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1, "b": 2}, False),
    ({"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False}, {"xa": "b"}, True),
    ({"patternProperties": {"^x": {"type": "string"}}}, {"xa": 1}, False),
    ({"additionalProperties": {"type": "integer"}}, {"a": "b"}, False),
    ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, False),
    ({"minProperties": 1, "maxProperties": 1}, {"a": 1, "b": 2}, False),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, False),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "a", True),
    ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, 1, False),
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, 3, False),
    ({"not": {"type": "string"}}, "a", False),
    ({"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"type": "null"}}, "", False),
    ({"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"type": "null"}}, None, True),
    (TREE, {"kids": [{"kids": []}]}, True),
    (TREE, {"kids": [{"kids": [1]}]}, False),
    ({"format": "email", "x-mine": 1, "nullable": True}, "no mail", True),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "fits"), FITS)
def test_what_fits(schema, value, fits):
    assert problem(schema) is None
    assert (violations(schema, value) == []) is fits


def test_reasons_name_their_place_and_are_bounded():
    schema = {"properties": {"a": {"items": {"type": "string"}}}, "required": ["b"]}
    assert violations(schema, {"a": ["x", 1]}) == ["$.a[1]: 1 is not of type string", "$.b: it is missing"]
    assert len(violations({"items": {"type": "string"}}, list(range(100)))) == 10
    assert len(violations({"type": "integer"}, "x" * 10_000)[0]) < 200


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (3, "#"),
        ({"type": "number?"}, "#/type"),
        ({"type": 3}, "#/type"),
        ({"items": [{}]}, "#/items"),
        ({"properties": {"a": {"contains": {}}}}, "#/properties/a/contains"),
        ({"properties": {"a": 1}}, "#/properties/a"),
        ({"anyOf": {}}, "#/anyOf"),
        ({"anyOf": [1]}, "#/anyOf/0"),
        ({"minimum": "1"}, "#/minimum"),
        ({"maxItems": True}, "#/maxItems"),
        ({"multipleOf": 0}, "#/multipleOf"),
        ({"pattern": "("}, "#/pattern"),
        ({"patternProperties": {"(": {}}}, "#/patternProperties"),
        ({"$ref": "#/$defs/none"}, "#/$ref"),
        ({"$ref": "other.json"}, "#/$ref"),
        ({"unevaluatedProperties": False}, "#/unevaluatedProperties"),
        ({"required": "a"}, "#/required"),
    ],
)
def test_a_schema_that_cannot_be_checked_says_where(schema, place):
    assert problem(schema).startswith(f"{place}: ")


def test_a_reference_to_itself_ends():
    assert violations({"$ref": "#"}, 1) == ["$: it is nested too deep to be checked"]


class Part(BaseModel):
    name: str
    size: int | None = None


class Whole(BaseModel, extra="forbid"):
    parts: list[Part]
    notes: dict[str, int] = {}
    pair: tuple[int, str] | None = None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "1"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "size", "parts", "notes", "pair"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_it_agrees_with_pydantic_on_what_pydantic_describes(value):
    adapter = TypeAdapter(Whole)
    try:
        adapter.validate_python(value, strict=True)
        fits = True
    except ValidationError:
        fits = False
    if "pair" not in value if isinstance(value, dict) else True:  # a list is no tuple to a strict model
        assert (violations(adapter.json_schema(), value) == []) is fits
