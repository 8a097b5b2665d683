"""What spans say of requests, answers and messages, in the words of the GenAI conventions.

Invariant: pure; what is in files, or is only its provider's to read, is named and never copied into a trace.

Source: OpenTelemetry semantic conventions for generative AI: attributes and the JSON form of messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, assert_never

from tenuto.core import codec
from tenuto.core.spans import Attribute
from tenuto.messages.turns import AssistantTurn, CallPart, Reasoning, SystemTurn, Text, ToolTurn, Turn, UserTurn

if TYPE_CHECKING:
    from tenuto.core.payloads import FinishReason, Usage
    from tenuto.models.ports import ModelRequest

_SETTINGS = ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty", "seed")


def request_settings(request: ModelRequest) -> dict[str, Attribute]:
    """The settings of a model call."""
    settings = request.settings
    found: dict[str, Attribute] = {
        f"gen_ai.request.{name}": value for name in _SETTINGS if (value := getattr(settings, name)) is not None
    }
    if settings.max_output_tokens is not None:
        found["gen_ai.request.max_tokens"] = settings.max_output_tokens
    if settings.stop_sequences:
        found["gen_ai.request.stop_sequences"] = settings.stop_sequences
    found["gen_ai.output.type"] = "text" if request.response_format is None else "json"
    return found


def usage_counts(usage: Usage) -> dict[str, Attribute]:
    """Tokens, and the cost in USD when it is known."""
    counts = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_creation_input_tokens,
        "tenuto.usage.cost": usage.cost,
    }
    return {name: count for name, count in counts.items() if count is not None}


def inputs(system: Sequence[SystemTurn], turns: Sequence[Turn]) -> dict[str, Attribute]:
    """What the model is asked. Content: only for a caller who wants it recorded."""
    found: dict[str, Attribute] = {"gen_ai.input.messages": as_json([_message(turn) for turn in turns])}
    if system:
        found["gen_ai.system_instructions"] = as_json([{"type": "text", "content": turn.text} for turn in system])
    return found


def _message(turn: Turn) -> dict[str, Any]:
    match turn:
        case SystemTurn():
            return {"role": "system", "parts": [{"type": "text", "content": turn.text}]}
        case UserTurn():
            return {"role": "user", "parts": [_part(part) for part in turn.content]}
        case AssistantTurn():
            return {"role": "assistant", "parts": [_part(part) for part in turn.content]}
        case ToolTurn():
            parts = [
                {"type": "tool_call_response", "id": each.tool_call_id, "response": each.text} for each in turn.results
            ]
            return {"role": "tool", "parts": parts}
        case _:
            assert_never(turn)


def _part(part: object) -> dict[str, Any]:
    match part:
        case Text():
            return {"type": "text", "content": part.text}
        case Reasoning():
            return {"type": "reasoning", "content": part.text}
        case CallPart():
            return {"type": "tool_call", "id": part.tool_call_id, "name": part.tool_name, "arguments": part.args}
        case _:
            return {"type": type(part).__name__.lower()}  # files and what only a provider knows: not for a trace


def output(turn: AssistantTurn, reason: FinishReason) -> str:
    """What the model said. Content: only for a caller who wants it recorded."""
    return as_json([{**_message(turn), "finish_reason": reason}])


def attribute_of(value: Any) -> Attribute:
    """A value as an attribute: itself, or its JSON."""
    return value if isinstance(value, (str, bool, int, float)) else as_json(value)


def as_json(value: Any) -> str:
    """JSON text; a value that has none is shown as Python shows it."""
    try:
        return codec.encode(value).decode()
    except TypeError:
        return repr(value)
