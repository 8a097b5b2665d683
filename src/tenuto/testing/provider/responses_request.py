"""Refuses the responses requests that OpenAI refuses: parameters and input items.

Invariant: a body that passes holds only documented keys (and those explicitly allowed); every call in it is answered
exactly once; no item in it is a mere reference to something that was not stored.

Source: https://platform.openai.com/docs/api-reference/responses/create
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal, cast

import msgspec

from tenuto.testing.provider.responses_tools import check_format, check_tools
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

__all__ = ["check_request"]

Json = dict[str, Any]

_Includable = Literal[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
]
_Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class _Reasoning(msgspec.Struct, forbid_unknown_fields=True):
    effort: _Effort | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    mode: str | None = None


class _Text(msgspec.Struct, forbid_unknown_fields=True):
    format: Json | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class _StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    include_obfuscation: bool = False


class _Parameters(msgspec.Struct, forbid_unknown_fields=True):
    """The documented parameters."""

    model: object = None
    input: object = None
    tools: object = None
    tool_choice: object = None
    background: bool | None = None
    context_management: list[Json] | None = None
    conversation: str | Json | None = None
    include: list[_Includable] | None = None
    instructions: str | None = None
    max_output_tokens: Annotated[int, msgspec.Meta(ge=16)] | None = None
    max_tool_calls: Annotated[int, msgspec.Meta(ge=1)] | None = None
    metadata: dict[str, str] | None = None
    parallel_tool_calls: bool | None = None
    previous_response_id: str | None = None
    prompt: Json | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: Json = {}
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
    reasoning: _Reasoning | None = None
    safety_identifier: str | None = None
    service_tier: Literal["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"] | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    text: _Text = msgspec.field(default_factory=_Text)
    top_logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    user: str = ""


_THINKS = re.compile(r"(?:o[1-9]|gpt-5)(?![.\w]|-chat)")
_PREFIXES: Mapping[str, str] = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
_ANSWERS: Mapping[str, str] = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "mcp_approval_request": "mcp_approval_response",
}
_OTHERS = frozenset(
    {
        "message", "reasoning", "item_reference", "web_search_call", "file_search_call", "code_interpreter_call",
        "image_generation_call", "mcp_call", "mcp_list_tools", "compaction", "tool_search_call", "tool_search_output",
    }
)  # fmt: skip
_KINDS = _OTHERS | _ANSWERS.keys() | set(_ANSWERS.values())
_MESSAGE_KEYS = frozenset({"type", "role", "content", "id", "status", "phase"})
_PARTS: Mapping[str, frozenset[str]] = {
    "input_text": frozenset({"type", "text", "prompt_cache_breakpoint"}),
    "input_image": frozenset({"type", "detail", "image_url", "file_id", "prompt_cache_breakpoint"}),
    "input_file": frozenset(
        {"type", "filename", "file_data", "file_id", "file_url", "detail", "prompt_cache_breakpoint"}
    ),
    "output_text": frozenset({"type", "text", "annotations", "logprobs"}),
    "refusal": frozenset({"type", "refusal"}),
}


def check_request(body: Json, rules: Rules, sealed: Mapping[str, str], given: Collection[str]) -> None:
    """Check a whole body.

    Args:
        body: The parsed body.
        rules: How strict to be.
        sealed: The encrypted content of each reasoning item that was sent.
        given: Ids of the responses that were sent.

    Raises:
        Refused: The first rule that the body breaks.
    """
    _check_parameters(body, rules)
    _check_model(body, rules)
    before = body.get("previous_response_id")
    require(before is None or before in given, "previous_response_not_found", f"No response {before!r}.")
    items = _items(body)
    stored = body.get("store") is not False
    for place, item in enumerate(items):
        _check_item(item, f"input[{place}]", rules.allow_extra, sealed, stored=stored)
    _check_reasoning(items)
    if before is None and body.get("conversation") is None:
        check_pairs(_turns(items))
    check_tools(body)
    check_format(body, items)


def _check_parameters(body: Json, rules: Rules) -> None:
    for key in body:
        known = key in _Parameters.__struct_fields__ or key in rules.allow_extra
        require(known, "unknown_key", f"Unknown parameter: '{key}'.", key)
    try:
        msgspec.convert({key: body[key] for key in body if key in _Parameters.__struct_fields__}, _Parameters)
    except msgspec.ValidationError as error:
        raise Refused("bad_parameter", str(error)) from None
    both = body.get("previous_response_id") is not None and body.get("conversation") is not None
    require(not both, "exclusive_parameters", "Give previous_response_id or conversation.", "conversation")
    lone = body.get("stream_options") is not None and not body.get("stream")
    require(not lone, "stream_options_without_stream", "Only allowed when 'stream' is true.", "stream_options")
    background = body.get("background") and body.get("store") is False
    require(not background, "bad_parameter", "Background mode needs store.", "background")


def _check_model(body: Json, rules: Rules) -> None:
    model: object = body.get("model")
    require(isinstance(model, str) and model, "missing_model", "Missing required parameter: 'model'.", "model")
    name = cast("str", model)
    if rules.models is not None and name not in rules.models:
        raise Refused("model_not_found", f"The model {name!r} does not exist.", "model", status=404)
    if _THINKS.match(name):
        for key in ("temperature", "top_p", "top_logprobs"):
            require(body.get(key) is None, "unsupported_parameter", f"Unsupported parameter: '{key}'.", key)
    if name.startswith("gpt-4"):
        sealed = "reasoning.encrypted_content" in (body.get("include") or ())
        require(not sealed, "unsupported_parameter", "Encrypted content is not supported with this model.", "include")
        require(not body.get("reasoning"), "unsupported_parameter", "Unsupported parameter: 'reasoning'.", "reasoning")


def _items(body: Json) -> list[Json]:
    given: object = body.get("input")
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    require(isinstance(given, list), "missing_messages", "Missing required parameter: 'input'.", "input")
    require(given, "empty_input", "Expected at least one item.", "input")
    return cast("list[Json]", given)


def _check_item(item: object, param: str, extra: frozenset[str], sealed: Mapping[str, str], *, stored: bool) -> None:
    require(isinstance(item, dict), "bad_message", "Expected an object.", param)
    found = cast("Json", item)
    kind = found.get("type", "message")
    require(kind in _KINDS, "bad_message", f"Invalid value: {kind!r}.", f"{param}.type")
    prefix = _PREFIXES.get(kind)
    if prefix is not None and "id" in found:
        ok = isinstance(found["id"], str) and found["id"].startswith(prefix)
        require(ok, "bad_id", f"Expected an ID that begins with {prefix!r}.", f"{param}.id")
    match kind:
        case "message":
            _check_message(found, param, extra)
        case "reasoning":
            _check_sealed(found, param, sealed, stored=stored)
        case "function_call":
            check_name(found.get("name"), f"{param}.name")
            check_arguments(found.get("arguments"), f"{param}.arguments")
        case "function_call_output":
            require(isinstance(found.get("output"), str | list), "bad_content", "Expected text.", f"{param}.output")
        case "item_reference":
            require(stored, "item_not_found", "Items are not persisted when `store` is set to false.", param)
        case _:
            pass


def _check_message(item: Json, param: str, extra: frozenset[str]) -> None:
    for key in item:
        require(key in _MESSAGE_KEYS | extra, "unknown_key", f"Unknown parameter: '{param}.{key}'.", f"{param}.{key}")
    role = item.get("role")
    ours = role in {"user", "system", "developer"}
    require(ours or role == "assistant", "bad_role", f"Invalid value: {role!r}.", f"{param}.role")
    content: object = item.get("content")
    if isinstance(content, str):
        return
    require(isinstance(content, list) and content != [], "bad_content", "Expected text or a list.", f"{param}.content")
    for place, part in enumerate(cast("list[Json]", content)):
        kind = part.get("type")
        fits = kind in _PARTS and str(kind).startswith("input_") == ours
        require(fits, "bad_content", f"Invalid value: {kind!r} in a {role} message.", f"{param}.content[{place}].type")
        odd = part.keys() - _PARTS[str(kind)]
        require(not odd, "unknown_key", f"Unknown {sorted(odd)}.", f"{param}.content[{place}]")
        _check_source(part, f"{param}.content[{place}]")


def _check_source(part: Json, param: str) -> None:
    match part["type"]:
        case "input_image":
            sources = part.keys() & {"image_url", "file_id"}
        case "input_file":
            sources = part.keys() & {"file_data", "file_id", "file_url"}
        case _:
            return
    require(len(sources) == 1, "bad_content", "Give exactly one source.", param)


def _check_sealed(item: Json, param: str, sealed: Mapping[str, str], *, stored: bool) -> None:
    require(isinstance(item.get("summary"), list), "bad_message", "Missing required parameter.", f"{param}.summary")
    content = item.get("encrypted_content")
    kept = stored or content or item.get("content")
    require(kept, "item_not_found", "Items are not persisted when `store` is set to false.", f"{param}.id")
    known = sealed.get(item.get("id", ""))
    same = known is None or content is None or content == known
    require(same, "altered_item", "The encrypted content could not be verified.", f"{param}.encrypted_content")


def _check_reasoning(items: list[Json]) -> None:
    for place, item in enumerate(items):
        if item.get("type") == "reasoning":
            after = items[place + 1] if place + 1 < len(items) else {"role": "user"}
            followed = after.get("role") in {None, "assistant"} and after.get("type") not in _ANSWERS.values()
            require(followed, "reasoning_alone", "Reasoning without its required following item.", f"input[{place}]")


def _turns(items: list[Json]) -> Iterator[Turn]:
    """Calls of a step up to their first answer, whatever else the model said between them."""
    waiting: list[str] = []
    for place, item in enumerate(items):
        param = f"input[{place}]"
        kind = item.get("type", "message")
        if kind in _ANSWERS:
            waiting.append(_id_of(item, kind))
            continue
        answers = kind in _ANSWERS.values()
        if waiting and (answers or item.get("role") in {"user", "system", "developer"}):
            yield Calls(param, tuple(waiting))
            waiting = []
        if answers:
            yield Result(param, _answered(item, kind))
        elif item.get("role") in {"user", "system", "developer"}:
            yield Other(param)
    if waiting:
        yield Calls("input", tuple(waiting))


def _id_of(item: Json, kind: str) -> str:
    return str(item.get("id" if kind == "mcp_approval_request" else "call_id") or "")


def _answered(item: Json, kind: str) -> str:
    keys = {"local_shell_call_output": "id", "mcp_approval_response": "approval_request_id"}
    return str(item.get(keys.get(kind, "call_id")) or "")
