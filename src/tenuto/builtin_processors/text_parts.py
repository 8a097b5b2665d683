"""The text of a stream, part by part, through something that may hold some of it back.

Invariant: what was held back of a part is shown before the part ends, or not at all; a new attempt of a model begins
with nothing held back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from msgspec.structs import replace

from tenuto.core import chunks as c
from tenuto.core import payloads as p

Delta = c.TextDelta | c.ReasoningDelta


class Held(Protocol):
    """The text of one part."""

    def feed(self, text: str) -> str | Awaitable[str]:
        """What can be shown now."""
        ...

    def close(self) -> str | Awaitable[str]:
        """What is left."""
        ...


class TextParts:
    """The open text and reasoning parts of a run, each with what is held of it.

    Args:
        make: Makes what a part is passed through.
    """

    def __init__(self, make: Callable[[], Held]) -> None:
        self._make = make
        self._held: dict[str, tuple[Held, Delta]] = {}

    async def take(self, chunk: c.AnyChunk) -> list[c.AnyChunk]:
        """The chunk, or what becomes of it."""
        match chunk:
            case c.TextDelta() | c.ReasoningDelta():
                return await self._feed(chunk)
            case c.TextEnd(payload=payload) | c.ReasoningEnd(payload=payload):
                return [*await self._close(payload.id), chunk]
            case c.StepStart() | c.AttemptRestarted() | c.StepFinish() | c.Finish():
                self._held.clear()  # a part that has no end was cut off: what it holds was not looked at as a whole
                return [chunk]
            case _:
                return [chunk]

    async def _feed(self, delta: Delta) -> list[c.AnyChunk]:
        name = delta.payload.id
        held = self._held[name][0] if name in self._held else self._make()
        self._held[name] = (held, delta)
        return _saying(delta, await _now(held.feed(delta.payload.text)))

    async def _close(self, name: str) -> list[c.AnyChunk]:
        if name not in self._held:
            return []
        held, delta = self._held.pop(name)
        return _saying(delta, await _now(held.close()))


async def _now(text: str | Awaitable[str]) -> str:
    return text if isinstance(text, str) else await text


def _saying(delta: Delta, text: str) -> list[c.AnyChunk]:
    """A delta that says `text`: the one given, when it says so already."""
    if text == delta.payload.text:
        return [delta]
    if not text:
        return []
    if isinstance(delta, c.TextDelta):
        return [replace(delta, payload=p.TextDeltaPayload(delta.payload.id, text))]
    return [replace(delta, payload=p.ReasoningDeltaPayload(delta.payload.id, text))]


def kept(state: dict[str, object], owner: object, make: Callable[[], Held]) -> TextParts:
    """What `owner` holds of a run's parts, in the state of its processor, which others of its id share.

    No JSON can hold it, so what is held back is never stored.
    """
    key = f"text parts {id(owner)}"
    parts = state.get(key)
    if parts is None:
        parts = state[key] = TextParts(make)
    return cast("TextParts", parts)
