"""The blocks of an answer, from their beginning to their end.

Invariant: one block is open at a time for each index; what it holds reaches the assembler in the order of the stream,
and what the provider wants back is kept with it: signatures, citations, every field of a block of its own tools.

Source: Anthropic API reference, "Streaming messages"; "Server tools"; "MCP connector".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from tenuto.models.anthropic.sources import Sources
from tenuto.models.anthropic.wire import Delta
from tenuto.models.assemble import Assembler, ToolDelta, as_text, parse_arguments

_RESULT = "_tool_result"
_encode = msgspec.json.Encoder().encode


class OpenBlock:
    """A block that has begun; `kind` is its type, or what kind of block it is treated as."""

    __slots__ = ("block", "citations", "index", "kind", "pieces")

    def __init__(self, index: int, kind: str, block: dict[str, Any]) -> None:
        self.index = index
        self.kind = kind
        self.block = block
        self.pieces: list[str] = []
        self.citations: list[Any] = []


class Content:
    """Puts the blocks of one answer together; `text_index` is the index of the text block that is open, or -1."""

    __slots__ = ("_assembler", "_begun", "_calls", "_open", "_provider", "_sources", "text_index")

    def __init__(self, provider: str, assembler: Assembler) -> None:
        self._provider = provider
        self._assembler = assembler
        self._sources = Sources(provider, assembler)
        self._begun: set[int] = set()
        self._open: dict[int, OpenBlock] = {}
        self._calls: dict[str, tuple[str, str]] = {}
        """By the provider's id of a call of its own tool: our id, and the tool's name."""
        self.text_index: int = -1

    def begin(self, index: int, block: dict[str, Any]) -> None:
        """A block begins; one that is open at this index has begun already."""
        if index in self._open:
            return
        for left in tuple(self._open):  # its end was not told
            self.end(left)
        self._begun.add(index)
        kind = str(block.get("type") or "")
        opened = OpenBlock(index, _treated_as(kind, block), block)
        self._open[index] = opened
        match opened.kind:
            case "text":
                self._assembler.block("text")
                self.text_index = index
                self._assembler_text(as_text(block.get("text")))
                for citation in block.get("citations") or ():
                    self._cite(opened, citation)
            case "thinking":
                self._assembler.block("reasoning")
                if text := as_text(block.get("thinking")):
                    self._assembler.reasoning(text)
                if signature := as_text(block.get("signature")):
                    self._assembler.signature(signature)
                    opened.block = {**block, "signed": True}
            case "tool_use":
                self._begin_call(opened)
            case _:
                pass

    def add(self, index: int, delta: Delta, data: bytes) -> bool:
        """More of a block; False when no such block is open. `data` is the whole event, for what we do not know."""
        opened = self._open.get(index)
        if opened is None:
            return False
        match delta.type:
            case "input_json_delta":
                self._add_input(opened, delta.partial_json or "")
            case "text_delta" if opened.kind == "text":
                self._assembler_text(delta.text)
            case "thinking_delta" if opened.kind == "thinking":
                if delta.thinking:
                    self._assembler.reasoning(delta.thinking)
            case "signature_delta" if opened.kind == "thinking":
                if delta.signature:
                    self._assembler.signature(delta.signature)
                    opened.block = {**opened.block, "signed": True}
            case "citations_delta":
                self._cite(opened, delta.citation)
            case _:
                if opened.kind == "other":
                    _grow(opened.block, data)
        return True

    def has_begun(self, index: int) -> bool:
        """Whether a block with this index began, be it over or not."""
        return index in self._begun

    def end(self, index: int) -> None:
        """A block is complete; nothing when none is open."""
        opened = self._open.pop(index, None)
        if opened is None:
            return
        match opened.kind:
            case "text":
                self.text_index = -1
                self._assembler.close(self._tagged(citations=opened.citations) if opened.citations else None)
            case "thinking":
                said = opened.block.get("signed")
                self._assembler.close(self._tagged(type="thinking") if said else None)
            case "redacted":
                self._assembler.redacted(str(opened.block["data"]), self._tagged(type="redacted_thinking"))
            case "tool_use":
                self._end_call(opened)
            case "hosted":
                self._hosted_call(opened)
            case "result":
                self._hosted_result(opened.block)
            case _:
                kind = f"{self._provider}.{opened.block.get('type')}"
                self._assembler.custom(kind, {self._provider: opened.block})

    def close(self) -> None:
        """End what is open, in order."""
        for index in tuple(self._open):
            self.end(index)

    def _assembler_text(self, text: str | None) -> None:
        if text:
            self._assembler.text(text)

    def _tagged(self, **fields: Any) -> Mapping[str, Any]:
        return {self._provider: fields}

    def _cite(self, opened: OpenBlock, citation: Any) -> None:
        if isinstance(citation, dict) and opened.citations[-1:] != [citation]:
            opened.citations.append(citation)
            self._sources.cited(cast("dict[str, Any]", citation))

    def _begin_call(self, opened: OpenBlock) -> None:
        beside = _beside(opened.block, "type", "id", "name", "input")
        delta = ToolDelta(
            opened.index,
            as_text(opened.block.get("id")),
            as_text(opened.block.get("name")),
            None,
            self._tagged(**beside) if beside else None,
        )
        self._assembler.tools([delta])

    def _add_input(self, opened: OpenBlock, piece: str) -> None:
        if not piece:
            return
        opened.pieces.append(piece)
        if opened.kind == "tool_use":
            self._assembler.tools([ToolDelta(opened.index, None, None, piece)])

    def _end_call(self, opened: OpenBlock) -> None:
        given = opened.block.get("input")
        if given and not opened.pieces:
            self._assembler.tools([ToolDelta(opened.index, None, None, _encode(given).decode())])
        self._assembler.end_call(opened.index)

    def _hosted_call(self, opened: OpenBlock) -> None:
        block = opened.block
        args: Any = block.get("input") or {}
        if opened.pieces:
            read, raw = parse_arguments("".join(opened.pieces))
            args = {"invalid_arguments": raw} if read is None else read
        label, name = str(block.get("id") or ""), str(block.get("name") or "")
        beside = _beside(block, "id", "name", "input")
        self._calls[label] = self._assembler.provider_call(label, name, args, self._tagged(**beside)), name

    def _hosted_result(self, block: dict[str, Any]) -> None:
        label, kind = str(block.get("tool_use_id") or ""), str(block["type"])
        call_id, name = self._calls.get(label) or (label, kind.removesuffix(_RESULT))
        content: Any = block.get("content")
        failed = bool(block.get("is_error")) or _is_error(content)
        beside = _beside(block, "tool_use_id", "content")
        self._assembler.provider_result(
            call_id, name, content, is_error=failed or None, metadata=self._tagged(**beside)
        )
        self._sources.found(content)


def _treated_as(kind: str, block: Mapping[str, Any]) -> str:
    """What a block is to us; a block of a type that nobody knows yet is kept as it is."""
    if kind in {"text", "thinking", "tool_use"}:
        return kind
    if kind == "redacted_thinking" and isinstance(block.get("data"), str):
        return "redacted"
    if kind in {"server_tool_use", "mcp_tool_use"}:
        return "hosted"
    return "result" if kind.endswith(_RESULT) and "tool_use_id" in block else "other"


def _beside(block: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name not in names}


def _is_error(content: Any) -> bool:
    return isinstance(content, dict) and str(cast("dict[str, Any]", content).get("type") or "").endswith("_error")


def _grow(block: dict[str, Any], data: bytes) -> None:
    """Add a delta of an unknown kind: text to text, anything else in its place."""
    delta = cast("dict[str, Any]", msgspec.json.decode(data).get("delta") or {})
    for name, value in delta.items():
        if name != "type":
            before = block.get(name)
            block[name] = before + value if isinstance(before, str) and isinstance(value, str) else value
