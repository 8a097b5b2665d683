"""Turns as chat completions messages.

Invariant: each message is one that the strictest of these providers accepts: names and arguments are valid, nothing
is empty. What the format cannot carry is said in words instead of being dropped.

Source: OpenAI API reference, "Create chat completion", messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from tenuto.messages.turns import (
    AssistantTurn,
    CallPart,
    FilePart,
    ProviderOptions,
    ProviderResult,
    Reasoning,
    ResultPart,
    SystemTurn,
    Text,
    UserPart,
    UserTurn,
)
from tenuto.models.chat.wire import AssistantOut, CallOut, FunctionOut, MessageOut
from tenuto.models.fit import arguments_of, decoded_text, hashed, tool_name
from tenuto.models.render import Messages

_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_AFTER = "see the message after the results"
_FILES = "The files of the tool results above, in their order:"
_MAX_ID = 40
_encode = msgspec.json.Encoder().encode


class ChatMessages:
    """The message half of the dialect; see `render.Dialect`.

    Args:
        provider: Whose options on turns and parts apply, next to `openai`'s.
        echo_reasoning: Send reasoning back as `reasoning_content` on its message.
        short_ids: Call ids must be nine letters or digits (Mistral).
    """

    __slots__ = ("_echo", "_provider", "_short", "name")

    def __init__(self, provider: str, *, echo_reasoning: bool = False, short_ids: bool = False) -> None:
        self.name: str = f"chat:{provider}:{echo_reasoning:d}{short_ids:d}"
        self._provider = provider
        self._echo = echo_reasoning
        self._short = short_ids

    def encode_system(self, turn: SystemTurn) -> Messages:
        """A system message."""
        return self._message(MessageOut("system", turn.text), turn.provider_options) if turn.text else ()

    def encode_aside(self, turn: SystemTurn) -> Messages:
        """The same, wherever it stands."""
        return self.encode_system(turn)

    def encode_user(self, turn: UserTurn) -> Messages:
        """Text alone as text, anything else as a list of parts."""
        parts = [self._part(part) for part in turn.content if not isinstance(part, Text) or part.text]
        if not parts:
            return ()
        alone = len(parts) == 1 and parts[0].keys() == {"type", "text"}
        return self._message(MessageOut("user", parts[0]["text"] if alone else parts), turn.provider_options)

    def encode_assistant(self, turn: AssistantTurn) -> Messages:
        """Text and calls of one step; a step with neither becomes no message."""
        calls = [self._call(part) for part in turn.calls if not part.provider_executed]
        text = turn.text
        if not calls and not text:
            return ()
        reasoning = "".join(part.text for part in turn.content if isinstance(part, Reasoning)) if self._echo else ""
        out = AssistantOut(text or None, calls or None, reasoning or None)
        return self._message(out, turn.provider_options)

    def encode_tool(self, results: tuple[ResultPart, ...]) -> Messages:
        """One message for each result, of text; their files follow in a user message, for a tool's cannot hold them.

        Where no user message may stand there (Mistral), a file is a line of words.
        """
        messages = [MessageOut("tool", self._told(each), each.tool_call_id) for each in results]
        files = [] if self._short else [part for each in results for part in _files(each)]
        if files:
            parts = [{"type": "text", "text": _FILES}, *(self._file(part) for part in files)]
            messages.append(MessageOut("user", parts))
        return tuple(msgspec.Raw(_encode(each)) for each in messages)

    def _told(self, result: ResultPart) -> str:
        if self._short or not _files(result):
            return result.text
        return "\n".join(
            part.text if isinstance(part, Text) else f"[File of type {part.media_type}: {_AFTER}]"
            for part in result.content or ()
        )

    def fit_call_id(self, call_id: str) -> str:
        """The id itself, or a hash of it where it is too long or of the wrong letters."""
        if self._short:
            return call_id if len(call_id) == 9 and call_id.isascii() and call_id.isalnum() else hashed(call_id, 9)
        return call_id if len(call_id) <= _MAX_ID else f"call_{hashed(call_id, 20)}"

    def is_half(self, part: CallPart | ProviderResult) -> bool:  # noqa: ARG002 - the port's
        """Never: the format has no place for a provider's own tools."""
        return False

    def _message(self, out: MessageOut | AssistantOut, options: ProviderOptions | None) -> Messages:
        extra = self._extra(options)
        if not extra:
            return (msgspec.Raw(_encode(out)),)
        return (msgspec.Raw(_encode({**msgspec.to_builtins(out), **extra})),)

    def _extra(self, options: ProviderOptions | None) -> dict[str, Any]:
        """Keys that the caller put on a message for this provider; AI-SDK spelling of the one that is common."""
        if not options:
            return {}
        found = {**options.get("openai", {}), **options.get(self._provider, {})}
        return {"cache_control" if key == "cacheControl" else key: value for key, value in found.items()}

    def _call(self, part: CallPart) -> CallOut:
        function = FunctionOut(tool_name(part.tool_name), _encode(arguments_of(part)).decode())
        return CallOut(part.tool_call_id, function, self._own(part.provider_metadata).get("extra_content"))

    def _own(self, metadata: Mapping[str, Any] | None) -> Mapping[str, Any]:
        return (metadata or {}).get(self._provider) or {}

    def _part(self, part: UserPart) -> dict[str, Any]:
        match part:
            case Text():
                return {"type": "text", "text": part.text}
            case FilePart():
                return self._file(part)
            case _:
                assert_never(part)

    def _file(self, part: FilePart) -> dict[str, Any]:
        kind = part.media_type.partition(";")[0].strip().lower()
        if kind.startswith("image/"):
            options = {**self._metadata(part, "openai"), **self._own(part.provider_metadata)}
            detail = options.get("imageDetail") or options.get("image_detail")
            image = {"url": _image_url(part, kind)}
            return {"type": "image_url", "image_url": {**image, "detail": detail} if detail else image}
        if part.data is not None and kind in _AUDIO:
            return {"type": "input_audio", "input_audio": {"data": part.data, "format": _AUDIO[kind]}}
        if part.data is not None and kind.startswith("text/"):
            return {"type": "text", "text": decoded_text(part.data)}
        return _document(part, kind)

    @staticmethod
    def _metadata(part: FilePart, provider: str) -> Mapping[str, Any]:
        return (part.provider_metadata or {}).get(provider) or {}


def _files(result: ResultPart) -> list[FilePart]:
    return [part for part in result.content or () if isinstance(part, FilePart)]


def is_embedded(kind: str) -> bool:
    """Whether a file of this media type is sent as its content, never as a URL."""
    return kind in _AUDIO or kind == "application/pdf" or kind.startswith("text/")


def _image_url(part: FilePart, kind: str) -> str:
    if part.url is not None:
        return part.url
    return f"data:{'image/jpeg' if kind == 'image/*' else kind};base64,{part.data or ''}"


def _document(part: FilePart, kind: str) -> dict[str, Any]:
    if part.data is not None:
        if part.data.startswith("file-"):
            return {"type": "file", "file": {"file_id": part.data}}
        name = part.filename or f"file.{kind.rpartition('/')[2]}"
        return {"type": "file", "file": {"filename": name, "file_data": f"data:{kind};base64,{part.data}"}}
    return {"type": "text", "text": f"[File {part.filename or ''} of type {kind}: {part.url or 'empty'}]"}
