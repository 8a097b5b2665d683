"""Virtual time: a clock that tests move, and an event loop whose time jumps instead of passing.

Invariant: virtual time moves only when nothing can run: no callback is ready and no outside work is awaited. So the
order of events follows from the program alone, and an hour of waiting costs no real time.
"""

import asyncio
import heapq
import itertools
import selectors
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, TypeVar, TypeVarTuple

__all__ = ["Deadlock", "VirtualClock", "VirtualLoop", "run_virtual"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = 1_900_000_000.0
"""Where `VirtualClock.now` starts unless told: seconds since the epoch, far from any real now."""


class Deadlock(RuntimeError):
    """Nothing is ready, scheduled or awaited outside: the program would wait for ever."""


class VirtualClock:
    """A clock that stands still until it is moved: by `advance`, or by a `VirtualLoop` that runs on it.

    Args:
        start: What `now` says first, in seconds since the epoch.
    """

    def __init__(self, start: float = EPOCH) -> None:
        self._start = start
        self._passed = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._start + self._passed

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._passed

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has moved by `seconds`; on a `VirtualLoop` of this clock that happens by itself."""
        loop = asyncio.get_running_loop()
        if seconds <= 0 or (isinstance(loop, VirtualLoop) and loop.clock is self):
            await asyncio.sleep(seconds)
            return
        waiting: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._sleepers, (self._passed + seconds, next(self._order), waiting))
        await waiting

    async def advance(self, seconds: float) -> None:
        """Move the clock and wake the sleepers in order, each at its own time.

        Between two wake-ups the loop turns a few times, so a sleeper may sleep again within `seconds`. All sleepers
        must live on the running loop. A `VirtualLoop` moves its clock itself: there, `await clock.sleep(seconds)`.
        """
        end = self._passed + seconds
        await _settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, waiting = heapq.heappop(self._sleepers)
            if not waiting.done():
                self._passed = due
                waiting.set_result(None)
                await _settle()
        self._passed = end

    def jump(self, seconds: float) -> None:
        """Move the clock without waking anybody (the loop's side)."""
        self._passed += seconds


async def _settle(turns: int = 20) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that runs on a `VirtualClock`.

    When no callback is ready, it jumps to the next timer. While executor work runs, a `hold` is open or a file
    descriptor is registered (a socket), something outside may still answer, so it waits in real time instead; after
    `patience` real seconds without an answer it raises `Deadlock`.

    Args:
        clock: Its time.
        wait_for_io: False looks at file descriptors but never waits for them, so an idle connection or a listening
            socket does not stop time.
        patience: Real seconds.
    """

    def __init__(self, clock: VirtualClock, *, wait_for_io: bool = True, patience: float = 10.0) -> None:
        self.clock = clock
        self._outside = 0
        self._wait_for_io, self._patience = wait_for_io, patience
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Virtual seconds."""
        return self.clock.monotonic()

    @contextmanager
    def hold(self) -> Generator[None]:
        """Hold time still while something that the loop cannot see works for it."""
        self._outside += 1
        try:
            yield
        finally:
            self._outside -= 1

    def run_in_executor(  # noqa: D102
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        self._outside += 1
        try:
            working = super().run_in_executor(executor, func, *args)
        except BaseException:
            self._outside -= 1
            raise
        working.add_done_callback(self._came_back)
        return working

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002, D102
        with self.hold():  # the patience bounds it
            await super().shutdown_default_executor()

    def _came_back(self, _: object) -> None:
        self._outside -= 1

    def idle(self, timeout: float | None, files: int) -> float:
        """Decide how long to wait in real time, after jumping to the next timer if nothing outside is awaited."""
        if self._outside or (files and self._wait_for_io):
            return self._patience
        if timeout is None:
            raise Deadlock(self._describe("nothing is ready, scheduled or awaited outside"))
        self.clock.jump(timeout)
        return 0.0

    def gave_up(self) -> Deadlock:
        """Make the error for outside work that never answers."""
        return Deadlock(self._describe(f"no answer from outside the loop for {self._patience} real seconds"))

    def _describe(self, fact: str) -> str:
        tasks = sorted(asyncio.all_tasks(self), key=lambda task: task.get_name())
        return "\n".join([f"{fact}; waiting tasks:", *(f"- {_where(task)}" for task in tasks)])


class _JumpingSelector(selectors.BaseSelector):
    """A selector that asks the loop before it waits."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._real = selectors.DefaultSelector()
        self._loop = loop

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready or timeout == 0:
            return ready
        patience = self._loop.idle(timeout, len(self._real.get_map()) - 1)  # one is the loop's own pipe
        if patience == 0:
            return []
        ready = self._real.select(patience)
        if not ready:
            raise self._loop.gave_up()
        return ready


def run_virtual(
    main: Coroutine[Any, Any, T],
    *,
    clock: VirtualClock | None = None,
    wait_for_io: bool = True,
    patience: float = 10.0,
) -> T:
    """Run a coroutine on a fresh `VirtualLoop`; leftover tasks are cancelled and awaited, as in `asyncio.run`.

    Args:
        main: The coroutine.
        clock: The clock to run on; None makes one.
        wait_for_io: See `VirtualLoop`.
        patience: Real seconds to wait for outside work.

    Raises:
        Deadlock: The program would wait for ever; it lists the waiting tasks.
    """
    made = clock or VirtualClock()

    def new_loop() -> VirtualLoop:
        return VirtualLoop(made, wait_for_io=wait_for_io, patience=patience)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def _where(task: "asyncio.Task[Any]") -> str:
    frames = task.get_stack(limit=1)
    place = f" at {frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else ""
    return f"{task.get_name()}: {task.get_coro()!r}{place}"
