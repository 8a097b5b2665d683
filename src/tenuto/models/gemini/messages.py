"""Turns as Gemini contents.

Invariant: no part is empty unless its provider signed it so; each part that came from Google goes back as it came, in
its place. The answers to the calls of one step are one content, in call order.

Source: Gemini API reference, "Content" and "Part"; guides "Function calling" and "Thought signatures".
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

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
    UserTurn,
)
from tenuto.models.fit import arguments_of, tool_name
from tenuto.models.gemini.parts import (
    CODE,
    CODE_RESULT,
    OPAQUE,
    TOOL_CALL,
    TOOL_RESPONSE,
    UNLABELLED,
    kept,
    sealed,
)
from tenuto.models.render import Messages

UNSIGNED = "skip_thought_signature_validator"
"""Stands for a signature that a call never had, as its model was another one; models that demand one accept it."""

_MAGIC = {"iVBORw0KGgo": "image/png", "R0lGOD": "image/gif", "UklGR": "image/webp", "/9j/": "image/jpeg"}
_OURS = frozenset({"thought", "thoughtSignature", "cacheControl", "cache_control"})
_encode = msgspec.json.Encoder().encode


class GeminiMessages:
    """The message half of the dialect; see `render.Dialect`.

    Args:
        signed: The model refuses a step whose first call has no signature.
    """

    __slots__ = ("_signed", "name")

    def __init__(self, *, signed: bool) -> None:
        self.name: str = f"gemini:{signed:d}"
        self._signed = signed

    def encode_system(self, turn: SystemTurn) -> Messages:
        """A part of the system instruction."""
        return (msgspec.Raw(_encode({"text": turn.text})),) if turn.text else ()

    def encode_aside(self, turn: SystemTurn) -> Messages:  # noqa: ARG002 - the port's
        """Nothing: there is one place for instructions, and it is outside of the contents."""
        return ()

    def encode_user(self, turn: UserTurn) -> Messages:
        """What is not empty, as one content."""
        options = _part_options(kept(turn.provider_options))
        parts = [
            {"text": part.text} if isinstance(part, Text) else {**_file(part), **options, **_part_options(_own(part))}
            for part in turn.content
            if not isinstance(part, Text) or part.text
        ]
        return content("user", parts)

    def encode_assistant(self, turn: AssistantTurn) -> Messages:
        """All parts of a step as one content."""
        parts = [made for part in turn.content if (made := _said(part)) is not None]
        if self._signed:
            first = next((part for part in parts if "functionCall" in part), None)
            if first is not None:
                first.setdefault("thoughtSignature", UNSIGNED)
        return content("model", parts)

    def encode_tool(self, results: tuple[ResultPart, ...]) -> Messages:
        """One content for all results; their files are in them, or after them where a result cannot hold any."""
        parts = [{"functionResponse": _response(result, holds_files=self._signed)} for result in results]
        if not self._signed:
            parts += [_file(part) for result in results for part in result.content or () if isinstance(part, FilePart)]
        return content("user", parts)

    def fit_call_id(self, call_id: str) -> str:
        """The id itself."""
        return call_id

    def is_half(self, part: CallPart | ProviderResult) -> bool:
        """Code and its outcome, or a server-side call and its response."""
        return kept(part.provider_metadata).get("part") in (CODE, CODE_RESULT, TOOL_CALL, TOOL_RESPONSE)


def content(role: str, parts: list[dict[str, Any]]) -> Messages:
    """One content, or none when it would be empty."""
    if not parts:
        return ()
    return (msgspec.Raw(b'{"role":"%b","parts":%b}' % (role.encode(), _encode(parts))),)


def _own(part: AssistantPart) -> Mapping[str, Any]:
    return kept(part.provider_metadata)


def _said(part: AssistantPart) -> dict[str, Any] | None:
    """A part of the model's; None for what only another vendor can read."""
    own = _own(part)
    match part:
        case Text():
            return sealed({"text": part.text}, own) if part.text or "thoughtSignature" in own else None
        case Reasoning():
            if not part.text and "thoughtSignature" not in own:
                return None
            return sealed({"text": part.text, "thought": True}, own)
        case FilePart():
            return sealed(_file(part), own)
        case CallPart():
            if part.provider_executed:
                return _provider_call(part, own)
            call = {"name": _tool_name(part.tool_name), "args": arguments_of(part)}
            return sealed({"functionCall": _labelled(part.tool_call_id, call)}, own)
        case ProviderResult():
            return _provider_result(part, own)
        case Custom():
            return own.get("part") if part.kind == OPAQUE else None
        case _:
            assert_never(part)


def _labelled(call_id: str, fields: dict[str, Any]) -> dict[str, Any]:
    return fields if call_id.startswith(UNLABELLED) else {"id": call_id, **fields}


def _response(result: ResultPart, *, holds_files: bool) -> dict[str, Any]:
    """A result; of its files those that have their data here, as it can hold no other."""
    outcome = {"error" if result.is_error else "output": result.text}
    fields: dict[str, Any] = {"name": _tool_name(result.tool_name), "response": outcome}
    content = result.content or () if holds_files else ()
    files = [_file(part) for part in content if isinstance(part, FilePart) and part.data is not None]
    if held := [part for part in files if "inlineData" in part]:
        fields["parts"] = held
    return _labelled(result.tool_call_id, fields)


def _provider_call(part: CallPart, own: Mapping[str, Any]) -> dict[str, Any] | None:
    match own.get("part"):
        case "executableCode":
            return sealed({CODE: part.args}, own)
        case "toolCall":
            return sealed({TOOL_CALL: _server_tool(own, "args", part.args)}, own)
        case _:
            return None


def _provider_result(part: ProviderResult, own: Mapping[str, Any]) -> dict[str, Any] | None:
    match own.get("part"):
        case "codeExecutionResult":
            return sealed({CODE_RESULT: part.result}, own)
        case "toolResponse":
            return sealed({TOOL_RESPONSE: _server_tool(own, "response", part.result)}, own)
        case _:
            return None


def _server_tool(own: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    named = {name: own[name] for name in ("id", "toolType") if name in own}
    return named if value is None else {**named, key: value}


def _file(part: FilePart) -> dict[str, Any]:
    kind = part.media_type.partition(";")[0].strip().lower() or "application/octet-stream"
    if part.data is None:
        named = {} if kind.endswith("/*") else {"mimeType": kind}
        return {"fileData": {**named, "fileUri": part.url or ""}}
    if kind.startswith("text/") and not _is_base64(part.data):
        return {"text": part.data}
    full = (
        part.media_type if kind.startswith("audio/") else kind
    )  # `audio/L16;codec=pcm;rate=24000` says how to play it
    return {"inlineData": {"mimeType": _sniffed(part.data) if kind == "image/*" else full, "data": part.data}}


def _sniffed(data: str) -> str:
    return next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), "image/jpeg")


def _is_base64(data: str) -> bool:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _part_options(own: Mapping[str, Any]) -> dict[str, Any]:
    """Such as `mediaResolution` and `videoMetadata`; a cache marker has no place, as caching is implicit."""
    return {key: value for key, value in own.items() if key not in _OURS}


def _tool_name(name: str) -> str:
    """A name that is accepted: like any vendor's, but it begins with a letter or an underscore."""
    name = tool_name(name)
    return name if name[0].isalpha() or name[0] == "_" else f"_{name}"
