"""Threads for sync tools: one for each running call, kept a while for the next.

Invariant: no call waits for another one's thread, and none keeps the process alive: there is no limit (how many calls
run at once is the loop's to say) and all are daemons.

Source: the thread cache of trio, `trio/_core/_thread_cache.py`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

_IDLE_SECONDS = 10.0

Deliver = Callable[[], None]
Job = Callable[[], Deliver]
"""Does the work, raises nothing, and returns what hands over its result."""

_idle: list[_Thread] = []


def run_in_thread(job: Job) -> None:
    """Start `job` in a thread of its own and return at once.

    Raises:
        RuntimeError: The system has no thread left; `job` did not run.
    """
    try:
        thread = _idle.pop()
    except IndexError:
        thread = _Thread()
    thread.take(job)


class _Thread:
    """A daemon that runs one job at a time and ends after some idle seconds."""

    __slots__ = ("_job", "_wake")

    def __init__(self) -> None:
        self._job: Job | None = None
        self._wake = threading.Lock()
        self._wake.acquire()
        threading.Thread(target=self._serve, name="tenuto tool", daemon=True).start()

    def take(self, job: Job) -> None:
        self._job = job
        self._wake.release()

    def _serve(self) -> None:
        while True:
            if self._wake.acquire(timeout=_IDLE_SECONDS):
                self._work()
                continue
            try:
                _idle.remove(self)
            except ValueError:  # taken at the last moment: a job is on its way
                continue
            return

    def _work(self) -> None:
        job, self._job = self._job, None
        if job is None:
            return
        deliver = job()
        _idle.append(self)  # before the result is out: the next call finds this thread
        del job
        deliver()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads do not cross a fork
