"""Functions, Google's own tools and the choice among them, as Gemini takes them.

Invariant: a choice is sent only with functions to choose from, and names one of them; functions stand beside Google's
tools only for models that combine them. JSON Schema goes as it is (`parametersJsonSchema`): the older `parameters`
takes a subset of OpenAPI 3.0 only.

Source: Gemini API reference, "Tool", "FunctionDeclaration" and "ToolConfig"; tool ids of the AI SDK's Google provider.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tenuto.core.errors import ModelError
from tenuto.core.payloads import wire_name
from tenuto.models.gemini.parts import kept
from tenuto.models.ports import ModelRequest, NamedTool, ProviderTool, ToolChoice, ToolSpec
from tenuto.models.tool_cache import ToolCache

PROVIDER_TOOLS: Mapping[str, str] = {
    "google.google_search": "googleSearch",
    "google.google_search_retrieval": "googleSearchRetrieval",
    "google.enterprise_web_search": "enterpriseWebSearch",
    "google.url_context": "urlContext",
    "google.code_execution": "codeExecution",
    "google.file_search": "fileSearch",
    "google.google_maps": "googleMaps",
    "google.computer_use": "computerUse",
    "google.mcp_servers": "mcpServers",
    "google.vertex_rag_store": "retrieval",
}
"""Ids of tools, and their keys in a request."""

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


class Offered(NamedTuple):
    """The tools of a request; `warnings` as (tool, reason)."""

    tools: list[Any]
    calling: dict[str, Any]
    combined: bool
    warnings: list[tuple[str, str]]


def offered(request: ModelRequest, cache: ToolCache, *, combines: bool) -> Offered:
    """The tools to send; `combines`: functions may stand beside Google's own tools."""
    own, warnings = _provider_tools(request.provider_tools)
    if own and request.tools and not combines:
        reason = "Gemini before version 3 takes either functions or Google's own tools; the functions are kept."
        warnings += [(tool.id, reason) for tool in request.provider_tools if tool.id in PROVIDER_TOOLS]
        own = []
    if not request.tools:
        return Offered(own, {}, combined=False, warnings=warnings)
    combined = bool(own)
    calling = _calling(request.tool_choice, request.tools, combined=combined)
    return Offered([*own, {"functionDeclarations": cache.encode(request.tools)}], calling, combined, warnings)


def write_tool(spec: ToolSpec) -> dict[str, Any]:
    """A function as the format declares it.

    Raises:
        ModelError: A name that Gemini refuses.
    """
    if not _NAME.fullmatch(spec.name):
        raise ModelError(
            f"Gemini refuses the tool name {spec.name!r}: it must begin with a letter or an underscore and go on with "
            "letters, digits, underscores, dots, colons or dashes, 128 at most. Rename the tool.",
            id="MODEL_REQUEST_INVALID",
            category="USER",
        )
    options = {
        key: value for key, value in kept(spec.provider_options).items() if key not in ("cacheControl", "cache_control")
    }
    return {
        "name": spec.name,
        "description": spec.description,
        "parametersJsonSchema": spec.parameters,
        **options,
    }


def _provider_tools(tools: Sequence[ProviderTool]) -> tuple[list[Any], list[tuple[str, str]]]:
    own: list[Any] = []
    warnings: list[tuple[str, str]] = []
    for tool in tools:
        key = PROVIDER_TOOLS.get(tool.id)
        if key is None:
            warnings.append((tool.id, f"Gemini has no tool {tool.id!r}; it has {', '.join(PROVIDER_TOOLS)}."))
        else:
            own.append({key: _settings(key, tool.args)})
    return own, warnings


def _settings(key: str, args: Mapping[str, Any]) -> Any:
    if key == "retrieval":
        store: dict[str, Any] = {"ragResources": [{"ragCorpus": args.get("ragCorpus", args.get("rag_corpus"))}]}
        count = args.get("topK", args.get("top_k"))
        return {"vertexRagStore": store if count is None else {**store, "similarityTopK": count}}
    if key == "mcpServers":
        return args.get("servers", [])
    return {wire_name(name): value for name, value in args.items()}


def _calling(choice: ToolChoice, tools: tuple[ToolSpec, ...], *, combined: bool) -> dict[str, Any]:
    if isinstance(choice, NamedTool):
        return {"mode": "ANY", "allowedFunctionNames": [_present(choice.tool_name, tools)]}
    if choice == "auto":
        checked = combined or any(spec.strict for spec in tools)
        return {"mode": "VALIDATED"} if checked else {}
    return {"mode": _MODES[choice]}


def _present(name: str, tools: tuple[ToolSpec, ...]) -> str:
    if not any(spec.name == name for spec in tools):
        raise ModelError(
            f"The tool choice names {name!r}, which is not among the tools: {', '.join(spec.name for spec in tools)}.",
            id="MODEL_REQUEST_INVALID",
            category="USER",
        )
    return name
