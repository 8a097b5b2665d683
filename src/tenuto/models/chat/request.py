"""The body of a chat completions request.

Invariant: `stream` and `messages` are ours; any other key can be set by the caller's provider options, which win over
settings. No key is sent empty: no `tools: []`, no tool choice without tools.

Source: OpenAI API reference, "Create chat completion"; option names of the AI SDK's OpenAI provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from tenuto.messages.turns import ProviderOptions
from tenuto.models.catalogue import Quirks
from tenuto.models.ports import ModelRequest, ModelSettings, NamedTool, ResponseFormat, ToolChoice, ToolSpec

_encode = msgspec.json.Encoder().encode

OPTION_NAMES: Mapping[str, str] = {
    "frequencyPenalty": "frequency_penalty",
    "logitBias": "logit_bias",
    "maxCompletionTokens": "max_completion_tokens",
    "maxTokens": "max_tokens",
    "parallelToolCalls": "parallel_tool_calls",
    "presencePenalty": "presence_penalty",
    "promptCacheKey": "prompt_cache_key",
    "promptCacheRetention": "prompt_cache_retention",
    "reasoningEffort": "reasoning_effort",
    "responseFormat": "response_format",
    "safetyIdentifier": "safety_identifier",
    "serviceTier": "service_tier",
    "textVerbosity": "verbosity",
    "text_verbosity": "verbosity",
    "topLogprobs": "top_logprobs",
    "topP": "top_p",
    "webSearchOptions": "web_search_options",
}
"""AI-SDK names of options, and their snake_case where the vendor's name is another one."""

_OURS = frozenset({"stream", "messages"})
_SWITCHES = frozenset(
    {
        "echoReasoning", "echo_reasoning", "structuredOutputs", "structured_outputs", "strictJsonSchema",
        "strict_json_schema", "systemMessageMode", "system_message_mode", "forceReasoning", "force_reasoning",
    }
)  # fmt: skip
"""Options that steer us; a value that is no switch (vLLM's `structured_outputs` is an object) goes to the vendor."""


class Options(NamedTuple):
    """Provider options, sorted: what goes into the body, and what steers the dialect."""

    body: dict[str, Any]
    echo_reasoning: bool | None
    strict: bool | None = None


def read_options(options: ProviderOptions | None, provider: str) -> Options:
    """The options that apply: those under `openai`, then those under the provider's own name."""
    if not options:
        return Options({}, None)
    given = {**options.get("openai", {}), **options.get(provider, {})}
    echo = given.get("echoReasoning", given.get("echo_reasoning"))
    body: dict[str, Any] = {}
    for name, value in given.items():
        if name in _OURS or (name in _SWITCHES and isinstance(value, bool | str | None)):
            continue
        body[OPTION_NAMES.get(name, name)] = value
    _split_logprobs(body)
    strict = given.get("strictJsonSchema", given.get("strict_json_schema"))
    return Options(body, echo if isinstance(echo, bool) else None, strict if isinstance(strict, bool) else None)


def _split_logprobs(body: dict[str, Any]) -> None:
    """The AI SDK's `logprobs: 3` is the vendor's `logprobs: true, top_logprobs: 3`."""
    count = body.get("logprobs")
    if isinstance(count, int) and not isinstance(count, bool):
        body["logprobs"] = True
        body.setdefault("top_logprobs", count)


def build_body(
    model_id: str,
    request: ModelRequest,
    *,
    messages: list[msgspec.Raw],
    tools: tuple[msgspec.Raw, ...] | None,
    options: Mapping[str, Any],
    quirks: Quirks,
) -> bytes:
    """The bytes of the request."""
    body: dict[str, Any] = {"model": model_id, "stream": True}
    if quirks.include_usage:
        body["stream_options"] = {"include_usage": True}
    if tools is not None:
        body["tools"] = tools
        if request.tool_choice != "auto":
            body["tool_choice"] = _tool_choice(request.tool_choice)
    if request.response_format is not None:
        body["response_format"] = _response_format(request.response_format)
    body.update(_settings(request.settings, options, quirks))
    body.update(options)
    if "tools" not in body:
        body.pop("parallel_tool_calls", None)  # refused on a step that offers no tools
    body["messages"] = messages or [{"role": "user", "content": ""}]
    return _encode(body)


def warnings_for(request: ModelRequest) -> tuple[Mapping[str, Any], ...]:
    """What the caller asked for and this format cannot say."""
    warnings: list[Mapping[str, Any]] = [
        {"type": "unsupported-tool", "tool": tool.name, "details": f"Chat completions have no tool {tool.id!r}."}
        for tool in request.provider_tools
    ]
    if request.settings.top_k is not None:
        details = "Chat completions have no top_k; a vendor that has one takes it in provider_options."
        warnings.append({"type": "unsupported-setting", "setting": "topK", "details": details})
    return tuple(warnings)


def _settings(settings: ModelSettings, options: Mapping[str, Any], quirks: Quirks) -> dict[str, Any]:
    named = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "presence_penalty": settings.presence_penalty,
        "frequency_penalty": settings.frequency_penalty,
        "stop": settings.stop_sequences or None,
        "seed": settings.seed,
        "reasoning_effort": settings.reasoning,
    }
    if not options.keys() & {"max_tokens", "max_completion_tokens"}:
        named[quirks.max_tokens] = settings.max_output_tokens
    return {name: value for name, value in named.items() if value is not None}


def _response_format(asked: ResponseFormat) -> dict[str, Any]:
    if asked.schema is None:
        return {"type": "json_object"}
    named: dict[str, Any] = {"name": asked.name, "schema": asked.schema, "strict": bool(asked.strict)}
    if asked.description:
        named["description"] = asked.description
    return {"type": "json_schema", "json_schema": named}


def write_tool(spec: ToolSpec) -> dict[str, Any]:
    """A tool as the format defines it."""
    function: dict[str, Any] = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    if spec.strict is not None:
        function["strict"] = spec.strict
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice) -> Any:
    if isinstance(choice, NamedTool):
        return {"type": "function", "function": {"name": choice.tool_name}}
    return choice
