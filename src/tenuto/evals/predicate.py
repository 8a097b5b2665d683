"""The filter of a live scorer: a JSON predicate over the facts of a run, never over what was said in it.

Invariant: a predicate that passed `check_filter` names known operators and known facts; it is evaluated without
running anybody's code. A fact that is not there makes comparisons, `in` and `exists` false, `notIn` and `notExists`
true.

Source: the predicate grammar of Mastra's live scorers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from tenuto.core import codec
from tenuto.core.errors import ConfigurationError
from tenuto.core.option_keys import spellings
from tenuto.core.payloads import wire_name

_FACTS = ("request_context", "entity", "entity_type", "source", "thread_id", "resource_id", "project_id")
ROOTS: Mapping[str, str] = {spelled: wire_name(name) for spelled, name in spellings(_FACTS).items()}
"""Both spellings of what a path may begin with, and the one of the facts."""

Facts = Mapping[str, Any]
"""By root; a request context is flat, with dotted keys."""

_ABSENT = object()
_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt,
    "lte": operator.le,
    "gt": operator.gt,
    "gte": operator.ge,
}
_KEYS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("eq", "ne", *_COMPARED), frozenset({"left", "right"})),
    **dict.fromkeys(("in", "notIn"), frozenset({"value", "set"})),
    **dict.fromkeys(("exists", "notExists"), frozenset({"path"})),
    **dict.fromkeys(("truthy", "falsy"), frozenset({"value"})),
    **dict.fromkeys(("and", "or"), frozenset({"args"})),
    "not": frozenset({"arg"}),
}


def check_filter(given: object, owner: str) -> None:
    """See that `given` is a predicate.

    Raises:
        ConfigurationError: `SCORER_FILTER_INVALID`; it says where.
    """
    wrong = _wrong(given)
    if wrong is None:
        try:
            codec.encode(given)
        except TypeError as error:
            wrong = f"is no JSON. {error}"
    if wrong is not None:
        raise ConfigurationError(f"The filter of scorer {owner!r} {wrong}", id="SCORER_FILTER_INVALID")


def holds(predicate: Mapping[str, Any], facts: Facts) -> bool:
    """Whether the facts of a run fit a checked `predicate`.

    Raises:
        TypeError: It compares what cannot be compared, such as a text with a number.
    """
    op = predicate["op"]
    match op:
        case "and":
            return all(holds(each, facts) for each in predicate["args"])
        case "or":
            return any(holds(each, facts) for each in predicate["args"])
        case "not":
            return not holds(predicate["arg"], facts)
        case "exists" | "notExists":
            return (_at(predicate["path"], facts) is not _ABSENT) == (op == "exists")
        case "truthy" | "falsy":
            value = _value(predicate["value"], facts)
            return (value is not _ABSENT and bool(value)) == (op == "truthy")
        case "in" | "notIn":
            value = _value(predicate["value"], facts)
            there = value is not _ABSENT and any(_same(value, _value(each, facts)) for each in predicate["set"])
            return there == (op == "in")
        case _:
            left, right = _value(predicate["left"], facts), _value(predicate["right"], facts)
            if left is _ABSENT or right is _ABSENT:
                return False
            return _same(left, right) == (op == "eq") if op in {"eq", "ne"} else _COMPARED[op](left, right)


def _wrong(given: object) -> str | None:
    if not isinstance(given, Mapping):
        return f"has to be a dict such as {{'op': 'exists', 'path': 'threadId'}}, not {given!r}."
    said = cast("Mapping[str, Any]", given)
    op = said.get("op")
    keys = _KEYS.get(op) if isinstance(op, str) else None
    if keys is None:
        return f"has the operator {op!r}; known: {', '.join(_KEYS)}."
    if set(said) != {"op", *keys}:
        return f"has {op!r} with the keys {sorted(set(said) - {'op'})}; it takes {sorted(keys)}."
    if "args" in keys or "arg" in keys:
        below = said["args"] if "args" in keys else [said["arg"]]
        if not isinstance(below, (list, tuple)):
            return f"has {op!r} with args= that is no list."
        return next((wrong for each in cast("Sequence[Any]", below) if (wrong := _wrong(each))), None)
    if "path" in keys:
        return _wrong_path(said["path"])
    operands = [said[key] for key in sorted(keys - {"set"})]
    if "set" in keys:
        if not isinstance(said["set"], (list, tuple)):
            return f"has {op!r} with set= that is no list."
        operands += cast("Sequence[Any]", said["set"])
        operands[1:] = [each for each in operands[1:] if isinstance(each, Mapping)]
    return next((wrong for each in operands if (wrong := _wrong_operand(each))), None)


def _wrong_operand(given: object) -> str | None:
    if isinstance(given, Mapping):
        said = cast("Mapping[str, Any]", given)
        if set(said) == {"literal"}:
            return None
        if set(said) == {"path"}:
            return _wrong_path(said["path"])
    return f"has the operand {given!r}; write {{'path': ...}} or {{'literal': ...}}."


def _wrong_path(path: object) -> str | None:
    steps = _steps(path)
    if not steps:
        return f"has the path {path!r}; a path is text such as 'requestContext.plan'."
    if steps[0] not in ROOTS:
        return f"looks at {steps[0]!r}; a filter sees only {', '.join(dict.fromkeys(ROOTS.values()))}."
    return None


def _steps(path: object) -> list[str]:
    if isinstance(path, str):
        return path.split(".") if path else []
    given = cast("Sequence[Any]", path) if isinstance(path, (list, tuple)) else ()
    return list(given) if all(isinstance(each, str) for each in given) else []


def _value(operand: Any, facts: Facts) -> Any:
    if not isinstance(operand, Mapping):
        return operand  # a plain member of a set
    given = cast("Mapping[str, Any]", operand)
    return _at(given["path"], facts) if "path" in given else given["literal"]


def _at(path: Any, facts: Facts) -> Any:
    root, *rest = _steps(path)
    found = facts.get(ROOTS[root], _ABSENT)
    if not rest or not isinstance(found, Mapping):
        return _ABSENT if rest or found is None else found
    return cast("Mapping[str, Any]", found).get(".".join(rest), _ABSENT)


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and one == other
