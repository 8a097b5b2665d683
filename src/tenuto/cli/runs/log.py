"""The log of a run's events as lines.

Invariant: every event is in one line; the deltas of one part that follow each other share theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from tenuto.cli.screen import brief
from tenuto.cli.stream import as_text
from tenuto.core import chunks as c
from tenuto.core.events import Event


def log_lines(log: list[Event]) -> Iterator[str]:
    """The log, a line for each event, or for each row of deltas of one part."""
    for (kind, _), group in groupby(log, _group):
        events = list(group)
        first, last = events[0].index, events[-1].index
        place = f"{first}" if first == last else f"{first}-{last}"
        yield f"{place:<13}{kind:<32}{brief(_payload(events))}"


def _group(event: Event) -> tuple[str, object]:
    chunk = event.chunk
    return chunk.type, _part(chunk) or event.index


def _part(chunk: c.AnyChunk) -> str | None:
    match chunk:
        case c.TextDelta() | c.ReasoningDelta():
            return chunk.payload.id
        case c.ToolInputDelta():
            return chunk.payload.tool_call_id
        case c.ToolOutput() if (nested := _nested(chunk)) is not None:
            return f"{chunk.payload.tool_call_id} {nested[0]}"
        case _:
            return None


def _payload(events: list[Event]) -> str:
    texts = [_delta(event.chunk) for event in events]
    if all(text is not None for text in texts):
        return as_text("".join(text or "" for text in texts), quoted=True)
    chunk: dict[str, Any] = events[0].chunk.to_dict()
    return as_text(chunk.get("payload", chunk.get("data", chunk.get("object"))))


def _delta(chunk: c.AnyChunk) -> str | None:
    match chunk:
        case c.TextDelta() | c.ReasoningDelta():
            return chunk.payload.text
        case c.ToolInputDelta():
            return chunk.payload.args_text_delta
        case c.ToolOutput() if (nested := _nested(chunk)) is not None:
            return nested[1]
        case _:
            return None


def _nested(chunk: c.ToolOutput) -> tuple[str, str] | None:
    """Part and text of a sub-agent's delta; None for whatever else a tool wrote."""
    output: Any = chunk.payload.output
    if chunk.payload.index is None or output.get("type") not in {"text-delta", "reasoning-delta"}:
        return None
    payload: dict[str, Any] = output["payload"]
    return payload["id"], payload["text"]
