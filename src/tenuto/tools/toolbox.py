"""The tools of one agent or call, by the name the model uses.

Invariant: names are unique and every provider takes them; the order is the user's; one selection of tools is one
tuple of specs, the same object each time, so that a renderer encodes it once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from tenuto.core.errors import ConfigurationError
from tenuto.models.ports import ToolSpec
from tenuto.tools.tool import Tool, Tools, as_tool

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

RunnableTool = Tool[Any, ..., Any]


class Toolbox(Mapping[str, RunnableTool]):
    """An ordered, frozen mapping from model-facing names to tools.

    Args:
        tools: A list (each is called by its id) or a dict (the keys are the names) of tools and plain functions.

    Raises:
        ConfigurationError: Two of one name, a name that providers refuse, or something that is no tool.
    """

    __slots__ = ("_specs", "_tools")

    def __init__(self, tools: Tools[Any] = ()) -> None:
        self._tools = dict(_named(tools))
        self._specs: dict[tuple[str, ...], tuple[ToolSpec, ...]] = {}

    def __getitem__(self, name: str) -> RunnableTool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def active(self, names: Collection[str] | None = None) -> tuple[str, ...]:
        """The names that a model may use, in the toolbox's order; None selects all.

        Raises:
            ConfigurationError: `names` has one that is not in the toolbox.
        """
        if names is None:
            return tuple(self._tools)
        unknown = [name for name in names if name not in self._tools]
        if unknown:
            raise ConfigurationError(
                f"active_tools has {', '.join(map(repr, unknown))}; "
                f"this agent's tools are: {', '.join(self._tools) or 'none'}."
            )
        chosen = set(names)
        return tuple(name for name in self._tools if name in chosen)

    def specs(self, names: Collection[str] | None = None) -> tuple[ToolSpec, ...]:
        """What the model is told of the active tools; the same tuple object for the same selection.

        Raises:
            ConfigurationError: See `active` and `Tool.schema`.
        """
        active = self.active(names)
        found = self._specs.get(active)
        if found is None:
            made = tuple(self._tools[name].spec(name) for name in active)
            found = self._specs.setdefault(active, made)
        return found


def _named(tools: Tools[Any]) -> Iterator[tuple[str, RunnableTool]]:
    if isinstance(tools, Mapping):
        for key, given in tools.items():
            yield _checked(key), as_tool(given, key)
        return
    if isinstance(tools, str) or not isinstance(cast("object", tools), Sequence):
        raise ConfigurationError(f"tools= takes a list or a dict of tools, not {type(tools).__name__}.")
    seen: dict[str, Callable[..., Any]] = {}
    for given in tools:
        each = as_tool(given)
        if each.id in seen:
            raise ConfigurationError(
                f"Two tools are called {each.id!r} ({_origin(seen[each.id])} and {_origin(each.fn)}); "
                "give one another id, or pass a dict."
            )
        seen[each.id] = each.fn
        yield _checked(each.id), each


def _checked(name: object) -> str:
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise ConfigurationError(
        f"{name!r} is no name for a tool: 1 to 64 of letters, digits, '_' and '-'. "
        "Give it with @tool(id=...) or as the key of a dict."
    )


def _origin(fn: Callable[..., Any]) -> str:
    return f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', type(fn).__name__)}"
