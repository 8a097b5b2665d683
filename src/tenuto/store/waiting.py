"""Who waits for a scope to become free, on whatever event loop and thread.

Invariant: a waiter is told at most once, on its own loop, and leaves nothing behind when it is cancelled. Nobody is
forgotten: a waiter is entered before it looks whether the scope is free, so what frees it after that look tells it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Mapping

from tenuto.store.scopes import Scope


class Waiters:
    """Those of one store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Scope, dict[asyncio.Future[bool], asyncio.AbstractEventLoop]] = {}

    async def wait(self, scope: Scope, timeout: float | None, is_free: Callable[[], bool]) -> bool:
        """Until `tell(scope)`; at once when it is free. False: `timeout` seconds have passed."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        with self._lock:
            self._waiting.setdefault(scope, {})[future] = loop
        try:
            if is_free():
                return True
            await asyncio.wait([future], timeout=timeout)
            return future.done()
        finally:
            self._leave(scope, future)

    def tell(self, scope: Scope, only: Collection[asyncio.Future[bool]] | None = None) -> None:
        """Wake all that wait for the scope, or `only` these of them.

        Who has looked at the scope tells only those that waited before it looked: the others have looked since.
        """
        if not self._waiting:
            return
        with self._lock:
            told = self._waiting.pop(scope, {})
            left = {} if only is None else {future: loop for future, loop in told.items() if future not in only}
            if left:
                self._waiting[scope] = left
        for future, loop in told.items():
            if future in left:
                continue
            try:
                loop.call_soon_threadsafe(_settle, future)
            except RuntimeError:  # the loop is closed: nobody waits any more
                continue

    def tell_all(self) -> None:
        """Wake everybody: the store was closed."""
        for scope in self.waiting():
            self.tell(scope)

    def waiting(self) -> Mapping[Scope, Collection[asyncio.Future[bool]]]:
        """What is waited for now, and by whom."""
        with self._lock:
            return {scope: frozenset(futures) for scope, futures in self._waiting.items()}

    def _leave(self, scope: Scope, future: asyncio.Future[bool]) -> None:
        with self._lock:
            mine = self._waiting.get(scope)
            if mine is not None:
                mine.pop(future, None)
                if not mine:
                    del self._waiting[scope]


def _settle(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(True)
