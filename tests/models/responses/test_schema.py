import pytest

from tenuto.models.responses.schema import strict_schema
from tenuto.testing.provider.strict import check_strict_schema


def thing(**more):
    return {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], **more}


@pytest.mark.parametrize(
    "schema",
    [
        thing(),
        thing(additionalProperties=False),
        thing(properties={"a": {"type": "string", "default": "x", "description": "d"}}),
        thing(properties={"a": {"anyOf": [{"type": "null"}, thing()]}}),
        thing(properties={"a": {"type": "array", "items": thing()}}),
        thing(properties={"a": {"$ref": "#/$defs/T"}}, **{"$defs": {"T": thing()}}),
        thing(properties={"a": {"enum": ["x", None]}}),
        thing(properties={"a": {"type": ["object", "null"], "properties": {}, "additionalProperties": False}}),
    ],
)
def test_what_strict_mode_takes_is_closed_at_every_depth(schema):
    fitted = strict_schema(schema)
    assert fitted is not None
    check_strict_schema(fitted, "schema")
    assert "default" not in str(fitted)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        thing(required=[]),
        thing(additionalProperties=True),
        thing(additionalProperties={"type": "string"}),
        thing(anyOf=[{"required": ["a"]}]),
        thing(properties={"a": {"type": "object"}}),
        thing(properties={"a": {}}),
        thing(properties={"a": {"oneOf": [{"type": "string"}]}}),
        thing(properties={"a": {"type": "array", "items": False}}),
        thing(properties={"a": {"type": "array", "prefixItems": []}}),
        thing(properties={"a": {"anyOf": [thing(required=[])]}}),
        thing(**{"$defs": {"T": thing(required=[])}}),
    ],
)
def test_what_strict_mode_cannot_say(schema):
    assert strict_schema(schema) is None
