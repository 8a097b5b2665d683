"""Refuses the messages requests that Anthropic refuses: parameters, and what a model does not take.

Invariant: a body that passes holds only documented keys (and those explicitly allowed), and what this provider sealed
comes back as it was sent.

Source: Anthropic API reference, "Create a message"; documentation on thinking, effort and prompt caching.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, cast

import msgspec

from tenuto.testing.provider.anthropic_blocks import Sealed, check_messages, check_system
from tenuto.testing.provider.anthropic_tools import check_tools
from tenuto.testing.provider.strict import Refused, Rules, require

__all__ = ["KEYS", "Sealed", "check_request"]

Json = dict[str, Any]

_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Effort = Literal["low", "medium", "high", "xhigh", "max"]


class _Format(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["json_schema"]
    schema: Json


class _TaskBudget(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["tokens"]
    total: int
    remaining: int | None = None


class _OutputConfig(msgspec.Struct, forbid_unknown_fields=True):
    effort: _Effort | None = None
    format: _Format | None = None
    task_budget: _TaskBudget | None = None


class _Thinking(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["enabled", "adaptive", "disabled", "between_tools"]
    budget_tokens: int | None = None
    display: Literal["summarized", "omitted"] | None = None


class _Metadata(msgspec.Struct, forbid_unknown_fields=True):
    user_id: str | None = None


class _Parameters(msgspec.Struct):
    """The documented parameters; the fields are what `KEYS` allows at the top."""

    max_tokens: Annotated[int, msgspec.Meta(ge=0)]
    model: object = None
    messages: object = None
    system: object = None
    tools: object = None
    tool_choice: object = None
    cache_control: Json | None = None
    container: Json | str | None = None
    context_management: Json | None = None
    inference_geo: str | None = None
    mcp_servers: list[Json] | None = None
    metadata: _Metadata | None = None
    output_config: _OutputConfig | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    speed: Literal["standard", "fast"] | None = None
    stop_sequences: list[Annotated[str, msgspec.Meta(pattern=r"\S")]] | None = None
    stream: bool | None = None
    temperature: _Share | None = None
    thinking: _Thinking | None = None
    top_k: Annotated[int, msgspec.Meta(ge=0)] | None = None
    top_p: _Share | None = None


KEYS = frozenset(_Parameters.__struct_fields__)
"""Top-level keys that the messages API documents, its betas among them."""

_MARKS = 4
_NO_SAMPLING = re.compile(r"claude-(opus-4-[78]|(opus|sonnet|haiku|fable|mythos)-5)")
_ONE_SAMPLING = re.compile(r"claude-(opus-4-[1-6]|sonnet-4-[5-6]|haiku-4-5)")
_NO_BUDGET = _NO_SAMPLING
_NO_ADAPTIVE = re.compile(r"claude-(3|(opus|sonnet|haiku)-4(-[0-5]\b|-20))")
_NO_DISABLED = re.compile(r"claude-(opus-5-5|sonnet-5-5|fable|mythos)")
_NO_FORCE = re.compile(r"claude-(opus|sonnet)-5-5|claude-(fable|mythos)-5-1")
_NO_PREFILL = re.compile(r"claude-((opus|sonnet)-4-[678]|(opus|sonnet|haiku|fable|mythos)-5)")
_NO_SCHEMA = re.compile(r"claude-(3|(opus|sonnet)-4(-0|-20))")
_NO_EFFORT = re.compile(r"claude-(3|(opus|sonnet|haiku)-4(-[01]\b|-20)|(sonnet|haiku)-4-5)")
_NO_XHIGH = re.compile(r"claude-(opus|sonnet)-4-[56]")


def check_request(body: Json, rules: Rules, sealed: Sealed) -> None:
    """Check a whole body.

    Args:
        body: The parsed body.
        rules: How strict to be.
        sealed: The blocks that this provider sent.

    Raises:
        Refused: The first rule that the body breaks.
    """
    for key in body:
        require(key in KEYS | rules.allow_extra, "unknown_key", "Extra inputs are not permitted", key)
    model = body.get("model")
    require(isinstance(model, str) and model, "missing_model", "Field required", "model")
    if rules.models is not None and model not in rules.models:
        raise Refused("model_not_found", f"model: {model}", status=404)
    parameters = _read(body)
    check_system(body.get("system"))
    check_messages(body.get("messages"), sealed, rules.allow_extra)
    check_tools(body)
    _check_thinking(parameters, cast("str", model))
    _check_model(body, parameters, cast("str", model))
    marks = sum(1 for _ in _marks([body.get("tools"), body.get("system"), body.get("messages")]))
    marks += body.get("cache_control") is not None
    require(
        marks <= _MARKS, "too_many_marks", f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    )


def _read(body: Json) -> _Parameters:
    try:
        return msgspec.convert(body, _Parameters)
    except msgspec.ValidationError as error:
        raise Refused("bad_parameter", str(error)) from None


def _check_thinking(given: _Parameters, model: str) -> None:
    thinking = given.thinking
    if thinking is None:
        return
    if thinking.type == "enabled":
        refused = _NO_BUDGET.search(model)
        require(not refused, "bad_thinking", '"thinking.type.enabled" is not supported for this model.', "thinking")
        budget = thinking.budget_tokens or 0
        require(
            budget >= 1024, "bad_thinking", "Input should be greater than or equal to 1024", "thinking.budget_tokens"
        )
        require(budget < given.max_tokens, "bad_thinking", "`max_tokens` must be greater than `budget_tokens`")
    else:
        require(
            thinking.budget_tokens is None, "unknown_key", "Extra inputs are not permitted", "thinking.budget_tokens"
        )
    if thinking.type == "adaptive":
        require(not _NO_ADAPTIVE.search(model), "bad_thinking", "adaptive thinking is not supported on this model")
    if thinking.type == "disabled":
        require(
            not _NO_DISABLED.search(model), "bad_thinking", '"thinking.type.disabled" is not supported for this model.'
        )
    if thinking.type in {"enabled", "adaptive"} and "claude" in model:
        warm = given.temperature not in {None, 1} or given.top_k is not None
        require(not warm, "bad_thinking", "`temperature` may only be set to 1 when thinking is enabled.")
        narrow = given.top_p is None or given.top_p >= 0.95
        require(narrow, "bad_thinking", "`top_p` must be greater than or equal to 0.95 when thinking is enabled.")
        choice: Any = given.tool_choice or {}
        forced = choice.get("type") in {"any", "tool"} and not _NO_BUDGET.search(model)
        require(not forced, "bad_thinking", "Thinking may not be enabled when tool_choice forces tool use.")


def _check_model(body: Json, given: _Parameters, model: str) -> None:
    sampling = [name for name in ("temperature", "top_p", "top_k") if body.get(name) is not None]
    require(not (sampling and _NO_SAMPLING.search(model)), "bad_parameter", f"{sampling} is deprecated for this model.")
    both = {"temperature", "top_p"} <= set(sampling) and _ONE_SAMPLING.search(model)
    require(not both, "bad_parameter", "`temperature` and `top_p` cannot both be specified for this model.")
    choice: Any = given.tool_choice or {}
    forced = choice.get("type") in {"any", "tool"}
    refused = forced and _NO_FORCE.search(model)
    require(not refused, "bad_tool_choice", 'type "tool" and "any" are not supported for this model.', "tool_choice")
    last = body["messages"][-1]
    content: list[Json] = last["content"] if isinstance(last["content"], list) else [{}]
    paused = any(block.get("type") in {"server_tool_use", "mcp_tool_use"} for block in content)
    prefilled = last["role"] == "assistant" and not paused
    refused = prefilled and _NO_PREFILL.search(model)
    require(not refused, "prefill", "This model does not support assistant message prefill.")
    if prefilled:
        text = str(content[-1].get("text") or "")
        require(text == text.rstrip(), "blank_text", "final assistant content cannot end with trailing whitespace")
    config = given.output_config or _OutputConfig()
    unable = config.format is not None and _NO_SCHEMA.search(model)
    require(not unable, "bad_parameter", "output_config.format is not supported on this model", "output_config")
    unable = config.effort is not None and _NO_EFFORT.search(model)
    require(not unable, "bad_parameter", "This model does not support the effort parameter.", "output_config")
    unable = config.effort == "xhigh" and _NO_XHIGH.search(model)
    require(not unable, "bad_parameter", "This model does not support effort level 'xhigh'.", "output_config")


def _marks(value: object) -> Iterable[object]:
    """Every cache marker of a block, wherever it is; arguments of calls are not blocks."""
    if isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _marks(each)
    elif isinstance(value, dict):
        for key, item in cast("Mapping[str, object]", value).items():
            if key == "cache_control":
                yield item
            elif key == "content":
                yield from _marks(item)
