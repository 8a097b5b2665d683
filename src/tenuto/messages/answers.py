"""A tool's result as a caller brings it, and what it does to the call it answers.

Invariant: a call is answered once; whoever is second changes nothing.

Source: the AI SDK's `tool-result` part, in its version 4 (`result`, `isError`) and 5 (`output`) spellings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from tenuto.core.payloads import Json, wire_name
from tenuto.messages import stored as s
from tenuto.messages.bounded import model_text

SETTLED = frozenset({"result", "output-error", "output-denied"})
"""States of a call that has its outcome."""


class Answer(Struct, frozen=True):
    """The outcome of a call.

    Attributes:
        told: What the model is told instead of the result: an AI-SDK output of the type `content`.
        provider_metadata: Of the result, such as a prompt-cache marker.
    """

    call_id: str
    state: s.InvocationState
    result: Json = None
    error_text: str | None = None
    told: Json = None
    provider_metadata: Mapping[str, Any] | None = None


def either(given: object, name: str) -> Any:
    """The value under the snake_case or the camelCase spelling of `name` in a mapping."""
    mapping = cast("Mapping[str, Any]", given)
    value = mapping.get(name)
    return mapping.get(wire_name(name)) if value is None else value


def read_answer(part: object) -> Answer | None:
    """The answer that a `tool-result` part is; None when it names no call."""
    call_id = either(part, "tool_call_id")
    if not isinstance(call_id, str):
        return None
    output: Any = either(part, "output")
    metadata: Any = either(part, "provider_options") or either(part, "provider_metadata")
    match output:
        case {"type": "execution-denied"}:
            reason = cast("Mapping[str, Any]", output).get("reason")
            return Answer(call_id, "output-denied", error_text=reason or "The call was denied.")
        case {"type": str(kind), "value": value} if kind.startswith("error"):
            return Answer(call_id, "output-error", error_text=model_text(value), provider_metadata=metadata)
        case {"type": "content", "value": value}:
            return Answer(call_id, "result", value, told=output, provider_metadata=metadata)
        case {"type": str(), "value": value}:
            return Answer(call_id, "result", value, provider_metadata=metadata)
        case _:
            result = either(part, "result") if output is None else output
    if either(part, "is_error"):
        return Answer(call_id, "output-error", error_text=model_text(result), provider_metadata=metadata)
    return Answer(call_id, "result", result, provider_metadata=metadata)


def is_open(call: s.ToolInvocation) -> bool:
    """Whether a call has no outcome yet."""
    return call.state not in SETTLED


def settle(part: s.ToolInvocationPart, answer: Answer) -> s.ToolInvocationPart:
    """The part of an open call with its answer."""
    call = replace(part.tool_invocation, state=answer.state, result=answer.result, error_text=answer.error_text)
    own: dict[str, Any] = {}
    if answer.told is not None:
        own["modelOutput"] = answer.told
    if answer.provider_metadata:
        own["resultProviderMetadata"] = answer.provider_metadata
    metadata = part.provider_metadata or {}
    if not own:
        return replace(part, tool_invocation=call)
    before: Mapping[str, Any] = metadata.get(s.OWN) or {}
    return replace(part, tool_invocation=call, provider_metadata={**metadata, s.OWN: {**before, **own}})


def outcome_of(call: s.ToolInvocation) -> Answer:
    """The outcome that a settled call has."""
    return Answer(call.tool_call_id, call.state, call.result, call.error_text)
