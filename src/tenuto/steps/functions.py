"""Functions that survive a restart: registered under a name, and only ever looked up by it.

Invariant: nothing is imported or evaluated from stored data; a name that this process has not registered is a function
it does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tenuto.core.errors import ConfigurationError

F = TypeVar("F", bound=Callable[..., Any])

_functions: dict[str, Callable[..., Any]] = {}
_names: dict[int, str] = {}


def durable_function(name: str) -> Callable[[F], F]:
    """Register a function under `name`, so that an option which holds it is there again in another process.

        @durable_function("over budget")
        def over_budget(context: StopContext) -> bool: ...

    Every process that may take a run up must register the same names (by importing the module that does).

    Raises:
        ConfigurationError: Another function has this name.
    """

    def register(function: F) -> F:
        add_functions({name: function})
        return function

    return register


def add_functions(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Register functions by name.

    Raises:
        ConfigurationError: Another function has one of these names.
    """
    for name, function in functions.items():
        known = _functions.setdefault(name, function)
        if known is not function and _origin(known) != _origin(function):
            message = f"Two functions are registered as {name!r}: {_origin(known)} and {_origin(function)}."
            raise ConfigurationError(message, id="DURABLE_FUNCTION_NAME_TAKEN")
        _functions[name] = function
        _names[id(function)] = name


def name_of(function: object) -> str | None:
    """The name a function is registered under."""
    name = _names.get(id(function))
    return name if name is not None and _functions.get(name) is function else None


def function_named(name: str) -> Callable[..., Any] | None:
    """The function registered under `name` in this process."""
    return _functions.get(name)


def _origin(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', '?')}"
