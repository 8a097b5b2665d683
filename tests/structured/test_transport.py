"""What a provider is sent: an object, closed where it can be, that leaves out no answer the schema allows."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, TypeAdapter

from tenuto.structured.transport import wire_form, wrapping_key
from tenuto.testing.provider.strict import check_strict_schema


class City(BaseModel):
    """A city."""

    name: str = Field(min_length=2, description="As on a map.")
    people: int = 3
    mayor: str | None = None


class Node(BaseModel):
    value: int
    children: list[Node] = []


@dataclass
class Cat:
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=0, le=9)]


@dataclass
class Dog:
    kind: Literal["dog"]
    owner: City


class Home(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    price: Decimal
    tags: dict[str, int] = {}


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


def json_schema(hint: Any) -> dict[str, Any]:
    return TypeAdapter(hint).json_schema()


@pytest.mark.parametrize(
    ("hint", "key", "strict"),
    [
        (City, None, True),
        (Node, None, True),
        (list[City], "elements", True),
        (Mood, "result", True),
        (Literal["a", "b"], "result", True),
        (Cat | Dog, "result", True),
        (City | None, "result", True),
        (int, "result", True),
        (Home, None, False),
        (dict[str, int], None, False),
        (list[Any], "elements", False),
        (tuple[int, str], "elements", False),
    ],
)
def test_the_top_is_an_object_and_closed_where_it_can_be(hint, key, strict):
    wire = wire_form(json_schema(hint))
    assert (wire.key, wire.strict) == (key, strict)
    assert wire.schema["type"] == "object"
    Draft202012Validator.check_schema(wire.schema)
    if strict:
        check_strict_schema(wire.schema, "schema")


def test_strict_keeps_what_guides_and_drops_what_is_refused():
    sent = wire_form(json_schema(City)).schema
    assert sent["description"] == "A city."
    assert sent["properties"]["name"] == {"type": "string", "description": "As on a map."}
    assert sent["properties"]["people"] == {"type": ["integer", "null"]}
    assert sent["required"] == ["name", "people", "mayor"]


def test_a_reference_beside_the_definitions_moves_with_its_schema():
    tree = {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#"}]}}
    sent = wire_form(tree).schema
    assert sent["properties"]["elements"]["items"]["anyOf"][1] == {"$ref": "#/properties/elements"}
    validator = Draft202012Validator(sent)
    assert validator.is_valid({"elements": [1, [2, [3]]]})
    assert not validator.is_valid({"elements": [1, ["x"]]})


# -- C08: whatever the original accepts, the sent one accepts --------------------------------------

_LEAVES = st.sampled_from(
    [
        {"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]},
        {"enum": ["a", "b", None]}, {"type": "string", "enum": ["a", "b"]}, {"const": "c", "type": "string"},
        {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}, {"type": "number", "minimum": 0},
        {"type": "string", "minLength": 1, "pattern": "^[a-z]+$"},
    ]
)  # fmt: skip


def _objects(inner):
    names = st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, min_size=1)
    return names.flatmap(
        lambda found: st.sets(st.sampled_from(sorted(found))).map(
            lambda required: {
                "type": "object",
                "properties": found,
                "required": sorted(required),
                "additionalProperties": False,
            }
        )
    )


SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        _objects(inner),
        inner.map(lambda items: {"type": "array", "items": items}),
        st.lists(inner, min_size=1, max_size=3).map(lambda choices: {"anyOf": choices}),
        st.lists(inner, min_size=1, max_size=2).map(lambda choices: {"oneOf": choices}),
    ),
    max_leaves=6,
)


def instances(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that fit."""
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return st.one_of([instances(each) for each in choices])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kinds = schema["type"]
    if isinstance(kinds, list):
        return st.one_of([instances({**schema, "type": kind}) for kind in kinds])
    if kinds == "object":
        required = {name: instances(each) for name, each in schema["properties"].items() if name in schema["required"]}
        optional = {name: instances(each) for name, each in schema["properties"].items() if name not in required}
        return st.fixed_dictionaries(required, optional=optional)
    plain: dict[str, st.SearchStrategy[Any]] = {
        "string": st.text("abc", min_size=1),
        "integer": st.integers(-5, 5),
        "number": st.floats(0, 5),
        "boolean": st.booleans(),
        "null": st.none(),
    }
    return st.lists(instances(schema["items"]), max_size=3) if kinds == "array" else plain[kinds]


def written(schema: dict[str, Any], value: Any) -> Any:
    """A value as a strict provider writes it: what is absent is null."""
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        fitting = next(each for each in choices if Draft202012Validator(each).is_valid(value))
        return written(fitting, value)
    if isinstance(value, dict):
        return {
            name: written(each, value[name]) if name in value else None for name, each in schema["properties"].items()
        }
    return [written(schema["items"], each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(3))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(data=st.data())
def test_c08_what_the_schema_allows_is_allowed_by_what_is_sent(seed, data):
    schema = data.draw(SCHEMAS)
    value = data.draw(instances(schema))
    if not Draft202012Validator(schema).is_valid(value):  # more than one of `oneOf`
        return
    wire = wire_form(schema)
    sent = written(schema, value) if wire.strict else value
    wrapped = sent if wire.key is None else {wire.key: sent}
    assert list(Draft202012Validator(wire.schema).iter_errors(wrapped)) == []
    if wire.strict:
        check_strict_schema(wire.schema, "schema")


def test_c08_a_nullable_enum_keeps_its_null():
    class Pick(BaseModel):
        choice: Literal["a", "b"] | None

    sent = Draft202012Validator(wire_form(json_schema(Pick)).schema)
    assert all(sent.is_valid({"choice": each}) for each in ("a", "b", None))
    assert not sent.is_valid({"choice": "c"})
    assert wrapping_key({"enum": ["a", None]}) == "result"
