"""The portal: one background event loop per process that the sync twins run on.

Invariant: the loop lives as long as the process, whatever its tasks raise, so clients bound to it stay usable from
call to call; a fork starts a new one. Works where a loop is running already (Jupyter), since it never touches the
caller's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_WAITS_FOR_ITSELF = "A sync method was called on tenuto's own event loop and would wait for itself; await its twin."


class Portal:
    """Runs coroutines on its own loop, from any thread."""

    _lock = threading.Lock()
    _current: Portal | None = None

    def __init__(self) -> None:
        self.pid: int = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="tenuto portal", daemon=True)
        self._thread.start()

    @classmethod
    def current(cls) -> Portal:
        """The process's portal, started at the first call."""
        with cls._lock:
            portal = cls._current
            if portal is None or portal.pid != os.getpid():
                portal = cls._current = cls()
            return portal

    def _serve(self) -> None:
        while True:  # a task's KeyboardInterrupt or SystemExit ends `run_forever`; who waits for the task raises it
            with contextlib.suppress(KeyboardInterrupt, SystemExit):
                self._loop.run_forever()

    def run(self, work: Coroutine[Any, Any, T], *, undo: Callable[[T], object] | None = None) -> T:
        """Run `work` with the caller's context variables and wait for it.

        An interruption of the wait (Ctrl-C) cancels the work, waits for its end and is raised. So is a
        `KeyboardInterrupt` or `SystemExit` of the work, here and in no other thread.

        Args:
            work: What to run.
            undo: Gets the result of work that had ended when the interruption came: nobody else will.
        """
        done: Future[T] = Future()
        begun: list[asyncio.Task[T]] = []
        try:
            if threading.current_thread() is self._thread:
                work.close()
                raise RuntimeError(_WAITS_FOR_ITSELF)
            context = contextvars.copy_context()
            self._loop.call_soon_threadsafe(lambda: begun.append(self._start(work, done)), context=context)
            return done.result()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(lambda: _stop(begun, work, done))
            if _join(done) and undo is not None:
                undo(done.result())
            raise

    def _start(self, work: Coroutine[Any, Any, T], done: Future[T]) -> asyncio.Task[T]:
        task = self._loop.create_task(work)
        task.add_done_callback(lambda ended: _deliver(ended, done))
        return task


def _stop(begun: list[asyncio.Task[T]], work: Coroutine[Any, Any, T], done: Future[T]) -> None:
    if begun:
        begun[0].cancel()
    else:  # the interruption came before the loop heard of the work
        work.close()
        _cancel(done)


def _deliver(task: asyncio.Task[T], done: Future[T]) -> None:
    if task.cancelled():
        _cancel(done)
    elif (error := task.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())


def _cancel(done: Future[Any]) -> None:
    done.cancel()
    done.set_running_or_notify_cancel()


def _join(done: Future[Any]) -> bool:
    """Wait for the end; whether there is a result."""
    try:
        return done.exception() is None
    except BaseException:  # noqa: BLE001 - the interruption is what is raised
        return False
