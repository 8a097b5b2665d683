"""What each contestant does and what is measured of it; runs inside the contestant's own environment.

Invariant: only the standard library is imported here, so a figure holds nothing but the contestant. Warm-up is never
in a figure. CPU is user and system time of this process, all threads.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Protocol

SYSTEM = "You are terse."
QUESTION = "hi"
MAX_STEPS = 1_000

OnText = Callable[[str], None]
OnTool = Callable[[], None]


class Client(Protocol):
    """A contestant."""

    async def start(self, base_url: str) -> None:
        """Make what lives as long as a process: sessions, agents."""

    async def stop(self) -> None:
        """Close it."""

    async def answer(self, model: str) -> str:
        """Ask once and give the whole answer, in the way this contestant's users do."""

    async def rounds(self, model: str, on_tool: OnTool) -> str:
        """Answer with a tool `add(a: int, b: int)` that calls `on_tool`, until the model stops calling it."""

    async def stream(self, model: str, on_text: OnText) -> None:
        """Ask once and call `on_text` with each piece of the answer as it comes."""


class Parking(Client, Protocol):
    """A contestant whose runs can wait for somebody's approval."""

    async def park(self, model: str) -> None:
        """Start a run, and come back when it waits."""


class Watched(Client, Protocol):
    """A contestant whose runs have any number of readers."""

    async def watch(self, model: str, viewers: int, on_chunk: Callable[[], None]) -> None:
        """Ask once, and have so many readers take every chunk of the run."""


class Remembering(Client, Protocol):
    """A contestant that keeps threads."""

    async def say(self, thread: str, messages: int) -> None:
        """Append so many messages to a thread, in one transaction."""

    async def recall(self, thread: str, last: int) -> int:
        """Read the newest messages of a thread; returns how many it got."""


class Searched(Client, Protocol):
    """A contestant that finds earlier messages."""

    async def remember(self, vectors: int) -> None:
        """Store so many messages of one user, each with a vector."""

    async def search(self) -> int:
        """Find those like another vector, in whatever way takes longest; returns how many were compared."""


@dataclass(frozen=True)
class Size:
    """How much is done; the small one only shows that everything works."""

    chunks: int = 5_000
    paced_chunks: int = 400
    streams: int = 200
    stream_chunks: int = 200
    calls: int = 200
    tool_runs: int = 20
    long_rounds: int = 300
    parked: int = 1_000
    viewers: int = 200
    watched_chunks: int = 1_000
    thread_messages: int = 10_000
    vectors: int = 10_000


SMALL = Size(
    chunks=50,
    paced_chunks=5,
    streams=3,
    stream_chunks=5,
    calls=2,
    tool_runs=1,
    long_rounds=12,
    parked=5,
    viewers=10,
    watched_chunks=50,
    thread_messages=100,
    vectors=100,
)
_ROUNDS = 10
_WARM_CHUNKS = 5
_WARM_PARKED = 50
_PARKED_AT_ONCE = 10
_SHORT_THREAD = 100
_RECALLED = 40
_TURNS = 200


class Counter:
    """Counts the pieces of an answer."""

    def __init__(self) -> None:
        self.pieces = 0

    def __call__(self, _: str) -> None:
        self.pieces += 1

    def expect(self, pieces: int) -> None:
        if self.pieces != pieces:
            message = f"{self.pieces} pieces of text arrived and not {pieces}"
            raise AssertionError(message)
        self.pieces = 0


async def burst(client: Client, size: Size) -> float:
    """One stream at full speed: CPU us per chunk."""
    counter = Counter()
    for _ in range(3):
        await client.stream("burst-50", counter)
    await client.stream(f"burst-{size.chunks}", counter)
    counter.expect(150 + size.chunks)
    times = 5
    cpu = await _cpu(lambda: client.stream(f"burst-{size.chunks}", counter), times)
    counter.expect(times * size.chunks)
    return cpu / size.chunks


async def paced(client: Client, size: Size) -> float:
    """One stream, a chunk every 2 ms: CPU us per chunk."""
    counter = Counter()
    for _ in range(3):
        await client.stream("burst-50", counter)
    await client.stream("burst-20-2ms", counter)
    cpu = await _cpu(lambda: client.stream(f"burst-{size.paced_chunks}-2ms", counter), 2)
    counter.expect(170 + 2 * size.paced_chunks)
    return cpu / size.paced_chunks


async def paced_many(client: Client, size: Size) -> float:
    """Many streams, a chunk every 2 ms in each: CPU us per chunk."""
    return await _many(client, size, "-2ms")


async def many(client: Client, size: Size) -> float:
    """Many streams at full speed: CPU us per chunk."""
    return await _many(client, size, "")


async def _many(client: Client, size: Size, pace: str) -> float:
    counter = Counter()

    async def all_streams(chunks: int) -> None:
        model = f"burst-{chunks}{pace}"
        await asyncio.gather(*[client.stream(model, counter) for _ in range(size.streams)])

    for _ in range(2):
        await all_streams(_WARM_CHUNKS)  # opens the connections
    counter.expect(2 * size.streams * _WARM_CHUNKS)
    cpu = await _cpu(lambda: all_streams(size.stream_chunks), 1)
    counter.expect(size.streams * size.stream_chunks)
    return cpu / (size.streams * size.stream_chunks)


async def call(client: Client, size: Size) -> float:
    """One short answer: CPU us per call."""
    for _ in range(20):
        _not_empty(await client.answer("burst-4"))
    return await _cpu(lambda: client.answer("burst-4"), size.calls)


async def tool_round(client: Client, size: Size) -> tuple[float, float]:
    """Ten rounds of one tool call, then an answer: CPU us and wall us per model call."""
    ran: list[int] = []
    model = f"rounds-{_ROUNDS}"

    async def run() -> None:
        ran.clear()
        _not_empty(await client.rounds(model, lambda: ran.append(1)))
        _expect_rounds(ran, _ROUNDS)

    for _ in range(3):
        await run()
    cpu, wall = await _spent(run, size.tool_runs)
    return cpu / (_ROUNDS + 1), wall / (_ROUNDS + 1)


async def long_run(client: Client, size: Size) -> tuple[float, float]:
    """One run of many tool rounds: CPU us per round around the tenth, and in the last ten."""
    await client.rounds(f"rounds-{_ROUNDS}", lambda: None)
    marks: list[int] = []
    gc.collect()
    await client.rounds(f"rounds-{size.long_rounds}", lambda: marks.append(time.process_time_ns()))
    _expect_rounds(marks, size.long_rounds)
    spent = [(after - before) / 1_000 for before, after in pairwise(marks)]
    return median(spent[5:15]), median(spent[-10:])


async def viewers(client: Watched, size: Size) -> float:
    """Many readers of one run, beside one: CPU us per chunk and reader more."""
    counter = [0]

    def count() -> None:
        counter[0] += 1

    async def watch(viewers: int) -> None:
        counter[0] = 0
        await client.watch(f"burst-{size.watched_chunks}", viewers, count)
        if counter[0] < viewers * size.watched_chunks:
            message = f"{viewers} readers got {counter[0]} chunks of {size.watched_chunks} each"
            raise AssertionError(message)

    for _ in range(3):
        await watch(size.viewers)
    alone = await _cpu(lambda: watch(1), 5)
    together = await _cpu(lambda: watch(size.viewers), 5)
    return (together - alone) / size.watched_chunks / (size.viewers - 1)


async def parked(client: Parking, size: Size) -> tuple[float, float, float]:
    """Runs that wait for an approval: MB of memory, tasks and timers that they add to the process."""

    async def park(runs: int) -> None:
        for _ in range(0, runs, _PARKED_AT_ONCE):
            await asyncio.gather(*[client.park("rounds-1") for _ in range(_PARKED_AT_ONCE)])

    await park(_WARM_PARKED)
    before = await _held()
    await park(size.parked)
    after = await _held()
    memory, tasks, timers = (more - less for more, less in zip(after, before, strict=True))
    return memory / 1e6, tasks, timers


async def long_thread(client: Remembering, size: Size) -> tuple[float, float, float]:
    """Wall ms to recall the last messages of a long thread; CPU us to append a turn to it, and to a short one."""

    async def fill(thread: str, messages: int) -> None:
        for _ in range(messages // _SHORT_THREAD):
            await client.say(thread, _SHORT_THREAD)

    async def recall() -> None:
        if await client.recall("long", _RECALLED) != _RECALLED:
            message = f"not {_RECALLED} messages were recalled"
            raise AssertionError(message)

    await fill("long", size.thread_messages)
    await fill("short", _SHORT_THREAD)
    await recall()
    _, wall = await _spent(recall, _TURNS)
    long = await _cpu(lambda: client.say("long", 2), _TURNS)
    short = await _cpu(lambda: client.say("short", 2), _TURNS)
    return wall / 1_000, long, short


async def search(client: Searched, size: Size) -> tuple[float, float]:
    """A search through a user's vectors: CPU ms, and CPU ms of the longest piece the event loop itself works at."""
    await client.remember(size.vectors)
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        while True:
            begun = time.thread_time()
            await asyncio.sleep(0.001)
            longest = max(longest, time.thread_time() - begun)

    async def once() -> None:
        if (compared := await client.search()) != size.vectors:
            message = f"{compared} messages were compared and not {size.vectors}"
            raise AssertionError(message)

    await once()
    beating = asyncio.ensure_future(beat())
    spent = await _cpu(once, 5)
    beating.cancel()
    return spent / 1_000, longest * 1_000


async def _held() -> tuple[int, int, int]:
    """Bytes of memory, tasks and timers of this process at rest: what was about to end has ended."""
    await asyncio.sleep(1)
    gc.collect()
    timers: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]  # noqa: SLF001
    return _resident(), len(asyncio.all_tasks()), sum(not timer.cancelled() for timer in timers)


def _resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        shown = subprocess.run(["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, text=True, check=True)
        return int(shown.stdout) * 1_024


async def _cpu(work: Callable[[], Awaitable[object]], times: int) -> float:
    """CPU us of one `work()`, on average over `times`."""
    return (await _spent(work, times))[0]


async def _spent(work: Callable[[], Awaitable[object]], times: int) -> tuple[float, float]:
    """CPU us and wall us of one `work()`, on average over `times`."""
    gc.collect()
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    for _ in range(times):
        await work()
    cpu, wall = time.process_time_ns() - cpu, time.perf_counter_ns() - wall
    return cpu / 1_000 / times, wall / 1_000 / times


def _not_empty(answer: str) -> None:
    if not answer:
        message = "the answer is empty"
        raise AssertionError(message)


def _expect_rounds(ran: Sequence[int], rounds: int) -> None:
    if len(ran) != rounds:
        message = f"the tool ran {len(ran)} times and not {rounds}"
        raise AssertionError(message)


Figures = float | tuple[float, ...]

SCENARIOS: dict[str, Callable[[Any, Size], Awaitable[Figures]]] = {
    "burst": burst,
    "durable-burst": burst,
    "processed-burst": burst,
    "paced": paced,
    "paced-many": paced_many,
    "call": call,
    "tool-round": tool_round,
    "durable-round": tool_round,
    "long-run": long_run,
    "many": many,
    "parked": parked,
    "viewers": viewers,
    "long-thread": long_thread,
    "search": search,
}


def main(client: Client, dialects: Mapping[str, Client] = {}) -> None:
    """Run one scenario and print its figures as a JSON list in the last line.

    Args:
        client: Who runs it.
        dialects: Who runs it when `--dialect` names one of them.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=list(SCENARIOS))
    parser.add_argument("base_url")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--dialect", choices=list(dialects))
    parser.add_argument("--profile", help="write cProfile's statistics to this file")
    given = parser.parse_args()
    client = dialects.get(given.dialect, client)

    async def run() -> Figures:
        await client.start(given.base_url)
        try:
            return await SCENARIOS[given.scenario](client, SMALL if given.small else Size())
        finally:
            await client.stop()

    found = _profiled(run, given.profile) if given.profile else asyncio.run(run())
    print(json.dumps(found if isinstance(found, tuple) else [found]))
    sys.stdout.flush()
    os._exit(0)  # what a contestant does at exit is not in a figure, and must not hold up the next one


def _profiled(run: Callable[[], Awaitable[Figures]], path: str) -> Figures:
    import cProfile

    profile = cProfile.Profile()
    profile.enable()
    try:
        return asyncio.run(run())  # type: ignore[arg-type]
    finally:
        profile.disable()
        profile.dump_stats(path)
