"""`AbortController` and `AbortSignal`: how a caller stops a run, from any thread.

Invariant: a signal goes from not aborted to aborted once, and each listener hears of it exactly once, also one
that was added afterwards. There is no lock, so `abort()` may be called from a signal handler, a destructor or a
listener: a listener is stored before the signal is looked at, an abort is stored before listeners are looked for, and
whoever takes a listener out of the table calls it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

Listener = Callable[[], None]

_log = logging.getLogger("tenuto")


class AbortSignal:
    """The read side: passed to runs as `abort_signal=` and to tools as `ctx.abort_signal`.

    Made without a controller it is never aborted.
    """

    __slots__ = ("_switch",)

    def __init__(self, switch: _Switch | None = None) -> None:
        self._switch = _Switch() if switch is None else switch

    @property
    def aborted(self) -> bool:
        """Whether `abort()` was called."""
        return bool(self._switch.reasons)

    @property
    def reason(self) -> object:
        """What was given to the first `abort()`; None before it and when nothing was given."""
        return self._switch.reasons[0] if self._switch.reasons else None

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` once on abort (at once when already aborted), in the aborting thread.

        Each call adds one listener, also of the same function. What a listener raises is logged; the others are
        called all the same.

        Returns:
            A function that takes this listener off again; calling it twice is harmless.
        """
        key = object()
        self._switch.listeners[key] = listener
        if self.aborted:
            self._switch.call(key)

        def forget() -> None:
            self._switch.listeners.pop(key, None)

        return forget

    async def wait(self) -> None:
        """Wait until aborted; cancelling the wait leaves the signal as it is."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        forget = self.listen(lambda: _wake(loop, woken))
        try:
            await woken.wait()
        finally:
            forget()


class AbortController:
    """The write side: keep it, hand out `.signal`, call `.abort()`."""

    __slots__ = ("_switch", "signal")

    def __init__(self) -> None:
        self._switch = _Switch()
        self.signal: AbortSignal = AbortSignal(self._switch)

    def abort(self, reason: object = None) -> None:
        """Abort every run and tool that holds the signal; a second call does nothing. Thread-safe."""
        self._switch.fire(reason)


class _Switch:
    """What the two sides share. Each access to the list and the dict is one atomic operation."""

    __slots__ = ("listeners", "reasons")

    def __init__(self) -> None:
        self.reasons: list[object] = []
        self.listeners: dict[object, Listener] = {}

    def fire(self, reason: object) -> None:
        if not self.reasons:
            self.reasons.append(reason)  # two at once: the first in the list counts
        for key in list(self.listeners):
            self.call(key)

    def call(self, key: object) -> None:
        listener = self.listeners.pop(key, None)
        if listener is None:
            return
        try:
            listener()
        except Exception:  # noqa: BLE001 - a user's function
            _log.exception("A listener of an abort signal failed; the others are called all the same.")


def _wake(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(woken.set)
    except RuntimeError:
        if not loop.is_closed():  # a closed loop has nobody left to wake
            raise
