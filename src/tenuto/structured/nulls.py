"""Leaves out the nulls that a strict provider had to send: those of properties that may be absent but not be null.

Invariant: a null that the schema allows, and one of a required property, stays; nothing else changes.

Source: OpenAI structured outputs, "All fields must be required" (optional parameters are emulated with null).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tenuto.core.payloads import Json
from tenuto.tools.json_schema import violations

Schema = Mapping[str, Any]
_MAX_DEPTH = 100
_CONSTRAINING = frozenset({"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"})


def without_nulls(schema: Schema, value: Json) -> Json:
    """`value` without the nulls that `schema` does not allow where they may be left out."""
    return _pruned(schema, schema, value, 0)


def _pruned(root: Schema, schema: Any, value: Json, depth: int) -> Json:
    found = resolved(root, schema)
    if found is None or depth > _MAX_DEPTH:
        return value
    for choices in (found.get("anyOf"), found.get("oneOf")):
        if choices:
            return _pruned_by_choice(root, choices, value, depth)
    for each in found.get("allOf") or ():
        value = _pruned(root, each, value, depth + 1)
    if isinstance(value, dict):
        return _pruned_object(root, found, cast("dict[str, Any]", value), depth)
    if isinstance(value, list):
        items = found.get("items")
        return [_pruned(root, items, each, depth + 1) for each in cast("list[Any]", value)]
    return value


def _pruned_object(root: Schema, schema: Schema, value: dict[str, Any], depth: int) -> dict[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required = schema.get("required") or ()
    others = schema.get("additionalProperties")
    return {
        name: _pruned(root, properties.get(name, others), each, depth + 1)
        for name, each in value.items()
        if each is not None or name not in properties or name in required or allows_null(root, properties[name])
    }


def _pruned_by_choice(root: Schema, choices: list[Any], value: Json, depth: int) -> Json:
    """By the first choice that accepts what is left."""
    shared = {name: root[name] for name in ("$defs", "definitions") if name in root}
    for choice in choices:
        fewer = _pruned(root, choice, value, depth + 1)
        if not isinstance(choice, Mapping) or not violations({**shared, **cast("Schema", choice)}, fewer):
            return fewer
    return value


def allows_null(root: Schema, schema: Any, depth: int = 0) -> bool:
    """Whether null fits `schema`; when in doubt, it does."""
    found = resolved(root, schema)
    if found is None or depth > _MAX_DEPTH or not found.keys() & _CONSTRAINING:
        return schema is not False
    kinds = found.get("type")
    if kinds is not None and "null" not in ([kinds] if isinstance(kinds, str) else kinds):
        return False
    if ("enum" in found and None not in found["enum"]) or found.get("const", None) is not None:
        return False
    for choices in (found.get("anyOf"), found.get("oneOf")):
        if choices and not any(allows_null(root, each, depth + 1) for each in choices):
            return False
    return all(allows_null(root, each, depth + 1) for each in found.get("allOf") or ())


def resolved(root: Schema, schema: Any) -> Schema | None:
    """`schema`, or what its reference leads to; None when it is no object or leads nowhere."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, Mapping):
            return None
        found = cast("Schema", schema)
        target = found.get("$ref")
        if not isinstance(target, str):
            return found
        schema = _at(root, target)
    return None


def _at(root: Schema, target: str) -> Any:
    if not target.startswith("#"):
        return None
    at: Any = root
    for step in target[1:].split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(at, Mapping) or key not in at:
            return None
        at = cast("Schema", at)[key]
    return at
