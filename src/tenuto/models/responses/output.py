"""The items of an answer, from the events that build them to parts.

Invariant: an item becomes the same parts whether it was streamed, came whole, or both: what its end repeats is
compared with what its deltas said, missing text is added, and text that differs raises. Each item ends once.

Source: OpenAI API reference, "Responses", streaming events and output items.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from tenuto.core.errors import ModelError
from tenuto.models.answering import Answering
from tenuto.models.assemble import ToolDelta, as_text
from tenuto.models.responses.tool_items import ToolItems
from tenuto.models.responses.wire import Event

Item = Mapping[str, Any]
Kind = Literal["output_text", "refusal", "summary", "reasoning_text", "arguments"]
Key = tuple[int, Kind, int]
"""A piece of text within an answer: output index, kind, and its place in its item."""

_NOWHERE: Key = (-1, "output_text", -1)
_decode = msgspec.json.Decoder().decode


class OutputItems:
    """Builds the items of one answer.

    Attributes:
        refusal: What the model refused with.
        logprobs: Of the tokens, when they were asked for.
    """

    __slots__ = (
        "_announced", "_answering", "_assembler", "_at", "_cited", "_done", "_items", "_last", "_loose", "_pieces",
        "_said", "_settled", "_tools", "_unplaced", "logprobs", "refusal",
    )  # fmt: skip

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._assembler = answering.assembler
        self._tools = ToolItems(answering)
        self._items: dict[int, Item] = {}
        self._announced: set[int] = set()
        self._done: set[int] = set()
        self._unplaced: set[int] = set()  # has arguments, and no call yet
        self._said: dict[Key, list[str]] = {}
        self._settled: set[Key] = set()
        self._at: Key = _NOWHERE
        self._last: Key = _NOWHERE
        self._loose = False  # has citations whose text was closed before they came
        self._pieces: list[str] = []
        self._cited: set[tuple[Any, ...]] = set()
        self.refusal: list[str] = []
        self.logprobs: list[Any] = []

    def more_text(self, event: Event) -> bool:
        """Take a text delta that goes on with the open part and has nothing else: nearly all do."""
        at, delta = self._at, event.delta
        if (
            at[0] == event.output_index
            and at[2] == event.content_index
            and at[1] == "output_text"
            and delta.__class__ is str
            and not event.logprobs
        ):
            if delta:
                self._pieces.append(delta)
                self._assembler.text(delta)
            return True
        return False

    def take(self, event: Event) -> None:
        """Any event of an item; unknown ones change nothing."""
        index = event.output_index
        if index is None:
            return
        match event.type:
            case "response.output_text.delta":
                self.logprobs += event.logprobs or ()
                self._write((index, "output_text", event.content_index or 0), event.delta)
            case "response.refusal.delta":
                self._write((index, "refusal", event.content_index or 0), event.delta)
            case "response.reasoning_summary_text.delta":
                self._write((index, "summary", event.summary_index or 0), event.delta)
            case "response.reasoning_text.delta":
                self._write((index, "reasoning_text", event.content_index or 0), event.delta)
            case "response.function_call_arguments.delta":
                self._argue(index, event.delta)
            case "response.output_item.added":
                self._announced.add(index)
                self._begin(index, _record(event.item))
            case "response.output_text.annotation.added":
                self._cite(event.annotation)
            case "response.content_part.done" if index in self._items:
                self._content(index, event.content_index or 0, _record(event.part))
            case "response.output_item.done":
                self._end(index, _record(event.item))
            case _:
                pass

    def complete(self, output: Sequence[msgspec.Raw]) -> None:
        """End the items whose own end was not seen; `output` is the list of all of them.

        Raises:
            ModelError: One was lost that stands before others.
        """
        last = max(self._done, default=-1)
        for index, raw in enumerate(output):
            if index not in self._done:
                item = _record(_decode(raw))
                if index < last and not self._has_place(index, item):
                    raise self._lost()
                self._end(index, item)
        if self._unplaced - self._done:
            raise self._lost()

    def confirmed(self, count: int) -> bool:
        """Whether beginning and end of each of the `count` items came: then all of it was said twice, and is there."""
        return (
            count > 0
            and not self._loose
            and all(index in self._announced and index in self._done for index in range(count))
        )

    def _has_place(self, index: int, item: Item) -> bool:
        """Whether an item stands among the parts already: its text does; a call or a seal stands where it ends."""
        return not item.get("encrypted_content") and any(
            key[0] == index and key[1] != "arguments" for key in self._said
        )

    def _begin(self, index: int, item: Item) -> None:
        if index in self._items:
            return
        self._items[index] = item
        if item.get("type") == "function_call":
            self._at = _NOWHERE
            self._last = (index, "arguments", 0)
            delta = ToolDelta(
                index, as_text(item.get("call_id")), as_text(item.get("name")), None, self._meta(index, **_extra(item))
            )
            self._assembler.tools([delta])

    def _end(self, index: int, item: Item) -> None:
        if index in self._done:
            return
        self._begin(index, item)
        self._done.add(index)
        kind = item.get("type")
        if kind == "message":
            for place, part in enumerate(_records(item.get("content"))):
                self._content(index, place, part)
        elif kind == "reasoning":
            self._reasoned(index, item)
        elif kind == "function_call":
            self._complete((index, "arguments", 0), item.get("arguments"))
            self._assembler.end_call(index, self._meta(index, **_extra(item)))
        else:
            self._at = _NOWHERE
            self._tools.take(index, item)

    # -- text and reasoning -----------------------------------------------------------------------------------

    def _write(self, key: Key, delta: Any) -> None:
        """More text at `key`, in the part that is open or in a new one."""
        if not isinstance(delta, str) or not delta or key in self._settled:
            return
        pieces = self._said.setdefault(key, [])
        if key[1] == "arguments":
            pieces.append(delta)
            self._assembler.tools([ToolDelta(key[0], arguments=delta)])
            return
        thought = key[1] in {"summary", "reasoning_text"}
        self._last = key
        if self._at != key:
            self._assembler.block("reasoning" if thought else "text", self._part_meta(key))
            self._at, self._pieces = key, pieces
        pieces.append(delta)
        if key[1] == "refusal":
            self.refusal.append(delta)
        (self._assembler.reasoning if thought else self._assembler.text)(delta)

    def _argue(self, index: int, delta: Any) -> None:
        if index not in self._items:
            self._unplaced.add(index)
        elif self._items[index].get("type") == "function_call" and index not in self._done:
            self._write((index, "arguments", 0), delta)

    def _complete(self, key: Key, whole: Any) -> None:
        """Add what the deltas left out of `whole`.

        Raises:
            ModelError: The deltas said something else, so some of them were lost or came twice.
        """
        said = "".join(self._said.get(key, ()))
        if not isinstance(whole, str) or not whole or whole == said:
            return
        if not whole.startswith(said):
            raise self._lost()
        if key[1] != "arguments" and self._is_past(key):
            raise self._lost()
        self._write(key, whole[len(said) :])

    def _is_past(self, key: Key) -> bool:
        """Whether something that comes after the text at `key` is there already, so that no more of it can be added."""
        last = self._last
        later = key[0] < last[0] or (key[:2] == last[:2] and key[2] < last[2])
        return later or (key != last and key in self._said)

    def _lost(self) -> ModelError:
        return ModelError(
            f"{self._answering.provider} streamed something else than it repeated at the end; parts of the stream were "
            "lost or came twice.",
            id="MODEL_STREAM_INVALID",
            provider=self._answering.provider,
            retryable=True,
        )

    def _content(self, index: int, place: int, part: Item) -> None:
        """A part of a message is whole."""
        kind = part.get("type")
        if kind not in {"output_text", "refusal"}:
            return
        key: Key = (index, kind, place)
        if key in self._settled:
            return
        self._complete(key, part.get("text") if kind == "output_text" else part.get("refusal"))
        self._settled.add(key)
        if not self.logprobs:
            self.logprobs += part.get("logprobs") or ()
        annotations = _records(part.get("annotations"))
        for annotation in annotations:
            self._cite(annotation)
        if self._at == key:
            self._close(self._part_meta(key, annotations=annotations))
        elif annotations:
            self._loose = True

    def _reasoned(self, index: int, item: Item) -> None:
        """Reasoning is whole: its last part carries what the provider wants back."""
        for kind, parts in (("summary", item.get("summary")), ("reasoning_text", item.get("content"))):
            for place, part in enumerate(_records(parts)):
                self._complete((index, cast("Kind", kind), place), part.get("text"))
        encrypted = item.get("encrypted_content")
        if self._at[0] != index:
            if not encrypted:
                return
            self._at = (index, "summary", 0)
            self._assembler.block("reasoning", self._meta(index))
        self._close(self._part_meta(self._at, reasoningEncryptedContent=encrypted))

    def _close(self, metadata: Mapping[str, Any]) -> None:
        self._assembler.close(metadata)
        self._at = _NOWHERE

    def _part_meta(self, key: Key, **more: Any) -> Mapping[str, Any]:
        index, kind, _ = key
        return self._meta(
            index,
            phase=self._items.get(index, {}).get("phase"),
            refusal=kind == "refusal",
            reasoningContent=kind == "reasoning_text",
            **more,
        )

    def _meta(self, index: int, **more: Any) -> Mapping[str, Any]:
        """Under the provider's name: the id of the item and whatever of `more` there is."""
        own = {"itemId": self._items.get(index, {}).get("id"), **more}
        return {self._answering.provider: {name: value for name, value in own.items() if value}}

    def _cite(self, annotation: Any) -> None:
        found = _record(annotation)
        kind, provider = found.get("type"), self._answering.provider
        mark = (kind, found.get("url"), found.get("file_id"), found.get("filename"))
        if mark in self._cited:
            return
        self._cited.add(mark)
        if kind == "url_citation" and isinstance(found.get("url"), str):
            self._assembler.source(found["url"], str(found.get("title") or ""))
        elif kind in {"file_citation", "container_file_citation", "file_path"}:
            name = str(found.get("filename") or found.get("file_id") or "")
            ids = {"type": kind, "fileId": found.get("file_id"), "containerId": found.get("container_id")}
            known = {key: value for key, value in ids.items() if value}
            self._assembler.document(name, "text/plain", name, {provider: known})


def _extra(item: Item) -> dict[str, Any]:
    return {key: item.get(key) for key in ("namespace", "caller")}


def _record(value: Any) -> Item:
    """The value if it is an object, else an empty one."""
    return cast("Item", value) if isinstance(value, Mapping) else {}


def _records(value: Any) -> list[Item]:
    found: Iterable[Any] = cast("list[Any]", value) if isinstance(value, list) else ()
    return [_record(each) for each in found]
