"""The form of data that are no arguments: what a tool suspends with, and what it is resumed with.

Invariant: `dump` and `load` take and give JSON that fits `json_schema`, or raise `Misfit` with the reasons.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from tenuto.core.errors import ConfigurationError, ToolError
from tenuto.core.foreign import contained, message_of
from tenuto.core.payloads import Json
from tenuto.messages.bounded import bounded, valid_text
from tenuto.tools.json_schema import issues_of, problem, shown_place
from tenuto.tools.results import to_json

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError


class SchemaAdapter(Protocol):
    """What a Pydantic `TypeAdapter` has."""

    def json_schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        ...

    def validate_json(self, data: bytes, /) -> Any:
        """The value of a JSON text."""
        ...


DataSchema = type[Any] | UnionType | Mapping[str, Any] | SchemaAdapter
"""A Pydantic model, a TypedDict, a dataclass or any other type with a JSON Schema; a `TypeAdapter`; or a JSON Schema as
a dict."""

Place = tuple[int | str, ...]
Issue = tuple[Place, str]
"""Where in the data, and why it does not fit."""

_MAX_REASON = 400
_MAX_REASONS = 10


class Misfit(ValueError):
    """The data do not fit; the text has one reason a line.

    Attributes:
        issues: The reasons, each with its place.
    """

    def __init__(self, text: str, issues: Sequence[Issue] = ()) -> None:
        super().__init__(text)
        self.issues: tuple[Issue, ...] = tuple(issues)


class Shape:
    """A schema of data; what Pydantic has to do with it is done at the first use, in any thread.

    Raises:
        ConfigurationError: It is a dict that is no JSON Schema, or an instance of something.
    """

    def __init__(self, owner: str, schema: DataSchema) -> None:
        self._owner = owner
        self.given: DataSchema = schema
        if isinstance(schema, Mapping):
            self._json: Json = _checked(owner, schema)
        elif not (_is_hint(schema) or _is_adapter(schema)):
            raise ConfigurationError(f"{owner} takes a type or a JSON Schema, not {schema!r}.")

    @property
    def json_schema(self) -> Mapping[str, Any]:
        """As a JSON Schema.

        Raises:
            ConfigurationError: The type has none.
        """
        return self._json if isinstance(self.given, Mapping) else self._derived

    def load(self, given: Json) -> Any:
        """The value that the JSON `given` stands for; for a JSON Schema, `given` itself.

        Raises:
            Misfit: It does not fit.
            ConfigurationError: See `json_schema`.
        """
        if isinstance(self.given, Mapping):
            return _fitting(self._json, given)
        return self._validated(given)

    def read(self, value: Any) -> Any:
        """`value`, which need not be JSON, as an instance of the type; for a JSON Schema, checked and as JSON.

        Raises:
            Misfit: It does not fit.
            ConfigurationError: See `json_schema`.
        """
        return _fitting(self._json, _as_json(value)) if isinstance(self.given, Mapping) else self._instance(value)

    def dump(self, value: Any) -> Json:
        """`value`, an instance of the type or what it can be made of, as JSON.

        Raises:
            Misfit: It does not fit.
            ConfigurationError: See `json_schema`.
        """
        if isinstance(self.given, Mapping):
            return _fitting(self._json, _as_json(value))
        instance = self._instance(value)
        try:
            with contained():
                written = self._adapter.dump_python(instance, mode="json", by_alias=True)
        except Exception as error:
            raise _broken(error) from error
        return _as_json(written)

    def _instance(self, value: Any) -> Any:
        from pydantic import ValidationError

        adapter = self._adapter
        try:
            with contained():
                return adapter.validate_python(value)
        except ValidationError:  # a strict model takes dates as text from JSON only
            return self._validated(_as_json(value))
        except Exception as error:
            raise _broken(error) from error

    def _validated(self, given: Json) -> Any:
        from pydantic import ValidationError

        adapter = self._adapter
        try:
            with contained():
                return adapter.validate_json(msgspec.json.encode(given))
        except ValidationError as error:
            raise _misfit(error) from error
        except Exception as error:
            raise _broken(error) from error

    @functools.cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        from pydantic import TypeAdapter

        hint: Any = self.given
        if _is_adapter(hint):
            return cast("TypeAdapter[Any]", hint)
        try:
            return TypeAdapter[Any](hint)
        except Exception as error:
            raise self._unusable(error) from error

    @functools.cached_property
    def _derived(self) -> Mapping[str, Any]:
        adapter = self._adapter
        try:
            return adapter.json_schema()
        except Exception as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> ConfigurationError:
        reason = str(error).partition("\n")[0].strip()
        return ConfigurationError(
            f"{self._owner}: {self.given!r} has no JSON Schema ({reason}); use a Pydantic model, a dataclass, "
            "a TypedDict of typing_extensions or a JSON Schema as a dict."
        )


def shape_of(owner: str, schema: DataSchema | None) -> Shape | None:
    """The shape of an optional schema.

    Raises:
        ConfigurationError: See `Shape`.
    """
    return None if schema is None else Shape(owner, schema)


def _is_hint(schema: object) -> bool:
    return isinstance(schema, (type, UnionType)) or hasattr(schema, "__origin__")


def _is_adapter(schema: object) -> bool:
    """A Pydantic `TypeAdapter`, told without importing Pydantic."""
    return not isinstance(schema, type) and hasattr(schema, "validate_json") and hasattr(schema, "json_schema")


def _checked(owner: str, schema: Mapping[str, Any]) -> Json:
    try:
        copy = msgspec.json.decode(msgspec.json.encode(schema))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{owner}: the JSON Schema cannot be written as JSON ({error}).") from error
    wrong = problem(copy)
    if wrong is not None:
        raise ConfigurationError(f"{owner}: the dict is no JSON Schema that can be checked ({wrong}).")
    return copy


def _as_json(value: Any) -> Json:
    try:
        return to_json(value)
    except ToolError as error:
        raise Misfit(f"- {error.details.get('path')}: JSON cannot hold a {error.details.get('type')}") from error


def _fitting(schema: Json, given: Json) -> Json:
    found = issues_of(schema, given)
    if found:
        reasons = (bounded(f"{shown_place(place)}: {reason}", _MAX_REASON) for place, reason in found)
        raise Misfit("\n".join(f"- {valid_text(reason)}" for reason in reasons), found)
    return given


def fit(schema: Json, given: Any) -> Json:
    """`given` as JSON, checked against a JSON Schema that was stored (None: anything fits).

    Raises:
        Misfit: It does not fit.
    """
    value = _as_json(given)
    return value if schema is None else _fitting(schema, value)


def _broken(error: Exception) -> Misfit:
    """What a validator or a serialiser of the user's own raised."""
    return Misfit(bounded(valid_text(f"- {type(error).__name__}: {message_of(error)}"), _MAX_REASON))


def _misfit(error: ValidationError) -> Misfit:
    found = error.errors(include_url=False, include_context=False, include_input=False)[:_MAX_REASONS]
    issues = [(issue["loc"], issue["msg"]) for issue in found]
    lines = [f"- {'.'.join(map(str, place)) or '$'}: {reason}" for place, reason in issues]
    return Misfit("\n".join(bounded(valid_text(line), _MAX_REASON) for line in lines), issues)
