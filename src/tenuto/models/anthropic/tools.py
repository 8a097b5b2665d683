"""Tools as the provider takes them: the caller's own, and those that the provider defines.

Invariant: names are valid and used once; a tool of another provider is left out with a warning; a tool that needs a
feature in preview names it.

Source: Anthropic documentation: "Define tools", tool reference; tool names and previews of the AI SDK's Anthropic
provider.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from tenuto.models.anthropic.messages import NAME_LIMIT
from tenuto.models.anthropic.options import Options, given_options, vendor_spelling
from tenuto.models.anthropic.schema import strict_schema, tool_schema
from tenuto.models.anthropic.traits import Traits
from tenuto.models.anthropic.trouble import Warnings, left_out, no_tool, refused
from tenuto.models.ports import ModelRequest, NamedTool, ProviderTool, ToolChoice, ToolSpec
from tenuto.models.tool_cache import ToolCache

_VALID = re.compile(rf"[a-zA-Z0-9_-]{{1,{NAME_LIMIT}}}")
_NAMES: Sequence[tuple[str, str | None]] = (
    ("web_search_", "web_search"),
    ("web_fetch_", "web_fetch"),
    ("code_execution_", "code_execution"),
    ("computer_toolset_", None),
    ("browser_toolset_", None),
    ("mcp_toolset", None),
    ("computer_", "computer"),
    ("bash_", "bash"),
    ("memory_", "memory"),
    ("advisor_", "advisor"),
    ("tool_search_tool_regex", "tool_search_tool_regex"),
    ("tool_search_tool_bm25", "tool_search_tool_bm25"),
    ("text_editor_20241022", "str_replace_editor"),
    ("text_editor_20250124", "str_replace_editor"),
    ("text_editor_", "str_replace_based_edit_tool"),
)
"""By the beginning of a tool's type, the one name it may have; None: it has none."""

_PREVIEWS: Mapping[str, str] = {
    "computer_20241022": "computer-use-2024-10-22",
    "bash_20241022": "computer-use-2024-10-22",
    "text_editor_20241022": "computer-use-2024-10-22",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
    "code_execution_20250522": "code-execution-2025-05-22",
    "advisor_20260301": "advisor-tool-2026-03-01",
    "mcp_toolset": "mcp-client-2025-11-20",
}
"""By type, the feature in preview that it belongs to."""

_Writer = Callable[[ToolSpec], Mapping[str, Any]]


class Tools:
    """The tools of one format; keeps what it has encoded."""

    __slots__ = ("_caches", "_provider")

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._caches: dict[tuple[bool, bool], ToolCache] = {}

    def encode(
        self, request: ModelRequest, options: Options, traits: Traits, warnings: Warnings
    ) -> tuple[list[msgspec.Raw], tuple[str, ...]]:
        """All tools of a request, and the previews that they need.

        Raises:
            ModelError: A name is not valid, or used twice.
        """
        tools = list(self._own(request.tools, options, traits, warnings)) if request.tools else []
        betas: list[str] = []
        names = {spec.name for spec in request.tools}
        for tool in request.provider_tools:
            written = self._hosted(tool, warnings)
            if written is None:
                continue
            if (name := written.get("name")) is not None and name in names:
                raise refused(self._provider, f"Two tools have the name {name!r}; rename yours.")
            names.add(written.get("name") or "")
            tools.append(msgspec.Raw(msgspec.json.encode(written)))
            betas += [_PREVIEWS[kind] for kind in (written["type"],) if kind in _PREVIEWS]
        return tools, tuple(betas)

    def _own(
        self, tools: tuple[ToolSpec, ...], options: Options, traits: Traits, warnings: Warnings
    ) -> tuple[msgspec.Raw, ...]:
        if not traits.structured and any(spec.strict for spec in tools):
            warnings.append(left_out("strict", "This model has no strict tools; strict was left out."))
        variant = options.tool_streaming, traits.structured
        if variant not in self._caches:
            write: _Writer = partial(_write, self._provider, eager=variant[0], strict=variant[1])
            self._caches[variant] = ToolCache(write)
        return self._caches[variant].encode(tools)

    def _hosted(self, tool: ProviderTool, warnings: Warnings) -> dict[str, Any] | None:
        vendor, _, kind = tool.id.partition(".")
        if vendor not in {"anthropic", self._provider} or not kind:
            warnings.append(no_tool(tool.name, f"{self._provider} has no tool {tool.id!r}."))
            return None
        name = next((name for start, name in _NAMES if kind.startswith(start)), tool.name)
        return {"type": kind, **({"name": name} if name else {}), **vendor_spelling(tool.args)}


def _write(provider: str, spec: ToolSpec, *, eager: bool, strict: bool) -> Mapping[str, Any]:
    """A tool as the format defines it."""
    if not _VALID.fullmatch(spec.name):
        raise refused(
            provider,
            f"The name of the tool {spec.name!r} is not one that {provider} takes: letters, digits, '_' and '-', "
            f"{NAME_LIMIT} at most.",
        )
    schema = tool_schema(spec.parameters)
    written: dict[str, Any] = {"name": spec.name, "description": spec.description, "input_schema": schema}
    if not spec.description:
        del written["description"]
    if spec.strict and strict:
        written |= {"strict": True, "input_schema": strict_schema(schema)}
    if eager:
        written["eager_input_streaming"] = True
    return {**written, **given_options(spec.provider_options, provider)}


def write_choice(choice: ToolChoice, options: Options) -> dict[str, Any] | None:
    """The request's `tool_choice`; None when it is what the provider does anyway."""
    written: dict[str, Any] | None
    match choice:
        case "none":
            return {"type": "none"}
        case "auto":
            written = {"type": "auto"} if options.disable_parallel else None
        case "required":
            written = {"type": "any"}
        case NamedTool():
            written = {"type": "tool", "name": choice.tool_name}
    if written is not None and options.disable_parallel is not None:
        written["disable_parallel_tool_use"] = options.disable_parallel
    return written
