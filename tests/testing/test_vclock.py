"""Virtual time: jumps, order, outside work, deadlocks. None of these tests waits for real."""

import asyncio
import socket
import threading
import time

import pytest

from tenuto.testing.vclock import Deadlock, VirtualClock, VirtualLoop, run_virtual


def test_sleeping_for_a_month_costs_nothing() -> None:
    clock = VirtualClock(start=1000.0)

    async def main() -> float:
        await asyncio.sleep(30 * 86400)
        await clock.sleep(5)
        return clock.monotonic()

    began = time.monotonic()
    assert run_virtual(main(), clock=clock) == pytest.approx(30 * 86400 + 5)
    assert clock.now() == pytest.approx(1000 + 30 * 86400 + 5)
    assert time.monotonic() - began < 5


def test_timers_fire_in_order_at_their_time() -> None:
    log: list[tuple[str, float]] = []

    async def tick(name: str, period: float, times: int) -> None:
        for _ in range(times):
            await asyncio.sleep(period)
            log.append((name, asyncio.get_running_loop().time()))

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(tick("a", 2, 3))
            group.create_task(tick("b", 3, 2))

    run_virtual(main())
    # At 6 both are due; b's timer is older.
    assert log == [("a", 2.0), ("b", 3.0), ("a", 4.0), ("b", 6.0), ("a", 6.0)]


def test_timeouts_are_virtual() -> None:
    async def main() -> None:
        async with asyncio.timeout(3600):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        run_virtual(main())


def test_a_deadlock_names_the_waiting_tasks() -> None:
    cancelled: list[str] = []

    async def stuck() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("stuck")
            raise

    async def main() -> None:
        await asyncio.create_task(stuck(), name="the-stuck-one")

    with pytest.raises(Deadlock, match=r"nothing is ready(.|\n)*the-stuck-one: .*stuck(.|\n)*test_vclock.py"):
        run_virtual(main())
    assert cancelled == ["stuck"]


def test_executor_work_holds_time() -> None:
    proceed = threading.Event()

    async def main() -> float:
        loop = asyncio.get_running_loop()
        loop.call_later(100, lambda: None)
        working = asyncio.create_task(asyncio.to_thread(proceed.wait))
        loop.call_later(0, proceed.set)
        await working
        return loop.time()

    assert run_virtual(main()) == 0.0


def test_a_failing_executor_does_not_hold_time() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, lambda: 1 // 0)
        await loop.shutdown_default_executor()
        with pytest.raises(RuntimeError, match="shutdown"):
            await loop.run_in_executor(None, lambda: None)
        await asyncio.sleep(7)
        return loop.time()

    assert run_virtual(main()) == pytest.approx(7)


def test_a_socket_holds_time_until_it_answers() -> None:
    async def main() -> tuple[bytes, float]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            loop = asyncio.get_running_loop()
            threading.Thread(target=theirs.sendall, args=(b"x",)).start()
            async with asyncio.timeout(60):
                return await loop.sock_recv(ours, 1), loop.time()

    assert run_virtual(main()) == (b"x", 0.0)


def test_patience_with_the_outside_ends() -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            async with asyncio.timeout(60):
                await asyncio.get_running_loop().sock_recv(ours, 1)

    with pytest.raises(Deadlock, match="no answer from outside"):
        run_virtual(main(), patience=0.001)
    with pytest.raises(TimeoutError):
        run_virtual(main(), wait_for_io=False)


def test_hold_stops_time_for_unseen_work() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        done = asyncio.Event()
        loop.call_later(50, lambda: None)
        with loop.hold():
            threading.Thread(target=loop.call_soon_threadsafe, args=(done.set,)).start()
            await done.wait()
        return loop.time()

    assert run_virtual(main()) == 0.0


async def test_advance_wakes_sleepers_in_order() -> None:
    clock = VirtualClock(start=100.0)
    log: list[tuple[str, float]] = []

    async def tick(name: str, period: float) -> None:
        while True:
            await clock.sleep(period)
            log.append((name, clock.now()))

    tasks = [asyncio.create_task(tick("a", 2)), asyncio.create_task(tick("b", 3))]
    await clock.advance(1.5)
    assert log == []
    await clock.advance(5)
    assert log == [("a", 102.0), ("b", 103.0), ("a", 104.0), ("b", 106.0), ("a", 106.0)]
    assert (clock.now(), clock.monotonic()) == (106.5, 6.5)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await clock.advance(10)
    assert len(log) == 5


async def test_a_sleep_of_nothing_yields_once() -> None:
    clock = VirtualClock()
    await clock.sleep(0)
    assert clock.monotonic() == 0.0
