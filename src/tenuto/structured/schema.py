"""`OutputSchema`: what an answer must be, as a JSON Schema for the model and a validator for what it sends.

Invariant: a value is accepted exactly when the type's (or the JSON Schema's) own validation accepts it, or would if
the nulls that stand where null is not allowed were left out; every issue is told, not only the first. Pydantic is
imported when the first schema is made.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Generic, cast

import msgspec
from typing_extensions import TypeVar

from tenuto.core.errors import ConfigurationError, Issue
from tenuto.core.foreign import contained, message_of
from tenuto.core.payloads import Json
from tenuto.messages.bounded import bounded, valid_text
from tenuto.structured.nulls import without_nulls
from tenuto.tools.json_schema import issues_of, problem

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T", default=Any)

MAX_ISSUES = 100
_MAX_REASON = 400
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")


class Unfit(ValueError):
    """A value does not fit; `issues` says everything that is wrong with it."""

    def __init__(self, found: tuple[Issue, ...]) -> None:
        super().__init__("; ".join(map(str, found)))
        self.issues: tuple[Issue, ...] = found


class NoSchema(ConfigurationError, TypeError):
    """What was given as a schema is none, or has none."""

    default_id = "STRUCTURED_OUTPUT_SCHEMA_INVALID"


class OutputSchema(Generic[T]):
    """A schema of answers; make one with `schema_of`.

    Attributes:
        json_schema: For the model; what its parts are called in JSON.
        typed: Made of a Python type; False for a JSON Schema, whose values are plain JSON.
        name: For providers that want one.
    """

    __slots__ = ("_adapter", "json_schema", "name", "typed")

    def __init__(self, json_schema: Mapping[str, Any], adapter: TypeAdapter[T] | None = None) -> None:
        self.json_schema: Mapping[str, Any] = json_schema
        self.typed: bool = adapter is not None
        self.name: str = _NOT_IN_NAMES.sub("_", str(json_schema.get("title") or "response"))[:64]
        self._adapter = adapter

    def load(self, value: Json) -> tuple[T, Json]:
        """The object that the JSON `value` stands for, and the value as it was accepted.

        Raises:
            Unfit: It does not fit.
        """
        try:
            return self._validated(value), value
        except Unfit as unfit:
            fewer = without_nulls(self.json_schema, value)
            if fewer == value:
                raise
            try:
                return self._validated(fewer), fewer
            except Unfit:
                raise unfit from None

    def dump(self, value: object) -> Json:
        """`value`, an instance of the type or what one can be made of, as JSON.

        Raises:
            Unfit: It does not fit.
        """
        if self._adapter is None:
            plain = _as_json(value)
            self._validated(plain)
            return plain
        try:
            with contained():
                made = self._adapter.validate_python(value)
        except Exception as error:  # noqa: BLE001 - a strict type takes dates as text from JSON only
            return self._adapter.dump_python(self._retried(value, error), mode="json", by_alias=True)
        return self._adapter.dump_python(made, mode="json", by_alias=True)

    def _retried(self, value: object, first: Exception) -> T:
        try:
            return self._validated(_as_json(value))
        except Unfit:
            raise Unfit(_issues(first)) from first

    def _validated(self, value: Json) -> T:
        if self._adapter is None:
            if found := issues_of(self.json_schema, value, limit=MAX_ISSUES):
                raise Unfit(tuple(Issue(place, reason) for place, reason in found))
            return cast("T", value)
        try:
            with contained():
                return self._adapter.validate_json(msgspec.json.encode(value))
        except Exception as error:
            raise Unfit(_issues(error)) from error


def schema_of(given: object) -> OutputSchema[Any]:
    """The schema that `given` is: a type, a `TypeAdapter`, or a JSON Schema as a mapping.

    Raises:
        NoSchema: No schema can be made of it.
    """
    if isinstance(given, OutputSchema):
        return cast("OutputSchema[Any]", given)
    if isinstance(given, Mapping):
        return _of_json_schema(cast("Mapping[str, Any]", given))
    try:
        return _of_type(given)
    except TypeError:  # not hashable
        return _of_type.__wrapped__(given)


@functools.lru_cache(maxsize=256)
def _of_type(given: object) -> OutputSchema[Any]:
    from pydantic import TypeAdapter

    if given is None or isinstance(given, str | FunctionType | BuiltinFunctionType | MethodType):
        raise _unusable(given, "it is no type")
    try:
        hint: Any = given
        adapter: TypeAdapter[Any] = cast("Any", hint) if isinstance(hint, TypeAdapter) else TypeAdapter(hint)
        return OutputSchema(adapter.json_schema(), adapter)
    except Exception as error:
        raise _unusable(given, message_of(error).partition("\n")[0].strip()) from error


def _of_json_schema(given: Mapping[str, Any]) -> OutputSchema[Any]:
    try:
        copy = msgspec.json.decode(msgspec.json.encode(given))
    except (TypeError, ValueError, RecursionError) as error:
        raise _unusable(given, f"it cannot be written as JSON ({error})") from error
    if (wrong := problem(copy)) is not None:
        raise _unusable(given, wrong)
    return OutputSchema(copy)


def _unusable(given: object, reason: str) -> NoSchema:
    return NoSchema(
        f"structured_output: {bounded(repr(given), 200)} has no JSON Schema ({reason}); use a Pydantic model, a "
        "dataclass, a TypedDict of typing_extensions, an enum, list[...], a TypeAdapter, or a JSON Schema as "
        "{'schema': {...}}.",
        domain="AGENT",
    )


def _as_json(value: object) -> Json:
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise Unfit((Issue((), f"JSON cannot hold it: {error}"),)) from error


def _issues(error: Exception) -> tuple[Issue, ...]:
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return (Issue((), bounded(valid_text(f"{type(error).__name__}: {message_of(error)}"), _MAX_REASON)),)
    found = error.errors(include_url=False, include_context=False, include_input=False)[:MAX_ISSUES]
    return tuple(Issue(issue["loc"], bounded(valid_text(issue["msg"]), _MAX_REASON)) for issue in found)
