"""The chunks of a child run as its parent's stream has them: each in a `tool-output` of the call that started it.

Invariant: what a child's viewers are shown, its parent's are shown in the same order, each once; `data-*` chunks pass
as they are. A wrapped delta is as cheap as a delta: shown at once and stored soon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from tenuto.core import codec
from tenuto.core import payloads as p
from tenuto.core.chunks import DELTAS, AnyChunk, Data, ToolOutput
from tenuto.core.payloads import Json

_DELTAS = frozenset(str(each.__struct_config__.tag) for each in DELTAS)


def wrapped(run_id: str, call_id: str, tool_name: str, chunks: Sequence[AnyChunk], first: int) -> list[AnyChunk]:
    """`chunks`, the first of which has the index `first` in the child's log, for the stream of `run_id`."""
    return [
        chunk
        if isinstance(chunk, Data)
        else ToolOutput(run_id, "AGENT", p.ToolOutputPayload(_plain(chunk), call_id, tool_name, index))
        for index, chunk in enumerate(chunks, first)
    ]


def _plain(chunk: AnyChunk) -> Json:
    """The wire form, as a viewer of the store reads it."""
    return msgspec.json.decode(codec.encode(chunk))


def is_nested_delta(chunk: ToolOutput) -> bool:
    """Whether a delta is all that it brings; what a tool of the user's writes is none, whatever it looks like."""
    index, inner = chunk.payload.index, chunk.payload.output
    while index is not None and isinstance(inner, dict):
        found = cast("dict[str, Any]", inner)
        if found.get("type") != "tool-output":
            return found.get("type") in _DELTAS
        payload: dict[str, Any] = found["payload"]
        index, inner = payload.get("index"), payload.get("output")
    return False
