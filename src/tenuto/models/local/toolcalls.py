"""Finding the calls in what a model writes, leniently.

Invariant: text goes out as soon as it cannot be part of a call any more; what looks like a call but is not one goes
out as text, unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, cast

from msgspec import Struct

OPEN, CLOSE = "<tool_call>", "</tool_call>"

_NAME = re.compile(r'"name"\s*:\s*"([^"]+)"')
_ARGUMENTS = ("arguments", "parameters", "args")
_DECODER = json.JSONDecoder()


class Call(Struct, frozen=True):
    """A call as the model wrote it; `args` is None when that is not a JSON object, and `text` is what it wrote."""

    name: str
    args: Any
    text: str


def opening(name: str) -> str:
    """How the answer begins when the call of a tool is forced: only its arguments are left to write."""
    return f'{OPEN}\n{{"name": {json.dumps(name)}, "arguments": '


CHOOSING = f'{OPEN}\n{{"name": '
"""How the answer begins when some call is forced: the name is left to choose."""


class CallScanner:
    """Splits a stream of text into text and calls."""

    def __init__(self, names: Collection[str]) -> None:
        """Look for calls of the tools `names`; between tags, calls of any name are calls."""
        self._names = names
        self._held = ""
        self._said = False
        self._inside = False
        self._after = False

    @property
    def inside(self) -> bool:
        """Whether a call was opened and not closed."""
        return self._inside

    def feed(self, text: str) -> list[str | Call]:
        """Take more text and return what is certain by now."""
        self._held += text
        found: list[str | Call] = []
        while self._step(found):
            pass
        return found

    def end(self) -> list[str | Call]:
        """Return what was held back."""
        held, self._held = self._held, ""
        if not held or self._after:
            return []
        calls = list(_calls(held, None if self._inside else self._names))
        return [*calls] if calls else [f"{OPEN}{held}" if self._inside else held]

    def _step(self, found: list[str | Call]) -> bool:
        """Move on by one border between text and call; False when more text is needed."""
        if self._inside:
            body, closed, rest = self._held.partition(CLOSE)
            if not closed:
                return False
            found += list(_calls(body, None)) or [f"{OPEN}{body}{CLOSE}"]
            self._held, self._inside, self._after = rest, False, True
            return True
        if self._after:  # the line feed between two calls, or after them, is no answer
            self._held = self._held.lstrip()
            self._after = not self._held
        if not self._said and self._held.lstrip()[:1] in {"", "{", "[", "`"}:
            return False  # an answer that begins like JSON may be a call without its tags
        before, opened, rest = self._held.partition(OPEN)
        if not opened:
            before, rest = _safe(self._held)
        self._said = True
        if before:
            found.append(before)
        self._held, self._inside = rest, bool(opened)
        return bool(opened)


def _safe(text: str) -> tuple[str, str]:
    """What cannot be the beginning of a tag, and the end that can."""
    start = text.rfind("<")
    if start >= 0 and OPEN.startswith(text[start:]):
        return text[:start], text[start:]
    return text, ""


def _calls(text: str, names: Collection[str] | None) -> Iterator[Call]:
    """The calls in `text`: JSON objects with a name, one of `names` when those are given, and arguments."""
    found, at = False, text.find("{")
    while at >= 0:
        try:
            value, end = _DECODER.raw_decode(text, at)
        except ValueError:
            end = at + 1
        else:
            if (call := _call(value, names)) is not None:
                found = True
                yield call
        at = text.find("{", end)
    if not found and names is None and (named := _NAME.search(text)):
        yield Call(named[1], None, text.strip())


def _call(value: Any, names: Collection[str] | None) -> Call | None:
    if not isinstance(value, dict):
        return None
    written = cast("dict[str, Any]", value)
    name = written.get("name")
    given = [written[key] for key in _ARGUMENTS if key in written]
    args: Any = given[0] if given else None if names is not None else cast("dict[str, Any]", {})
    if not isinstance(name, str) or args is None or (names is not None and name not in names):
        return None
    if isinstance(args, str):
        args, text = _loaded(args), args
    else:
        text = json.dumps(args, ensure_ascii=False)
    return Call(name, args if isinstance(args, dict) else None, text)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
