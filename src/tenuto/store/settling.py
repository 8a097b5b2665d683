"""A write under way that a cancellation does not reach: whoever waits for it learns what came of it, whatever happens.

Invariant: a wait ends when the write is settled, not before. A cancellation that arrives meanwhile comes out then, in
place of the answer, and the answer is still there to be looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class Settled(asyncio.Future[_T]):
    """A future that cannot be cancelled; the task that waits for it raises its cancellation once this is done."""

    def cancel(self, msg: Any | None = None) -> bool:  # noqa: ARG002 - asyncio's signature
        """Refuse: the task keeps waiting, and remembers that it was cancelled."""
        return False


class Settling(Generic[_T]):
    """Begins when it is awaited, once. A task around a coroutine would do the same, for two more turns of the loop.

    Args:
        begin: Begins the write; raises what it is refused with before that.
    """

    __slots__ = ("_begin", "_future")

    def __init__(self, begin: Callable[[], Settled[_T]]) -> None:
        self._begin = begin
        self._future: Settled[_T] | None = None

    def __await__(self) -> Generator[Any, Any, _T]:
        if self._future is None:
            self._future = self._begin()
        return self._future.__await__()

    def outcome(self) -> _T:
        """The answer once it has been awaited; raises what the write was refused with."""
        assert self._future is not None  # noqa: S101 - who asks has waited
        return self._future.result()
