"""Provider options of Google's models: one table of where each goes.

Invariant: AI-SDK names and the vendor's own are the same names, in camelCase or snake_case; a key that the table does
not know goes into the body unchanged. What the provider is known to refuse is left out with a warning.

Source: Gemini API reference, "GenerateContentRequest" and "GenerationConfig"; options of the AI SDK's Google provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from msgspec import Struct, field

from tenuto.core.errors import ModelError
from tenuto.core.payloads import wire_name
from tenuto.messages.turns import ProviderOptions
from tenuto.models.gemini.parts import KEYS

Where = Literal["body", "generation", "tool_config", "calling", "header", "switch", "ours"]

PLACES: Mapping[str, Where] = {
    "cachedContent": "body",
    "labels": "body",
    "safetySettings": "body",
    "serviceTier": "body",
    "toolConfig": "body",
    "audioTimestamp": "generation",
    "candidateCount": "ours",
    "contents": "ours",
    "enableAffectiveDialog": "generation",
    "enableEnhancedCivicAnswers": "generation",
    "frequencyPenalty": "generation",
    "imageConfig": "generation",
    "logprobs": "generation",
    "maxOutputTokens": "generation",
    "mediaResolution": "generation",
    "modelSelectionConfig": "generation",
    "presencePenalty": "generation",
    "responseJsonSchema": "generation",
    "responseLogprobs": "generation",
    "responseMimeType": "generation",
    "responseModalities": "generation",
    "responseSchema": "generation",
    "routingConfig": "generation",
    "seed": "generation",
    "speechConfig": "generation",
    "stopSequences": "generation",
    "temperature": "generation",
    "thinkingConfig": "generation",
    "topK": "generation",
    "topP": "generation",
    "includeServerSideToolInvocations": "tool_config",
    "retrievalConfig": "tool_config",
    "streamFunctionCallArguments": "calling",
    "requestType": "header",
    "sharedRequestType": "header",
    "structuredOutputs": "switch",
    "threshold": "switch",
}
"""Options by name, and the part of the request that they belong to."""

_HEADERS = {
    "requestType": "x-vertex-ai-llm-request-type",
    "sharedRequestType": "x-vertex-ai-llm-shared-request-type",
}
_VERTEX_ONLY = frozenset({"audioTimestamp", "streamFunctionCallArguments", "requestType", "sharedRequestType"})
_VERTEX_IMAGES = frozenset({"personGeneration", "prominentPeople", "imageOutputOptions"})
_HARMS = ("HATE_SPEECH", "DANGEROUS_CONTENT", "HARASSMENT", "SEXUALLY_EXPLICIT")


class Options(Struct):
    """Options, sorted by where they go.

    Attributes:
        structured: False: no schema is sent with a JSON answer.
        warnings: What was left out, as (option, reason).
    """

    body: dict[str, Any] = field(default_factory=dict[str, Any])
    generation: dict[str, Any] = field(default_factory=dict[str, Any])
    tool_config: dict[str, Any] = field(default_factory=dict[str, Any])
    calling: dict[str, Any] = field(default_factory=dict[str, Any])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    structured: bool = True
    warnings: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def read_options(options: ProviderOptions | None, provider: str) -> Options:
    """The options that apply: those under Google's names, then those under the provider's own.

    Raises:
        ModelError: Two of them exclude each other.
    """
    read = Options()
    if not options:
        return read
    vertex = "vertex" in provider
    for key in dict.fromkeys((*KEYS[::-1], provider)):
        for name, value in options.get(key, {}).items():
            _sort(read, _camel(name), value, vertex=vertex)
    _check_thinking(read.generation.get("thinkingConfig"), provider)
    return read


def _camel(name: str) -> str:
    return wire_name(name) if "_" in name.strip("_") else name


def _sort(read: Options, name: str, value: Any, *, vertex: bool) -> None:
    if value is None or (where := PLACES.get(name, "body")) == "ours":
        return
    if name in _VERTEX_ONLY and not vertex:
        read.warnings.append((name, "It is an option of Vertex AI alone."))
        return
    match where:
        case "body":
            read.body[name] = value
        case "generation":
            read.generation[name] = value if name != "imageConfig" or vertex else _images(value, read)
        case "tool_config":
            read.tool_config[name] = value
        case "calling":
            read.calling[name] = value
        case "header":
            read.headers[_HEADERS[name]] = str(value)
        case "switch" if name == "threshold":
            harms = [{"category": f"HARM_CATEGORY_{harm}", "threshold": value} for harm in _HARMS]
            read.body.setdefault("safetySettings", harms)
        case "switch":
            read.structured = value is not False


def _images(config: Any, read: Options) -> Any:
    if not isinstance(config, Mapping):
        return config
    given = cast("Mapping[str, Any]", config)
    read.warnings += [
        (f"imageConfig.{name}", "It is an option of Vertex AI alone.") for name in given if name in _VERTEX_IMAGES
    ]
    return {name: value for name, value in given.items() if name not in _VERTEX_IMAGES}


def _check_thinking(config: object, provider: str) -> None:
    if not isinstance(config, Mapping):
        return
    given = {_camel(name) for name, value in cast("Mapping[str, Any]", config).items() if value is not None}
    if {"thinkingBudget", "thinkingLevel"} <= given:
        raise ModelError(
            "thinkingConfig has both a thinkingBudget and a thinkingLevel, and Gemini takes one of them; "
            "Gemini 3 and later have levels, Gemini 2.5 has budgets.",
            id="MODEL_REQUEST_INVALID",
            provider=provider,
            category="USER",
        )
