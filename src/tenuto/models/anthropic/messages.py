"""Turns as messages.

Invariant: what the provider wants back goes back as it came, in its order: reasoning with its signature, encrypted
reasoning, its own tools' calls and results, citations. What another provider made of that kind is not sent. No text
block is blank, no message ends in reasoning.

Source: Anthropic API reference, "Create a message", messages; "Thinking" (preserving blocks), "Server tools".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, assert_never, cast

import msgspec

from tenuto.messages.turns import (
    AssistantPart,
    AssistantTurn,
    CallPart,
    Custom,
    FilePart,
    ProviderOptions,
    ProviderResult,
    Reasoning,
    ResultPart,
    SystemTurn,
    Text,
    UserTurn,
)
from tenuto.models.anthropic.blocks import Block, file_in_words, user_blocks
from tenuto.models.anthropic.options import cache_mark, given_options
from tenuto.models.fit import arguments_of, hashed, tool_name
from tenuto.models.render import Messages

NAME_LIMIT = 128
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_REASONING = ("thinking", "redacted_thinking")
_FAILED = "The tool call failed."
_encode = msgspec.json.Encoder().encode


class AnthropicMessages:
    """The message half of the dialect; see `render.Dialect`.

    Args:
        provider: Whose options and metadata on turns and parts apply, next to `anthropic`'s options.
        reasoning: Send reasoning back.
        unsigned: Also reasoning without a signature, as vendors of other models want it.
    """

    __slots__ = ("_provider", "_reasoning", "_unsigned", "name")

    def __init__(self, provider: str, *, reasoning: bool = True, unsigned: bool = False) -> None:
        self.name: str = f"anthropic:{provider}:{reasoning:d}{unsigned:d}"
        self._provider = provider
        self._reasoning = reasoning
        self._unsigned = unsigned

    def encode_system(self, turn: SystemTurn) -> Messages:
        """A block of the request's `system`."""
        if not turn.text.strip():
            return ()
        block = {"type": "text", "text": turn.text, **given_options(turn.provider_options, self._provider)}
        return (msgspec.Raw(_encode(block)),)

    def encode_aside(self, turn: SystemTurn) -> Messages:
        """As said by the user, since not every model takes instructions inside the history."""
        return self.encode_user(UserTurn((Text(turn.text),), turn.provider_options))

    def encode_user(self, turn: UserTurn) -> Messages:
        """One message with a block for each part."""
        return self._message("user", user_blocks(turn.content, self._provider), turn.provider_options)

    def encode_assistant(self, turn: AssistantTurn) -> Messages:
        """One message with a block for each part, in the order in which they came."""
        blocks = [block for part in turn.content if (block := self._block(part)) is not None]
        while blocks and blocks[-1]["type"] in _REASONING:
            blocks.pop()
        return self._message("assistant", blocks, turn.provider_options)

    def encode_tool(self, results: tuple[ResultPart, ...]) -> Messages:
        """One message for all results of a step."""
        return self._message("user", [self._result(each) for each in results], None)

    def fit_call_id(self, call_id: str) -> str:
        """The id itself, or a hash of it where it is too long or of the wrong letters."""
        return call_id if _ID.fullmatch(call_id) else f"toolu_{hashed(call_id, 22)}"

    def is_half(self, part: CallPart | ProviderResult) -> bool:
        """Every block of this provider's own tools, but for a call that was only stored with its late result."""
        hosted = isinstance(part, ProviderResult) or part.provider_executed
        return bool(hosted) and "type" in self._own(part.provider_metadata)

    def _message(self, role: str, blocks: list[Block], options: ProviderOptions | None) -> Messages:
        if not blocks:
            return ()
        more = dict(given_options(options, self._provider)) if options else {}
        if mark := more.pop("cache_control", None):
            _mark_last(blocks, mark)
        return (msgspec.Raw(_encode({"role": role, "content": blocks, **more})),)

    def _own(self, metadata: Mapping[str, Any] | None) -> Mapping[str, Any]:
        return (metadata or {}).get(self._provider) or {}

    def _block(self, part: AssistantPart) -> Block | None:
        match part:
            case Text():
                return self._text(part) if part.text.strip() else None
            case Reasoning():
                return self._thinking(part) if self._reasoning else None
            case CallPart():
                return self._hosted_call(part) if part.provider_executed else self._call(part)
            case ProviderResult():
                return self._hosted_result(part)
            case FilePart():
                return file_in_words(part)
            case Custom():
                return self._custom(part)
            case _:
                assert_never(part)

    def _text(self, part: Text) -> Block:
        block: Block = {"type": "text", "text": part.text}
        if citations := self._own(part.provider_metadata).get("citations"):
            block["citations"] = [_citation(each) for each in cast("Iterable[Mapping[str, Any]]", citations)]
        return self._marked(block, part.provider_metadata)

    def _thinking(self, part: Reasoning) -> Block | None:
        own = self._own(part.provider_metadata)
        if part.provider_metadata and not own:
            return None  # another provider's, whose seal this one cannot check
        if part.redacted is not None:
            return {"type": "redacted_thinking", "data": part.redacted}
        signature = part.signature or own.get("signature")
        if signature or (self._unsigned and own):
            return {"type": "thinking", "thinking": part.text, "signature": signature or ""}
        return None

    def _call(self, part: CallPart) -> Block:
        block: Block = {
            "type": "tool_use",
            "id": part.tool_call_id,
            "name": tool_name(part.tool_name, NAME_LIMIT),
            "input": arguments_of(part),
            **_beside(self._own(part.provider_metadata), "type", "cacheControl", "cache_control"),
        }
        return self._marked(block, part.provider_metadata)

    def _hosted_call(self, part: CallPart) -> Block | None:
        own = self._own(part.provider_metadata)
        if "type" not in own:
            return None
        head = {"type": own["type"], "id": part.tool_call_id, "name": part.tool_name, "input": arguments_of(part)}
        return {**head, **_beside(own, "type")}

    def _hosted_result(self, part: ProviderResult) -> Block | None:
        own = self._own(part.provider_metadata)
        if "type" not in own:
            return None
        head = {"type": own["type"], "tool_use_id": part.tool_call_id, **_beside(own, "type")}
        return {**head, "content": part.result}

    def _custom(self, part: Custom) -> Block | None:
        """A block of a type we do not know; `own` is the block itself, for what has no `type` is no block."""
        own = self._own(part.provider_metadata)
        return dict(own) if "type" in own and part.kind.partition(".")[0] == self._provider else None

    def _result(self, part: ResultPart) -> Block:
        content: str | list[Block] = part.text
        if part.content is not None:
            content = user_blocks(part.content, self._provider) or part.text
        block: Block = {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": content}
        if part.is_error:
            block |= {"is_error": True, "content": content or _FAILED}
        return block

    def _marked(self, block: Block, metadata: Mapping[str, Any] | None) -> Block:
        mark = cache_mark(metadata, self._provider) if metadata else None
        return {**block, "cache_control": mark} if mark else block


def _mark_last(blocks: list[Block], mark: Mapping[str, Any]) -> None:
    """Put a message's cache marker on its last block that may carry one."""
    for place in range(len(blocks) - 1, -1, -1):
        if blocks[place]["type"] not in _REASONING:
            blocks[place] = {**blocks[place], "cache_control": mark}
            return


def _beside(own: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in own.items() if name not in names}


def _citation(citation: Mapping[str, Any]) -> Mapping[str, Any]:
    """As it came, but for a field that answers have and requests must not."""
    return {name: value for name, value in citation.items() if name != "file_id"}
