"""Provider options of the responses dialect, sorted by where they go.

Invariant: an option is read under its AI-SDK name or the vendor's own; a key that is neither goes into the body
unchanged. `stream` and `input` are ours.

Source: OpenAI API reference, "Create a model response"; option names of the AI SDK's OpenAI responses provider.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from tenuto.core.errors import ModelError
from tenuto.messages.turns import ProviderOptions
from tenuto.models.responses.messages import SystemRole

OPTION_NAMES: Mapping[str, str] = {
    "contextManagement": "context_management",
    "maxToolCalls": "max_tool_calls",
    "parallelToolCalls": "parallel_tool_calls",
    "previousResponseId": "previous_response_id",
    "promptCacheKey": "prompt_cache_key",
    "promptCacheOptions": "prompt_cache_options",
    "promptCacheRetention": "prompt_cache_retention",
    "safetyIdentifier": "safety_identifier",
    "serviceTier": "service_tier",
    "streamOptions": "stream_options",
    "topLogprobs": "top_logprobs",
    "topP": "top_p",
}
"""AI-SDK names of options that are a key of the body."""

REASONING_NAMES: Mapping[str, str] = {
    "reasoningEffort": "effort",
    "reasoning_effort": "effort",
    "reasoningSummary": "summary",
    "reasoning_summary": "summary",
    "reasoningContext": "context",
    "reasoning_context": "context",
    "reasoningMode": "mode",
    "reasoning_mode": "mode",
}
"""Options that are a key of `reasoning`."""

TEXT_NAMES: Mapping[str, str] = {"textVerbosity": "verbosity", "text_verbosity": "verbosity", "verbosity": "verbosity"}
"""Options that are a key of `text`."""

_SWITCHES: Mapping[str, str] = {
    "strictJsonSchema": "strict",
    "strict_json_schema": "strict",
    "systemMessageMode": "role",
    "system_message_mode": "role",
    "forceReasoning": "force",
    "force_reasoning": "force",
    "allowedTools": "allowed",
    "allowed_tools": "allowed",
    "logprobs": "logprobs",
}
_OURS = frozenset({"stream", "input"})
_MOST_LOGPROBS = 20
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")


class Options(NamedTuple):
    """Provider options, sorted.

    Attributes:
        body: Keys of the body.
        reasoning: Keys of `reasoning`.
        text: Keys of `text`.
        include: What the answer must hold besides.
        strict: Whether schemas of answers are strict; None = where the schema allows it.
        allowed_tools: The only tools that may be called, and `auto` or `required`.
    """

    body: dict[str, Any]
    reasoning: dict[str, Any]
    text: dict[str, Any]
    include: tuple[str, ...] = ()
    strict: bool | None = None
    system_role: SystemRole | None = None
    force_reasoning: bool = False
    allowed_tools: tuple[tuple[str, ...], str] | None = None


def read_options(options: ProviderOptions | None, provider: str) -> Options:
    """The options that apply: those under `openai`, then those under the provider's own name.

    Raises:
        ModelError: Options that exclude each other.
    """
    given = {**options.get("openai", {}), **options.get(provider, {})} if options else {}
    body: dict[str, Any] = {}
    reasoning: dict[str, Any] = {}
    text: dict[str, Any] = {}
    switches: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or name in _OURS:
            continue
        if name in REASONING_NAMES:
            reasoning[REASONING_NAMES[name]] = value
        elif name in TEXT_NAMES:
            text[TEXT_NAMES[name]] = value
        elif name in _SWITCHES:
            switches[_SWITCHES[name]] = value
        else:
            body[OPTION_NAMES.get(name, name)] = value
    reasoning = {**_record(body.pop("reasoning", None)), **reasoning}
    text = {**_record(body.pop("text", None)), **text}
    if "context_management" in body:
        body["context_management"] = snake_case(body["context_management"])
    _check(body)
    include = _include(body, switches.get("logprobs"))
    return _options(body, reasoning, text, include, switches)


def _options(
    body: dict[str, Any],
    reasoning: dict[str, Any],
    text: dict[str, Any],
    include: tuple[str, ...],
    switches: Mapping[str, Any],
) -> Options:
    strict, role, force = switches.get("strict"), switches.get("role"), switches.get("force")
    return Options(
        body,
        reasoning,
        text,
        include,
        strict if isinstance(strict, bool) else None,
        cast("SystemRole", role) if role in {"system", "developer", "remove"} else None,
        force is True,
        _allowed(_record(switches.get("allowed"))),
    )


def _allowed(given: Mapping[str, Any]) -> tuple[tuple[str, ...], str] | None:
    names: Any = given.get("toolNames") or given.get("tool_names")
    return (tuple(names), str(given.get("mode") or "auto")) if names else None


def _include(body: dict[str, Any], logprobs: Any) -> tuple[str, ...]:
    """What to include; the AI SDK's `logprobs: 3` is the vendor's `top_logprobs: 3` and an include."""
    include = tuple(cast("Sequence[str]", body.pop("include", ())))
    if logprobs is None or logprobs is False:
        return include
    body.setdefault("top_logprobs", _MOST_LOGPROBS if logprobs is True else logprobs)
    return (*include, "message.output_text.logprobs")


def _check(body: Mapping[str, Any]) -> None:
    if body.get("previous_response_id") and body.get("conversation"):
        raise ModelError(
            "The provider options previousResponseId and conversation exclude each other; give one of them.",
            id="MODEL_OPTIONS_INVALID",
            category="USER",
        )


def snake_case(value: Any) -> Any:
    """The same value with the names of its keys in snake_case, at every depth but inside `headers`."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return {_spelled(name): each if name == "headers" else snake_case(each) for name, each in pairs}
    if isinstance(value, list | tuple):
        return [snake_case(each) for each in cast("Sequence[Any]", value)]
    return value


def _spelled(name: str) -> str:
    return _HUMP.sub(r"_\1", name).lower()


def _record(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
