"""The items of an answer that are neither text, reasoning nor a function: tools of the provider, and the unknown.

Invariant: each becomes a call with its result, a call of ours, or an opaque part, and one of these holds the whole
item, so that it can be sent back unchanged.

Source: OpenAI API reference, "Responses", output items.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tenuto.core.payloads import FilePayload
from tenuto.models.answering import Answering
from tenuto.models.assemble import ToolDelta, as_text
from tenuto.models.responses.items import CLIENT, HOSTED, Hosted, Item, client_args, hosted_args, is_ours
from tenuto.models.responses.tools import type_of

_IMAGE_TYPES = {"svg": "image/svg+xml", "jpg": "image/jpeg"}
_encode = msgspec.json.Encoder().encode


class ToolItems:
    """Makes parts of one answer's items."""

    __slots__ = ("_answering", "_assembler")

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._assembler = answering.assembler

    def take(self, index: int, item: Item) -> None:
        """The parts of a whole item."""
        kind = str(item.get("type"))
        if kind == "image_generation_call":
            self._image(item)
        elif (hosted := HOSTED.get(kind)) is not None:
            self._answer(*self._call(item, hosted), item, hosted, self._meta(item, item))
        elif is_ours(item):
            self._ours(index, kind, item)
        else:
            self._assembler.custom(f"{self._answering.provider}.{kind}", self._meta(item, item))

    def _call(self, item: Item, hosted: Hosted) -> tuple[str, str]:
        name = str(item.get("name") if hosted.name == "mcp" else self._tool_name(hosted.name))
        label = str(item.get("id") or "")
        return self._assembler.provider_call(label, name, hosted_args(item, hosted), self._meta(item)), name

    def _answer(self, call_id: str, name: str, item: Item, hosted: Hosted, meta: Mapping[str, Any] | None) -> None:
        result = {key: item[key] for key in hosted.answered if item.get(key) is not None}
        failed = item.get("status") == "failed" or bool(item.get("error"))
        self._assembler.provider_result(call_id, name, result, is_error=failed or None, metadata=meta)

    def _image(self, item: Item) -> None:
        """The file holds the item, for the picture is the larger part of it."""
        hosted = HOSTED["image_generation_call"]
        call_id, name = self._call(item, hosted)
        data = item.get("result")
        if not isinstance(data, str) or not data:
            self._answer(call_id, name, item, hosted, self._meta(item, item))
            return
        self._answer(call_id, name, item, hosted, None)
        kind = str(item.get("output_format") or "png")
        rest = {key: value for key, value in item.items() if key != "result"}
        mime = _IMAGE_TYPES.get(kind, f"image/{kind}")
        self._assembler.file(FilePayload(data, mime, data, provider_metadata=self._meta(item, rest)))

    def _ours(self, index: int, kind: str, item: Item) -> None:
        """A call that we answer, though it is no function."""
        name = item.get("name") if kind == "custom_tool_call" else self._tool_name(CLIENT[kind])
        label = as_text(item.get("call_id")) or as_text(item.get("id"))
        arguments = _encode(client_args(item) or {}).decode()
        self._assembler.tools([ToolDelta(index, label, str(name), arguments, self._meta(item, item))])
        self._assembler.end_call(index)

    def _meta(self, item: Item, kept: Item | None = None) -> Mapping[str, Any]:
        own = {"itemId": item.get("id"), "item": kept}
        return {self._answering.provider: {name: value for name, value in own.items() if value}}

    def _tool_name(self, name: str) -> str:
        """The caller's name for a tool of the provider."""
        for tool in self._answering.provider_tools:
            if (type_of(tool, self._answering.provider) or "").startswith(name):
                return tool.name
        return name
