"""Checks values against a JSON Schema that a user gave or the store kept.

Invariant: a schema that cannot be used is refused when it is given, and a value is never said to fit because a check
failed. The library is imported when the first schema is checked.

Source: JSON Schema 2020-12, by the `jsonschema` package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tenuto.core.payloads import Json
from tenuto.messages.bounded import bounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jsonschema.exceptions import ValidationError

_MAX_REASONS = 10
_MAX_REASON = 400


def violations(schema: Json, value: Json) -> list[str]:
    """Why `value` does not fit, one reason an entry, each with its place; empty when it fits."""
    return [bounded(f"{shown_place(place)}: {reason}", _MAX_REASON) for place, reason in issues_of(schema, value)]


def issues_of(schema: Json, value: Json, *, limit: int = _MAX_REASONS) -> list[tuple[tuple[int | str, ...], str]]:
    """Why `value` does not fit, at most `limit` reasons, each with its place; that of what is missing is its own."""
    from jsonschema import Draft202012Validator

    found: list[tuple[tuple[int | str, ...], str]] = []
    try:
        checker = cast("Any", Draft202012Validator(schema))
        issues: Iterable[ValidationError] = checker.iter_errors(value)
        for issue in issues:
            found.append((_place_of(issue), bounded(issue.message, _MAX_REASON)))
            if len(found) == limit:
                break
    except RecursionError:
        return [((), "it is nested too deep to be checked")]
    except Exception as error:  # noqa: BLE001 - a reference that leads nowhere, a pattern that is none
        return [((), f"it cannot be checked ({type(error).__name__}: {bounded(str(error), _MAX_REASON)})")]
    return found


def _place_of(issue: ValidationError) -> tuple[int | str, ...]:
    place = tuple(issue.absolute_path)
    if issue.validator != "required":
        return place
    names = cast("list[str]", issue.validator_value)
    return (*place, *(name for name in names if issue.message.startswith(f"{name!r} is ")))


def shown_place(place: Iterable[int | str]) -> str:
    """A place as a JSON path: `$.items[2].name`."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)


_NO_CHECK = frozenset(
    {"$schema", "$id", "$ref", "$defs", "$anchor", "$dynamicRef", "$dynamicAnchor", "$vocabulary", "$comment"}
    | {"definitions", "title", "description", "default", "deprecated", "readOnly", "writeOnly", "examples", "nullable"}
    | {"then", "else", "minContains", "maxContains", "contentEncoding", "contentMediaType", "contentSchema"}
)
_MAX_NAMED = 5


def without_keyword(schema: Mapping[str, Any]) -> str | None:
    """Why `schema` says nothing though it is not empty: the properties of an object were written as the schema."""
    from jsonschema import Draft202012Validator

    known = cast("Any", Draft202012Validator).VALIDATORS
    if not schema or any(key in known or key in _NO_CHECK or key.startswith("x-") for key in schema):
        return None
    named = ", ".join(map(repr, list(schema)[:_MAX_NAMED]))
    return f"#: {named} is no keyword of JSON Schema; {{'type': 'object', 'properties': {{...}}}} has such names inside"


def problem(schema: Json) -> str | None:
    """Why `schema` cannot be used, else None."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    if isinstance(schema, dict) and (wrong := without_keyword(cast("dict[str, Any]", schema))) is not None:
        return wrong
    try:
        Draft202012Validator.check_schema(cast("Any", schema))
    except SchemaError as error:
        return bounded(f"{_place(error.absolute_path)}: {error.message}", _MAX_REASON)
    except RecursionError:
        return "#: it is nested too deep"
    return _dangling(schema, schema)


def _dangling(root: Json, schema: Any) -> str | None:
    """A reference within the schema that leads nowhere, or one that leads out of it: nothing is ever fetched."""
    if isinstance(schema, dict):
        entries = cast("dict[str, Any]", schema)
        target = entries.get("$ref")
        if isinstance(target, str) and not _leads_somewhere(root, target):
            return f"#: the reference {target!r} leads nowhere in the schema"
        nested: Iterable[Any] = entries.values()
    elif isinstance(schema, list):
        nested = cast("list[Any]", schema)
    else:
        return None
    return next((found for each in nested if (found := _dangling(root, each)) is not None), None)


def _leads_somewhere(root: Json, target: str) -> bool:
    if not target.startswith("#"):
        return False
    at: Any = root
    for step in target[1:].split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(at, dict) or key not in at:
            return False
        at = cast("dict[str, Any]", at)[key]
    return True


def _place(path: Any) -> str:
    return "/".join(("#", *map(str, path)))
