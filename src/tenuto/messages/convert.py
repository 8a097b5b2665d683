"""Stored messages to turns, and a step's outcome to parts of a stored message.

Invariant: nothing is lost that a provider wants back: reasoning keeps its signature, a call its raw text. A call
without an outcome yields no result; closing it is the renderer's task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from tenuto.core.payloads import Json
from tenuto.messages import stored as s
from tenuto.messages.bounded import model_text
from tenuto.messages.told import NotTold, Told, read_told
from tenuto.messages.turns import (
    AssistantPart,
    AssistantTurn,
    CallPart,
    Custom,
    FilePart,
    ProviderResult,
    Reasoning,
    ResultPart,
    SystemTurn,
    Text,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
)


def to_turns(messages: Iterable[s.Message]) -> list[Turn]:
    """The turns a model reads for `messages`, in order."""
    turns: list[Turn] = []
    for message in messages:
        match message.role:
            case "system":
                turns.append(SystemTurn(message.text, message.content.provider_metadata))
            case "user" | "signal":
                if content := tuple(_user_parts(message.content.parts)):
                    turns.append(UserTurn(content, message.content.provider_metadata))
            case "assistant" if "completionResult" in (message.content.metadata or ()):
                turns.append(UserTurn((Text(message.text),)))  # feedback: said to the model, not by it
            case "assistant":
                turns.extend(_marked(list(_assistant_turns(message.content.parts)), message))
            case _:
                assert_never(message.role)
    return turns


def _marked(turns: list[Turn], message: s.Message) -> list[Turn]:
    """The turns of a response; provider options of the message are those of its last step."""
    options = message.content.provider_metadata
    for place in range(len(turns) - 1, -1, -1) if options else ():
        turn = turns[place]
        if isinstance(turn, AssistantTurn):
            turns[place] = replace(turn, provider_options=options)
            break
    return turns


def _user_parts(parts: Iterable[s.MessagePart]) -> Iterable[UserPart]:
    for part in parts:
        if isinstance(part, s.TextPart):
            yield Text(part.text, part.provider_metadata)
        elif isinstance(part, s.StoredFilePart):
            yield _file(part)


def _file(part: s.StoredFilePart) -> FilePart:
    return FilePart(part.mime_type, part.url, part.data, part.filename, part.provider_metadata)


def _assistant_turns(parts: Iterable[s.MessagePart]) -> Iterable[Turn]:
    content: list[AssistantPart] = []
    results: list[ResultPart] = []
    for part in parts:
        if isinstance(part, s.StepStartPart):
            yield from _step(content, results)
            content, results = [], []
        elif isinstance(part, s.TextPart):
            content.append(Text(part.text, part.provider_metadata))
        elif isinstance(part, s.ReasoningPart):
            content.append(_reasoning(part))
        elif isinstance(part, s.StoredFilePart):
            content.append(_file(part))
        elif isinstance(part, s.CustomPart):
            content.append(Custom(part.kind, part.provider_metadata))
        elif isinstance(part, s.ToolInvocationPart):
            content.append(_call(part))
            if part.provider_executed:
                content.extend(_provider_result(part))
            elif (result := _result(part)) is not None:
                results.append(result)
    yield from _step(content, results)


def _step(content: list[AssistantPart], results: list[ResultPart]) -> Iterable[Turn]:
    if content:
        yield AssistantTurn(tuple(content))
    if results:
        yield ToolTurn(tuple(results))


def _reasoning(part: s.ReasoningPart) -> Reasoning:
    signature = next((detail.signature for detail in part.details if detail.signature), None)
    redacted = next((detail.data for detail in part.details if detail.data), None)
    return Reasoning(part.reasoning, signature, part.provider_metadata, redacted)


def _call(part: s.ToolInvocationPart) -> CallPart:
    call = part.tool_invocation
    metadata = {name: value for name, value in (part.provider_metadata or {}).items() if name != s.OWN}
    return CallPart(
        call.tool_call_id, call.tool_name, call.args, call.raw_input, part.provider_executed, metadata or None
    )


def _provider_result(part: s.ToolInvocationPart) -> Iterable[ProviderResult]:
    call = part.tool_invocation
    failed = call.state == "output-error"
    if failed or call.state == "result":
        own: Mapping[str, Any] = (part.provider_metadata or {}).get(s.OWN) or {}
        result = call.error_text if failed and call.result is None else call.result
        yield ProviderResult(
            call.tool_call_id, call.tool_name, result, failed or None, own.get("resultProviderMetadata")
        )


def _result(part: s.ToolInvocationPart) -> ResultPart | None:
    call = part.tool_invocation
    match call.state:
        case "result":
            told = _model_output(part)
            text, content = (model_text(call.result), None) if told is None else (told.text, told.content)
            return ResultPart(call.tool_call_id, call.tool_name, text, call.is_error, content)
        case "output-error" | "output-denied":
            text = call.error_text or "The tool call failed."
            return ResultPart(call.tool_call_id, call.tool_name, text, is_error=True)
        case _:
            return None


def _model_output(part: s.ToolInvocationPart) -> Told | None:
    """What the model was told instead of the result itself, so that a later turn tells it the same."""
    match (part.provider_metadata or {}).get(s.OWN):
        case {"modelOutput": value}:
            try:
                return read_told(value)
            except NotTold:  # of another program that keeps something else there
                return None
        case _:
            return None


class Words(Struct, frozen=True):
    """What belongs to a step's calls beside their outcomes, by call id.

    Attributes:
        texts: In words.
        told: What a tool's `to_model_output` made of a result, as it is stored.
        titles: Of the tools, for user interfaces.
        shown: By phase, what a transcript shows in place of the payloads.
    """

    texts: Mapping[str, str] = {}
    told: Mapping[str, Any] = {}
    titles: Mapping[str, str] = {}
    shown: Mapping[str, Any] = {}


def _with_output(part: CallPart, call: s.ToolInvocation, words: Words) -> Mapping[str, Any] | None:
    """The metadata of a call's part; what the model was told is kept where it does not follow from the result."""
    if call.state != "result":
        return part.provider_metadata
    told, text = words.told.get(part.tool_call_id), words.texts.get(part.tool_call_id)
    if told is None:
        if text is None or text == model_text(call.result):
            return part.provider_metadata
        told = {"type": "text", "value": text}
    return {**(part.provider_metadata or {}), s.OWN: {"modelOutput": told}}


def _with_shown(metadata: Mapping[str, Any] | None, shown: Json) -> Mapping[str, Any] | None:
    if shown is None:
        return metadata
    own: Mapping[str, Any] = (metadata or {}).get(s.OWN) or {}
    return {**(metadata or {}), s.OWN: {**own, s.TRANSFORMS: {"transcript": shown}}}


def step_parts(
    turn: AssistantTurn,
    outcomes: Mapping[str, s.ToolInvocation],
    model: str,
    step: int,
    words: Words | None = None,
) -> list[s.MessagePart]:
    """The stored parts of one step: its boundary, then the model's content with each call's outcome in its place.

    Args:
        turn: What the model said.
        outcomes: By call id; a call that is not in it is stored as `call`, without a result.
        model: As `provider/model`.
        step: From 1.
        words: What the model was told of the results.
    """
    told = words or Words()
    parts: list[s.MessagePart] = [s.StepStartPart(model)]
    for part in turn.content:
        match part:
            case Text():
                parts.append(s.TextPart(part.text, part.provider_metadata))
            case Reasoning():
                details = _details(part)
                parts.append(s.ReasoningPart(part.text, details, part.provider_metadata))
            case FilePart():
                parts.append(
                    s.StoredFilePart(part.media_type, part.url, part.data, part.filename, part.provider_metadata)
                )
            case Custom():
                parts.append(s.CustomPart(part.kind, part.provider_metadata))
            case ProviderResult():
                _attach(parts, part, step)
            case CallPart():
                open_call = s.ToolInvocation(
                    "call", part.tool_call_id, part.tool_name, part.args, step, raw_input=part.raw_args
                )
                call = outcomes.get(part.tool_call_id, open_call)
                metadata = _with_shown(_with_output(part, call, told), told.shown.get(part.tool_call_id))
                title = told.titles.get(part.tool_call_id)
                parts.append(s.ToolInvocationPart(call, part.provider_executed, title, metadata))
            case _:
                assert_never(part)
    return parts


def _details(part: Reasoning) -> tuple[s.ReasoningDetail, ...]:
    if part.redacted is not None:
        return (s.ReasoningDetail("redacted", data=part.redacted),)
    return (s.ReasoningDetail("text", part.text, part.signature),)


def _attach(parts: list[s.MessagePart], answer: ProviderResult, step: int) -> None:
    """Put the answer of a provider's own tool into the part of its call; one without a call gets a call of its own."""
    state: s.InvocationState = "output-error" if answer.is_error else "result"
    kept = {s.OWN: {"resultProviderMetadata": answer.provider_metadata}} if answer.provider_metadata else {}
    for place, part in enumerate(parts):
        if isinstance(part, s.ToolInvocationPart) and part.tool_invocation.tool_call_id == answer.tool_call_id:
            call = replace(part.tool_invocation, state=state, result=answer.result)
            metadata = {**(part.provider_metadata or {}), **kept} or None
            parts[place] = replace(part, tool_invocation=call, provider_metadata=metadata)
            return
    call = s.ToolInvocation(state, answer.tool_call_id, answer.tool_name, None, step, result=answer.result)
    parts.append(s.ToolInvocationPart(call, provider_executed=True, provider_metadata=kept or None))
