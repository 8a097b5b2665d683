"""The tools of one agent or call, by the name the model uses.

Invariant: names are unique and every provider takes them; the order is the user's; one selection of tools is one
tuple of specs, the same object each time, so that a renderer encodes it once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from tenuto.core.errors import ConfigurationError
from tenuto.models.ports import ProviderTool, ToolSpec
from tenuto.tools.tool import Tool, Tools, as_tool

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_SANITISED = 63

RunnableTool = Tool[Any, ..., Any]


class Offer(Struct, frozen=True):
    """What a model is told of the tools it may use; `names` in the toolbox's order."""

    names: tuple[str, ...]
    specs: tuple[ToolSpec, ...]
    provider: tuple[ProviderTool, ...]


NO_OFFER = Offer((), (), ())


class Toolbox(Mapping[str, RunnableTool]):
    """An ordered, frozen mapping from model-facing names to tools.

    Args:
        tools: A list (each is called by its id) or a dict (the keys are the names) of tools and plain functions.

    Raises:
        ConfigurationError: Two of one name, a name that providers refuse, or something that is no tool.
    """

    __slots__ = ("_offers", "_tools")

    def __init__(self, tools: Tools[Any] = ()) -> None:
        self._tools = dict(_named(tools))
        self._offers: dict[tuple[str, ...], Offer] = {}

    def __getitem__(self, name: str) -> RunnableTool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def with_more(self, more: Mapping[str, RunnableTool]) -> Toolbox:
        """A toolbox with `more` on top: a tool takes the place of another one of its name."""
        box = Toolbox()
        box._tools = {**self._tools, **more}
        return box

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

    def offer(self, names: Collection[str] | None = None) -> Offer:
        """What the model is told of the active tools; the same object for the same selection.

        Raises:
            ConfigurationError: See `active` and `Tool.schema`.
        """
        active = self.active(names)
        found = self._offers.get(active)
        if found is None:
            found = self._offers.setdefault(active, self._offer(active))
        return found

    def specs(self, names: Collection[str] | None = None) -> tuple[ToolSpec, ...]:
        """The active tools that are ours or the client's; the same tuple object for the same selection."""
        return self.offer(names).specs

    def _offer(self, active: tuple[str, ...]) -> Offer:
        tools = [(name, self._tools[name]) for name in active]
        return Offer(
            active,
            tuple(each.spec(name) for name, each in tools if each.provider is None),
            tuple(spec for name, each in tools if (spec := each.provider_spec(name)) is not None),
        )


def sanitised(given: Mapping[str, Tools[Any]], option: str) -> dict[str, RunnableTool]:
    """The tools of several groups by names that every provider takes: those of a call come from anywhere.

    Other characters than letters, digits, `_` and `-` become `_`, a digit or `-` at the beginning gets one before it,
    and what is longer is cut to 63.

    Args:
        given: Groups of tools; a tool of a later one takes the place of another one of its name.
        option: Where they come from, for errors.

    Raises:
        ConfigurationError: `AGENT_TOOL_NAME_COLLISION`: two names of one group become one; or something is no tool.
    """
    found: dict[str, RunnableTool] = {}
    for group, tools in given.items():
        mine: dict[str, str] = {}
        for name, each in _pairs(tools, f"{option}[{group!r}]"):
            fit = _fit(name)
            if fit in mine:
                message = f"{option}[{group!r}]: the tools {mine[fit]!r} and {name!r} are both {fit!r} to a model."
                raise ConfigurationError(message, id="AGENT_TOOL_NAME_COLLISION", domain="AGENT")
            mine[fit] = name
            found[fit] = each
    return found


def _fit(name: str) -> str:
    fit = _FOREIGN.sub("_", name)
    if not fit or not (fit[0].isalpha() or fit[0] == "_"):
        fit = f"_{fit}"
    return fit[:_MAX_SANITISED]


def _pairs(tools: Tools[Any], option: str) -> Iterator[tuple[str, RunnableTool]]:
    if isinstance(tools, Mapping):
        for key, given in tools.items():
            yield key, as_tool(given, key)
        return
    if isinstance(tools, str) or not isinstance(cast("object", tools), Sequence):
        raise ConfigurationError(f"{option} takes a list or a dict of tools, not {type(tools).__name__}.")
    for given in tools:
        each = as_tool(given)
        yield each.id, each


def _named(tools: Tools[Any]) -> Iterator[tuple[str, RunnableTool]]:
    seen: dict[str, Callable[..., Any] | None] = {}
    for name, each in _pairs(tools, "tools="):
        if name in seen:
            raise ConfigurationError(
                f"Two tools are called {name!r} ({_origin(seen[name])} and {_origin(each.fn)}); "
                "give one another id, or pass a dict."
            )
        seen[name] = each.fn
        yield _checked(name), each


def _checked(name: object) -> str:
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    raise ConfigurationError(
        f"{name!r} is no name for a tool: 1 to 64 of letters, digits, '_' and '-'. "
        "Give it with @tool(id=...) or as the key of a dict."
    )


def _origin(fn: Callable[..., Any] | None) -> str:
    return f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', type(fn).__name__)}"


NO_TOOLS = Toolbox()
