"""The body of a responses request.

Invariant: what the API refuses is not in it: no sampling settings for a model that thinks, no limit below the least
one, no tool choice without tools, no JSON mode without the word. Each setting that was left out is a warning.

Source: OpenAI API reference, "Create a model response"; guide "Reasoning models".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tenuto.core.errors import ModelError
from tenuto.models.ports import ModelRequest, ModelSettings, ResponseFormat
from tenuto.models.responses.options import Options
from tenuto.models.responses.reasoning import encrypts, takes_sampling
from tenuto.models.responses.schema import strict_schema
from tenuto.models.responses.tools import Warned, not_strict, provider_tools, tool_choice, write_function
from tenuto.models.tool_cache import ToolCache

_LEAST_OUTPUT = 16
_BAD_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_UNKNOWN_TO_IT = ("top_k", "presence_penalty", "frequency_penalty", "stop_sequences", "seed")
_encode = msgspec.json.Encoder().encode

Body = dict[str, Any]


class Writer:
    """Writes bodies for one provider."""

    __slots__ = ("_functions", "_provider")

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._functions = ToolCache(lambda spec: write_function(spec, provider))

    def write(
        self,
        model_id: str,
        request: ModelRequest,
        *,
        items: list[msgspec.Raw],
        options: Options,
        thinks: bool | None,
    ) -> tuple[bytes, tuple[Warned, ...]]:
        """The bytes of a request, and what it could not say.

        Args:
            model_id: As the provider calls it.
            request: What is asked.
            items: The prompt.
            options: The provider options, sorted.
            thinks: Whether it is a reasoning model; None = nobody knows.
        """
        warnings: list[Warned] = list(_unknown(request.settings))
        body: Body = {"model": model_id, "stream": True, "store": bool(options.body.get("background"))}
        body.update(_settings(request.settings))
        include = list(options.include)
        self._tools(body, request, options, include, warnings)
        _thinking(body, request.settings, options, warnings, thinks=thinks)
        _text(body, request.response_format, options, warnings)
        body.update(options.body)
        if thinks:
            _without_sampling(body, model_id, include, warnings)
        if body.get("max_output_tokens", _LEAST_OUTPUT) < _LEAST_OUTPUT and self._provider == "openai":
            body["max_output_tokens"] = _LEAST_OUTPUT
            warnings.append(_warning("maxOutputTokens", f"The least is {_LEAST_OUTPUT}, which was sent."))
        if thinks or encrypts(model_id):
            include.append("reasoning.encrypted_content")
        if include:
            body["include"] = list(dict.fromkeys(include))
        if "tools" not in body:
            body.pop("parallel_tool_calls", None)
        body["input"] = _input(items, body)
        return _encode(body), tuple(warnings)

    def _tools(
        self, body: Body, request: ModelRequest, options: Options, include: list[str], warnings: list[Warned]
    ) -> None:
        own, left_out, wanted = provider_tools(request, self._provider)
        warnings += left_out
        include += wanted
        functions = self._functions.encode(request.tools)
        warnings += not_strict(request.tools, functions)
        if not functions and not own:
            return
        body["tools"] = [*functions, *own]
        if (choice := tool_choice(request, options.allowed_tools, self._provider)) is not None:
            body["tool_choice"] = choice


def _settings(settings: ModelSettings) -> Body:
    named = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "max_output_tokens": settings.max_output_tokens,
    }
    return {name: value for name, value in named.items() if value is not None}


def _unknown(settings: ModelSettings) -> Iterable[Warned]:
    for name in _UNKNOWN_TO_IT:
        if getattr(settings, name) not in {None, ()}:
            head, *rest = name.split("_")
            spelled = head + "".join(word.capitalize() for word in rest)
            yield _warning(spelled, f"The responses API has no {name}; it was left out.")


def _thinking(
    body: Body, settings: ModelSettings, options: Options, warnings: list[Warned], *, thinks: bool | None
) -> None:
    reasoning = dict(options.reasoning)
    if settings.reasoning is not None:
        reasoning.setdefault("effort", settings.reasoning)
    if reasoning and thinks is False:
        warnings.append(_warning("reasoning", f"{body['model']} does not reason; it was left out."))
    elif reasoning:
        body["reasoning"] = reasoning


def _without_sampling(body: Body, model_id: str, include: list[str], warnings: list[Warned]) -> None:
    if takes_sampling(model_id, body.get("reasoning", {}).get("effort")):
        return
    for name, spelled in (("temperature", "temperature"), ("top_p", "topP"), ("top_logprobs", "logprobs")):
        if body.pop(name, None) is not None:
            warnings.append(_warning(spelled, f"{model_id} reasons and takes no {name}; it was left out."))
    include[:] = [each for each in include if each != "message.output_text.logprobs"]


def _text(body: Body, wanted: ResponseFormat | None, options: Options, warnings: list[Warned]) -> None:
    text = dict(options.text)
    if wanted is not None and "format" not in text:
        text["format"] = _format(wanted, options, warnings)
    if text:
        body["text"] = text


def _format(wanted: ResponseFormat, options: Options, warnings: list[Warned]) -> Body:
    if wanted.schema is None:
        return {"type": "json_object"}
    if wanted.schema.get("type") != "object":
        raise ModelError(
            f"The schema of an answer must be an object for the responses API, not {wanted.schema.get('type')!r}; put "
            "the value into a property of one.",
            id="MODEL_SCHEMA_INVALID",
            category="USER",
        )
    strict = options.strict if wanted.strict is None else wanted.strict
    schema = None if strict is False else strict_schema(wanted.schema)
    if schema is None and strict:
        details = "Strict mode cannot say the schema (each property must be required, each object closed)."
        warnings.append(_warning("strictJsonSchema", details))
    made: Body = {"type": "json_schema", "name": _BAD_NAME.sub("_", wanted.name)[:64] or "response"}
    if wanted.description:
        made["description"] = wanted.description
    return made | {"schema": schema or wanted.schema, "strict": schema is not None}


def _input(items: list[msgspec.Raw], body: Body) -> list[Any]:
    if not items:
        return [{"role": "user", "content": ""}]
    wants_json: Mapping[str, Any] = body.get("text", {}).get("format") or {}
    if wants_json.get("type") == "json_object" and not any(b"json" in bytes(item).lower() for item in items):
        return [{"role": "system", "content": "Answer in JSON."}, *items]  # refused when nothing says the word
    return list(items)


def _warning(setting: str, details: str) -> Warned:
    return {"type": "unsupported-setting", "setting": setting, "details": details}
