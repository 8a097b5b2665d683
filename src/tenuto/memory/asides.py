"""What goes on beside the runs on a memory's threads, so that whoever wants to can wait for it.

Invariant: it owns no task: the supervisor that started one does; here it is only known as long as it goes on.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast


class Asides:
    """The tasks of one memory."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def add(self, task: object) -> None:
        """Know of `task`, if it is one, until it has ended."""
        if isinstance(task, asyncio.Task):
            known = cast("asyncio.Task[Any]", task)
            self._tasks.add(known)
            known.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """Wait until none goes on in this event loop, but for the one that asks."""
        loop, mine = asyncio.get_running_loop(), asyncio.current_task()
        while tasks := [
            each for each in tuple(self._tasks) if each.get_loop() is loop and each is not mine and not each.done()
        ]:
            await asyncio.wait(tasks)
