"""A piece of work for the thread that writes, and the way of its answer back to who asked.

Invariant: an answer is given on the event loop of its caller, once, and by one wake-up for all answers of a loop. A
caller that is cancelled comes back when its work is settled, stored or not: nothing is written behind its back.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any

from tenuto.core.errors import StoreError
from tenuto.store.settling import Settled

Work = Callable[[sqlite3.Connection, float], Any]
"""What to do in a transaction, given the time it began."""

Quick = Callable[[sqlite3.Connection], Any]


class Job:
    """A piece of work and who waits for it.

    Attributes:
        work: None: only tell when the file is open.
        quick: The same in one statement, which needs neither transaction nor savepoint; it may answer None, and then
            has stored nothing.
        alone: It wants no transaction around it.
        future: What the caller waits for.
    """

    __slots__ = ("alone", "future", "loop", "quick", "work")

    def __init__(
        self, work: Work | None, loop: asyncio.AbstractEventLoop, *, quick: Quick | None = None, alone: bool = False
    ) -> None:
        self.work = work
        self.quick = quick
        self.alone = alone
        self.loop = loop
        self.future: Settled[Any] = Settled(loop=loop)

    def settle(self, value: Any, error: BaseException | None) -> None:
        """Take the answer; on the loop of who waits."""
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)


Answer = tuple[Job, Any, StoreError | None]


def deliver(answers: list[Answer]) -> None:
    """Answer, with one wake-up for each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for answer in answers:
        by_loop.setdefault(answer[0].loop, []).append(answer)
    for loop, mine in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, mine)
        except RuntimeError:  # the loop is closed: nobody waits any more
            continue


def _settle(answers: list[Answer]) -> None:
    for job, value, error in answers:
        job.settle(value, error)
