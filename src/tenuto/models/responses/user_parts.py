"""What a user gives as content of an input message.

Invariant: no part is dropped; what the format cannot carry is said in words.

Source: OpenAI API reference, "Responses", input content; guide "File inputs".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never, cast

from tenuto.messages.turns import FilePart, Text, UserPart
from tenuto.models.fit import decoded_text

Options = Mapping[str, Any]

_SPEECH = ("audio/", "video/")


def input_part(part: UserPart, options: Options) -> dict[str, Any]:
    """One part; `options` are those that its provider metadata holds for this provider."""
    match part:
        case Text():
            content = {"type": "input_text", "text": part.text}
        case FilePart():
            content = _file(part, options)
        case _:
            assert_never(part)
    mark = breakpoint_of(options)
    return content if mark is None else content | {"prompt_cache_breakpoint": mark}


def breakpoint_of(options: Options) -> Mapping[str, Any] | None:
    """The prompt-cache marker among options: True, or the vendor's own object."""
    mark = options.get("promptCacheBreakpoint") or options.get("prompt_cache_breakpoint")
    if not mark:
        return None
    return cast("Options", mark) if isinstance(mark, Mapping) else {"mode": "explicit"}


def _file(part: FilePart, options: Options) -> dict[str, Any]:
    kind = part.media_type.partition(";")[0].strip().lower()
    uploaded = part.data is not None and part.data.startswith("file-")
    if kind.startswith("image/"):
        detail = options.get("imageDetail") or options.get("image_detail") or "auto"
        source = {"file_id": part.data} if uploaded else {"image_url": _image_url(part, kind)}
        return {"type": "input_image", "detail": detail, **source}
    if uploaded:
        return {"type": "input_file", "file_id": part.data}
    if kind.startswith(_SPEECH):
        return {"type": "input_text", "text": f"[File {part.filename or ''} of type {kind}: {part.url or 'not shown'}]"}
    if part.data is None:
        return {"type": "input_file", "file_url": part.url or ""}
    if kind.startswith("text/"):
        return {"type": "input_text", "text": decoded_text(part.data)}
    name = part.filename or f"file.{kind.rpartition('/')[2]}"
    return {"type": "input_file", "filename": name, "file_data": f"data:{kind};base64,{part.data}"}


def _image_url(part: FilePart, kind: str) -> str:
    if part.url is not None:
        return part.url
    return f"data:{'image/jpeg' if kind == 'image/*' else kind};base64,{part.data or ''}"
