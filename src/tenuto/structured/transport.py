"""The form of a schema that a provider is sent: an object at the top, and closed for strict mode where it can be.

Invariant: whatever fits the original fits what is sent, once absent properties are written as null and the answer is
put under its key; what strict mode cannot say is left out, or else strict mode is not asked for. The original checks
every answer.

Source: OpenAI structured outputs, "Supported schemas"; the wrapping of arrays and enums is the AI SDK's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from msgspec import Struct

from tenuto.structured.nulls import allows_null, resolved

Schema = Mapping[str, Any]
Key = Literal["elements", "result"]

_DEFINITIONS = ("$defs", "definitions")
_KEPT = frozenset(
    {
        "type", "enum", "const", "description", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "multipleOf", "minItems", "maxItems",
    }
)  # fmt: skip
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_OPENING = frozenset({"patternProperties", "unevaluatedProperties", "dependentSchemas"})


class Wire(Struct, frozen=True):
    """A schema as it is sent.

    Attributes:
        strict: Every object in it is closed and all its properties are required.
        key: The property that holds an answer which is no object itself.
    """

    schema: Schema
    strict: bool
    key: Key | None = None


class _Open(Exception):
    """A part of the schema cannot be closed."""


def wire_form(schema: Schema) -> Wire:
    """The form of `schema` that a provider is sent."""
    key = wrapping_key(schema)
    wrapped = schema if key is None else _wrapped(schema, key)
    try:
        return Wire(_closed_root(wrapped), strict=True, key=key)
    except _Open:
        return Wire(wrapped, strict=False, key=key)


def wrapping_key(schema: Schema) -> Key | None:
    """The property that an answer of this schema is put under; None for objects."""
    found = resolved(schema, schema) or schema
    if found.get("type") == "array":
        return "elements"
    plain = found.get("type") == "object" and not found.keys() & {"anyOf", "oneOf", "allOf"}
    return None if plain else "result"


def _wrapped(schema: Schema, key: Key) -> Schema:
    shared = {name: schema[name] for name in _DEFINITIONS if name in schema}
    own = {name: value for name, value in schema.items() if name not in shared and not name.startswith("$sch")}
    inner = _moved(own, f"#/properties/{key}")
    moved = {name: _moved(value, f"#/properties/{key}") for name, value in shared.items()}
    return {"type": "object", "properties": {key: inner}, "required": [key], "additionalProperties": False, **moved}


def _moved(schema: Any, below: str) -> Any:
    """With references that lead where the schema stands now; definitions have stayed at the top."""
    if isinstance(schema, list):
        return [_moved(each, below) for each in cast("list[Any]", schema)]
    if not isinstance(schema, Mapping):
        return schema
    moved = {name: _moved(value, below) for name, value in cast("Schema", schema).items()}
    target = moved.get("$ref")
    if isinstance(target, str) and not target.startswith(("#/$defs/", "#/definitions/")):
        moved["$ref"] = below + target[1:]
    return moved


def _closed_root(schema: Schema) -> Schema:
    found = resolved(schema, schema)
    if found is None or found.get("type") != "object":
        raise _Open
    closed = _closed(schema, found)
    for name in _DEFINITIONS:
        if name in schema:
            closed[name] = {each: _closed(schema, value) for each, value in schema[name].items()}
    return closed


def _closed(root: Schema, schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or not schema:
        raise _Open  # `true`: any JSON
    found = cast("Schema", schema)
    if "$ref" in found:
        return _reference(found["$ref"])
    if len(alone := found.get("allOf") or ()) == 1 and "properties" not in found:
        return _closed(root, {**{name: value for name, value in found.items() if name != "allOf"}, **alone[0]})
    if alone or found.keys() & _OPENING:
        raise _Open
    kept = {name: value for name, value in found.items() if name in _KEPT}
    if found.get("format") in _FORMATS:
        kept["format"] = found["format"]
    if choices := found.get("anyOf") or found.get("oneOf"):
        kept["anyOf"] = [_closed(root, each) for each in choices]
    kinds = found.get("type")
    if kinds == "object" or "properties" in found:
        kept.update(_closed_object(root, found))
    if kinds == "array" or "items" in found or "prefixItems" in found:
        kept["items"] = _items(root, found)
    if not kept.keys() & {"type", "anyOf", "enum", "const"}:
        raise _Open
    if isinstance(kinds, list) and {"object", "array"} & set(cast("list[str]", kinds)):
        raise _Open
    return kept


def _reference(target: str) -> dict[str, Any]:
    """Alone: strict mode refuses keywords beside it. One into a part of the schema may lead to what is left out."""
    if target != "#" and not target.startswith(("#/$defs/", "#/definitions/")):
        raise _Open
    return {"$ref": target}


def _closed_object(root: Schema, schema: Schema) -> dict[str, Any]:
    properties: Schema = schema.get("properties") or {}
    if schema.get("additionalProperties", False) is not False or (
        "additionalProperties" not in schema and not properties
    ):
        raise _Open
    required = schema.get("required") or ()
    if set(required) - set(properties):
        raise _Open
    return {
        "type": "object",
        "properties": {
            name: _closed(root, each) if name in required else _nullable(root, each)
            for name, each in properties.items()
        },
        "required": list(properties),
        "additionalProperties": False,
    }


def _items(root: Schema, schema: Schema) -> dict[str, Any]:
    if "prefixItems" in schema:
        raise _Open
    return _closed(root, schema.get("items"))


def _nullable(root: Schema, schema: Any) -> dict[str, Any]:
    closed = _closed(root, schema)
    if allows_null(root, schema):
        return closed
    if isinstance(closed.get("type"), str) and not closed.keys() & {"enum", "const", "anyOf", "properties"}:
        return {**closed, "type": [closed["type"], "null"]}
    description = closed.pop("description", None)
    said = {} if description is None else {"description": description}
    return {"anyOf": [closed, {"type": "null"}], **said}
