"""The `filter` of a semantic recall: which messages may be found at all, by what is known of them.

Invariant: a filter is checked when a memory is made or a call begins, never in the middle of a search; a message that
lacks what is asked for is not found, whatever the comparison.

Source: the query operators of MongoDB that Mastra's vector stores share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from tenuto.messages.stored import Message

_MISSING = object()


def _in(value: Any, wanted: Any) -> bool:
    return value in wanted


_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, wanted: value == wanted,
    "$ne": lambda value, wanted: value != wanted,
    "$gt": lambda value, wanted: value > wanted,
    "$gte": lambda value, wanted: value >= wanted,
    "$lt": lambda value, wanted: value < wanted,
    "$lte": lambda value, wanted: value <= wanted,
    "$in": _in,
    "$nin": lambda value, wanted: value not in wanted,
}
_JOIN: Mapping[str, Callable[[Sequence[bool]], bool]] = {
    "$and": all,
    "$or": any,
    "$nor": lambda found: not any(found),
}


def check_filter(given: Mapping[str, Any]) -> None:
    """Refuse a filter that can never be asked.

    Raises:
        TypeError: An unknown operator, or an operand of the wrong type; it names the known ones.
    """
    for name, wanted in given.items():
        if name in _JOIN:
            _check_join(name, wanted)
        elif name.startswith("$"):
            raise _unknown(name, _JOIN)
        elif isinstance(wanted, Mapping):
            _check_field(name, cast("Mapping[str, Any]", wanted))


def takes(given: Mapping[str, Any], message: Message) -> bool:
    """Whether a message passes a checked filter.

    Fields are `thread_id`, `role`, `id` and `created_at` (ISO 8601, UTC) of the message, and its metadata by name.
    """
    return all(_passes(name, wanted, message) for name, wanted in given.items())


def _passes(name: str, wanted: Any, message: Message) -> bool:
    if name in _JOIN:
        return _JOIN[name]([takes(each, message) for each in wanted])
    value = _value(name, message)
    if value is _MISSING:
        return False
    conditions = cast("Mapping[str, Any]", wanted) if isinstance(wanted, Mapping) else {"$eq": wanted}
    return all(_compares(value, operator, operand) for operator, operand in conditions.items())


def _compares(value: Any, operator: str, operand: Any) -> bool:
    try:
        return _COMPARE[operator](value, operand)
    except TypeError:  # a text and a number have no order
        return False


def _value(name: str, message: Message) -> Any:
    match name:
        case "id" | "role":
            return getattr(message, name)
        case "thread_id" | "threadId":
            return message.thread_id
        case "created_at" | "createdAt":
            return message.created_at.isoformat().replace("+00:00", "Z")
        case _:
            return (message.content.metadata or {}).get(name, _MISSING)


def _check_join(name: str, wanted: Any) -> None:
    if not isinstance(wanted, (list, tuple)):
        message = f"{name} of a filter takes a list of filters, not {type(wanted).__name__}."
        raise TypeError(message)
    for each in cast("Sequence[Any]", wanted):
        if not isinstance(each, Mapping):
            message = f"{name} of a filter takes a list of filters; {each!r} is none."
            raise TypeError(message)
        check_filter(cast("Mapping[str, Any]", each))


def _check_field(name: str, conditions: Mapping[str, Any]) -> None:
    for operator, operand in conditions.items():
        if operator not in _COMPARE:
            raise _unknown(operator, _COMPARE)
        if operator in {"$in", "$nin"} and not isinstance(operand, (list, tuple, set, frozenset)):
            message = f"{operator} of the filter on {name!r} takes a list, not {operand!r}."
            raise TypeError(message)


def _unknown(operator: str, known: Mapping[str, object]) -> TypeError:
    return TypeError(f"A filter has no {operator!r} here; known: {', '.join(known)}.")
