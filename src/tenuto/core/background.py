"""Work that nobody waits for: tasks of one event loop, with one owner.

Invariant: no task outlives its loop's owner, and none is lost to the garbage collector; when the loop ends in order
they get a moment to finish and are cancelled then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any
from weakref import WeakKeyDictionary

GRACE = 5.0
"""Seconds that work in the background has to finish when its loop ends."""

_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Background] = WeakKeyDictionary()


class Background:
    """The tasks of one event loop; see `current`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    @classmethod
    def current(cls) -> Background:
        """That of the running event loop."""
        loop = asyncio.get_running_loop()
        known = _of_loop.get(loop)
        if known is None:
            known = _of_loop[loop] = cls()
        return known

    def own(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work`, which handles its own failures, as a task."""
        task = asyncio.get_running_loop().create_task(work, name=f"tenuto {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def aclose(self) -> None:
        """Let everything end, or end it after `GRACE` seconds."""
        if self._tasks:
            await asyncio.wait([*self._tasks], timeout=GRACE)
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
