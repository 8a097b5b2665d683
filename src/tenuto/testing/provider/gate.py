"""Lets a test in any thread or event loop wait for the provider, and hold it back.

Invariant: a state change followed by `Watch.notify` is seen by every waiter, whichever thread or loop it waits in.
"""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

__all__ = ["Gate", "Watch"]


class Watch:
    """Wakes waiters of several threads and event loops when shared state may have changed."""

    def __init__(self) -> None:
        """Start with nobody waiting."""
        self._changed = threading.Condition()
        self._listeners: list[Callable[[], object]] = []

    @contextmanager
    def changing(self) -> Generator[None]:
        """Hold the lock for a change, then ask every waiter to look again."""
        with self._changed:
            yield
        self.notify()

    def notify(self) -> None:
        """Ask every waiter to look again. Call it after the change."""
        with self._changed:
            self._changed.notify_all()
            listeners, self._listeners = self._listeners, []
        for wake in listeners:
            with suppress(RuntimeError):  # the waiter's loop is closed: nobody waits any more
                wake()

    async def wait(self, ready: Callable[[], bool], timeout: float | None, what: str) -> None:
        """Wait until `ready()` (called under the lock, so it may also take something) is true.

        Args:
            ready: The condition.
            timeout: Seconds of the running loop's time; None waits for ever.
            what: Names the wait in the error.

        Raises:
            TimeoutError: `timeout` passed first.
        """
        try:
            async with asyncio.timeout(timeout):
                while (change := self._unless(ready)) is not None:
                    await change
        except TimeoutError:
            raise TimeoutError(_late(timeout, what)) from None

    def wait_sync(self, ready: Callable[[], bool], timeout: float | None, what: str) -> None:
        """Do the same as `wait`, blocking this thread; never call it on a loop that the awaited client needs.

        Raises:
            TimeoutError: `timeout` seconds passed first.
        """
        with self._changed:
            if not self._changed.wait_for(ready, timeout):
                raise TimeoutError(_late(timeout, what))

    def _unless(self, ready: Callable[[], bool]) -> asyncio.Future[None] | None:
        with self._changed:
            if ready():
                return None
            loop = asyncio.get_running_loop()
            change: asyncio.Future[None] = loop.create_future()
            self._listeners.append(lambda: loop.call_soon_threadsafe(_resolve, change))
            return change


def _resolve(change: asyncio.Future[None]) -> None:
    if not change.done():
        change.set_result(None)


def _late(timeout: float | None, what: str) -> str:
    return f"waited {timeout} s for {what}"


class Gate:
    """Decides when the next event of a reply goes out: one permit lets one event pass.

    Every event needs a permit, also the ones for usage and `[DONE]`; the response's end goes with the last event.
    Threads and loops may share a gate. `passed` counts the events that went through.
    """

    def __init__(self, permits: int = 0) -> None:
        """Start with `permits` events allowed."""
        self._watch = Watch()
        self._permits = permits
        self._open = False
        self._waiting = 0
        self.passed: int = 0

    def release(self, count: int = 1) -> None:
        """Let `count` more events pass."""
        with self._watch.changing():
            self._permits += count

    def open(self) -> None:
        """Let everything pass from now on."""
        with self._watch.changing():
            self._open = True

    async def take(self) -> None:
        """Wait for a permit and use it (the provider's side)."""
        with self._watch.changing():
            self._waiting += 1
        taken = False

        def take() -> bool:
            nonlocal taken
            taken = self._may_pass()
            return taken

        try:
            await self._watch.wait(take, None, "a permit")
        finally:
            with self._watch.changing():
                self._waiting -= not taken

    async def wait_blocked(self, timeout: float = 5.0) -> None:
        """Wait until an event stands before the closed gate, so everything before it has been written.

        Raises:
            TimeoutError: That did not happen within `timeout` seconds.
        """
        await self._watch.wait(self._is_blocking, timeout, "an event at the gate")

    def wait_blocked_sync(self, timeout: float = 5.0) -> None:
        """Do the same as `wait_blocked`, blocking this thread.

        Raises:
            TimeoutError: That did not happen within `timeout` seconds.
        """
        self._watch.wait_sync(self._is_blocking, timeout, "an event at the gate")

    def _may_pass(self) -> bool:
        if not self._open:
            if self._permits == 0:
                return False
            self._permits -= 1
        self.passed += 1
        self._waiting -= 1
        return True

    def _is_blocking(self) -> bool:
        return self._waiting > 0 and self._permits == 0 and not self._open
