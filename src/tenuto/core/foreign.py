"""Calling code of the user's from a run's own task.

Invariant: what a user's function raises never looks like the end of the task that calls it: a `CancelledError` means
that the task itself was cancelled, and nothing else.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

_PASS = (Exception, GeneratorExit, KeyboardInterrupt, SystemExit)


class Escaped(Exception):
    """A user's function raised what is no `Exception`; that is its `__cause__`."""


class Contained:
    """The block of `contained()`; it holds nothing, so one serves all, for it is entered on every call of a model."""

    __slots__ = ()

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None, /
    ) -> None:
        if error is None or isinstance(error, _PASS):
            return
        if not isinstance(error, asyncio.CancelledError):
            raise Escaped(f"{type(error).__name__}: {message_of(error)}") from error
        task = asyncio.current_task()
        if task is not None and not task.cancelling():
            raise Escaped("CancelledError: something it awaited was cancelled") from error


_CONTAINED = Contained()


def contained() -> Contained:
    """Let what would end the task out as an ordinary exception.

    Raises:
        Escaped: For a `CancelledError` that is not this task's (something the function awaited was cancelled), and
            for any other `BaseException`. The end of the process and the closing of the coroutine pass through.
    """
    return _CONTAINED


def message_of(error: BaseException) -> str:
    """The text of an exception; empty when asking for it raises."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an exception whose text raises is still an exception
        return ""
