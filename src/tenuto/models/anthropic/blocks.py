"""What a user gives, as content blocks: text, images, documents.

Invariant: a block is one that the provider accepts; a file of a kind it cannot read is named in words instead.

Source: Anthropic documentation: "Vision", "PDF support", "Citations", "Files API".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from tenuto.messages.turns import FilePart, Text, UserPart
from tenuto.models.anthropic.options import cache_mark, given_options
from tenuto.models.fit import decoded_text

_FILE_ID = re.compile(r"file_[A-Za-z0-9_-]+")
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_TEXTUAL = frozenset({"application/json", "application/xml", "application/yaml", "application/x-yaml"})
_DOCUMENT_OPTIONS = ("title", "context", "citations")

Block = dict[str, Any]


def user_blocks(parts: Iterable[UserPart], provider: str) -> list[Block]:
    """The parts that say something; text of nothing but blanks is refused, so it is left out."""
    return [_block(part, provider) for part in parts if not isinstance(part, Text) or part.text.strip()]


def _block(part: UserPart, provider: str) -> Block:
    match part:
        case Text():
            block: Block = {"type": "text", "text": part.text}
        case FilePart():
            block = _file(part, provider)
        case _:
            assert_never(part)
    mark = cache_mark(part.provider_metadata, provider)
    return {**block, "cache_control": mark} if mark else block


def _file(part: FilePart, provider: str) -> Block:
    kind = part.media_type.partition(";")[0].strip().lower()
    source = _source(part, kind)
    if source is None:
        return file_in_words(part)
    if kind.startswith("image/"):
        return {"type": "image", "source": source}
    block: Block = {"type": "document", "source": source}
    if part.filename:
        block["title"] = part.filename
    given = given_options(part.provider_metadata, provider)
    block.update({name: given[name] for name in _DOCUMENT_OPTIONS if given.get(name)})
    return block


def _source(part: FilePart, kind: str) -> Mapping[str, Any] | None:
    data = part.data
    if data is not None and _FILE_ID.fullmatch(data):
        return {"type": "file", "file_id": data}
    if kind == "image/*":
        kind = "image/jpeg"
    if part.url is not None:
        readable = kind in _IMAGES or kind == "application/pdf"
        return {"type": "url", "url": part.url} if readable else None
    if not data:
        return None
    if kind in _IMAGES or kind == "application/pdf":
        return {"type": "base64", "media_type": kind, "data": data}
    if is_text(kind):
        text = decoded_text(data)
        return {"type": "text", "media_type": "text/plain", "data": text} if text.strip() else None
    return None


def is_text(kind: str) -> bool:
    """Whether a file of this media type is sent as its text, never as a URL."""
    return kind.startswith("text/") or kind in _TEXTUAL


def file_in_words(part: FilePart) -> Block:
    """A file that cannot be given to the model, so that it knows of it."""
    name = f" {part.filename}" if part.filename else ""
    place = f": {part.url}" if part.url is not None else ""
    return {"type": "text", "text": f"[File{name} of type {part.media_type}{place}]"}
