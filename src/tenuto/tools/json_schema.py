"""Checks a JSON value against a JSON Schema: for data whose type another process may not have.

Invariant: a schema with a keyword of the standard that would have to be checked and cannot be is refused when it is
given, not passed over when data arrive. `format` and other annotations say nothing about validity.

Source: JSON Schema draft 2020-12, Core and Validation; `$ref` within the schema only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from tenuto.core.payloads import Json
from tenuto.tools.canonical import canonical

Check = Callable[["_Checker", Any, Any, str, Mapping[str, Any]], Iterable[str]]

_MAX_REASONS = 10
_SHOWN = 80
_UNKNOWN = frozenset(
    {
        "contains", "minContains", "maxContains", "additionalItems", "unevaluatedItems", "unevaluatedProperties",
        "dependencies", "dependentRequired", "dependentSchemas", "$dynamicRef", "$recursiveRef",
    }
)  # fmt: skip


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value == int(value),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def violations(schema: Json, value: Json) -> list[str]:
    """Why `value` does not fit, one reason an entry, each with its place; empty when it fits."""
    found: list[str] = []
    try:
        for reason in _Checker(schema).check(schema, value, "$"):
            found.append(reason)
            if len(found) == _MAX_REASONS:
                break
    except RecursionError:
        return ["$: it is nested too deep to be checked"]
    return found


def problem(schema: Json) -> str | None:
    """Why `schema` cannot be used, else None."""
    checker = _Checker(schema)
    try:
        return next(_problems(checker, schema, "#"), None)
    except RecursionError:
        return "#: it is nested too deep"


class _Checker:
    """One schema, with what its references point to."""

    def __init__(self, root: Json) -> None:
        self._root = root

    def check(self, schema: Any, value: Any, place: str) -> Iterator[str]:
        if isinstance(schema, Mapping):
            rules = cast("Mapping[str, Any]", schema)
            for keyword, argument in rules.items():
                rule = _CHECKS.get(keyword)
                if rule is not None:
                    yield from rule(self, argument, value, place, rules)
        elif not schema:
            yield f"{place}: nothing may stand here"

    def fits(self, schema: Any, value: Any) -> bool:
        return next(self.check(schema, value, "$"), None) is None

    def target(self, reference: str) -> Any:
        """What a reference points to.

        Raises:
            LookupError: Nothing.
        """
        pointer, _, path = reference.partition("#")
        if pointer or (path and not path.startswith("/")):
            raise LookupError(reference)
        found = self._root
        for part in path.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            found = cast("Any", found[int(key)] if isinstance(found, list) else found[key])
        return found


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _type(_: _Checker, argument: Any, value: Any, place: str, __: Mapping[str, Any]) -> Iterator[str]:
    names: list[str] = [argument] if isinstance(argument, str) else argument
    if not any(_TYPES[name](value) for name in names):
        yield f"{place}: {_shown(value)} is not of type {' or '.join(names)}"


def _enum(_: _Checker, argument: Any, value: Any, place: str, __: Mapping[str, Any]) -> Iterator[str]:
    if canonical(value) not in {canonical(each) for each in argument}:
        yield f"{place}: {_shown(value)} is none of {', '.join(map(_shown, argument))}"


def _const(checker: _Checker, argument: Any, value: Any, place: str, rules: Mapping[str, Any]) -> Iterable[str]:
    return _enum(checker, [argument], value, place, rules)


def _ref(checker: _Checker, argument: Any, value: Any, place: str, _: Mapping[str, Any]) -> Iterable[str]:
    return checker.check(checker.target(argument), value, place)


def _bound(test: Callable[[Any, Any], bool], words: str, measure: Callable[[Any], Any]) -> Check:
    """A limit on what `measure` says of a value; None: the keyword does not apply to it."""

    def check(_: _Checker, argument: Any, value: Any, place: str, __: Mapping[str, Any]) -> Iterator[str]:
        measured = measure(value)
        if measured is not None and not test(measured, argument):
            yield f"{place}: {_shown(value)} {words} {argument}"

    return check


def _as_number(value: Any) -> Any:
    return value if _is_number(value) else None


def _length_of(kind: type) -> Callable[[Any], Any]:
    return lambda value: len(value) if isinstance(value, kind) else None


def _at_least(value: Any, limit: Any) -> bool:
    return value >= limit


def _at_most(value: Any, limit: Any) -> bool:
    return value <= limit


def _multiple(value: Any, step: Any) -> bool:
    return value % step == 0 or abs(value / step - round(value / step)) < 1e-9


def _unique(_: _Checker, argument: Any, value: Any, place: str, __: Mapping[str, Any]) -> Iterator[str]:
    if argument and isinstance(value, list):
        texts = [canonical(each) for each in cast("list[Any]", value)]
        if len(set(texts)) < len(texts):
            yield f"{place}: an item is there twice"


def _required(_: _Checker, argument: Any, value: Any, place: str, __: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{place}.{name}: it is missing" for name in argument if name not in value)


def _properties(checker: _Checker, argument: Any, value: Any, place: str, _: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(value, dict):
        for name, schema in argument.items():
            if name in value:
                yield from checker.check(schema, value[name], f"{place}.{name}")


def _patterns(checker: _Checker, argument: Any, value: Any, place: str, _: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in cast("dict[str, Any]", value).items():
            for pattern, schema in argument.items():
                if re.search(pattern, name):
                    yield from checker.check(schema, each, f"{place}.{name}")


def _additional(checker: _Checker, argument: Any, value: Any, place: str, rules: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(value, dict):
        patterns: Sequence[str] = tuple(rules.get("patternProperties", ()))
        for name, each in cast("dict[str, Any]", value).items():
            if name in rules.get("properties", ()) or any(re.search(pattern, name) for pattern in patterns):
                continue
            if argument is False:
                yield f"{place}.{name}: it is not expected"
            else:
                yield from checker.check(argument, each, f"{place}.{name}")


def _names(checker: _Checker, argument: Any, value: Any, place: str, _: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(value, dict):
        for name in cast("dict[str, Any]", value):
            yield from checker.check(argument, name, f"{place} (a name)")


def _prefix(checker: _Checker, argument: Any, value: Any, place: str, _: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(value, list):
        for at, (schema, each) in enumerate(zip(argument, cast("list[Any]", value), strict=False)):
            yield from checker.check(schema, each, f"{place}[{at}]")


def _items(checker: _Checker, argument: Any, value: Any, place: str, rules: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(value, list):
        skipped = len(rules.get("prefixItems", ()))
        for at, each in enumerate(cast("list[Any]", value)[skipped:], skipped):
            yield from checker.check(argument, each, f"{place}[{at}]")


def _all_of(checker: _Checker, argument: Any, value: Any, place: str, _: Mapping[str, Any]) -> Iterator[str]:
    for schema in argument:
        yield from checker.check(schema, value, place)


def _any_of(checker: _Checker, argument: Any, value: Any, place: str, _: Mapping[str, Any]) -> Iterator[str]:
    if not any(checker.fits(schema, value) for schema in argument):
        yield f"{place}: {_shown(value)} fits none of the {len(argument)} alternatives"


def _one_of(checker: _Checker, argument: Any, value: Any, place: str, _: Mapping[str, Any]) -> Iterator[str]:
    fitting = sum(checker.fits(schema, value) for schema in argument)
    if fitting != 1:
        yield f"{place}: {_shown(value)} fits {fitting} of the {len(argument)} alternatives, not one"


def _not(checker: _Checker, argument: Any, value: Any, place: str, _: Mapping[str, Any]) -> Iterator[str]:
    if checker.fits(argument, value):
        yield f"{place}: {_shown(value)} is excluded"


def _if(checker: _Checker, argument: Any, value: Any, place: str, rules: Mapping[str, Any]) -> Iterable[str]:
    branch = rules.get("then" if checker.fits(argument, value) else "else", True)
    return checker.check(branch, value, place)


def _pattern_found(value: Any, pattern: Any) -> bool:
    return re.search(pattern, value) is not None


_CHECKS: Mapping[str, Check] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "$ref": _ref,
    "minimum": _bound(_at_least, "is less than", _as_number),
    "maximum": _bound(_at_most, "is more than", _as_number),
    "exclusiveMinimum": _bound(lambda value, limit: value > limit, "is not more than", _as_number),
    "exclusiveMaximum": _bound(lambda value, limit: value < limit, "is not less than", _as_number),
    "multipleOf": _bound(_multiple, "is no multiple of", _as_number),
    "minLength": _bound(_at_least, "is shorter than", _length_of(str)),
    "maxLength": _bound(_at_most, "is longer than", _length_of(str)),
    "pattern": _bound(_pattern_found, "does not match", lambda value: value if isinstance(value, str) else None),
    "minItems": _bound(_at_least, "has fewer items than", _length_of(list)),
    "maxItems": _bound(_at_most, "has more items than", _length_of(list)),
    "minProperties": _bound(_at_least, "has fewer entries than", _length_of(dict)),
    "maxProperties": _bound(_at_most, "has more entries than", _length_of(dict)),
    "uniqueItems": _unique,
    "required": _required,
    "properties": _properties,
    "patternProperties": _patterns,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "prefixItems": _prefix,
    "items": _items,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
}
_IN_NAMES = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_IN_LIST = frozenset({"prefixItems", "allOf", "anyOf", "oneOf"})
_INSIDE = frozenset({"additionalProperties", "propertyNames", "items", "not", "if", "then", "else"})


def _problems(checker: _Checker, schema: Any, place: str) -> Iterator[str]:
    """What is wrong in a schema and in those inside it."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield f"{place}: {_shown(schema)} is no schema"
        return
    for keyword, argument in cast("Mapping[str, Any]", schema).items():
        inside = f"{place}/{keyword}"
        if keyword in _UNKNOWN:
            yield f"{inside}: this keyword cannot be checked"
        yield from _wrong_argument(checker, keyword, argument, inside)
        for name, nested in _nested(keyword, argument):
            yield from _problems(checker, nested, f"{inside}{name}")


def _nested(keyword: str, argument: Any) -> Iterator[tuple[str, Any]]:
    if keyword in _IN_NAMES and isinstance(argument, Mapping):
        yield from ((f"/{name}", each) for name, each in cast("Mapping[str, Any]", argument).items())
    elif keyword in _IN_LIST and isinstance(argument, list):
        yield from ((f"/{at}", each) for at, each in enumerate(cast("list[Any]", argument)))
    elif keyword in _INSIDE:
        yield "", argument


def _wrong_argument(checker: _Checker, keyword: str, argument: Any, place: str) -> Iterator[str]:
    kinds = _ARGUMENTS.get(keyword)
    if kinds is not None and (not isinstance(argument, kinds) or isinstance(argument, bool)):
        yield f"{place}: {_shown(argument)} cannot stand here"
        return
    try:
        match keyword:
            case "type":
                _ = [_TYPES[name] for name in ([argument] if isinstance(argument, str) else argument)]
            case "$ref":
                checker.target(argument)
            case "multipleOf":
                _ = 1 / argument
            case "pattern":
                re.compile(argument)
            case "patternProperties":
                _ = [re.compile(pattern) for pattern in argument]
            case _:
                pass
    except (LookupError, TypeError, ValueError, ZeroDivisionError, re.error):
        yield f"{place}: {_shown(argument)} cannot stand here"


_ARGUMENTS: Mapping[str, Any] = {
    **dict.fromkeys(_IN_NAMES, Mapping),
    **dict.fromkeys((*_IN_LIST, "enum", "required"), list),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), (int, float)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), int),
    **dict.fromkeys(("$ref", "pattern"), str),
    "type": (str, list),
}
