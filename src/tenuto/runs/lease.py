"""Keeps the leases of durable runs and of runs on threads alive, and looks for aborts posted to them, from a thread.

Invariant: renewal does not depend on the event loop that drives the run: a loop that is stalled for a while keeps its
lease, one that is stalled for longer than `STALL_LIMIT` loses it, and a holder whom somebody replaced is told.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol
from weakref import WeakKeyDictionary

from tenuto.core.errors import StoreError
from tenuto.store.ports import LEASE_SECONDS, AbortRequest, Fence, RunStore

RENEW_SECONDS = LEASE_SECONDS / 3
"""How often a lease is renewed."""

STALL_WARNING = 1.0
"""Seconds without a turn of the loop after which a warning is logged."""

STALL_LIMIT = 120.0
"""Seconds without a turn of the loop after which its leases are given up."""

_TICK = 0.5
_log = logging.getLogger("tenuto")


class Held:
    """One lease that is kept alive."""

    def __init__(
        self,
        fence: Fence,
        run_id: str,
        loop: asyncio.AbstractEventLoop,
        lost: Callable[[], None],
        abort: Callable[[], None],
    ) -> None:
        self.fence: Fence = fence
        self.run_id: str = run_id
        self.loop: asyncio.AbstractEventLoop = loop
        self.lost: Callable[[], None] = lost
        self.abort: Callable[[], None] = abort
        self.beat: float = time.monotonic()
        self.renewed: float = self.beat
        self.warned: bool = False


class Renewer(Protocol):
    """Keeps leases alive."""

    def hold(self, fence: Fence, run_id: str, lost: Callable[[], None], abort: Callable[[], None]) -> Held:
        """Renew `fence` until it is dropped.

        Args:
            fence: Of the driver that calls.
            run_id: What it drives.
            lost: Called once, on the running loop, when somebody else has the scope; a call that was on its way when
                the lease was dropped still comes.
            abort: Called on the running loop when an abort of the run was posted, in whatever process.
        """
        ...

    def drop(self, held: Held) -> None:
        """Renew it no longer."""
        ...


class LeaseKeeper:
    """The renewer of one store in this process; its thread lives while there is a lease to keep."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._held: set[Held] = set()
        self._thread: threading.Thread | None = None
        self._changed = threading.Event()

    def hold(self, fence: Fence, run_id: str, lost: Callable[[], None], abort: Callable[[], None]) -> Held:
        """See `Renewer.hold`."""
        held = Held(fence, run_id, asyncio.get_running_loop(), lost, abort)
        with self._lock:
            self._held.add(held)
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name="tenuto leases", daemon=True)
                self._thread.start()
        return held

    def drop(self, held: Held) -> None:
        """See `Renewer.drop`."""
        with self._lock:
            self._held.discard(held)
        self._changed.set()

    def _main(self) -> None:
        loop = asyncio.new_event_loop()
        try:
            while held := self._next():
                for each in held:
                    loop.run_until_complete(self._tend(each))
        finally:
            loop.close()

    def _next(self) -> list[Held]:
        """After a tick, the leases there are; empty ends the thread."""
        self._changed.wait(_TICK)
        self._changed.clear()
        with self._lock:
            if not self._held:
                self._thread = None
            return list(self._held)

    async def _tend(self, held: Held) -> None:
        now = time.monotonic()
        stalled = now - held.beat
        if not _nudge(held) or stalled > STALL_LIMIT:
            self.drop(held)
            return
        if stalled > STALL_WARNING + _TICK and not held.warned:
            held.warned = True
            _log.warning("The event loop has been stalled for %.1f s; find the blocking call.", stalled)
        if now - held.renewed >= RENEW_SECONDS:
            await self._renew(held, now)
        await self._look_for_abort(held)

    async def _look_for_abort(self, held: Held) -> None:
        """A driver looks at its own boundaries; a long model call has none."""
        try:
            posts = await self._store.posts(held.run_id)
        except StoreError:
            return  # renewing reports it
        if any(isinstance(post, AbortRequest) for post in posts):
            _tell(held, held.abort)

    async def _renew(self, held: Held, now: float) -> None:
        try:
            kept = await self._store.renew(held.fence)
        except StoreError:
            _log.exception("Renewing the lease of %s failed; it is tried again.", held.fence.scope.id)
            return
        held.renewed = now
        if not kept:
            self.drop(held)
            _tell(held, held.lost)


def _nudge(held: Held) -> bool:
    """Ask the loop for a sign of life; False when it is closed."""

    def alive() -> None:
        held.beat = time.monotonic()
        held.warned = False

    return _tell(held, alive)


def _tell(held: Held, what: Callable[[], None]) -> bool:
    """Have `what` called on the loop; False when that is closed."""
    try:
        held.loop.call_soon_threadsafe(what)
    except RuntimeError:
        return False
    return True


_keepers: WeakKeyDictionary[RunStore, LeaseKeeper] = WeakKeyDictionary()


def keeper_of(store: RunStore) -> LeaseKeeper:
    """The process's renewer of `store`."""
    keeper = _keepers.get(store)
    if keeper is None:
        keeper = _keepers[store] = LeaseKeeper(store)
    return keeper
