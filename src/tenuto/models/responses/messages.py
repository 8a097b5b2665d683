"""Turns as items of a responses request.

Invariant: what the model said goes back item for item with the ids it came with; reasoning goes back only encrypted
and with something after it, for the provider stores nothing and refuses it alone.

Source: OpenAI API reference, "Create a model response", input; guide "Reasoning models", encrypted reasoning items.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, assert_never, cast

import msgspec

from tenuto.messages.turns import (
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
from tenuto.models.fit import arguments_of, hashed, tool_name
from tenuto.models.render import Messages
from tenuto.models.responses.items import output_item
from tenuto.models.responses.user_parts import breakpoint_of, input_part

SystemRole = Literal["system", "developer", "remove"]
"""Who instructs: reasoning models are told by a developer; `remove` leaves instructions out."""

Item = dict[str, Any]

_MAX_ID = 64
_WAYS_BACK = frozenset({"encrypted_content", "content"})
"""Without one of these a reasoning item is a mere name of something the provider did not keep."""

_MARKS = frozenset({"promptCacheBreakpoint", "prompt_cache_breakpoint"})
_encode = msgspec.json.Encoder().encode


class ResponsesMessages:
    """The message half of the dialect; see `render.Dialect`.

    Args:
        provider: Whose options and metadata apply.
        role: The role of instructions.
    """

    __slots__ = ("_provider", "_role", "name")

    def __init__(self, provider: str, role: SystemRole) -> None:
        self.name: str = f"responses:{provider}:{role}"
        self._provider = provider
        self._role = role

    def encode_system(self, turn: SystemTurn) -> Messages:
        """An input message of the role for instructions."""
        if not turn.text or self._role == "remove":
            return ()
        return self._input(self._role, [{"type": "input_text", "text": turn.text}], turn.provider_options)

    def encode_aside(self, turn: SystemTurn) -> Messages:
        """The same, wherever it stands."""
        return self.encode_system(turn)

    def encode_user(self, turn: UserTurn) -> Messages:
        """Text alone as text, anything else as a list of parts."""
        content = [
            input_part(part, self._options(part.provider_metadata))
            for part in turn.content
            if not isinstance(part, Text) or part.text
        ]
        return self._input("user", content, turn.provider_options) if content else ()

    def encode_assistant(self, turn: AssistantTurn) -> Messages:
        """The items of one step; a step with none becomes no message."""
        items: list[Item] = []
        for part in turn.content:
            match part:
                case Text():
                    self._text(items, part)
                case Reasoning():
                    self._reasoning(items, part)
                case CallPart():
                    if not part.provider_executed:
                        items.append(self._call(part))
                case ProviderResult() | Custom():
                    items += self._kept(part.provider_metadata)
                case FilePart():
                    items += [item | {"result": part.data} for item in self._kept(part.provider_metadata)]
                case _:
                    assert_never(part)
        items = [item for item in items if item.get("type") != "reasoning" or item.keys() & _WAYS_BACK]
        while items and items[-1].get("type") == "reasoning":
            items.pop()
        return tuple(msgspec.Raw(_encode(item)) for item in items)

    def encode_tool(self, results: tuple[ResultPart, ...]) -> Messages:
        """One item for each result, in the form of its call."""
        return tuple(msgspec.Raw(_encode(self._result(each))) for each in results)

    def _result(self, result: ResultPart) -> Mapping[str, Any]:
        call: Item = self._own(result.provider_metadata).get("item") or {}
        told = [input_part(part, self._options(part.provider_metadata)) for part in result.content or ()]
        return output_item(result, call, told)

    def fit_call_id(self, call_id: str) -> str:
        """The id itself, or a hash of it where it is too long."""
        return call_id if len(call_id) <= _MAX_ID else f"call_{hashed(call_id, 20)}"

    def is_half(self, part: CallPart | ProviderResult) -> bool:  # noqa: ARG002 - the port's
        """Never: the item of a provider's own tool is both call and result."""
        return False

    def _input(self, role: str, content: list[Item], options: ProviderOptions | None) -> Messages:
        found = self._turn_options(options)
        if mark := breakpoint_of(found):
            content[-1] = content[-1] | {"prompt_cache_breakpoint": mark}
        alone = len(content) == 1 and content[0].keys() == {"type", "text"}
        item: Item = {"role": role, "content": content[0]["text"] if alone else content}
        extra = {key: value for key, value in found.items() if key not in _MARKS}
        return (msgspec.Raw(_encode({**item, **extra})),)

    def _text(self, items: list[Item], part: Text) -> None:
        """More of the message it belongs to, or a message of its own."""
        if not part.text:
            return
        own = self._own(part.provider_metadata)
        item_id = own.get("itemId")
        if not item_id:
            items.append({"role": "assistant", "content": part.text})
            return
        if not items or items[-1].get("id") != item_id:
            phase = {"phase": own["phase"]} if own.get("phase") else {}
            message: Item = {
                "type": "message",
                "id": item_id,
                "role": "assistant",
                "status": "completed",
                "content": [],
            }
            items.append(message | phase)
        items[-1]["content"].append(_output(part.text, own))

    def _reasoning(self, items: list[Item], part: Reasoning) -> None:
        own = self._own(part.provider_metadata)
        item_id = own.get("itemId")
        if not item_id:
            return  # another provider's, or one without a way back
        if not items or items[-1].get("id") != item_id:
            items.append({"type": "reasoning", "id": item_id, "summary": []})
        item = items[-1]
        if own.get("reasoningContent"):
            item.setdefault("content", []).append({"type": "reasoning_text", "text": part.text})
        elif part.text:
            item["summary"].append({"type": "summary_text", "text": part.text})
        if encrypted := own.get("reasoningEncryptedContent"):
            item["encrypted_content"] = encrypted

    def _call(self, part: CallPart) -> Item:
        own = self._own(part.provider_metadata)
        for kept in self._kept(part.provider_metadata):
            return kept | {"call_id": part.tool_call_id} if "call_id" in kept else kept
        item: Item = {"type": "function_call", "call_id": part.tool_call_id, "name": tool_name(part.tool_name)}
        item["arguments"] = _encode(arguments_of(part)).decode()
        more = {"id": own.get("itemId"), "namespace": own.get("namespace"), "caller": own.get("caller")}
        return item | {key: value for key, value in more.items() if value}

    def _kept(self, metadata: Mapping[str, Any] | None) -> list[Item]:
        item = self._own(metadata).get("item")
        return [dict(cast("Item", item))] if isinstance(item, Mapping) else []

    def _own(self, metadata: Mapping[str, Any] | None) -> Mapping[str, Any]:
        return (metadata or {}).get(self._provider) or {}

    def _options(self, metadata: Mapping[str, Any] | None) -> Mapping[str, Any]:
        return {**((metadata or {}).get("openai") or {}), **self._own(metadata)}

    def _turn_options(self, options: ProviderOptions | None) -> Mapping[str, Any]:
        return {**options.get("openai", {}), **options.get(self._provider, {})} if options else {}


def _output(text: str, own: Mapping[str, Any]) -> Item:
    if own.get("refusal"):
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": own.get("annotations") or []}
