"""Tools and tool choices as a responses request offers them.

Invariant: a function says whether it is strict, for the provider would otherwise make it so; a strict one has a schema
that strict mode takes. A tool of another provider is left out with a warning.

Source: OpenAI API reference, "Create a model response", tools; tool names and arguments of the AI SDK's OpenAI and
xAI providers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tenuto.models.ports import ModelRequest, NamedTool, ProviderTool, ToolSpec
from tenuto.models.responses.options import snake_case
from tenuto.models.responses.schema import strict_schema

Tool = dict[str, Any]
Warned = Mapping[str, Any]

_CHOOSABLE = frozenset(
    {
        "file_search", "web_search_preview", "web_search_preview_2025_03_11", "computer", "computer_use",
        "computer_use_preview", "image_generation", "code_interpreter", "apply_patch", "shell",
    }
)  # fmt: skip
"""Provider tools that a tool choice can name by their type."""

_ALIASES: Mapping[str, str] = {"code_execution": "code_interpreter"}
_INCLUDED: Mapping[str, str] = {
    "web_search": "web_search_call.action.sources",
    "web_search_2025_08_26": "web_search_call.action.sources",
    "web_search_preview": "web_search_call.action.sources",
    "code_interpreter": "code_interpreter_call.outputs",
}
"""What an answer leaves out of an item unless it is asked for."""


def write_function(spec: ToolSpec, provider: str) -> Tool:
    """A function; `strict` comes last, see `not_strict`."""
    found = spec.provider_options or {}
    options = snake_case({**found.get("openai", {}), **found.get(provider, {})})
    strict = options.pop("strict", spec.strict)
    schema = strict_schema(spec.parameters) if strict else None
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": schema or _with_properties(spec.parameters),
        **options,
        "strict": schema is not None,
    }


def _with_properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return schema if "properties" in schema else {**schema, "properties": {}}  # refused without


def not_strict(specs: tuple[ToolSpec, ...], written: tuple[msgspec.Raw, ...]) -> list[Warned]:
    """A warning for each function that should be strict and cannot be."""
    pairs = zip(specs, written, strict=True)
    return [_not_strict(spec.name) for spec, raw in pairs if spec.strict and bytes(raw).endswith(b'"strict":false}')]


def _not_strict(name: str) -> Warned:
    details = (
        f"Strict mode cannot say the parameters of {name!r} (each property must be required, each object closed); "
        "they are sent without it."
    )
    return {"type": "unsupported-setting", "setting": "strict", "details": details}


def provider_tools(request: ModelRequest, provider: str) -> tuple[list[Tool], list[Warned], list[str]]:
    """The provider's own tools, warnings for those of other providers, and what to include in the answer for them."""
    tools: list[Tool] = []
    warnings: list[Warned] = []
    include: list[str] = []
    for tool in request.provider_tools:
        kind = type_of(tool, provider)
        if kind is None:
            details = f"{tool.id!r} is no tool of {provider}."
            warnings.append({"type": "unsupported-tool", "tool": tool.name, "details": details})
            continue
        tools.append(_provider_tool(kind, tool))
        if kind in _INCLUDED and provider == "openai":
            include.append(_INCLUDED[kind])
    return tools, warnings, include


def type_of(tool: ProviderTool, provider: str) -> str | None:
    """The type of a provider's tool on the wire; None when it belongs to another provider."""
    owner, _, kind = tool.id.partition(".")
    return _ALIASES.get(kind, kind) if owner in {"openai", provider} else None


def _provider_tool(kind: str, tool: ProviderTool) -> Tool:
    args: Tool = snake_case(tool.args)
    match kind:
        case "code_interpreter":
            container: Any = args.get("container") or {}
            return {
                "type": kind,
                **args,
                "container": container if isinstance(container, str) else {"type": "auto", **container},
            }
        case "mcp":
            return {"type": kind, "require_approval": "never", **args}
        case "file_search" if "ranking" in args:
            return {"type": kind, "ranking_options": args.pop("ranking"), **args}
        case "custom":
            return {"type": kind, "name": tool.name, **args}
        case _ if isinstance(args.get("user_location"), dict):
            return {"type": kind, **args, "user_location": {"type": "approximate", **args["user_location"]}}
        case _:
            return {"type": kind, **args}


def tool_choice(request: ModelRequest, allowed: tuple[tuple[str, ...], str] | None, provider: str) -> Any:
    """The tool choice; None when the model is free, which need not be said."""
    choice = request.tool_choice
    if isinstance(choice, NamedTool):
        reference = _reference(choice.tool_name, request, provider)
        if reference["type"] in {"function", "custom", "mcp"} or reference["type"] in _CHOOSABLE:
            return reference
        return {"type": "allowed_tools", "mode": "required", "tools": [reference]}
    if allowed is not None and choice != "none":
        names, mode = allowed
        tools = [_reference(name, request, provider) for name in names]
        return {"type": "allowed_tools", "mode": "required" if choice == "required" else mode, "tools": tools}
    return None if choice == "auto" else choice


def _reference(name: str, request: ModelRequest, provider: str) -> Tool:
    for tool in request.provider_tools:
        kind = type_of(tool, provider) if tool.name == name else None
        if kind == "mcp":
            return {"type": kind, "server_label": snake_case(tool.args).get("server_label", name)}
        if kind == "custom":
            return {"type": kind, "name": name}
        if kind is not None:
            return {"type": kind}
    return {"type": "function", "name": name}
