"""JSON Schemas in the form that the provider takes.

Invariant: nothing a schema says is lost: a keyword that cannot be kept is told in the description. The caller's own
schema is never changed.

Source: Anthropic documentation: "Structured outputs" (JSON Schema limitations), "Define tools".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)  # fmt: skip
_KEPT = frozenset(
    {
        "type", "description", "title", "enum", "const", "default", "$ref", "$defs", "definitions", "properties",
        "required", "additionalProperties", "items", "anyOf", "allOf",
    }
)  # fmt: skip
_UNIONS = ("anyOf", "oneOf", "allOf")

Schema = Mapping[str, Any]


def strict_schema(schema: Schema) -> dict[str, Any]:
    """A schema that an answer can be held to: objects closed, limits of size and number in words."""
    kept: dict[str, Any] = {}
    told: dict[str, Any] = {}
    for name, value in schema.items():
        if name in {"properties", "$defs", "definitions"} and isinstance(value, Mapping):
            kept[name] = {key: _nested(item) for key, item in cast("Schema", value).items()}
        elif name in {"anyOf", "oneOf", "allOf"}:
            kept["anyOf" if name == "oneOf" else name] = [_nested(item) for item in cast("Iterable[Any]", value)]
        elif name == "items":
            kept[name] = _nested(value)
        elif _is_kept(name, value):
            kept[name] = value
        elif name not in {"$schema", "$id", "discriminator"}:
            told[name] = value
    if _is_object(schema):
        kept["additionalProperties"] = False
        if isinstance(schema.get("additionalProperties"), Mapping):
            told["additionalProperties"] = schema["additionalProperties"]
    return _told(kept, told)


def _nested(item: Any) -> Any:
    return strict_schema(cast("Schema", item)) if isinstance(item, Mapping) else item


def _is_kept(name: str, value: Any) -> bool:
    if name == "format":
        return value in _FORMATS
    if name == "minItems":
        return value in {0, 1}
    return name in _KEPT


def _is_object(schema: Schema) -> bool:
    kind = schema.get("type")
    return kind == "object" or "properties" in schema or (isinstance(kind, list) and "object" in kind)


def _told(kept: dict[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    if told:
        words = ", ".join(f"{name}: {msgspec.json.encode(value).decode()}" for name, value in told.items())
        kept["description"] = f"{kept['description']} ({words})" if kept.get("description") else f"({words})"
    return kept


def tool_schema(schema: Schema) -> Schema:
    """A tool's schema with an object at its root: a union or a reference there is refused, so it is opened up.

    What a union cannot say that way is left to the check of the arguments.
    """
    if schema.get("type") == "object" and not any(name in schema for name in (*_UNIONS, "$ref")):
        return schema
    root = _resolved(schema, schema)
    kept = {name: value for name, value in root.items() if name not in _UNIONS}
    properties: dict[str, Any] = dict(kept.get("properties") or {})
    required: set[str] = set(kept.get("required") or ())
    for name in _UNIONS:
        branches = [_resolved(branch, schema) for branch in root.get(name) or () if isinstance(branch, Mapping)]
        needs = [set(cast("Iterable[str]", branch.get("required") or ())) for branch in branches]
        for branch in branches:
            for key, value in cast("Schema", branch.get("properties") or {}).items():
                properties.setdefault(key, value)
        if needs:
            required |= set[str]().union(*needs) if name == "allOf" else set[str].intersection(*needs)
    order = [name for name in properties if name in required]
    kept = {**kept, "type": "object", "properties": properties}
    kept.pop("required", None)
    return {**kept, "required": order} if order else kept


def _resolved(schema: Any, root: Schema) -> Schema:
    """A schema with the definition that it refers to within `root` in its place."""
    seen: set[str] = set()
    found: dict[str, Any] = dict(cast("Schema", schema)) if isinstance(schema, Mapping) else {}
    while isinstance(ref := found.pop("$ref", None), str) and ref not in seen:
        seen.add(ref)
        place, _, name = ref.removeprefix("#/").partition("/")
        definitions: Schema = root.get(place) or {}
        found = {**found, **(definitions.get(name) or {})}
    return found
