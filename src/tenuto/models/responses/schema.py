"""JSON Schemas in the subset that OpenAI's strict mode takes.

Invariant: a schema that comes out accepts what the one that went in accepts, or less only by keys it did not name; a
schema that strict mode cannot say comes out as None.

Source: OpenAI guide "Structured model outputs", supported schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

Schema = Mapping[str, Any]

_REFUSED = frozenset(
    {
        "allOf", "not", "if", "then", "else", "oneOf", "dependentRequired", "dependentSchemas", "patternProperties",
        "unevaluatedProperties", "propertyNames", "contains", "prefixItems", "minProperties", "maxProperties",
        "unevaluatedItems", "minContains", "maxContains", "uniqueItems",
    }
)  # fmt: skip
_DROPPED = frozenset({"default", "examples", "$schema", "$id", "$comment"})


def strict_schema(schema: Schema) -> dict[str, Any] | None:
    """The schema as strict mode wants it, objects closed and every property required; None when it cannot be."""
    if schema.get("type") != "object" or "anyOf" in schema:
        return None
    return _fitted(schema)


def _fitted(schema: Schema) -> dict[str, Any] | None:
    if schema.keys() & _REFUSED or not schema.keys() - {"description", "title"}:
        return None
    fitted: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DROPPED:
            continue
        inner = _inner(key, value)
        if inner is None and value is not None:
            return None
        fitted[key] = inner
    return _closed(fitted) if _is_object(fitted) else fitted


def _inner(key: str, value: Any) -> Any:
    match key:
        case "items" if isinstance(value, Mapping):
            return _fitted(cast("Schema", value))
        case "anyOf":
            return _all([_fitted(each) for each in cast("list[Schema]", value)])
        case "properties" | "$defs" | "definitions":
            found = {name: _fitted(each) for name, each in cast("Mapping[str, Schema]", value).items()}
            return found if _all(list(found.values())) is not None else None
        case "items":
            return None
        case _:
            return value


def _all(schemas: list[dict[str, Any] | None]) -> list[dict[str, Any] | None] | None:
    return None if None in schemas else schemas


def _is_object(schema: Schema) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in schema


def _closed(schema: dict[str, Any]) -> dict[str, Any] | None:
    """With no further keys; None when keys may be left out, or others be there."""
    if "properties" not in schema or schema.get("additionalProperties", False) is not False:
        return None
    names = list(schema.get("properties") or ())
    if set(names) != set(schema.get("required") or ()):
        return None
    return {**schema, "required": names, "additionalProperties": False}
