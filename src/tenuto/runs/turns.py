"""Turns on a thread: whose is next in this process, and the claim of whoever that is.

Invariant: in one process the turns of a thread are taken in the order in which they were asked for, on whatever event
loop, but for a run whose pending call was decided, which goes ahead of turns that have not begun. Between processes
the store's claim decides; a turn that has waited for another process stands back for such a run, too. A run that a dead
process left there is recovered before anything new begins.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from weakref import WeakKeyDictionary, WeakValueDictionary

from msgspec import Struct

from tenuto.core.clock import Clock
from tenuto.core.errors import RunError
from tenuto.store.holding import around, check_free_for_me
from tenuto.store.ports import ANYONE, Fence, RunRow, RunStore, Scope

NESTED_WAIT_SECONDS = 30.0
"""How long a run that a tool has started waits for somebody else's thread."""

STAND_BACK_SECONDS = 2.0
"""How long a turn leaves a free thread to a run whose decision is stored: whoever stored it is about to take it."""

RETRY_SECONDS = 0.02
RECOVERIES = 3
"""How often a turn has what a dead process left recovered, before it gives up."""

Settle = Callable[[RunRow], Awaitable[bool]]
"""Has a run recovered until it has ended or waits; False when this process does not have its agent."""


class Line:
    """Those of one process who want one thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._ahead: deque[asyncio.Future[None]] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self, *, ahead: bool = False) -> None:
        """Wait for one's turn; cancelled, one has none."""
        queue = self._ahead if ahead else self._waiting
        with self._lock:
            if not self._taken:
                self._taken = True
                return
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            queue.append(place)
        try:
            await place
        except BaseException:
            with self._lock:
                waits = place in queue
                if waits:
                    queue.remove(place)
            if not waits:  # its turn had come in the same moment
                self.give()
            raise

    def give(self) -> None:
        """Let the next one have it; from any thread."""
        with self._lock:
            while self._ahead or self._waiting:
                place = (self._ahead or self._waiting).popleft()
                with suppress(RuntimeError):  # its loop is closed
                    place.get_loop().call_soon_threadsafe(_set, place)
                    return
            self._taken = False


def _set(place: asyncio.Future[None]) -> None:
    if not place.done():
        place.set_result(None)


class Lines:
    """The lines of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: WeakKeyDictionary[RunStore, WeakValueDictionary[Scope, Line]] = WeakKeyDictionary()

    def of(self, store: RunStore, scope: Scope) -> Line:
        """The line of a thread; there while somebody stands in it."""
        with self._lock:
            lines = self._lines.setdefault(store, WeakValueDictionary())
            line = lines.get(scope)
            if line is None:
                line = lines[scope] = Line()
            return line


class Wish(Struct, frozen=True):
    """A new run that wants a thread.

    Attributes:
        owner: Who would drive it.
        row: What is added to the store with the claim.
        settle: Has recovered what a dead process left on the thread.
    """

    store: RunStore
    owner: str
    row: RunRow
    settle: Settle | None
    clock: Clock


async def take_turn(lines: Lines, wish: Wish) -> tuple[Fence, Line]:
    """Wait for the thread of a new run and claim it; the run is then in the store.

    Raises:
        RunError: `THREAD_HELD_BY_ANCESTOR`; `THREAD_WAIT_TOO_LONG`; `THREAD_RUN_UNFINISHED`.
        StoreError: See `RunStore.claim`.
    """
    scope = wish.row.scope
    check_free_for_me(scope)
    if not around.nested():
        return await _taken(lines, wish)
    try:
        async with asyncio.timeout(NESTED_WAIT_SECONDS):
            return await _taken(lines, wish)
    except TimeoutError as error:
        message = (
            f"Thread {scope.id!r} was held by another run for {NESTED_WAIT_SECONDS:.0f} s; a run that a tool has "
            "started waits no longer."
        )
        raise RunError(message, id="THREAD_WAIT_TOO_LONG", category="USER") from error


async def take_line(lines: Lines, store: RunStore, scope: Scope) -> Line | None:
    """The turn of a run that goes on, ahead of those that have not begun; None for one that holds no thread.

    Raises:
        RunError: `THREAD_HELD_BY_ANCESTOR`.
    """
    if scope.kind != "thread":
        return None
    check_free_for_me(scope)
    line = lines.of(store, scope)
    await line.take(ahead=True)
    return line


async def _taken(lines: Lines, wish: Wish) -> tuple[Fence, Line]:
    line = lines.of(wish.store, wish.row.scope)
    await line.take()
    try:
        return await _claimed(wish), line
    except BaseException:
        line.give()
        raise


async def _claimed(wish: Wish) -> Fence:
    store, scope = wish.store, wish.row.scope
    recoveries = 0
    while True:
        fence = await store.claim(scope, wish.owner, run=wish.row)
        if not isinstance(fence, Fence):
            wait = max(fence.expires_at - wish.clock.now(), RETRY_SECONDS)
            await store.freed(scope, wait, owner=wish.owner)
            await _stand_back(store, scope, wish.clock)
        elif fence.unfinished is None:
            return fence
        else:
            await store.release(fence)
            recoveries += 1
            await _recover(wish, fence.unfinished, last=recoveries > RECOVERIES)


async def _recover(wish: Wish, run_id: str, *, last: bool) -> None:
    left = await wish.store.run(run_id, resource=ANYONE)
    if left is None:
        return
    if last:
        message = (
            f"Thread {left.scope.id!r} has a run that its process left behind, {run_id!r} of agent {left.agent_id!r}, "
            "and nobody here can finish it. Recover it with an app that has this agent, or abort it."
        )
        raise RunError(message, id="THREAD_RUN_UNFINISHED", category="USER")
    if wish.settle is None or not await wish.settle(left):
        await wish.clock.sleep(1.0)  # whoever has its agent may be about to


async def _stand_back(store: RunStore, scope: Scope, clock: Clock) -> None:
    """Let a run go first whose decision is stored and not taken; not for ever: whoever stored it may be dead."""
    until = clock.monotonic() + STAND_BACK_SECONDS
    while any(row.scope == scope and row.status == "suspended" for row in await store.recoverable()):
        if clock.monotonic() >= until:
            return
        await clock.sleep(RETRY_SECONDS)
