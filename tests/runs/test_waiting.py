"""Those who wait for a run, on any loop."""

import asyncio
import threading

import pytest

from tenuto.runs.waiting import Waiters


async def test_all_who_wait_are_woken_once():
    waiters = Waiters()
    tasks = [asyncio.create_task(waiters.wait(lambda: False)) for _ in range(3)]
    await asyncio.sleep(0)
    assert waiters
    waiters.wake()
    await asyncio.gather(*tasks)
    assert not waiters


async def test_nobody_waits_for_what_is_there():
    waiters = Waiters()
    await waiters.wait(lambda: True)
    assert not waiters


async def test_one_that_gives_up_is_forgotten():
    waiters = Waiters()
    task = asyncio.create_task(waiters.wait(lambda: False))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not waiters
    waiters.wake()


async def test_one_that_gives_up_while_it_is_woken_is_no_trouble():
    waiters = Waiters()
    task = asyncio.create_task(waiters.wait(lambda: False))
    await asyncio.sleep(0)
    task.cancel()
    waiters.wake()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_one_on_another_loop_is_woken_there():
    waiters, waits = Waiters(), threading.Event()

    def not_yet() -> bool:
        waits.set()
        return False

    thread = threading.Thread(target=lambda: asyncio.run(waiters.wait(not_yet)))
    thread.start()
    await asyncio.to_thread(waits.wait)
    waiters.wake()
    await asyncio.to_thread(thread.join)


async def test_one_whose_loop_is_gone_is_nobodys_concern():
    waiters = Waiters()
    gone = asyncio.new_event_loop()
    waiters._waiting.append(gone.create_future())
    gone.close()
    waiters.wake()
    assert not waiters
