"""Refuses the tool definitions and tool choices that Anthropic refuses.

Invariant: a choice that passes names a tool that the request defines.

Source: Anthropic documentation, "Define tools", "Strict tool use".
"""

import re
from typing import Any, cast

from tenuto.testing.provider.strict import check_schema, require

__all__ = ["check_tools"]

Json = dict[str, Any]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_KEYS = frozenset(
    {
        "type", "name", "description", "input_schema", "cache_control", "strict", "allowed_callers", "defer_loading",
        "eager_input_streaming", "input_examples",
    }
)  # fmt: skip
_FREE = frozenset({"type", "disable_parallel_tool_use"})
_CHOICES = {"auto": _FREE, "any": _FREE, "tool": _FREE | {"name"}, "none": frozenset({"type"})}
_NAMELESS = ("mcp_toolset", "computer_toolset", "browser_toolset")


def check_tools(body: Json) -> None:
    """Check `tools` and `tool_choice` of a body.

    Raises:
        Refused: One of them is not valid.
    """
    tools: object = body.get("tools") or []
    require(isinstance(tools, list), "bad_tool", "Input should be a valid list", "tools")
    names: set[str] = set()
    for place, tool in enumerate(cast("list[object]", tools)):
        at = f"tools.{place}"
        require(isinstance(tool, dict), "bad_tool", "Input should be an object", at)
        name = _check_tool(cast("Json", tool), at)
        require(name is None or name not in names, "duplicate_tool", "Tool names must be unique.", at)
        names.add(name or "")
    if body.get("tool_choice") is not None:
        require(tools, "tool_choice_without_tools", "tool_choice may only be specified while providing tools")
        _check_choice(body["tool_choice"], names)


def _check_tool(tool: Json, at: str) -> str | None:
    kind = str(tool.get("type") or "custom")
    if kind.startswith(_NAMELESS):
        require("name" not in tool, "unknown_key", "Extra inputs are not permitted", f"{at}.name")
        return None
    name = tool.get("name")
    valid = isinstance(name, str) and _NAME.fullmatch(name)
    require(valid, "bad_name", "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", f"{at}.name")
    if kind == "custom":
        _check_custom(tool, at)
    else:
        require(all(key == key.lower() for key in tool), "unknown_key", "Extra inputs are not permitted", at)
    return cast("str", name)


def _check_custom(tool: Json, at: str) -> None:
    for key in tool:
        require(key in _KEYS, "unknown_key", "Extra inputs are not permitted", f"{at}.custom.{key}")
    schema = tool.get("input_schema")
    check_schema(schema, f"{at}.custom.input_schema")
    union = cast("Json", schema).keys() & {"oneOf", "allOf", "anyOf", "$ref"}
    require(not union, "bad_schema", "input_schema does not support oneOf, allOf, or anyOf at the top level", at)
    if tool.get("strict"):
        closed = cast("Json", schema).get("additionalProperties") is False
        require(closed, "bad_strict_schema", "'additionalProperties' must be explicitly set to false", at)


def _check_choice(choice: object, names: set[str]) -> None:
    require(isinstance(choice, dict), "bad_tool_choice", "Input should be an object", "tool_choice")
    found = cast("Json", choice)
    kind = found.get("type")
    require(kind in _CHOICES, "bad_tool_choice", f"Input tag {kind!r} is not expected", "tool_choice")
    for key in found:
        require(
            key in _CHOICES[cast("str", kind)], "unknown_key", "Extra inputs are not permitted", f"tool_choice.{key}"
        )
    if kind == "tool":
        name = found.get("name")
        require(name in names, "unknown_tool_choice", f"Tool {name!r} not found in provided tools", "tool_choice")
