"""Turns: a conversation as a model reads it, independent of any provider.

Invariant: turns are frozen and are compared by identity where their encoded bytes are cached; a tool call and its
result are tied by `tool_call_id`, which is unique in a prompt once the renderer has seen it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

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
        return tuple([part for part in self.content if isinstance(part, CallPart)])

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

    Invariant: `turns` only grows, and a turn is replaced by one that says the same only, so what a renderer encoded
    once stays valid for the life of the prompt.
    """

    __slots__ = ("linked", "rendered", "system", "turns")

    def __init__(self, system: Iterable[SystemTurn] = (), turns: Iterable[Turn] = ()) -> None:
        self.system: tuple[SystemTurn, ...] = tuple(system)
        self.turns: list[Turn] = list(turns)
        self.linked: list[int] = [at for at, turn in enumerate(self.turns) if linked_files(turn)]
        """Places of the turns that link to files."""
        self.rendered: dict[str, Any] = {}
        """One slot per dialect name; what is in it belongs to `models.render`."""

    def append(self, turn: Turn) -> None:
        """Add a turn to the end of the history."""
        if linked_files(turn):
            self.linked.append(len(self.turns))
        self.turns.append(turn)

    def put(self, at: int, turn: Turn) -> None:
        """Replace a turn by the same one with files in place of links to them."""
        self.turns[at] = turn
        if not linked_files(turn):
            self.linked.remove(at)


def linked_files(turn: Turn) -> list[FilePart]:
    """The files of a turn, or of the results in it, that are links."""
    match turn:
        case UserTurn() | AssistantTurn():
            parts: Sequence[object] = turn.content
        case ToolTurn():
            parts = [part for result in turn.results for part in result.content or ()]
        case SystemTurn():
            return []
        case _:
            assert_never(turn)
    return [part for part in parts if isinstance(part, FilePart) and part.url is not None and part.data is None]
