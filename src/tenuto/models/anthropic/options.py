"""Provider options of a call, a message or a tool in the vendor's names.

Invariant: one table for the AI-SDK's names; the vendor's own names mean the same; a key that nobody knows goes into the
request unchanged.

Source: option names of the AI SDK's Anthropic provider; Anthropic API reference, "Create a message".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from msgspec import Struct

from tenuto.messages.turns import ProviderOptions

VENDOR = "anthropic"
"""The key under which options of this dialect stand, whoever the provider is."""

OPTION_NAMES: Mapping[str, str] = {
    "allowedCallers": "allowed_callers",
    "cacheControl": "cache_control",
    "contextManagement": "context_management",
    "deferLoading": "defer_loading",
    "eagerInputStreaming": "eager_input_streaming",
    "inferenceGeo": "inference_geo",
    "inputExamples": "input_examples",
    "maxTokens": "max_tokens",
    "mcpServers": "mcp_servers",
    "outputConfig": "output_config",
    "serviceTier": "service_tier",
    "stopSequences": "stop_sequences",
    "toolChoice": "tool_choice",
    "topK": "top_k",
    "topP": "top_p",
}
"""AI-SDK names of options, on calls, messages, parts and tools alike."""

_NESTED = frozenset(
    {"cache_control", "container", "context_management", "mcp_servers", "metadata", "output_config", "thinking"}
)
"""Options that are objects of the vendor's, whose keys are spelled in either way at every depth."""

_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")
_OURS = frozenset({"stream", "messages", "system", "tools"})
_SWITCHES: Mapping[str, str] = {
    "thinking": "thinking",
    "effort": "effort",
    "taskBudget": "task_budget",
    "task_budget": "task_budget",
    "sendReasoning": "send_reasoning",
    "send_reasoning": "send_reasoning",
    "structuredOutputMode": "structured_output_mode",
    "structured_output_mode": "structured_output_mode",
    "disableParallelToolUse": "disable_parallel",
    "disable_parallel_tool_use": "disable_parallel",
    "toolStreaming": "tool_streaming",
    "tool_streaming": "tool_streaming",
    "anthropicBeta": "betas",
    "anthropic_beta": "betas",
    "betas": "betas",
}


class Options(Struct, frozen=True, kw_only=True):
    """The options of a call, sorted: `body` goes into the request, the others steer how it is written."""

    body: Mapping[str, Any] = {}
    thinking: Mapping[str, Any] | None = None
    effort: str | None = None
    task_budget: Mapping[str, Any] | None = None
    send_reasoning: bool = True
    structured_output_mode: str | None = None
    disable_parallel: bool | None = None
    tool_streaming: bool = False
    betas: tuple[str, ...] = ()


_NONE = Options()


def given_options(options: ProviderOptions | None, provider: str) -> Mapping[str, Any]:
    """The options under the dialect's name, then those under the provider's own, by the vendor's names."""
    if not options:
        return {}
    found = {**options.get(VENDOR, {}), **options.get(provider, {})}
    named = {OPTION_NAMES.get(name, name): value for name, value in found.items()}
    return {name: vendor_spelling(value) if name in _NESTED else value for name, value in named.items()}


def read_options(options: ProviderOptions | None, provider: str) -> Options:
    """The options of a call."""
    given = given_options(options, provider)
    if not given:
        return _NONE
    body: dict[str, Any] = {}
    switches: dict[str, Any] = {}
    for name, value in given.items():
        if name in _SWITCHES:
            switches[_SWITCHES[name]] = value
        elif name not in _OURS:
            body[name] = value
    betas = switches.pop("betas", None) or ()
    names = betas.split(",") if isinstance(betas, str) else betas
    kept = {name: value for name, value in switches.items() if value is not None}
    return Options(body=body, betas=tuple(name.strip() for name in names), **kept)


def vendor_spelling(value: Any) -> Any:
    """Keys in snake case at every depth; a JSON schema inside is left as it is."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return {snake(name): item if name == "schema" else vendor_spelling(item) for name, item in pairs}
    if isinstance(value, list | tuple):
        return [vendor_spelling(item) for item in cast("Iterable[Any]", value)]
    return value


def snake(name: str) -> str:
    """`maxUses` as `max_uses`."""
    return _HUMP.sub(r"_\1", name).lower() if _HUMP.search(name) else name


def cache_mark(metadata: Mapping[str, Any] | None, provider: str) -> Mapping[str, Any] | None:
    """The prompt-cache marker of a part."""
    return given_options(metadata, provider).get("cache_control") if metadata else None
