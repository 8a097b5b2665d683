"""The body of a Gemini request.

Invariant: `contents` are ours; any other key can be set by the caller's provider options, which win over settings.
Nothing is sent empty, and nothing that this family of models refuses: it is left out with a warning.

Source: Gemini API reference, "GenerateContentRequest"; guides "Structured output" and "Context caching".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from tenuto.messages.turns import SystemTurn
from tenuto.models.gemini.contents import Turns
from tenuto.models.gemini.family import Family, thinking
from tenuto.models.gemini.messages import content
from tenuto.models.gemini.options import Options
from tenuto.models.gemini.schema import without_const
from tenuto.models.gemini.tools import Offered
from tenuto.models.ports import ModelRequest, ModelSettings, ResponseFormat

_MAX_STOPS = 5
_encode = msgspec.json.Encoder().encode
Warnings = list[Mapping[str, Any]]


def build_body(
    request: ModelRequest,
    family: Family,
    *,
    system: list[Raw],
    contents: list[Raw],
    turns: Turns,
    offered: Offered,
    options: Options,
    warnings: Warnings,
) -> bytes:
    """The bytes of the request; what it cannot say is added to `warnings`."""
    instructions: list[Any] = [*system, *_late(request)]
    generation = _settings(request.settings, family, options, warnings)
    if request.response_format is not None:
        apart = not offered.tools or family.signed
        generation.update(_json(request.response_format, options) if apart else {})
        if not apart:
            instructions.append({"text": _asked_for(request.response_format)})
            reason = "Gemini before version 3 gives JSON or calls tools, so the instructions ask for the JSON."
            warnings.append(_setting("responseFormat", reason))
    generation.update(options.generation)
    body: dict[str, Any] = {}
    if instructions and family.gemma:
        contents = [*content("user", instructions), *contents]
    elif instructions:
        body["systemInstruction"] = {"parts": instructions}
    if offered.tools:
        body["tools"] = offered.tools
    if config := _tool_config(offered, options):
        body["toolConfig"] = config
    if generation:
        body["generationConfig"] = generation
    body |= {key: value for key, value in options.body.items() if key != "toolConfig"}
    if "cachedContent" in body:
        _without_cached(body, warnings)
    body["contents"] = turns.of(contents)
    return _encode(body)


def warnings_for(offered: Offered, options: Options) -> Warnings:
    """What was left out of the tools and the options."""
    tools: Warnings = [{"type": "unsupported-tool", "tool": tool, "details": why} for tool, why in offered.warnings]
    return tools + [_setting(f"providerOptions.google.{name}", why) for name, why in options.warnings]


def _late(request: ModelRequest) -> list[Mapping[str, str]]:
    """Instructions in the middle of the history: there is one place for all of them."""
    return [{"text": turn.text} for turn in request.prompt.turns if type(turn) is SystemTurn and turn.text]


def _setting(name: str, details: str) -> Mapping[str, Any]:
    return {"type": "unsupported-setting", "setting": name, "details": details}


def _settings(settings: ModelSettings, family: Family, options: Options, warnings: Warnings) -> dict[str, Any]:
    named: dict[str, Any] = {
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "topK": settings.top_k,
        "maxOutputTokens": settings.max_output_tokens,
        "presencePenalty": settings.presence_penalty,
        "frequencyPenalty": settings.frequency_penalty,
        "stopSequences": list(settings.stop_sequences or ()) or None,
        "seed": settings.seed,
    }
    found = {name: value for name, value in named.items() if value is not None}
    for name in () if family.penalties else ("presencePenalty", "frequencyPenalty"):
        if found.pop(name, None) is not None:
            warnings.append(_setting(name, "Gemini 2.5 has no penalties."))
    if len(found.get("stopSequences", ())) > _MAX_STOPS:
        warnings.append(_setting("stopSequences", "Gemini takes five; the first five are sent."))
        del found["stopSequences"][_MAX_STOPS:]
    if settings.reasoning is not None:
        _think(settings.reasoning, family, found, options, warnings)
    return found


def _think(effort: str, family: Family, found: dict[str, Any], options: Options, warnings: Warnings) -> None:
    """The effort as `thinkingConfig`, unless the options say it their own way."""
    given = cast("Mapping[str, Any]", options.generation.get("thinkingConfig") or {})
    if given.keys() & {"thinkingBudget", "thinkingLevel", "thinking_budget", "thinking_level"}:
        return
    config = thinking(effort, family)
    if isinstance(config, str):
        warnings.append(_setting("reasoning", config))
    elif given:
        options.generation["thinkingConfig"] = {**config, **given}
    else:
        found["thinkingConfig"] = config


def _json(wanted: ResponseFormat, options: Options) -> dict[str, Any]:
    named: dict[str, Any] = {"responseMimeType": "application/json"}
    if wanted.schema is not None and options.structured and "responseSchema" not in options.generation:
        named["responseJsonSchema"] = without_const(wanted.schema)
    return named


def _asked_for(wanted: ResponseFormat) -> str:
    if wanted.schema is None:
        return "Answer with a JSON value and nothing else."
    return f"Answer with a JSON value of this JSON Schema and nothing else: {_encode(wanted.schema).decode()}"


def _tool_config(offered: Offered, options: Options) -> dict[str, Any]:
    config: dict[str, Any] = {**(options.body.get("toolConfig") or {})}
    calling = {**offered.calling, **options.calling, **config.pop("functionCallingConfig", {})}
    if calling and offered.tools:
        config["functionCallingConfig"] = calling
    if offered.combined:
        config["includeServerSideToolInvocations"] = True
    return {**config, **options.tool_config}


def _without_cached(body: dict[str, Any], warnings: Warnings) -> None:
    """What a cached content holds itself and a request with one must not say again."""
    for name in ("systemInstruction", "tools", "toolConfig"):
        if body.pop(name, None) is not None:
            warnings.append(_setting(name, "It is part of the cached content, and refused beside one."))
