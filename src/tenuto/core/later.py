"""Names that a package gives and does not load: each is imported when somebody first asks for it.

Invariant: importing the package loads the module of none of them, and each name is looked up once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def later(names: dict[str, Any], places: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package.

    Args:
        names: The package's `globals()`.
        places: By name, the module it is in.
    """

    def found(name: str) -> Any:
        if name not in places:
            message = f"module {names['__name__']!r} has no attribute {name!r}"
            raise AttributeError(message)
        value = names[name] = getattr(import_module(places[name]), name)
        return value

    return found
