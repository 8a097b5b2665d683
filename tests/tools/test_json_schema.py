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
    ({"type": "number"}, True, False),
    ({"type": "integer"}, 1.0, True),
    ({"type": ["string", "null"]}, 1, False),
    ({"const": {"a": [1]}}, {"a": [1.0]}, True),
    ({"prefixItems": [{"type": "string"}], "items": False}, ["a", 1], False),
    ({"required": ["a"]}, {}, False),
    ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1, "b": 2}, False),
    ({"properties": {"a": {}}, "unevaluatedProperties": False}, {"b": 2}, False),
    ({"contains": {"type": "string"}}, [1], False),
    (TREE, {"kids": [{"kids": []}]}, True),
    (TREE, {"kids": [{"kids": [1]}]}, False),
    ({"format": "email", "x-mine": 1, "nullable": True}, "no mail", True),
]


@pytest.mark.parametrize(("schema", "value", "fits"), FITS)
def test_what_fits(schema, value, fits):
    assert problem(schema) is None
    assert (violations(schema, value) == []) is fits


def test_reasons_name_their_place_and_are_bounded():
    schema = {"properties": {"a": {"items": {"type": "string"}}}, "required": ["b"]}
    assert violations(schema, {"a": ["x", 1]}) == [
        "$.a[1]: 1 is not of type 'string'",
        "$.b: 'b' is a required property",
    ]
    assert len(violations({"items": {"type": "string"}}, list(range(100)))) == 10
    assert len(violations({"type": "integer"}, "x" * 10_000)[0]) <= 400


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (3, "#"),
        ({"type": "number?"}, "#/type"),
        ({"type": 3}, "#/type"),
        ({"items": [{}]}, "#/items"),
        ({"properties": {"a": 1}}, "#/properties/a"),
        ({"anyOf": {}}, "#/anyOf"),
        ({"anyOf": [1]}, "#/anyOf/0"),
        ({"minimum": "1"}, "#/minimum"),
        ({"maxItems": True}, "#/maxItems"),
        ({"multipleOf": 0}, "#/multipleOf"),
        ({"pattern": "("}, "#/pattern"),
        ({"patternProperties": {"(": {}}}, "#/patternProperties"),
        ({"$ref": "#/$defs/none"}, "#"),
        ({"$ref": "other.json"}, "#"),
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
