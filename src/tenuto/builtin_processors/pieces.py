"""A text in the pieces in which a model judges it, while it is still being written.

Invariant: where a text is divided depends on the text alone, never on the deltas it came in; a piece is shown after it
was judged, and what is behind it waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

Judge = Callable[[str, tuple[str, ...]], Awaitable[str]]
"""Takes a piece and the ones before it, and gives what is shown of it."""


class JudgedPieces:
    """One text; see `text_parts.Held`.

    Args:
        judge: Is asked about each piece.
        size: Of a piece, in characters; it ends behind a space where there is one.
        window: How many earlier pieces the judge is given.
    """

    def __init__(self, judge: Judge, size: int, window: int = 0) -> None:
        self._judge = judge
        self._size = size
        self._before: deque[str] = deque(maxlen=window)
        self._waiting: list[str] = []
        self._length = 0

    async def feed(self, text: str) -> str:
        """What can be shown now."""
        self._waiting.append(text)
        self._length += len(text)
        if self._length < self._size:
            return ""
        shown: list[str] = []
        rest = "".join(self._waiting)
        while len(rest) >= self._size:
            cut = max(rest.rfind(" ", 0, self._size), rest.rfind("\n", 0, self._size)) + 1 or self._size
            shown.append(await self._judged(rest[:cut]))
            rest = rest[cut:]
        self._waiting, self._length = [rest], len(rest)
        return "".join(shown)

    async def close(self) -> str:
        """What is left."""
        rest = "".join(self._waiting)
        self._waiting, self._length = [], 0
        return await self._judged(rest) if rest.strip() else rest

    async def _judged(self, piece: str) -> str:
        shown = await self._judge(piece, tuple(self._before))
        self._before.append(piece)
        return shown
