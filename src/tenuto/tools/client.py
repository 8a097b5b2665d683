"""Client tools of a call: declared by the caller, carried out by it, and described to the model like any other.

Invariant: nothing a caller gives here is ever called by us; a description that came as data is checked like one of
ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tenuto.core.errors import ConfigurationError
from tenuto.core.payloads import Json
from tenuto.tools.create import create_tool
from tenuto.tools.tool import Tool, as_tool
from tenuto.tools.toolbox import RunnableTool, sanitised

_SCHEMA_KEYS = ("input_schema", "inputSchema", "parameters")
_KNOWN = frozenset(
    {*_SCHEMA_KEYS, "id", "name", "description", "strict", "title", "type", "outputSchema", "output_schema"}
)


def client_tools(given: object, below: Mapping[str, RunnableTool]) -> dict[str, RunnableTool]:
    """The tools of `client_tools=`, each without its function.

    Args:
        given: A dict by name, or a list, of tools, functions with hints, or descriptions:
            `{"description": ..., "input_schema": JSON Schema}`.
        below: The agent's own tools: what one of these without a function says of results holds for the client's too.

    Raises:
        ConfigurationError: Something is no tool.
    """
    if not isinstance(given, (Mapping, list, tuple)):
        message = f"client_tools= takes a dict or a list of tools, not {type(given).__name__}."
        raise ConfigurationError(message)
    read = _read_dict(cast("Mapping[str, Any]", given)) if isinstance(given, Mapping) else _read_list(given)
    found = sanitised({"client": read}, "client_tools")
    return {name: _inherited(each.for_client(), below.get(name)) for name, each in found.items()}


def described(tools: Mapping[str, RunnableTool]) -> Json:
    """What another process needs to offer the same client tools."""
    return {
        name: {
            "description": each.description,
            "input_schema": dict(each.parameters),
            **({} if each.strict is None else {"strict": each.strict}),
            **({} if each.title is None else {"title": each.title}),
        }
        for name, each in tools.items()
        if each.provider is None
    }


def _read_dict(given: Mapping[str, Any]) -> dict[str, RunnableTool]:
    return {name: _read(each, name) for name, each in given.items()}


def _read_list(given: Any) -> list[RunnableTool]:
    return [_read(each, None) for each in given]


def _read(given: Any, name: str | None) -> RunnableTool:
    if not isinstance(given, Mapping):
        return as_tool(given, name)
    said = cast("Mapping[str, Any]", given)
    if unknown := [key for key in said if key not in _KNOWN]:
        message = f"A description of a client tool has no key {unknown[0]!r}; give description and input_schema."
        raise ConfigurationError(message)
    called = name or said.get("id") or said.get("name")
    if not isinstance(called, str):
        message = "A description of a client tool in a list needs an id; or pass a dict by name."
        raise ConfigurationError(message)
    schema = next((said[key] for key in _SCHEMA_KEYS if said.get(key) is not None), None)
    return create_tool(
        id=called,
        description=str(said.get("description") or ""),
        input_schema=schema,
        strict=said.get("strict"),
        title=said.get("title"),
    )


def _inherited(mine: RunnableTool, ours: Tool[Any, ..., Any] | None) -> RunnableTool:
    return mine if ours is None or ours.fn is not None else mine.with_results_of(ours)
