"""The `PubSub` of one process.

Invariant: subscribers are called in the publisher's thread, outside the lock; one that fails hurts no other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tenuto.bus.ports import Wake

_log = logging.getLogger("tenuto")


class InProcessPubSub:
    """See `PubSub`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topics: dict[str, dict[object, Wake]] = {}

    def publish(self, topic: str, index: int) -> None:
        """See `PubSub.publish`."""
        if topic not in self._topics:
            return
        with self._lock:
            subscribers = list(self._topics.get(topic, {}).values())
        for wake in subscribers:
            try:
                wake(index)
            except Exception:  # noqa: BLE001 - a subscriber's fault is its own
                _log.exception("A subscriber of %s failed.", topic)

    def subscribe(self, topic: str, wake: Wake) -> Callable[[], None]:
        """See `PubSub.subscribe`."""
        key = object()
        with self._lock:
            self._topics.setdefault(topic, {})[key] = wake

        def unsubscribe() -> None:
            with self._lock:
                subscribers = self._topics.get(topic, {})
                subscribers.pop(key, None)
                if not subscribers:
                    self._topics.pop(topic, None)

        return unsubscribe
