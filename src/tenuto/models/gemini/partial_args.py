"""Arguments that come in pieces, each with the path of the value that it sets or goes on with.

Invariant: pieces of one text are joined in order; a path that cannot be read changes nothing.

Source: Vertex AI guide "Streaming function call arguments" (`partialArgs`, `jsonPath` of RFC 9535).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, cast

import msgspec

from tenuto.models.assemble import ToolDelta

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_ESCAPE = re.compile(r"\\(.)")
_MAX_INDEX = 10_000
Step = str | int


class PartialCall:
    """One call under construction."""

    def __init__(self, delta: ToolDelta) -> None:
        self._delta = delta
        self._args: dict[str, Any] = {}
        self._going_on: str | None = None

    def take(self, pieces: list[Any]) -> None:
        """Add the pieces of one event."""
        for piece in pieces:
            if isinstance(piece, Mapping):
                self._take(cast("Mapping[str, Any]", piece))

    @property
    def complete(self) -> bool:
        """Whether no text is waiting for more of it."""
        return self._going_on is None

    def whole(self) -> ToolDelta:
        """The call with all that came."""
        return msgspec.structs.replace(self._delta, arguments=msgspec.json.encode(self._args).decode())

    def _take(self, piece: Mapping[str, Any]) -> None:
        path = piece.get("jsonPath")
        steps = steps_of(path) if isinstance(path, str) else None
        if not steps:
            return
        value = next(
            (piece[key] for key in ("stringValue", "numberValue", "boolValue") if piece.get(key) is not None), None
        )
        _put(self._args, steps, value, joined=path == self._going_on)
        self._going_on = path if piece.get("willContinue") else None


def steps_of(path: str) -> list[Step] | None:
    """`$.a[0]['b c']` as `["a", 0, "b c"]`; None when it is no such path."""
    steps: list[Step] = []
    at = 1
    while path.startswith("$") and at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return None
        name, index, single, double = found.groups()
        quoted = single if single is not None else double
        steps.append(int(index) if index else name or _ESCAPE.sub(r"\1", quoted or ""))
        at = found.end()
    return steps or None


def _put(root: dict[str, Any], steps: list[Step], value: Any, *, joined: bool) -> None:
    """Set the value at the path, or add it to the text that stands there."""
    place: Any = root
    for step, next_ in pairwise(steps):
        place = _reach(place, step, [] if isinstance(next_, int) else {})
    last = steps[-1]
    before = _reach(place, last, None) if joined else None
    made = before + value if isinstance(before, str) and isinstance(value, str) else value
    if _reach(place, last, made) is not made and _fits(place, last):
        place[last] = made


def _reach(place: Any, step: Step, fresh: Any) -> Any:
    """What stands at a step; `fresh` is put there when nothing does."""
    if not _fits(place, step):
        return fresh
    if isinstance(step, int):
        while len(place) <= step:
            place.append(None)
        if place[step] is None:
            place[step] = fresh
        return place[step]
    return place.setdefault(step, fresh)


def _fits(place: Any, step: Step) -> bool:
    return isinstance(place, list) and step <= _MAX_INDEX if isinstance(step, int) else isinstance(place, dict)
