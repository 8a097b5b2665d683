"""Refuses the tools, tool choices and answer formats that the responses API refuses.

Invariant: a choice that passes names a tool that the request defines.
"""

from typing import Any, cast

import msgspec

from tenuto.testing.provider.strict import check_name, check_schema, check_strict_schema, require

__all__ = ["check_format", "check_tools"]

Json = dict[str, Any]

_FUNCTION_KEYS = frozenset({"type", "name", "description", "parameters", "strict", "defer_loading", "allowed_callers"})
_FORMAT_KEYS = frozenset({"type", "name", "description", "schema", "strict"})
_HOSTED = frozenset(
    {
        "web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11", "file_search",
        "code_interpreter", "image_generation", "mcp", "local_shell", "shell", "apply_patch", "computer",
        "computer_use_preview", "custom", "tool_search", "x_search",
    }
)  # fmt: skip
_NAMED = frozenset({"function", "custom"})
_CHOOSABLE = _HOSTED - {
    "web_search",
    "web_search_2025_08_26",
    "local_shell",
    "mcp",
    "custom",
    "tool_search",
    "x_search",
}
_MODES = frozenset({"none", "auto", "required"})


def check_tools(body: Json) -> None:
    """Check `tools` and `tool_choice` of a body.

    Raises:
        Refused: One of them is not valid.
    """
    tools: list[Json] = body.get("tools") or []
    names: set[str] = set()
    for place, tool in enumerate(tools):
        name = _check_tool(tool, f"tools[{place}]")
        require(name is None or name not in names, "duplicate_tool", f"{name!r} is defined twice.", f"tools[{place}]")
        names |= {name} if name else set()
    if "tool_choice" not in body:
        return
    lone = not tools and body["tool_choice"] != "none"
    require(not lone, "tool_choice_without_tools", "Tool choice is only allowed when 'tools' are specified.")
    _check_choice(body["tool_choice"], tools)


def _check_tool(tool: Json, param: str) -> str | None:
    kind = tool.get("type")
    if kind == "function":
        extra = sorted(tool.keys() - _FUNCTION_KEYS)
        require(not extra, "unknown_key", f"Unknown {extra}.", param)
        check_schema(tool.get("parameters"), f"{param}.parameters")
        if tool.get("strict", True):  # strict unless the request says otherwise
            check_strict_schema(tool["parameters"], f"{param}.parameters")
        return check_name(tool.get("name"), f"{param}.name")
    require(kind in _HOSTED, "bad_tool", f"Invalid value: {kind!r}.", f"{param}.type")
    needs = {"file_search": "vector_store_ids", "code_interpreter": "container", "mcp": "server_label"}.get(str(kind))
    require(needs is None or tool.get(needs), "bad_tool", f"Missing required parameter: {needs!r}.", param)
    return check_name(tool.get("name"), f"{param}.name") if kind == "custom" else None


def _check_choice(choice: object, tools: list[Json]) -> None:
    if isinstance(choice, str):
        require(choice in _MODES, "bad_tool_choice", f"Invalid value: {choice!r}.", "tool_choice")
        return
    require(isinstance(choice, dict), "bad_tool_choice", "Expected text or an object.", "tool_choice")
    found = cast("Json", choice)
    if found.get("type") == "allowed_tools":
        require(found.get("mode") in {"auto", "required"}, "bad_tool_choice", "Invalid mode.", "tool_choice.mode")
        references: list[Json] = found.get("tools") or [{}]
        for reference in references:
            _check_known(reference, tools)
        return
    kind = found.get("type")
    require(kind in _NAMED | {"mcp"} | _CHOOSABLE, "bad_tool_choice", f"Invalid value: {kind!r}.", "tool_choice.type")
    _check_known(found, tools)


def _check_known(reference: Json, tools: list[Json]) -> None:
    known = any(all(tool.get(key) == value for key, value in reference.items()) for tool in tools)
    require(known, "unknown_tool_choice", f"Tool choice {reference!r} not found in 'tools'.", "tool_choice")


def check_format(body: Json, items: list[Json]) -> None:
    """Check `text.format`.

    Raises:
        Refused: It is not valid.
    """
    text: Json = body.get("text") or {}
    wanted: Json = text.get("format") or {"type": "text"}
    kind: object = wanted.get("type")
    match kind:
        case "text":
            pass
        case "json_object":
            said = b"json" in msgspec.json.encode([items, body.get("instructions")]).lower()
            message = "The input must contain the word 'json' to use 'text.format' of type 'json_object'."
            require(said, "json_not_mentioned", message, "input")
        case "json_schema":
            extra = sorted(wanted.keys() - _FORMAT_KEYS)
            require(not extra, "unknown_key", f"Unknown {extra}.", "text.format")
            check_name(wanted.get("name"), "text.format.name")
            check_schema(wanted.get("schema"), "text.format.schema")
            if wanted.get("strict"):
                check_strict_schema(wanted["schema"], "text.format.schema")
        case _:
            require(ok=False, reason="bad_response_format", message=f"Invalid value: {kind!r}.", param="text.format")
