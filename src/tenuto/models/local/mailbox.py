"""From the engine's thread to the event loop: what the engine says, in batches, as it arrives.

Invariant: the loop is woken once per batch, never once per chunk that it has not read yet; a closed loop cancels.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any


class Mailbox:
    """A `Sink` that is filled by the engine's thread and emptied by the event loop."""

    def __init__(self) -> None:
        """Wake the running loop."""
        self.cancelled: bool = False
        self.ended: bool = False
        self.error: BaseException | None = None
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()
        self._lock = threading.Lock()
        self._chunks: list[Mapping[str, Any]] = []
        self._woken = False

    def put(self, chunk: Mapping[str, Any]) -> None:
        """See `Sink.put`."""
        with self._lock:
            self._chunks.append(chunk)
        self._wake()

    def end(self, error: BaseException | None) -> None:
        """See `Sink.end`."""
        with self._lock:
            self.error, self.ended = error, True
        self._wake()

    def cancel(self) -> None:
        """Stop the engine's work, and wake the reader. From any thread."""
        self.cancelled = True
        self._wake()

    async def take(self) -> Sequence[Mapping[str, Any]]:
        """Wait for something new and take all of it; empty at the end."""
        await self._arrived.wait()
        with self._lock:
            chunks, self._chunks = self._chunks, []
            self._woken = False
            if not self.ended:
                self._arrived.clear()
        return chunks

    def _wake(self) -> None:
        with self._lock:
            if self._woken:
                return
            self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._arrived.set)
        except RuntimeError:  # the loop is closed: nobody will read this
            self.cancelled = True
