"""From a provider's deltas to parts: the one assembler of all dialects.

Invariant: each part is opened, filled and closed once, under an id of our own counter; a provider's ids and indexes
are labels that help to find a slot, and one that is missing, repeated or already used in the history is replaced.
A call is complete when its text is valid JSON and something else follows it, or when the stream ends.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Literal, cast

import msgspec

from tenuto.core.payloads import (
    CustomPayload,
    FilePayload,
    Json,
    ProviderMetadata,
    ReasoningDeltaPayload,
    ReasoningEndPayload,
    ReasoningSignaturePayload,
    ReasoningStartPayload,
    RedactedReasoningPayload,
    SourcePayload,
    TextDeltaPayload,
    TextEndPayload,
    TextStartPayload,
    ToolCallPayload,
    ToolInputDeltaPayload,
    ToolInputEndPayload,
    ToolInputStartPayload,
    ToolResultPayload,
)
from tenuto.models.ports import Part

UNNAMED = "unknown_tool"
_decode = msgspec.json.Decoder().decode


class ToolDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of a call as a dialect read it; every field may be missing."""

    index: int | None = None
    id: str | None = None
    name: str | None = None
    arguments: str | None = None
    metadata: ProviderMetadata | None = None


class _Slot:
    """One call under construction; `pieces` are its arguments so far, `size` their length."""

    __slots__ = ("closed", "id", "index", "label", "metadata", "name", "pieces", "size", "started")

    def __init__(self, index: int | None, label: str) -> None:
        self.index = index
        self.label = label
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.size = 0
        self.metadata: dict[str, Any] | None = None
        self.started = self.closed = False

    def text(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    def complete(self) -> bool:
        """Whether the arguments are a whole JSON object; parsed only when they look like one."""
        return bool(self.pieces) and self.pieces[-1].rstrip().endswith("}") and _is_object(self.text())


class Assembler:
    """Collects the parts of one answer.

    Args:
        scope: Makes part ids unique among the answers of a run.
        used: Call ids of the run, which this answer must not use again.
        made: Begins the ids of calls that came without a usable one.
    """

    __slots__ = ("_counter", "_files", "_id", "_kind", "_made", "_scope", "_slots", "_taken", "_used", "calls", "parts")

    def __init__(self, scope: str = "0", used: Container[str] = (), *, made: str = "call") -> None:
        self.parts: list[Part] = []
        self.calls: int = 0
        self._scope = scope
        self._used = used
        self._made = made
        self._taken: set[str] = set()
        self._files: set[int] = set()
        self._counter = 0
        self._kind = ""
        self._id = ""
        self._slots: list[_Slot] = []

    def take(self) -> list[Part]:
        """The parts since the last call."""
        parts, self.parts = self.parts, []
        return parts

    def text(self, delta: str) -> None:
        """More of the answer; empty text opens nothing."""
        if self._kind != "text":
            if not delta:
                return
            self._open("text")
        self.parts.append(TextDeltaPayload(self._id, delta))

    def reasoning(self, delta: str) -> None:
        """More reasoning; empty text opens nothing."""
        if self._kind != "reasoning":
            if not delta:
                return
            self._open("reasoning")
        self.parts.append(ReasoningDeltaPayload(self._id, delta))

    def block(self, kind: Literal["text", "reasoning"], metadata: ProviderMetadata | None = None) -> None:
        """Begin a part of its own, for formats that say where parts begin; `text` or `reasoning` then fills it."""
        self._open(kind, metadata)

    def close(self, metadata: ProviderMetadata | None = None, signature: str | None = None) -> None:
        """End the open text or reasoning part, with what its provider wants back; nothing when none is open."""
        self._close_open(metadata, signature)

    def signature(self, signature: str, metadata: ProviderMetadata | None = None) -> None:
        """The provider's signature over the open reasoning; opens one without text when none is open."""
        if self._kind != "reasoning":
            self._open("reasoning")
        self.parts.append(ReasoningSignaturePayload(self._id, signature, metadata))

    def redacted(self, data: str, metadata: ProviderMetadata | None = None) -> None:
        """Encrypted reasoning."""
        self._close_open()
        self.parts.append(RedactedReasoningPayload(self._new_id("reasoning"), data, metadata))

    def source(self, url: str, title: str, metadata: ProviderMetadata | None = None) -> None:
        """A page the provider used."""
        payload = SourcePayload(self._new_id("source"), "url", title, url, provider_metadata=metadata)
        self.parts.append(payload)

    def document(
        self, title: str, mime_type: str, filename: str | None = None, metadata: ProviderMetadata | None = None
    ) -> None:
        """A document the provider used."""
        source_id = self._new_id("source")
        self.parts.append(SourcePayload(source_id, "document", title, None, mime_type, filename, metadata))

    def file(self, payload: FilePayload) -> None:
        """A file the model made; it stands between the parts around it. The same one again is a repeat."""
        known = hash((payload.mime_type, payload.data))
        if known in self._files:
            return
        self._files.add(known)
        self._close_open()
        self.parts.append(payload)

    def custom(self, kind: str, metadata: ProviderMetadata | None = None) -> None:
        """A part only this provider knows, kept to be sent back; `kind` is `provider.type`."""
        self._close_open()
        self.parts.append(CustomPayload(kind, metadata))

    def provider_call(self, label: str, name: str, args: Json, metadata: ProviderMetadata | None = None) -> str:
        """A complete call of a tool that the provider runs itself; returns the id for its result."""
        self._close_open()
        call_id = self._call_id(label)
        call = ToolCallPayload(call_id, name, args, provider_executed=True, provider_metadata=metadata)
        self.parts.append(call)
        return call_id

    def provider_result(
        self,
        call_id: str,
        name: str,
        result: Json,
        *,
        is_error: bool | None = None,
        metadata: ProviderMetadata | None = None,
    ) -> None:
        """What the provider's own tool answered."""
        self._close_open()
        payload = ToolResultPayload(
            call_id, name, result, is_error=is_error, provider_executed=True, provider_metadata=metadata
        )
        self.parts.append(payload)

    def end_call(self, index: int, metadata: ProviderMetadata | None = None) -> None:
        """The call at `index` is complete, for formats that say so."""
        for slot in reversed(self._slots):
            if slot.index == index and not slot.closed:
                if metadata:
                    slot.metadata = {**(slot.metadata or {}), **metadata}
                self._close_slot(slot)
                return

    def tools(self, deltas: list[ToolDelta]) -> None:
        """The pieces of calls of one event: two pieces with a name that no index tells apart are two calls."""
        touched: list[_Slot] = []
        for delta in deltas:
            slot = self._find(delta)
            if slot is None or (slot in touched and delta.name):
                slot = self._new_slot(delta)
            touched.append(slot)
            self._fill(slot, delta)

    def end(self) -> None:
        """Close everything that is open; the calls come in the order in which they began."""
        self._close_open()
        for slot in self._slots:
            if not slot.closed:
                self._close_slot(slot)

    def _open(self, kind: str, metadata: ProviderMetadata | None = None) -> None:
        self._close_open()
        for slot in self._slots:
            if not slot.closed and slot.complete():
                self._close_slot(slot)
        self._kind = kind
        self._id = self._new_id(kind)
        start = TextStartPayload if kind == "text" else ReasoningStartPayload
        self.parts.append(start(self._id, provider_metadata=metadata))

    def _close_open(self, metadata: ProviderMetadata | None = None, signature: str | None = None) -> None:
        if self._kind == "text":
            self.parts.append(TextEndPayload(self._id, metadata))
        elif self._kind:
            self.parts.append(ReasoningEndPayload(self._id, signature, metadata))
        self._kind = ""

    def _new_id(self, kind: str) -> str:
        self._counter += 1
        return f"{kind}-{self._scope}-{self._counter}"

    def _find(self, delta: ToolDelta) -> _Slot | None:
        """The slot that `delta` goes on with, or None when it begins a call."""
        slot = self._candidate(delta)
        if slot is None or _is_repeat(slot, delta):
            return slot
        if slot.closed:
            return None if _begins(delta) else slot
        return None if _is_another(slot, delta) else slot

    def _candidate(self, delta: ToolDelta) -> _Slot | None:
        for slot in reversed(self._slots):
            if delta.index is not None and slot.index != delta.index:
                continue
            if not delta.id or not slot.label or slot.label == delta.id:
                return slot
            if delta.index is not None:
                return None
        return None

    def _new_slot(self, delta: ToolDelta) -> _Slot:
        self._close_open()
        slot = _Slot(delta.index, delta.id or "")
        slot.id = self._call_id(slot.label)
        if not delta.name and self._slots and delta.index == self._slots[-1].index:
            slot.name = self._slots[-1].name  # named again before its arguments, under the same labels
        self._slots.append(slot)
        return slot

    def _call_id(self, label: str) -> str:
        number = len(self._taken)
        fresh = label
        while not fresh or fresh in self._taken or fresh in self._used:
            number += 1
            fresh = f"{self._made}_{self._scope}_{number}"
        self._taken.add(fresh)
        return fresh

    def _fill(self, slot: _Slot, delta: ToolDelta) -> None:
        if slot.closed:
            return
        slot.label = slot.label or delta.id or ""
        if delta.metadata:
            slot.metadata = {**(slot.metadata or {}), **delta.metadata}
        if delta.name and not slot.started:
            slot.name = _joined_name(slot.name, delta.name)
        if delta.arguments and not _is_repeat(slot, delta):
            slot.pieces.append(delta.arguments)
            slot.size += len(delta.arguments)
            if slot.started:
                self.parts.append(ToolInputDeltaPayload(slot.id, delta.arguments, slot.name))
        if slot.name and slot.pieces and not slot.started:
            self._start_slot(slot)

    def _start_slot(self, slot: _Slot) -> None:
        slot.started = True
        self.calls += 1
        self.parts.append(ToolInputStartPayload(slot.id, slot.name, provider_metadata=slot.metadata))
        if slot.pieces:
            self.parts.append(ToolInputDeltaPayload(slot.id, slot.text(), slot.name))

    def _close_slot(self, slot: _Slot) -> None:
        slot.closed = True
        if not slot.started:
            if not slot.name and not slot.text().strip():
                return
            slot.name = slot.name or UNNAMED
            self._start_slot(slot)
        args, raw = parse_arguments(slot.text())
        self.parts.append(ToolInputEndPayload(slot.id))
        self.parts.append(ToolCallPayload(slot.id, slot.name, args, provider_metadata=slot.metadata, raw_args=raw))


def as_text(value: object) -> str | None:
    """A provider's field that is text by its format, for formats whose blocks are read as they come."""
    return value if isinstance(value, str) else None


def parse_arguments(text: str) -> tuple[dict[str, Any] | None, str | None]:
    """The arguments as a dict, or None and the text when it is not a JSON object; no text is no arguments."""
    if not text.strip():
        return {}, None
    try:
        value = _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None, text
    return (cast("dict[str, Any]", value), None) if isinstance(value, dict) else (None, text)


def _is_object(text: str) -> bool:
    return parse_arguments(text)[0] is not None


def _begins(delta: ToolDelta) -> bool:
    """Whether a delta can be the first of a call, and not a late piece of one that was closed."""
    return bool(delta.name or (delta.id and (delta.arguments or "").strip()))


def _is_repeat(slot: _Slot, delta: ToolDelta) -> bool:
    """Whether the whole arguments are sent again at the end."""
    text = delta.arguments
    return text is not None and len(text) == slot.size > 1 and slot.complete() and slot.text() == text


def _is_another(slot: _Slot, delta: ToolDelta) -> bool:
    """Whether a delta with the labels of `slot` begins a second call: what it brings cannot belong to the first."""
    again = (delta.arguments or "").lstrip().startswith("{")
    renamed = bool(delta.name) and slot.started and delta.name != slot.name
    labelled = bool(delta.name and delta.id) and not slot.label
    return (again or renamed or labelled) and slot.complete()


def _joined_name(known: str, piece: str) -> str:
    """A name sent twice, growing, or in pieces."""
    return piece if piece.startswith(known) else known + piece
