"""From hints to a JSON Schema and a validator, both made by Pydantic, which is imported here and not before.

Invariant: the schema is a closed object without titles, and what it accepts is what the function can be called with.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

from msgspec import Struct

from tenuto.core.errors import ConfigurationError
from tenuto.tools.context import ToolContext
from tenuto.tools.parameters import EMPTY, Parameter, Parameters

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo
    from pydantic.json_schema import GenerateJsonSchema

_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
_NESTED = frozenset(
    {
        "items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames",
        "anyOf", "oneOf", "allOf", "prefixItems", "unevaluatedProperties", "unevaluatedItems",
    }
)  # fmt: skip


NOTHING: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
"""The JSON Schema of no arguments."""


class Bound(Struct, frozen=True):
    """Validated arguments, ready for the function.

    Attributes:
        positional: By place.
        keywords: By name, without those that the function fills in itself.
        named: All of them by name, defaults included: what policies and keys look at.
    """

    positional: tuple[Any, ...]
    keywords: Mapping[str, Any]
    named: Mapping[str, Any]


class InputSchema(Protocol):
    """What a model may send to a tool, and how its function is called with it."""

    @property
    def json_schema(self) -> Mapping[str, Any]:
        """For the model: a JSON Schema of type object."""
        ...

    def validate(self, raw: bytes) -> Bound:
        """The arguments in the JSON object `raw`.

        Raises:
            Exception: They do not fit: a `pydantic.ValidationError`, a `Misfit`, or what a validator of the user's own
                raised.
        """
        ...

    def call(self, fn: Callable[..., Any], bound: Bound, context: ToolContext[Any, Any]) -> Any:
        """What `fn` returns for these arguments."""
        ...


class ArgumentSchema:
    """The arguments of one tool: `json_schema` for the model, `validate` for what it sends.

    Attributes:
        context: Whether the function takes a `ToolContext` first.
        json_schema: A JSON Schema of type object.
    """

    __slots__ = ("_arguments", "_model", "context", "json_schema")

    def __init__(self, parameters: Parameters, model: type[BaseModel] | None, json_schema: Mapping[str, Any]) -> None:
        self.context: bool = parameters.context
        self.json_schema: Mapping[str, Any] = json_schema
        self._arguments = parameters.arguments
        self._model = model

    def call(self, fn: Callable[..., Any], bound: Bound, context: ToolContext[Any, Any]) -> Any:
        """Call `fn` with its context first, if it takes one."""
        first = (context,) if self.context else ()
        return fn(*first, *bound.positional, **bound.keywords)

    def validate(self, raw: bytes) -> Bound:
        """The arguments in the JSON object `raw`, as the values the hints name.

        Raises:
            pydantic.ValidationError: They do not fit.
            Exception: What a validator of the user's own types raised.
        """
        if self._model is None:
            if raw == b"{}":
                return Bound((), {}, {})
            self._model = _model_of("arguments", (), {})
        values = self._model.model_validate_json(raw)
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        named: dict[str, Any] = {}
        for slot, argument in _slots(self._arguments):
            value = named[argument.name] = getattr(values, slot)
            if argument.positional_only:
                positional.append(value)
            elif slot in values.model_fields_set or not _has_own_default(argument):
                keywords[argument.name] = value
        return Bound(tuple(positional), keywords, named)


def build_schema(tool: str, parameters: Parameters, descriptions: Mapping[str, str]) -> ArgumentSchema:
    """Make the schema of a tool.

    Raises:
        ConfigurationError: A hint has no JSON Schema; the message names the parameter.
    """
    if not parameters.arguments:
        return ArgumentSchema(parameters, None, NOTHING)
    try:
        model = _model_of(tool, parameters.arguments, descriptions)
        found = without_titles(model.model_json_schema(schema_generator=_generator()))
    except Exception as error:
        _blame(tool, parameters.arguments, error)
        raise
    found.pop("description", None)
    return ArgumentSchema(parameters, model, found)


def _slots(arguments: Iterable[Parameter]) -> Iterator[tuple[str, Parameter]]:
    """Field names that cannot collide with anything a model class defines; the real names are aliases."""
    return ((f"p{at}", argument) for at, argument in enumerate(arguments))


def _model_of(tool: str, arguments: Iterable[Parameter], descriptions: Mapping[str, str]) -> type[BaseModel]:
    from pydantic import ConfigDict, create_model

    fields: dict[str, Any] = {
        slot: _field(argument, descriptions.get(argument.name)) for slot, argument in _slots(arguments)
    }
    return create_model(tool, __config__=ConfigDict(extra="forbid"), **fields)


def _field(argument: Parameter, description: str | None) -> Any:
    from pydantic import Field

    given = _field_infos(argument)
    added: dict[str, Any] = {}
    if description and not any(field.description for field in given):
        added["description"] = description
    if not any(field.alias or field.validation_alias for field in given):
        added["alias"] = argument.name
    annotation = Annotated[argument.annotation, Field(**added)]
    return annotation if argument.default is EMPTY else (annotation, argument.default)


def _field_infos(argument: Parameter) -> list[FieldInfo]:
    from pydantic.fields import FieldInfo

    given: list[object] = [argument.default, *getattr(argument.annotation, "__metadata__", ())]
    return [each for each in given if isinstance(each, FieldInfo)]


def _has_own_default(argument: Parameter) -> bool:
    """Whether the function fills the argument in itself when it is left out."""
    from pydantic.fields import FieldInfo

    return argument.default is not EMPTY and not isinstance(argument.default, FieldInfo)


@functools.cache
def _generator() -> type[GenerateJsonSchema]:
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

    class Quiet(GenerateJsonSchema):
        """A default that JSON cannot hold is left out of the schema without a warning."""

        def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
            """Say nothing."""

    return Quiet


def _blame(tool: str, arguments: Iterable[Parameter], error: Exception) -> None:
    """Name the first parameter that alone has no schema.

    Raises:
        ConfigurationError: There is one.
    """
    for argument in arguments:
        try:
            _model_of(tool, (argument,), {}).model_json_schema(schema_generator=_generator())
        except Exception as reason:  # noqa: BLE001 - Pydantic has several, and so have the types of users
            hint = getattr(argument.annotation, "__name__", argument.annotation)
            raise ConfigurationError(
                f"Tool {tool!r}: parameter {argument.name!r} has a type that JSON Schema cannot describe, {hint} "
                f"({_first_line(reason)}); use builtins, a TypedDict of typing_extensions, a dataclass or "
                "a Pydantic model."
            ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].strip()


def without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """A copy of a schema without `title` keywords; properties and values called so stay."""
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED:
            found[key] = {name: _nested(each) for name, each in value.items()}
        elif key in _NESTED:
            found[key] = (
                [_nested(each) for each in cast("list[Any]", value)] if isinstance(value, list) else _nested(value)
            )
        elif key != "title":
            found[key] = value
    return found


def _nested(schema: Any) -> Any:
    return without_titles(cast("dict[str, Any]", schema)) if isinstance(schema, dict) else schema
