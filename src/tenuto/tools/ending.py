"""How a function of the user's came to its end, as a value, on the loop or in a thread.

Invariant: whatever the function raises is in the `Ending`, also an exception that would end a task or a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from tenuto.tools.outcome import ToolFailed
from tenuto.tools.threads import Deliver, run_in_thread

Body = Callable[[], Any]


class Returned(Struct, frozen=True):
    """It returned this; never an awaitable, unless in a thread."""

    value: Any


class Raised(Struct, frozen=True):
    """It raised this."""

    error: BaseException


class TimedOut(Struct, frozen=True):
    """It was given up at its timeout."""


Ending = Returned | Raised
Late = Callable[[Ending], None]
"""Told on the loop how a thread ended that nobody waited for any more."""

_TIMED_OUT = TimedOut()


async def awaited(body: Body) -> Ending:
    """Run `body` on the loop: a CancelledError that it raises by itself is not the caller's."""
    try:
        value = body()
        return Returned(await value if inspect.isawaitable(value) else value)
    except BaseException as error:  # noqa: BLE001 - the caller sorts them
        return Raised(error)


async def threaded(body: Body, late: Late | None = None) -> Ending:
    """Run `body` in a thread with a copy of the context variables; a cancellation ends the wait, not the thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Ending] = loop.create_future()
    variables = contextvars.copy_context()

    def job() -> Deliver:
        ending = variables.run(called, body)
        return lambda: _hand_over(loop, future, ending, late)

    try:
        run_in_thread(job)
    except RuntimeError as error:
        return Raised(ToolFailed(f"The tool was not called: {error}."))
    return await future


def called(body: Body) -> Ending:
    """Call `body` here."""
    try:
        return Returned(body())
    except BaseException as error:  # noqa: BLE001 - the caller sorts them
        return Raised(error)


async def joined(running: Coroutine[Any, Any, Ending], name: str, timeout: float | None) -> Ending | TimedOut:
    """Run as a task and join it, whatever happens: no task is left when this returns or raises.

    Args:
        running: What to run.
        name: Of the task.
        timeout: Seconds; then the task is cancelled and waited for, also when that takes longer.

    Raises:
        asyncio.CancelledError: The caller was cancelled; a further cancellation meanwhile was passed on.
    """
    task = asyncio.get_running_loop().create_task(running, name=name)
    try:
        await asyncio.wait((task,), timeout=timeout)
    except asyncio.CancelledError:
        await stop(task)
        raise
    if task.done():
        return task.result()
    await stop(task)
    return _TIMED_OUT


async def stop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel and join; being cancelled meanwhile cancels the tasks again and still joins."""
    again: asyncio.CancelledError | None = None
    for task in tasks:
        task.cancel()
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as error:
            again = error
            for task in tasks:
                task.cancel()
    if again is not None:
        raise again


def _hand_over(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Ending], ending: Ending, late: Late | None
) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_deliver, future, ending, late)


def _deliver(future: asyncio.Future[Ending], ending: Ending, late: Late | None) -> None:
    if not future.done():
        future.set_result(ending)
    elif late is not None:
        late(ending)
