"""Refuses the chat completions requests that real providers refuse: messages and parameters.

Invariant: a body that passes holds only documented keys (and those explicitly allowed), and every call in it has
exactly one result, directly after it. The deprecated functions API and custom tools are refused.

Source: https://platform.openai.com/docs/api-reference/chat/create
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, cast

import msgspec

from tenuto.testing.provider.chat_tools import check_response_format, check_tools
from tenuto.testing.provider.strict import (
    Calls,
    Other,
    Refused,
    Result,
    Rules,
    Turn,
    check_arguments,
    check_name,
    check_pairs,
    require,
)

__all__ = ["KEYS", "check_request"]

Json = dict[str, Any]

_Count = Annotated[int, msgspec.Meta(ge=1)]
_Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class _StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    include_usage: bool = False
    include_obfuscation: bool = False


class _Parameters(msgspec.Struct):
    """The documented parameters; the fields are what `KEYS` allows at the top."""

    model: object = None
    messages: object = None
    tools: object = None
    tool_choice: object = None
    response_format: object = None
    audio: Json | None = None
    frequency_penalty: _Penalty | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = None
    max_completion_tokens: _Count | None = None
    max_tokens: _Count | None = None
    metadata: dict[str, str] | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    moderation: Json | None = None
    n: _Count | None = None
    parallel_tool_calls: bool = True
    prediction: Json | None = None
    presence_penalty: _Penalty | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: Json | None = None
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    reasoning_effort: _Effort | None = None
    safety_identifier: str | None = None
    seed: int | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority", "fast"] | None = None
    stop: str | Annotated[list[str], msgspec.Meta(min_length=1, max_length=4)] | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    top_p: _Share | None = None
    user: str = ""
    verbosity: Literal["low", "medium", "high"] | None = None
    web_search_options: Json | None = None


KEYS = frozenset(_Parameters.__struct_fields__)
"""Top-level keys that chat completions documents."""

_MESSAGE_KEYS: Mapping[str, frozenset[str]] = {
    "system": frozenset({"role", "content", "name"}),
    "developer": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    "assistant": frozenset({"role", "content", "name", "refusal", "audio", "tool_calls"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}
_TEXT = {"text": str}
_PART_TYPES: Mapping[str, Mapping[str, type]] = {
    "system": _TEXT,
    "developer": _TEXT,
    "tool": _TEXT,
    "user": {"text": str, "image_url": dict, "input_audio": dict, "file": dict},
    "assistant": {"text": str, "refusal": str},
}


def check_request(body: Json, rules: Rules, reasoning: Mapping[str, str]) -> None:
    """Check a whole body.

    Args:
        body: The parsed body.
        rules: How strict to be.
        reasoning: The reasoning sent with each call id, for the echo.

    Raises:
        Refused: The first rule that the body breaks.
    """
    _check_keys(body, KEYS | rules.allow_extra, None)
    _check_model(body, rules)
    _check_parameters(body)
    messages = _messages(body)
    echoes = {"reasoning_content"} if reasoning or rules.require_reasoning_echo else set[str]()
    for position, message in enumerate(messages):
        _check_message(message, f"messages[{position}]", rules.allow_extra | echoes)
    check_pairs(_turns(messages))
    if rules.system_first:
        _check_system_first(messages)
    if rules.require_reasoning_echo:
        _check_echo(messages, reasoning)
    check_tools(body)
    check_response_format(body.get("response_format"))


def _check_keys(found: Mapping[str, object], allowed: frozenset[str], param: str | None) -> None:
    for key in found:
        at = key if param is None else f"{param}.{key}"
        require(key in allowed, "unknown_key", f"Unrecognized argument: {key}", at)


def _check_model(body: Json, rules: Rules) -> None:
    model = body.get("model")
    require(isinstance(model, str) and model, "missing_model", "You must provide a model.", "model")
    if rules.models is not None and model not in rules.models:
        raise Refused("model_not_found", f"The model {model!r} does not exist.", "model", status=404)


def _check_parameters(body: Json) -> None:
    try:
        msgspec.convert(body, _Parameters)
    except msgspec.ValidationError as error:
        raise Refused("bad_parameter", str(error)) from None
    lone = body.get("stream_options") is not None and not body.get("stream")
    require(not lone, "stream_options_without_stream", "Only allowed when 'stream' is true.", "stream_options")


def _messages(body: Json) -> list[Json]:
    require("messages" in body, "missing_messages", "Missing required parameter.", "messages")
    messages: object = body["messages"]
    require(isinstance(messages, list), "bad_message", "Expected a list.", "messages")
    require(messages, "empty_messages", "Expected at least one message.", "messages")
    return cast("list[Json]", messages)


def _check_message(message: object, param: str, extra: frozenset[str]) -> None:
    require(isinstance(message, dict), "bad_message", "Expected an object.", param)
    found = cast("Json", message)
    role = found.get("role")
    require(role in _MESSAGE_KEYS, "bad_role", f"{role!r} is not one of {sorted(_MESSAGE_KEYS)}.", f"{param}.role")
    _check_keys(found, _MESSAGE_KEYS[cast("str", role)] | extra, param)
    if role == "assistant":
        _check_assistant(found, param)
    else:
        _check_content(found.get("content"), cast("str", role), f"{param}.content")
    if role == "tool":
        named = isinstance(found.get("tool_call_id"), str)
        require(named, "bad_message", "A tool message needs a tool_call_id.", f"{param}.tool_call_id")


def _check_assistant(message: Json, param: str) -> None:
    for position, call in enumerate(_calls(message, param)):
        _check_call(call, f"{param}.tool_calls[{position}]")
    if message.get("content") is not None:
        _check_content(message["content"], "assistant", f"{param}.content")
        return
    says = any(message.get(key) for key in ("tool_calls", "refusal", "audio"))
    require(says, "empty_assistant", "An assistant message needs content or tool_calls.", param)


def _calls(message: Json, param: str) -> list[object]:
    if "tool_calls" not in message:
        return []
    calls: object = message["tool_calls"]
    require(isinstance(calls, list), "bad_tool_call", "Expected a list.", f"{param}.tool_calls")
    require(calls, "empty_tool_calls", "[] is too short.", f"{param}.tool_calls")
    return cast("list[object]", calls)


def _check_call(call: object, param: str) -> None:
    require(isinstance(call, dict), "bad_tool_call", "Expected an object.", param)
    found = cast("Json", call)
    _check_shape(found, {"id", "type", "function"}, param)
    require(isinstance(found["id"], str), "bad_tool_call", "Expected text.", f"{param}.id")
    require(found["type"] == "function", "bad_tool_call", "Expected 'function'.", f"{param}.type")
    require(isinstance(found["function"], dict), "bad_tool_call", "Expected an object.", f"{param}.function")
    _check_shape(found["function"], {"name", "arguments"}, f"{param}.function")
    check_name(found["function"]["name"], f"{param}.function.name")
    check_arguments(found["function"]["arguments"], f"{param}.function.arguments")


def _check_shape(found: Json, keys: set[str], param: str) -> None:
    missing, extra = sorted(keys - found.keys()), sorted(found.keys() - keys)
    require(not missing, "bad_tool_call", f"Missing {missing}.", param)
    require(not extra, "unknown_key", f"Unrecognized {extra}.", param)


def _check_content(content: object, role: str, param: str) -> None:
    if isinstance(content, str):
        return
    require(isinstance(content, list) and content != [], "bad_content", "Expected text or a list of parts.", param)
    for position, part in enumerate(cast("list[object]", content)):
        _check_part(part, role, f"{param}[{position}]")


def _check_part(part: object, role: str, param: str) -> None:
    require(isinstance(part, dict), "bad_content", "Expected an object.", param)
    found = cast("Json", part)
    kind = found.get("type")
    types = _PART_TYPES[role]
    require(kind in types, "bad_content", f"{kind!r} is not one of {sorted(types)} in a {role} message.", param)
    name = cast("str", kind)
    require(isinstance(found.get(name), types[name]), "bad_content", f"Bad or missing {name!r}.", param)
    _check_keys(found, frozenset({"type", name, "prompt_cache_breakpoint"}), param)


def _turns(messages: list[Json]) -> Iterator[Turn]:
    for position, message in enumerate(messages):
        param = f"messages[{position}]"
        if message["role"] == "tool":
            yield Result(f"{param}.tool_call_id", message["tool_call_id"])
        elif calls := message.get("tool_calls"):
            yield Calls(f"{param}.tool_calls", tuple(call["id"] for call in calls))
        else:
            yield Other(param)


def _check_system_first(messages: list[Json]) -> None:
    begun = False
    for position, message in enumerate(messages):
        leading = message["role"] in {"system", "developer"}
        require(not (begun and leading), "system_not_first", "System messages come first.", f"messages[{position}]")
        begun = begun or not leading


def _check_echo(messages: list[Json], reasoning: Mapping[str, str]) -> None:
    for position, message in enumerate(messages):
        for call in message.get("tool_calls", ()):
            sent = reasoning.get(call["id"])
            echoed = sent is None or message.get("reasoning_content") == sent
            require(echoed, "missing_reasoning", "Missing or altered reasoning_content.", f"messages[{position}]")
