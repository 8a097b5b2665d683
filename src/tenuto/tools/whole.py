"""The input of a tool made by `create_tool`: one value of a schema, instead of a function's parameters.

Invariant: what `execute` gets fits the schema; what the model reads is a JSON Schema of type object, made at the first
use from a type, and of a dict the dict itself.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from tenuto.core.errors import ConfigurationError
from tenuto.tools.json_schema import without_keyword
from tenuto.tools.schema import NOTHING, Bound, without_titles
from tenuto.tools.shape import DataSchema, Shape

if TYPE_CHECKING:
    from tenuto.tools.context import ToolContext

ANYTHING: Mapping[str, Any] = {"type": "object"}
"""The JSON Schema of any arguments: those of a provider's own tool are the provider's affair."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class WholeInput:
    """See `InputSchema`: `execute(args)` or `execute(args, ctx)`.

    Args:
        tool: Names the tool in errors.
        schema: Of the arguments; None takes none.
        execute: The function; None for a tool that is carried out elsewhere.

    Raises:
        ConfigurationError: The schema is none, or the function takes no argument, or more than two.
    """

    def __init__(self, tool: str, schema: DataSchema | None, execute: Callable[..., Any] | None) -> None:
        self._owner = f"Tool {tool!r}: input_schema"
        self._shape = Shape(self._owner, NOTHING if schema is None else _of_type_object(self._owner, schema))
        self._takes_context = execute is not None and _takes_context(tool, execute)

    @property
    def json_schema(self) -> Mapping[str, Any]:
        """See `InputSchema`.

        Raises:
            ConfigurationError: The type has no JSON Schema, or not one of an object.
        """
        return self._made

    @functools.cached_property
    def _made(self) -> Mapping[str, Any]:
        found = self._shape.json_schema
        if isinstance(self._shape.given, Mapping):
            return found
        plain = without_titles(_inlined(dict(found)))
        plain.pop("description", None)
        if plain.get("type") != "object":
            raise _no_object(self._owner, plain.get("type"))
        return plain

    def validate(self, raw: bytes) -> Bound:
        """See `InputSchema`."""
        value = self._shape.load(msgspec.json.decode(raw))
        return Bound((value,), {}, _named(value))

    def call(self, fn: Callable[..., Any], bound: Bound, context: ToolContext[Any, Any]) -> Any:
        """See `InputSchema`."""
        return fn(bound.positional[0], context) if self._takes_context else fn(bound.positional[0])


def check_whole_key(tool: str, key: Sequence[str] | None, schema: Mapping[str, Any]) -> None:
    """Refuse names in a key that are no property of the input.

    Raises:
        ConfigurationError: There is one.
    """
    known: Mapping[str, Any] = schema.get("properties") or {}
    for name in key or ():
        if name not in known:
            shown = ", ".join(known) or "none"
            raise ConfigurationError(
                f"Tool {tool!r}: key has {name!r}, which is no property of its input; they are: {shown}."
            )


def _takes_context(tool: str, execute: Callable[..., Any]) -> bool:
    if not callable(execute):
        raise ConfigurationError(f"Tool {tool!r}: execute= takes a function, not {type(execute).__name__}.")
    try:
        parameters = list(inspect.signature(execute).parameters.values())
    except (TypeError, ValueError):
        return False
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return True
    places = [each for each in parameters if each.kind in _POSITIONAL]
    needed = [each for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    if not places or len(needed) > 2 or any(each.kind is each.KEYWORD_ONLY for each in needed):
        raise ConfigurationError(f"Tool {tool!r}: execute is called as execute(args) or execute(args, ctx).")
    return len(places) > 1


def _of_type_object(owner: str, schema: DataSchema) -> DataSchema:
    if not isinstance(schema, Mapping):
        return schema
    given = schema
    if (wrong := without_keyword(given)) is not None:
        raise ConfigurationError(f"{owner}: the dict is no JSON Schema ({wrong}).")
    if "type" not in given and not given.keys() & {"$ref", "anyOf", "oneOf", "allOf"}:
        return {"type": "object", **given}
    if given.get("type") != "object":
        raise _no_object(owner, given.get("type"))
    return given


def _no_object(owner: str, kind: object) -> ConfigurationError:
    return ConfigurationError(
        f"{owner} has to describe a JSON object, for models send arguments by name; its type is {kind!r}. "
        "Make it a field of a model, or a property of an object."
    )


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema whose top is a reference into its own definitions (a type that contains itself), with a top."""
    target = schema.get("$ref")
    if not isinstance(target, str) or not target.startswith("#/$defs/"):
        return schema
    definitions: Mapping[str, Any] = schema.get("$defs") or {}
    return {**definitions.get(target.removeprefix("#/$defs/"), {}), "$defs": definitions}


def _named(value: Any) -> Mapping[str, Any]:
    """The arguments by name, as policies and keys look at them."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    from dataclasses import fields, is_dataclass

    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    names = getattr(cast("object", type(value)), "model_fields", None)
    if not isinstance(names, Mapping):
        return {}
    extra: Mapping[str, Any] = getattr(value, "model_extra", None) or {}
    return {name: getattr(value, name) for name in cast("Mapping[str, Any]", names)} | dict(extra)
