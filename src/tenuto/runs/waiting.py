"""Readers that wait for the driver of a run, on its event loop or on another one in another thread.

Invariant: whoever waits is woken once, by the first `wake` after it began; one that gives up is forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable


class Waiters:
    """Those who wait for one thing. True when somebody does."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    async def wait(self, there: Callable[[], bool]) -> None:
        """Wait to be woken, unless what one waits for is `there` already."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        woken = False
        try:
            if not there():  # asked once the waiter is on the list: the driver may be in another thread
                await waiter
                woken = True  # and taken off the list
        finally:
            if not woken:
                with contextlib.suppress(ValueError):
                    self._waiting.remove(waiter)

    def wake(self) -> None:
        """Wake all, wherever their loops run."""
        here = _running_loop()
        while self._waiting:
            _let_go_on(self._waiting.popleft(), here)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _let_go_on(waiter: asyncio.Future[None], here: asyncio.AbstractEventLoop | None) -> None:
    """Wake a reader, wherever it is; one whose loop is gone is nobody's concern."""
    loop = waiter.get_loop()
    if loop is here:
        _set(waiter)
    else:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_set, waiter)


def _set(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
