"""Turns: a conversation as a model reads it, independent of any provider.

Invariant: turns are frozen and are compared by identity where their encoded bytes are cached; a tool call and its
result are tied by `tool_call_id`, which is unique in a prompt once the renderer has seen it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from tenuto.core.payloads import Json, wire_name

ProviderOptions = Mapping[str, Mapping[str, Any]]


class Text(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="text"):
    """Text of a user or of the model."""

    text: str
    provider_metadata: Mapping[str, Any] | None = None


class FilePart(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="file"):
    """A file a user gives: `url`, or `data` as base64 text, of the type `media_type`."""

    media_type: str
    url: str | None = None
    data: str | None = None
    filename: str | None = None
    provider_metadata: Mapping[str, Any] | None = None


class Reasoning(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="reasoning"):
    """Reasoning of the model with what its provider wants back unchanged.

    Attributes:
        signature: Over the text.
        redacted: Encrypted reasoning in place of a text.
    """

    text: str
    signature: str | None = None
    provider_metadata: Mapping[str, Any] | None = None
    redacted: str | None = None


class CallPart(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="tool-call"):
    """A tool call of the model; `raw_args` holds what it wrote when that is no JSON object (`args` is then None)."""

    tool_call_id: str
    tool_name: str
    args: Json = None
    raw_args: str | None = None
    provider_executed: bool | None = None
    provider_metadata: Mapping[str, Any] | None = None


ToldPart = Text | FilePart


class ResultPart(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="tool-result"):
    """The answer to a call, as the bounded text the model is given.

    Attributes:
        content: What a tool's `to_model_output` made of it, when that is more than text. A dialect that can say files
            in a result renders it instead of `text`; for one that cannot, `text` has a line for each file.
        provider_metadata: That of the call; the renderer puts it there, for formats whose answers depend on the call.
    """

    tool_call_id: str
    tool_name: str
    text: str
    is_error: bool | None = None
    content: tuple[ToldPart, ...] | None = None
    provider_metadata: Mapping[str, Any] | None = None


class ProviderResult(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="provider-result"):
    """What the provider's own tool answered to a `provider_executed` call, within the model's turn."""

    tool_call_id: str
    tool_name: str
    result: Json
    is_error: bool | None = None
    provider_metadata: Mapping[str, Any] | None = None


class Custom(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag="custom"):
    """A part only its provider knows, to be sent back unchanged; `kind` is `provider.type`."""

    kind: str
    provider_metadata: Mapping[str, Any] | None = None


UserPart = Text | FilePart
AssistantPart = Text | Reasoning | CallPart | ProviderResult | FilePart | Custom


class SystemTurn(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag_field="role", tag="system"):
    """Instructions."""

    text: str
    provider_options: ProviderOptions | None = None


class UserTurn(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag_field="role", tag="user"):
    """What a user says."""

    content: tuple[UserPart, ...]
    provider_options: ProviderOptions | None = None


class AssistantTurn(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag_field="role", tag="assistant"):
    """What the model said in one step, in its own order."""

    content: tuple[AssistantPart, ...]
    provider_options: ProviderOptions | None = None

    @property
    def calls(self) -> tuple[CallPart, ...]:
        """The calls of the step."""
        return tuple(part for part in self.content if isinstance(part, CallPart))

    @property
    def text(self) -> str:
        """All text of the step, joined."""
        return "".join(part.text for part in self.content if isinstance(part, Text))


class ToolTurn(Struct, frozen=True, omit_defaults=True, rename=wire_name, tag_field="role", tag="tool"):
    """The answers to the calls of the assistant turn before it, in call order."""

    results: tuple[ResultPart, ...]


Turn = SystemTurn | UserTurn | AssistantTurn | ToolTurn


class Prompt:
    """System turns and an append-only history, with the renderers' caches of encoded bytes.

    Invariant: `turns` only grows, so what a renderer encoded once stays valid for the life of the prompt.
    """

    __slots__ = ("rendered", "system", "turns")

    def __init__(self, system: Iterable[SystemTurn] = (), turns: Iterable[Turn] = ()) -> None:
        self.system: tuple[SystemTurn, ...] = tuple(system)
        self.turns: list[Turn] = list(turns)
        self.rendered: dict[str, Any] = {}
        """One slot per dialect name; what is in it belongs to `models.render`."""

    def append(self, turn: Turn) -> None:
        """Add a turn to the end of the history."""
        self.turns.append(turn)
