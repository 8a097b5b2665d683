"""What a function asks for, read from its signature and hints: a context or not, and the model's parameters.

Invariant: only hints are read, nothing is called; names bound by a `functools.partial` are never the model's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

from msgspec import Struct

from tenuto.core.errors import ConfigurationError
from tenuto.tools.callables import body_of
from tenuto.tools.context import ToolContext

EMPTY = inspect.Parameter.empty
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Parameter(Struct, frozen=True):
    """One argument of the model; `default` is `EMPTY` when it is required."""

    name: str
    annotation: Any
    default: Any
    positional_only: bool


class Parameters(Struct, frozen=True):
    """The whole signature; `context` tells whether the function takes a `ToolContext` first."""

    context: bool
    arguments: tuple[Parameter, ...]


def signature_of(fn: Callable[..., Any], tool: str) -> inspect.Signature:
    """The signature, checked without resolving hints.

    Raises:
        ConfigurationError: It has no signature, `*args`, `**kwargs` or an unbound `self`, or is a generator.
    """
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"Tool {tool!r}: {fn!r} has no readable signature; wrap it in a function.") from error
    for parameter in signature.parameters.values():
        if parameter.kind in _VARIADIC:
            raise ConfigurationError(
                f"Tool {tool!r}: parameter {parameter} cannot be described to a model; name each parameter."
            )
    _refuse_unbound(signature, tool)
    _refuse_generator(fn, tool)
    return signature


def _refuse_unbound(signature: inspect.Signature, tool: str) -> None:
    first = next(iter(signature.parameters.values()), None)
    if first is not None and first.name in {"self", "cls"} and first.annotation is EMPTY:
        raise ConfigurationError(
            f"Tool {tool!r}: it is a method without its object ({first.name!r} is unbound); "
            "make a tool of the bound method: tool(obj.method)."
        )


def _refuse_generator(fn: Callable[..., Any], tool: str) -> None:
    body = body_of(fn)
    if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise ConfigurationError(f"Tool {tool!r}: it is a generator function; return one value instead of yielding.")


def local_names(fn: Callable[..., Any]) -> Mapping[str, Any]:
    """The local variables around a nested function that is being defined now; string hints may name them."""
    body = body_of(fn)
    outer, nested, _ = getattr(body, "__qualname__", "").rpartition(".<locals>.")
    frame: FrameType | None = inspect.currentframe() if nested else None
    while frame is not None:
        if frame.f_code.co_qualname == outer and frame.f_globals is getattr(body, "__globals__", None):
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}


def read_parameters(
    fn: Callable[..., Any], signature: inspect.Signature, names: Mapping[str, Any], tool: str
) -> Parameters:
    """Resolve the hints of `signature`; `names` are extra names for hints given as strings.

    Raises:
        ConfigurationError: A hint cannot be resolved, or the context is not the first parameter.
    """
    bound = _bound_names(fn)
    spaces = _global_names(fn), names
    found = [
        Parameter(
            name,
            _resolve(name, parameter.annotation, spaces, tool),
            parameter.default,
            parameter.kind is parameter.POSITIONAL_ONLY,
        )
        for name, parameter in signature.parameters.items()
        if name not in bound
    ]
    context = bool(found) and is_context(found[0].annotation)
    arguments = tuple(found[1:] if context else found)
    for argument in arguments:
        if is_context(argument.annotation):
            raise ConfigurationError(f"Tool {tool!r}: the ToolContext {argument.name!r} has to be the first parameter.")
    if context and signature.parameters[found[0].name].kind is inspect.Parameter.KEYWORD_ONLY:
        raise ConfigurationError(f"Tool {tool!r}: the ToolContext {found[0].name!r} has to be a positional parameter.")
    return Parameters(context, arguments)


def is_context(annotation: Any) -> bool:
    """Whether a resolved hint is `ToolContext`, with or without its types."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    origin: Any = get_origin(annotation) or annotation
    return isinstance(origin, type) and issubclass(origin, ToolContext)


def _bound_names(fn: Callable[..., Any]) -> frozenset[str]:
    return frozenset(cast("partial[Any]", fn).keywords) if isinstance(fn, partial) else frozenset()


def _global_names(fn: Callable[..., Any]) -> dict[str, Any]:
    return getattr(inspect.unwrap(body_of(fn)), "__globals__", {})


def _resolve(name: str, annotation: Any, spaces: tuple[dict[str, Any], Mapping[str, Any]], tool: str) -> Any:
    if annotation is EMPTY:
        return Any

    def holder() -> None: ...

    # One hint at a time: a return type that exists for type checkers only is no obstacle.
    holder.__annotations__ = {name: annotation}
    try:
        return get_type_hints(holder, spaces[0], dict(spaces[1]), include_extras=True)[name]
    except Exception as error:
        raise ConfigurationError(
            f"Tool {tool!r}: the hint of parameter {name!r} cannot be resolved ({type(error).__name__}: {error}); "
            "import its names at run time, not only under TYPE_CHECKING."
        ) from error
