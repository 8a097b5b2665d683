"""One text for each value: what keys and hashes are made of.

Invariant: equal values have equal texts, whichever way they were written (1, 1.0 and Decimal("1.00"); one instant in
two time zones; a dict in another order; a model or the dict of its fields), and different values different ones: `1`,
`"1"` and `true` stay apart, and so do two secrets. What has no such text is refused, never shortened.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

import msgspec

from tenuto.core.errors import ToolError


def digest(*parts: Any) -> str:
    """The SHA-256 of the canonical text of `parts`, in hex.

    Raises:
        ToolError: `TOOL_KEY_UNUSABLE`: see `canonical`; or a value is nested too deep, or contains itself.
    """
    try:
        return sha256(canonical(parts).encode()).hexdigest()
    except RecursionError as error:
        message = "A value cannot be part of a key: it is nested too deep, or contains itself."
        raise ToolError(message, id="TOOL_KEY_UNUSABLE", category="USER") from error


def canonical(value: Any) -> str:
    """The text of `value`: JSON with sorted keys, no spaces, ASCII only, and one way to write a number.

    Raises:
        ToolError: `TOOL_KEY_UNUSABLE`: a value of a type that has no text of its own.
    """
    match value:
        case Enum():
            return canonical(value.value)
        case None | bool():
            return json.dumps(value)
        case int() | float() | Decimal():
            return _number(value)
        case str():
            return json.dumps(str.__str__(value))
        case datetime():
            return json.dumps(_instant(value))
        case date() | time():
            return json.dumps(value.isoformat())
        case timedelta():
            return canonical(f"{value.days} d {value.seconds} s {value.microseconds} us")
        case bytes() | bytearray() | memoryview():
            return json.dumps(b64encode(cast("bytes", value)).decode())
        case UUID() | PurePath():
            return json.dumps(str(value))
        case _:
            return _container(value)


def _container(value: Any) -> str:
    match value:
        case Mapping():
            return _object(cast("Mapping[Any, Any]", value).items())
        case AbstractSet():
            return f"[{','.join(sorted(map(canonical, cast('AbstractSet[Any]', value))))}]"
        case Sequence() | deque():
            return f"[{','.join(map(canonical, cast('Iterable[Any]', value)))}]"
        case _:
            return _fields(value)


def _object(items: Iterable[tuple[Any, Any]]) -> str:
    pairs = sorted((_name(key), canonical(each)) for key, each in items)
    return f"{{{','.join(f'{key}:{each}' for key, each in pairs)}}}"


def _name(key: Any) -> str:
    text = canonical(key)
    return text if text.startswith('"') else json.dumps(text)


def _fields(value: Any) -> str:
    """The fields themselves, not a dump of them: a dump masks secrets and leaves out what is excluded."""
    kind = cast("Any", type(value))
    if isinstance(value, msgspec.Struct):
        return _object((field.encode_name, getattr(value, field.name)) for field in msgspec.structs.fields(value))
    if is_dataclass(value):
        return _object((field.name, getattr(value, field.name)) for field in dataclass_fields(value))
    names = getattr(kind, "model_fields", None)
    if isinstance(names, Mapping):
        found = {name: getattr(value, name) for name in cast("Mapping[str, Any]", names)}
        extra: Mapping[str, Any] = getattr(value, "model_extra", None) or {}
        return canonical(found["root"]) if set(found) == {"root"} else _object((found | dict(extra)).items())
    if hasattr(kind, "get_secret_value"):
        return canonical(value.get_secret_value())
    return _other(value)


def _other(value: Any) -> str:
    """Types that only Pydantic knows: addresses, URLs, patterns."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return canonical(to_jsonable_python(value))
    except PydanticSerializationError as error:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        message = f"A value of type {kind} cannot be part of a key: it has no text that tells it from others."
        raise ToolError(message, id="TOOL_KEY_UNUSABLE", category="USER", details={"type": kind}) from error


def _number(value: float | Decimal) -> str:
    """Its digits without zeros at the end, and an exponent; a float by its shortest form."""
    exact = Decimal(float.__repr__(value)) if isinstance(value, float) else Decimal(value)
    sign, digits, exponent = exact.as_tuple()
    if not isinstance(exponent, int):
        return str(exact)
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return "0"
    short = text.rstrip("0")
    return f"{'-' if sign else ''}{short}e{exponent + len(text) - len(short)}"


def _instant(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(UTC).isoformat()
