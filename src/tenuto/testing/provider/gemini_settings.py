"""Refuses the settings and tools that Gemini refuses.

Invariant: what passes is documented and does not contradict itself.

Source: Gemini API reference, "GenerateContentRequest", "GenerationConfig", "Tool" and "ToolConfig".
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

import msgspec

from tenuto.testing.provider.strict import Reason, Refused, Rules, check_schema, require

__all__ = ["NAME", "check_settings"]

Json = dict[str, Any]
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
"""What a function may be called."""

_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Penalty = Annotated[float, msgspec.Meta(ge=-2, lt=2)]


class _Closed(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A record with documented keys only."""


class _Thinking(_Closed):
    include_thoughts: bool | None = None
    thinking_budget: Annotated[int, msgspec.Meta(ge=-1)] | None = None
    thinking_level: Literal["minimal", "low", "medium", "high", "MINIMAL", "LOW", "MEDIUM", "HIGH"] | None = None


class _Generation(_Closed):
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: _Share | None = None
    top_k: Annotated[int, msgspec.Meta(ge=1)] | None = None
    candidate_count: Literal[1] | None = None
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    stop_sequences: Annotated[list[str], msgspec.Meta(max_length=5)] | None = None
    seed: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    response_mime_type: Literal["text/plain", "application/json", "text/x.enum"] | None = None
    response_schema: Json | None = None
    response_json_schema: Json | None = None
    response_logprobs: bool | None = None
    logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    response_modalities: list[Literal["TEXT", "IMAGE", "AUDIO"]] | None = None
    thinking_config: _Thinking | None = None
    image_config: Json | None = None
    speech_config: Json | None = None
    media_resolution: str | None = None
    enable_enhanced_civic_answers: bool | None = None


class _Declaration(_Closed):
    name: str
    description: str = ""
    parameters: Json | None = None
    parameters_json_schema: Json | None = None
    response: Json | None = None
    response_json_schema: Json | None = None
    behavior: Literal["BLOCKING", "NON_BLOCKING"] | None = None


class _Tool(_Closed):
    function_declarations: list[_Declaration] | None = None
    google_search: Json | None = None
    google_search_retrieval: Json | None = None
    url_context: Json | None = None
    code_execution: Json | None = None
    file_search: Json | None = None
    google_maps: Json | None = None
    computer_use: Json | None = None
    mcp_servers: list[Json] | None = None


class _Calling(_Closed):
    mode: Literal["AUTO", "ANY", "NONE", "VALIDATED"] = "AUTO"
    allowed_function_names: list[str] = []


class _ToolConfig(_Closed):
    function_calling_config: _Calling | None = None
    retrieval_config: Json | None = None
    include_server_side_tool_invocations: bool | None = None


class _Safety(_Closed):
    category: str
    threshold: str


class _Settings(_Closed):
    """All of a body but its contents."""

    contents: object = None
    system_instruction: Json | None = None
    generation_config: _Generation | None = None
    tools: list[_Tool] = []
    tool_config: _ToolConfig | None = None
    safety_settings: list[_Safety] = []
    cached_content: str | None = None
    labels: dict[str, str] | None = None
    service_tier: str | None = None
    store: bool | None = None


def check_settings(body: Mapping[str, Any], rules: Rules) -> None:
    """Check all of a body but its contents.

    Raises:
        Refused: The first rule that it breaks.
    """
    known = {key: value for key, value in body.items() if key not in rules.allow_extra}
    try:
        settings = msgspec.convert(known, _Settings)
    except msgspec.ValidationError as error:
        reason: Reason = "unknown_key" if "unknown field" in str(error) else "bad_parameter"
        raise Refused(reason, f"Invalid JSON payload received. {error}") from None
    _check_generation(settings.generation_config or _Generation())
    _check_instruction(settings.system_instruction)
    names = _names(settings.tools)
    _check_choice(settings.tool_config or _ToolConfig(), names)
    beside = settings.system_instruction or settings.tools or settings.tool_config
    message = "CachedContent can not be used with system_instruction, tools or tool_config."
    require(not (settings.cached_content and beside), "exclusive_parameters", message, "cachedContent")


def _check_generation(found: _Generation) -> None:
    thinking = found.thinking_config or _Thinking()
    both = thinking.thinking_budget is not None and thinking.thinking_level is not None
    message = "You can only set only one of thinking budget and thinking level."
    require(not both, "exclusive_parameters", message, "generationConfig.thinkingConfig")
    schemas = [each for each in (found.response_schema, found.response_json_schema) if each is not None]
    require(len(schemas) < 2, "exclusive_parameters", "There are two response schemas.", "generationConfig")
    typed = not schemas or found.response_mime_type in {"application/json", "text/x.enum"}
    require(typed, "bad_response_format", "A response schema needs a response mime type.", "generationConfig")


def _check_instruction(found: Json | None) -> None:
    if found is not None:
        parts = cast("list[Json]", found.get("parts") or [])
        shaped = parts and all(part.get("text") for part in parts)
        require(shaped, "bad_content", "A system instruction has parts with text.", "systemInstruction")


def _names(tools: list[_Tool]) -> set[str]:
    names: set[str] = set()
    for place, tool in enumerate(tools):
        param = f"tools[{place}]"
        filled = any(getattr(tool, name) is not None for name in tool.__struct_fields__)
        require(filled, "bad_tool", "The tool is empty.", param)
        require(tool.function_declarations != [], "empty_tools", "There is no function in the tool.", param)
        for declaration in tool.function_declarations or ():
            _check_declaration(declaration, param)
            fresh = declaration.name not in names
            require(fresh, "duplicate_tool", f"Duplicate function declaration found: {declaration.name}", param)
            names.add(declaration.name)
    return names


def _check_declaration(found: _Declaration, param: str) -> None:
    require(NAME.fullmatch(found.name), "bad_name", f"Invalid function name: {found.name!r}.", param)
    both = found.parameters is not None and found.parameters_json_schema is not None
    require(not both, "exclusive_parameters", "parameters and parametersJsonSchema are exclusive.", param)
    if found.parameters_json_schema is not None:
        check_schema(found.parameters_json_schema, f"{param}.parametersJsonSchema")


def _check_choice(config: _ToolConfig, names: set[str]) -> None:
    calling = config.function_calling_config
    if calling is None:
        return
    param = "toolConfig.functionCallingConfig"
    message = "Function calling config is set without function_declarations."
    require(names, "tool_choice_without_tools", message, param)
    allowed = calling.allowed_function_names
    moded = not allowed or calling.mode in {"ANY", "VALIDATED"}
    require(moded, "bad_tool_choice", "allowed_function_names needs the mode ANY or VALIDATED.", param)
    missing = sorted(set(allowed) - names)
    require(not missing, "unknown_tool_choice", f"{missing} is not a subset of the declared functions.", param)
