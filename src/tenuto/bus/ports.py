"""The `PubSub` port: carries wake-ups from whoever stored something to whoever waits for it.

Invariant: a message may be lost, doubled or late; that changes latency only, for every reader looks into the store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Wake = Callable[[int], None]


class PubSub(Protocol):
    """Thread-safe and bound to no event loop."""

    def publish(self, topic: str, index: int) -> None:
        """Tell the subscribers of `topic` that the log behind it reaches `index`; never waits, never raises."""
        ...

    def subscribe(self, topic: str, wake: Wake) -> Callable[[], None]:
        """Call `wake` for every message of `topic`, in any thread; the function returned ends it."""
        ...
