"""Finds what rules describe in text that comes in pieces, and puts something else in its place.

Invariant: what is given out, joined, is the same however the text was cut, and it never holds a piece of what is
replaced: text is held back as long as a match that is growing, or has not been told from its beginning, may reach
into it. Each character is looked at a bounded number of times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from tenuto.builtin_processors.rules import RegexRule

_BEHIND = 128
"""Characters of what was given out that patterns can still look back at."""


class Found(Struct, frozen=True):
    """A match.

    Attributes:
        index: Of its first character in the whole text.
    """

    rule: RegexRule
    text: str
    index: int


Replace = Callable[[Found], str]


class Scan:
    """One text; `feed` it and `close` it, and what they return is the text to show.

    Attributes:
        found: All matches so far, in order.
    """

    def __init__(self, rules: Sequence[RegexRule], replace: Replace) -> None:
        self.found: list[Found] = []
        self._finders = [_Finder(rule) for rule in rules]
        self._replace = replace
        classes = {rule.characters: rule.outside for rule in rules}
        self._endless = None in classes
        self._outside = [pattern for pattern in classes.values() if pattern is not None]
        self._bounds = [0] * len(self._outside)
        self._text = ""
        self._new: list[str] = []
        self._length = 0
        self._at = 0
        self._trimmed = 0
        self._patience = 0

    def feed(self, text: str) -> str:
        """What can be shown now that `text` has come."""
        if not self._finders:
            return text
        self._new.append(text)
        self._length += len(text)
        hold = self._undecided(text)
        if hold <= self._at or self._length < self._patience:
            return ""
        return self._scan(hold, last=False)

    def close(self) -> str:
        """What is left, now that the text is whole."""
        return self._scan(self._length, last=True)

    def _undecided(self, new: str) -> int:
        """Where a match that is not whole may begin, at the earliest."""
        if self._endless:
            return 0
        backwards = new[::-1]
        for place, outside in enumerate(self._outside):
            last = outside.search(backwards)
            if last is not None:
                self._bounds[place] = self._length - last.start()
        return min(self._bounds)

    def _scan(self, hold: int, *, last: bool) -> str:
        shown: list[str] = []
        self._text += "".join(self._new)
        self._new.clear()
        for finder in self._finders:
            finder.forget()
        while (match := self._next()) is not None and match.start < hold:
            if match.end == self._length and not last:  # it may go on
                hold = match.start
                self._patience = self._length + (self._length - match.start) // 2
                break
            shown.append(self._text[self._at : match.start])
            found = Found(match.rule, self._text[match.start : match.end], self._trimmed + match.start)
            self.found.append(found)
            shown.append(self._replace(found))
            self._at = match.end
        return self._given(max(hold, self._at), shown)

    def _next(self) -> _Match | None:
        """The first match, the longest of those that begin there."""
        best: _Match | None = None
        for finder in self._finders:
            match = finder.find(self._text, self._at)
            if match is not None and (best is None or (match.start, -match.end) < (best.start, -best.end)):
                best = match
        return best

    def _given(self, end: int, shown: list[str]) -> str:
        shown.append(self._text[self._at : end])
        self._at = end
        if self._at > 32 * _BEHIND:
            self._trim(self._at - _BEHIND)
        return "".join(shown)

    def _trim(self, cut: int) -> None:
        self._text = self._text[cut:]
        self._length -= cut
        self._trimmed += cut
        self._at -= cut
        self._patience = max(0, self._patience - cut)
        self._bounds = [max(0, bound - cut) for bound in self._bounds]


class _Match(Struct, frozen=True):
    rule: RegexRule
    start: int
    end: int


class _Finder:
    """The next match of one rule in a text that does not change until `forget`."""

    __slots__ = ("_known", "_match", "_pattern", "_rule")

    def __init__(self, rule: RegexRule) -> None:
        self._rule = rule
        self._pattern: re.Pattern[str] = rule.compiled
        self._known = False
        self._match: _Match | None = None

    def forget(self) -> None:
        self._known = False

    def find(self, text: str, at: int) -> _Match | None:
        if not self._known or (self._match is not None and self._match.start < at):
            self._match, self._known = self._search(text, at), True
        return self._match

    def _search(self, text: str, at: int) -> _Match | None:
        while at < len(text) and (found := self._pattern.search(text, at)) is not None:
            start, end = found.span()
            length = end - start
            if length and self._rule.length_of is not None:
                length = self._rule.length_of(found.group())
            if length:
                return _Match(self._rule, start, start + length)
            at = start + 1
        return None


def replaced(text: str, rules: Iterable[RegexRule], replace: Replace) -> tuple[str, list[Found]]:
    """A whole text with what was found in it replaced, and what that was."""
    scan = Scan(tuple(rules), replace)
    shown = scan.feed(text) + scan.close()
    return shown, scan.found
