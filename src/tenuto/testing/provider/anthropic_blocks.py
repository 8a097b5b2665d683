"""Refuses the messages and content blocks that Anthropic refuses, and knows again what it sealed.

Invariant: in a history that passes each call of either side's tools has its result where it belongs, no text is blank,
and reasoning, encrypted content and citations are byte for byte what was sent.

Source: Anthropic API reference, "Create a message", messages; "Handle tool calls"; "Thinking"; the API's error texts.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from tenuto.testing.provider.strict import Calls, Other, Result, Turn, check_pairs, require

__all__ = ["Sealed", "check_messages", "check_system"]

Json = dict[str, Any]

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_MARKED = frozenset({"type", "cache_control"})
_USER: Mapping[str, frozenset[str]] = {
    "text": _MARKED | {"text", "citations"},
    "image": _MARKED | {"source"},
    "document": _MARKED | {"source", "title", "context", "citations"},
    "search_result": _MARKED | {"content", "source", "title", "citations"},
    "tool_result": _MARKED | {"tool_use_id", "content", "is_error"},
    "container_upload": _MARKED | {"file_id"},
}
_ASSISTANT: Mapping[str, frozenset[str]] = {
    "text": _USER["text"],
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
    "tool_use": _MARKED | {"id", "name", "input", "caller", "toolset_name"},
    "server_tool_use": _MARKED | {"id", "name", "input", "caller"},
    "mcp_tool_use": _MARKED | {"id", "name", "input", "server_name"},
    "mcp_tool_result": _MARKED | {"tool_use_id", "content", "is_error"},
    "container_upload": _MARKED | {"file_id"},
    "compaction": _MARKED | {"content", "encrypted_content"},
}
_HOSTED = _MARKED | {"tool_use_id", "content", "caller"}
_SOURCES: Mapping[str, frozenset[str]] = {
    "base64": frozenset({"type", "media_type", "data"}),
    "url": frozenset({"type", "url"}),
    "file": frozenset({"type", "file_id"}),
    "text": frozenset({"type", "media_type", "data"}),
    "content": frozenset({"type", "content"}),
}
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


class Sealed:
    """The blocks that a provider sent and wants back unchanged or not at all."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def remember(self, blocks: Iterable[Json]) -> None:
        """Note what is sent."""
        self._known.update(_seal(block) for block in blocks if _is_sealed(block))

    def check(self, block: Json, at: str) -> None:
        """Refuse a block that is not one of ours; a provider that sent none takes any."""
        if not self._known or not _is_sealed(block):
            return
        known = _seal(block) in self._known
        what = f"`{block['type']}` blocks in the latest assistant message cannot be modified."
        require(known, "altered_block", what, at)


def _is_sealed(block: Json) -> bool:
    kind = block["type"]
    return kind in {"thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use"} or kind.endswith("_tool_result")


def _seal(block: Json) -> bytes:
    return msgspec.json.encode({key: item for key, item in block.items() if key != "cache_control"}, order="sorted")


def check_system(system: object) -> None:
    """Check the instructions.

    Raises:
        Refused: They are not text, or text blocks.
    """
    if system is None or isinstance(system, str):
        return
    require(isinstance(system, list), "bad_content", "Input should be text or a list", "system")
    for place, block in enumerate(cast("list[object]", system)):
        at = f"system.{place}"
        found = _object(block, at)
        require(found.get("type") == "text", "bad_content", "Input should be 'text'", at)
        _check_keys(found, _USER["text"], at)
        _check_text(found, at)


def check_messages(messages: object, sealed: Sealed, extra: frozenset[str]) -> None:
    """Check a history.

    Raises:
        Refused: The first rule that it breaks.
    """
    require(messages is not None, "missing_messages", "Field required", "messages")
    require(isinstance(messages, list), "bad_message", "Input should be a valid list", "messages")
    require(messages, "empty_messages", "at least one message is required", "messages")
    history = cast("list[Json]", messages)
    for place, message in enumerate(history):
        _check_message(message, f"messages.{place}", sealed, extra)
    require(history[0]["role"] == "user", "first_not_user", "first message must use the user role", "messages.0")
    turns = _merged(history)
    check_pairs(turn for each in turns for turn in _turns(*each))
    _check_hosted(turns)


def _check_message(message: object, at: str, sealed: Sealed, extra: frozenset[str]) -> None:
    found = _object(message, at)
    _check_keys(found, frozenset({"role", "content"}) | extra, at)
    role = found.get("role")
    require(role in {"user", "assistant"}, "bad_role", "Unexpected role. Allowed: user, assistant", f"{at}.role")
    said: object = found.get("content")
    if isinstance(said, str):
        require(said.strip(), "blank_text", "text content must be non-empty", at)
        return
    content = cast("list[Json]", said) if isinstance(said, list) else []
    require(content, "bad_content", "content must not be empty", f"{at}.content")
    for place, block in enumerate(content):
        _check_block(block, role == "assistant", f"{at}.content.{place}", sealed)
    if role == "assistant":
        ends = content[-1]["type"] in {"thinking", "redacted_thinking"}
        require(not ends, "bad_last_block", "The final block in an assistant message cannot be `thinking`.", at)


def _check_block(block: object, assistant: bool, at: str, sealed: Sealed) -> None:  # noqa: FBT001
    found = _object(block, at)
    kind = str(found.get("type"))
    known = _ASSISTANT if assistant else _USER
    keys = _HOSTED if assistant and kind.endswith("_tool_result") and kind not in known else known.get(kind)
    require(keys is not None, "bad_content", f"Input tag '{kind}' does not match any of the expected tags", at)
    _check_keys(found, cast("frozenset[str]", keys), at)
    match kind:
        case "text":
            _check_text(found, at)
        case "image" | "document":
            _check_source(found, at)
        case "thinking" | "redacted_thinking":
            sealed.check(found, at)
            _check_thinking(found, at)
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            _check_use(found, at)
            sealed.check(found, at)
        case "tool_result":
            _check_result(found, at)
        case _:
            sealed.check(found, at)


def _check_thinking(block: Json, at: str) -> None:
    if block["type"] == "thinking":
        whole = isinstance(block.get("thinking"), str) and isinstance(block.get("signature"), str)
        require(whole, "bad_thinking", "thinking and signature are required", at)
    else:
        require(isinstance(block.get("data"), str), "bad_thinking", "data: Field required", at)


def _check_use(block: Json, at: str) -> None:
    valid = isinstance(block.get("id"), str) and _ID.fullmatch(block["id"])
    require(valid, "bad_tool_call", "String should match pattern '^[a-zA-Z0-9_-]+$'", f"{at}.id")
    require(isinstance(block.get("input"), dict), "bad_arguments", "Input should be a valid dictionary", f"{at}.input")
    named = isinstance(block.get("name"), str) and _ID.fullmatch(block["name"]) and len(block["name"]) <= 128
    require(named, "bad_name", "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", f"{at}.name")


def _check_result(block: Json, at: str) -> None:
    content: Any = block.get("content")
    require(content or not block.get("is_error"), "bad_content", "content cannot be empty if `is_error` is true", at)
    for place, part in enumerate(cast("list[Json]", content) if isinstance(content, list) else ()):
        where = f"{at}.content.{place}"
        require(part.get("type") in {"text", "image", "document", "search_result"}, "bad_content", "Bad part", where)
        if part["type"] == "text":
            _check_text(part, where)
        elif part["type"] in {"image", "document"}:
            _check_source(part, where)


def _check_source(block: Json, at: str) -> None:
    source = _object(block.get("source"), f"{at}.source")
    require(source.get("type") in _SOURCES, "bad_content", "Bad source", f"{at}.source")
    _check_keys(source, _SOURCES[source["type"]], f"{at}.source")
    image = block["type"] == "image"
    match source["type"]:
        case "base64":
            kinds = _IMAGES if image else {"application/pdf"}
            require(source.get("media_type") in kinds and source.get("data"), "bad_content", "Bad data", at)
        case "text" | "content":
            require(not image, "bad_content", "Input should be an image", at)
        case _:
            require(source.get("url") or source.get("file_id"), "bad_content", "Field required", at)


def _object(value: object, at: str) -> Json:
    require(isinstance(value, dict), "bad_content", "Input should be an object", at)
    return cast("Json", value)


def _check_text(block: Json, at: str) -> None:
    text = block.get("text")
    require(isinstance(text, str), "bad_content", "Field required", f"{at}.text")
    require(cast("str", text).strip(), "blank_text", "text content blocks must contain non-whitespace text", at)


def _check_keys(found: Mapping[str, object], allowed: frozenset[str], at: str) -> None:
    for key in found:
        require(key in allowed, "unknown_key", "Extra inputs are not permitted", f"{at}.{key}")


_Merged = tuple[str, str, list[Json]]


def _merged(messages: list[Json]) -> list[_Merged]:
    """Messages of one role in a row are one turn: (where, role, blocks)."""
    turns: list[_Merged] = []
    for place, message in enumerate(messages):
        content: Any = message["content"]
        blocks: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if turns and turns[-1][1] == message["role"]:
            turns[-1][2].extend(blocks)
        else:
            turns.append((f"messages.{place}", message["role"], list(blocks)))
    return turns


def _turns(at: str, role: str, blocks: list[Json]) -> Iterable[Turn]:
    if role == "assistant":
        calls = tuple(block["id"] for block in blocks if block["type"] == "tool_use")
        yield Calls(at, calls) if calls else Other(at)
        return
    others = False
    for block in blocks:
        if block["type"] == "tool_result":
            require(not others, "result_not_first", "tool_result blocks must come first in the message", at)
            yield Result(at, block.get("tool_use_id") or "")
        else:
            others = True
    if others:
        yield Other(at)


def _check_hosted(turns: list[_Merged]) -> None:
    """A call of a tool of the provider's is answered by it, before the user says anything but results."""
    waiting: dict[str, str] = {}
    for at, role, blocks in turns:
        for block in blocks:
            kind = block["type"]
            if kind in {"server_tool_use", "mcp_tool_use"}:
                waiting[block["id"]] = at
            elif role == "assistant" and kind.endswith("_tool_result"):
                found = waiting.pop(block.get("tool_use_id") or "", None)
                require(found, "orphan_result", f"unexpected `tool_use_id` found in `{kind}` blocks", at)
            elif role == "user" and kind != "tool_result":
                for call_id in waiting:
                    text = f"tool use with id {call_id} was found without a corresponding result block"
                    require(ok=False, reason="unanswered_call", message=text, param=at)
