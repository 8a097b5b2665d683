"""Work that nobody waits for: tasks of one event loop, with one owner.

Invariant: no task outlives its loop's owner, and none is lost to the garbage collector; when the loop ends in order
they get a while to finish and are ended then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any
from weakref import WeakKeyDictionary

AT_ONCE = 10
"""Pieces of work that go on at the same time; the others wait for their turn."""

GRACE_SECONDS = 10.0
"""How long an orderly shutdown waits for them."""

_log = logging.getLogger("tenuto")


class Background:
    """The work of one event loop; see `current`."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()
        self._slots = asyncio.Semaphore(AT_ONCE)

    @classmethod
    def current(cls) -> Background:
        """That of the running event loop."""
        loop = asyncio.get_running_loop()
        known = _of_loop.get(loop)
        if known is None:
            known = _of_loop[loop] = cls()
        return known

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[Any]:
        """Do something that handles its own failures: a few at a time, and to its end in an orderly shutdown."""

        async def in_turn() -> None:
            async with self._slots:
                await work()

        task = asyncio.get_running_loop().create_task(in_turn(), name=f"tenuto {name}")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def aclose(self) -> None:
        """Wait a while (`GRACE_SECONDS`) for what goes on, then end it."""
        if not self.tasks:
            return
        _, late = await asyncio.wait(self.tasks, timeout=GRACE_SECONDS)
        for task in late:
            _log.warning("%s were not done after %g s and are given up.", task.get_name(), GRACE_SECONDS)
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Background] = WeakKeyDictionary()
