"""Refuses the tool definitions, tool choices and response formats that chat completions refuses.

Invariant: a choice that passes names a tool that the request defines.
"""

from typing import Any, cast

from tenuto.testing.provider.strict import check_name, check_schema, check_strict_schema, require

__all__ = ["check_response_format", "check_tools"]

Json = dict[str, Any]

_TOOL_KEYS = frozenset({"name", "description", "parameters", "strict"})
_FORMAT_KEYS = frozenset({"name", "description", "schema", "strict"})
_MODES = frozenset({"none", "auto", "required"})


def check_tools(body: Json) -> None:
    """Check `tools`, `tool_choice` and `parallel_tool_calls` of a body.

    Raises:
        Refused: One of them is not valid.
    """
    names = _names(body["tools"]) if "tools" in body else set[str]()
    for key in ("tool_choice", "parallel_tool_calls"):
        lone = key in body and not names
        require(not lone, "tool_choice_without_tools", f"{key!r} is only allowed when 'tools' are specified.", key)
    if "tool_choice" in body:
        _check_choice(body["tool_choice"], names)


def _names(tools: object) -> set[str]:
    require(isinstance(tools, list), "bad_tool", "Expected a list.", "tools")
    require(tools, "empty_tools", "[] is too short.", "tools")
    names: set[str] = set()
    for position, tool in enumerate(cast("list[object]", tools)):
        name = _check_tool(tool, f"tools[{position}]")
        require(name not in names, "duplicate_tool", f"The tool {name!r} is defined twice.", f"tools[{position}]")
        names.add(name)
    return names


def _check_tool(tool: object, param: str) -> str:
    require(isinstance(tool, dict), "bad_tool", "Expected an object.", param)
    found = cast("Json", tool)
    shaped = found.get("type") == "function" and isinstance(found.get("function"), dict)
    require(shaped, "bad_tool", "Expected type 'function' with a 'function'.", param)
    _check_only(found, frozenset({"type", "function"}), param)
    return _check_function(found["function"], f"{param}.function")


def _check_function(function: Json, param: str) -> str:
    _check_only(function, _TOOL_KEYS, param)
    name = check_name(function.get("name"), f"{param}.name")
    described = isinstance(function.get("description", ""), str)
    require(described, "bad_tool", "Expected text.", f"{param}.description")
    if "parameters" in function:
        check_schema(function["parameters"], f"{param}.parameters")
    if function.get("strict"):
        check_strict_schema(function.get("parameters"), f"{param}.parameters")
    return name


def _check_only(found: Json, allowed: frozenset[str], param: str) -> None:
    extra = sorted(found.keys() - allowed)
    require(not extra, "unknown_key", f"Unrecognized {extra}.", param)


def _check_choice(choice: object, names: set[str]) -> None:
    if isinstance(choice, str):
        require(choice in _MODES, "bad_tool_choice", f"{choice!r} is not one of {sorted(_MODES)}.", "tool_choice")
        return
    require(isinstance(choice, dict), "bad_tool_choice", "Expected text or an object.", "tool_choice")
    for name in _chosen(cast("Json", choice)):
        require(name in names, "unknown_tool_choice", f"No tool is named {name!r}.", "tool_choice")


def _chosen(choice: Json) -> list[object]:
    match choice:
        case {"type": "function", "function": {"name": str() as name, **rest}} if not rest:
            return [name]
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required", "tools": [*tools]}}:
            return [name for tool in tools for name in _chosen(tool)]
        case _:
            require(ok=False, reason="bad_tool_choice", message=f"Cannot read {choice!r}.", param="tool_choice")
            return []


def check_response_format(wanted: object) -> None:
    """Check `response_format`.

    Raises:
        Refused: It is not valid.
    """
    match wanted:
        case None:
            return
        case {"type": "text" | "json_object"}:
            _check_only(cast("Json", wanted), frozenset({"type"}), "response_format")
        case {"type": "json_schema", "json_schema": dict()}:
            _check_only(cast("Json", wanted), frozenset({"type", "json_schema"}), "response_format")
            _check_format(cast("Json", wanted)["json_schema"], "response_format.json_schema")
        case _:
            require(ok=False, reason="bad_response_format", message=f"Cannot read {wanted!r}.")


def _check_format(spec: Json, param: str) -> None:
    _check_only(spec, _FORMAT_KEYS, param)
    check_name(spec.get("name"), f"{param}.name")
    require(isinstance(spec.get("schema"), dict), "bad_response_format", "Expected a schema.", f"{param}.schema")
    if spec.get("strict"):
        require(spec["schema"].get("type") == "object", "bad_strict_schema", "The root must be an object.", param)
        check_strict_schema(spec["schema"], f"{param}.schema")
