"""Gates and watches work from any thread and loop."""

import asyncio
import threading

import pytest

from tenuto.testing.provider import Gate


async def test_a_permit_lets_one_through() -> None:
    gate = Gate(1)
    await gate.take()
    second = asyncio.create_task(gate.take())
    await gate.wait_blocked()
    assert (gate.passed, second.done()) == (1, False)
    gate.release()
    await second
    assert gate.passed == 2


async def test_an_open_gate_lets_all_through() -> None:
    gate = Gate()
    waiting = [asyncio.create_task(gate.take()) for _ in range(3)]
    await gate.wait_blocked()
    gate.open()
    await asyncio.gather(*waiting, gate.take())
    assert gate.passed == 4


async def test_a_cancelled_wait_takes_no_permit() -> None:
    gate = Gate()
    waiting = asyncio.create_task(gate.take())
    await gate.wait_blocked()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.release()
    await gate.take()
    with pytest.raises(TimeoutError, match="an event at the gate"):
        await gate.wait_blocked(timeout=0)


def test_another_thread_releases() -> None:
    gate = Gate()
    thread = threading.Thread(target=lambda: asyncio.run(gate.take()))
    thread.start()
    gate.wait_blocked_sync()
    gate.release()
    thread.join()
    assert gate.passed == 1
    with pytest.raises(TimeoutError):
        gate.wait_blocked_sync(timeout=0)
