"""What a tool returned, as JSON builtins for the log.

Invariant: what `to_json` returns every JSON codec can write (no lone surrogates, NaN or cycles), or it raises a
`ToolError` that names the place and the type. The value stays whole; what a model reads of it is bounded elsewhere.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast

import msgspec

from tenuto.core.errors import ToolError
from tenuto.core.payloads import Json
from tenuto.messages.bounded import valid_text

_MAX_DEPTH = 200
_MAX_INT_BITS = 10_000  # Python writes no longer integer as text


class _Unserialisable(Exception):
    """A value that JSON cannot hold, found by the fast way; the slow way says where."""


def to_json(value: Any) -> Json:
    """`value` as `dict`, `list`, `str`, `int`, `float`, `bool` and None.

    Structs, dataclasses, Pydantic models, enums, sets, dates, UUIDs and paths become what JSON has for them; a
    Decimal becomes a string, bytes become base64, NaN and infinities null, a lone surrogate U+FFFD.

    Raises:
        ToolError: Something in it cannot be written; the message names path and type.
    """
    if isinstance(value, str) and type(value) is str:
        return valid_text(value)
    try:
        return msgspec.json.decode(msgspec.json.encode(value, enc_hook=_model_fields))
    except Exception:  # noqa: BLE001 - whatever it was, the walk below says where, or mends it
        return _mended(value)


def _mended(value: Any) -> Json:
    try:
        return _walk(value, "$", ())
    except ToolError:
        raise
    except Exception as error:  # a serialiser, a property or an iterator of the user's
        raise _refuse(value, "$", f"reading it raised {type(error).__name__}") from error


def _model_fields(value: Any) -> Any:
    """Pydantic models, for msgspec, which knows the rest."""
    dump = _member(value, "model_dump")
    if dump is None:
        raise _Unserialisable
    return dump(value, mode="json")


def _walk(value: Any, path: str, parents: tuple[int, ...]) -> Json:
    """The slow way: one value at a time, so that an error can name its place."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return valid_text(str.__str__(value))
    if isinstance(value, (int, float)) and not _is_enum(value):
        return _number(value, path)
    if id(value) in parents:
        raise _refuse(value, path, "it contains itself")
    if len(parents) >= _MAX_DEPTH:
        raise _refuse(value, path, f"it is nested deeper than {_MAX_DEPTH} levels")
    inside = (*parents, id(value))
    if isinstance(value, Mapping):
        entries = cast("Mapping[Any, Any]", value).items()
        return {_key(key, path): _walk(each, f"{path}.{key}", inside) for key, each in entries}
    if isinstance(value, (Sequence, AbstractSet, deque)) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [_walk(each, f"{path}[{at}]", inside) for at, each in enumerate(cast("Sequence[Any]", value))]
    return _walk_object(value, path, inside)


def _walk_object(value: Any, path: str, inside: tuple[int, ...]) -> Json:
    from pathlib import PurePath

    if isinstance(value, PurePath):
        return valid_text(str(value))
    fields = _fields(value)
    if fields is not None:
        return {name: _walk(each, f"{path}.{name}", inside) for name, each in fields.items()}
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except Exception as error:
        raise _refuse(value, path, _remedy(value)) from error


def _fields(value: Any) -> Mapping[str, Any] | None:
    """The fields of a struct, a dataclass or a model, with their values as they are."""
    if isinstance(value, type):
        return None
    if isinstance(value, msgspec.Struct):
        shown = msgspec.structs.fields(value)
        return {field.encode_name: getattr(value, field.name) for field in shown}
    names = _member(value, "__dataclass_fields__")
    if isinstance(names, Mapping):
        return {name: getattr(value, name) for name in cast("Mapping[str, Any]", names) if hasattr(value, name)}
    dump = _member(value, "model_dump")
    return None if dump is None else dump(value)


def _member(value: object, name: str) -> Any:
    """An attribute of the type of `value`: an instance may answer to any name."""
    return getattr(type(value), name, None)


def _number(value: float, path: str) -> Json:
    if isinstance(value, int):
        if value.bit_length() > _MAX_INT_BITS:
            raise _refuse(value, path, "it is too long to be written")
        return int(value)
    plain = float(value)
    return plain if plain - plain == 0 else None


def _key(key: Any, path: str) -> str:
    if isinstance(key, str):
        return valid_text(str(getattr(key, "value", key)))
    try:
        (written,) = msgspec.json.decode(msgspec.json.encode({key: None}), type=dict[str, None])
    except Exception as error:
        raise _refuse(key, f"{path} (a key)", "JSON keys are strings") from error
    return written


def _is_enum(value: object) -> bool:
    return hasattr(type(value), "__members__")


def _remedy(value: Any) -> str:
    if inspect.iscoroutine(value):
        value.close()  # else Python warns that it was never awaited
        return "it was not awaited"
    if isinstance(value, Awaitable):
        return "it was not awaited"
    if isinstance(value, (Iterator, AsyncIterator)):
        return "it yields values one by one; return a list of them"
    return "return builtins, a dataclass, a struct or a Pydantic model"


def _refuse(value: Any, path: str, reason: str) -> ToolError:
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return ToolError(
        f"The tool ran, but its result cannot be written as JSON: {path} is a value of type {kind} ({reason}).",
        id="TOOL_RESULT_NOT_SERIALISABLE",
        details={"path": path, "type": kind},
    )
