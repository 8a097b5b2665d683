"""Where ids come from: injected, so that tests and replays can fix them.

Invariant: an id is never parsed and never orders anything.
"""

from __future__ import annotations

from collections import Counter
from os import urandom
from typing import Protocol


class IdSource(Protocol):
    """Makes ids that are unique in the store."""

    def new(self, kind: str) -> str:
        """Return a fresh id for `kind` (`run`, `msg`, `call`)."""
        ...


class RandomIds:
    """Random ids such as `run_5f0c…`; the default."""

    def new(self, kind: str) -> str:
        """Return `kind` and 128 random bits in hex."""
        return f"{kind}_{urandom(16).hex()}"  # as secrets does it, which costs 4 ms to import


class CountingIds:
    """Ids `run_1`, `msg_1`, `msg_2`: for tests that compare whole streams."""

    def __init__(self) -> None:
        self._next: Counter[str] = Counter()

    def new(self, kind: str) -> str:
        """Return `kind` and the next number of that kind."""
        self._next[kind] += 1
        return f"{kind}_{self._next[kind]}"
