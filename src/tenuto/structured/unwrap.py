"""Takes the wrapper off an answer while it streams: `{"elements": [...]}` becomes `[...]`.

Invariant: what goes out is the wrapped value's own text, each character once and in order; a text that is not wrapped
goes out as it is. At most the wrapper itself is held back.
"""

from __future__ import annotations

import re

from tenuto.structured.transport import Key

_SPACE = re.compile(r"\s+")
_TAIL = re.compile(r"\s*\}?\s*\Z")


class Unwrapper:
    """For one text part."""

    __slots__ = ("_head", "_held", "_state", "_target")

    def __init__(self, key: Key) -> None:
        self._head = re.compile(rf'\s*\{{\s*"{key}"\s*:\s*')
        self._target = f'{{"{key}":'
        self._held = ""
        self._state: str = "head"

    def feed(self, text: str) -> str:
        """What can go out of it now."""
        if self._state == "as it is":
            return text
        self._held += text
        if self._state == "head" and not self._unwrapped():
            return ""
        return self._released()

    def _unwrapped(self) -> bool:
        found = self._head.match(self._held)
        if found is not None and found.end() < len(self._held):
            self._held, self._state = self._held[found.end() :], "inside"
            return True
        if self._target.startswith(_SPACE.sub("", self._held)):
            return False
        self._state = "as it is"
        return True

    def _released(self) -> str:
        if self._state == "as it is":
            out, self._held = self._held, ""
            return out
        tail = _TAIL.search(self._held)
        cut = len(self._held) if tail is None else tail.start()
        out, self._held = self._held[:cut], self._held[cut:]
        return out

    def end(self) -> str:
        """What is left at the end: nothing of the wrapper."""
        left, self._held = self._held, ""
        return "" if self._state == "inside" else left
