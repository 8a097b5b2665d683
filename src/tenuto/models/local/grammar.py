"""JSON Schemas the engine's sampler can hold an answer to.

Invariant: only keywords the grammar compiler knows reach it. One unknown keyword and the engine drops the whole
grammar without a word, so what is left out here is left to the validation of the arguments, which sees the full schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

Schema = Mapping[str, Any]

_KEPT = frozenset({
    "type", "enum", "const", "required", "minLength", "maxLength", "minItems", "maxItems",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "$ref",
})  # fmt: skip
_FORMATS = frozenset({"date", "time", "date-time", "uuid"})

_CLOSED: Schema = {"type": "object", "properties": {}, "additionalProperties": False}

# As models write JSON, and without the endless white space a small one can get lost in.
_SPACING: Schema = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def arguments_grammar(parameters: Schema) -> Schema:
    """The schema of a call's arguments: a closed object, so that a model cannot go on inventing arguments."""
    simple: dict[str, Any] = dict(simplified(parameters))
    if "$ref" not in simple and "anyOf" not in simple:
        simple = {**_CLOSED, **simple}
    return {**simple, "x-guidance": _SPACING}


def answer_grammar(schema: Schema | None) -> Schema:
    """The schema of an answer that must be JSON; without one, any object."""
    if schema is None:
        return {"type": "object", "x-guidance": _SPACING}
    return {**simplified(schema), "x-guidance": _SPACING}


def choice_grammar(names: Sequence[str]) -> Schema:
    """One of the names, as a JSON string."""
    return {"enum": list(names)}


def simplified(schema: Any) -> Schema:
    """The part of a schema that can be compiled. `true`, or nothing known, allows any JSON value."""
    if not isinstance(schema, Mapping):
        return {}
    node = cast("Schema", schema)
    kept: dict[str, Any] = {key: value for key, value in node.items() if key in _KEPT}
    if node.get("format") in _FORMATS:
        kept["format"] = node["format"]
    for key in ("properties", "$defs", "definitions"):
        if isinstance(node.get(key), Mapping):
            kept[key] = {name: simplified(value) for name, value in node[key].items()}
    for key in ("items", "additionalProperties"):
        if key in node:
            kept[key] = node[key] if isinstance(node[key], bool) else simplified(node[key])
    if isinstance(node.get("prefixItems"), list):
        kept["prefixItems"] = [simplified(value) for value in node["prefixItems"]]
    if choices := node.get("anyOf") or node.get("oneOf"):
        kept["anyOf"] = [simplified(value) for value in choices]
    return kept
