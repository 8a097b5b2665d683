"""JSON Schema as Gemini reads it for answers.

Invariant: what is accepted is the same: `const`, which is not known there, is an `enum` of one.

Source: Gemini API guide "Structured output", supported keywords.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_ONE = ("items", "additionalProperties", "not")
_LIST = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "$defs", "definitions")


def without_const(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with each `const` as an `enum`; keywords alone are read, never a property's name."""
    made = {key: value for key, value in schema.items() if key != "const"}
    if "const" in schema:
        made["enum"] = [schema["const"]]
    for key in _ONE:
        if key in made:
            made[key] = _inner(made[key])
    for key in _LIST:
        if isinstance(made.get(key), list | tuple):
            made[key] = [_inner(each) for each in made[key]]
    for key in _NAMED:
        if isinstance(made.get(key), Mapping):
            made[key] = {name: _inner(each) for name, each in made[key].items()}
    return made


def _inner(schema: object) -> Any:
    return without_const(cast("Mapping[str, Any]", schema)) if isinstance(schema, Mapping) else schema
