"""A write under way that a cancellation does not reach."""

from __future__ import annotations

import asyncio

import pytest

from tenuto.errors import StoreError
from tenuto.store.settling import Settled, Settling


async def cancelled_meanwhile(settle):
    future = Settled()
    seen = []

    async def wait():
        write = Settling(lambda: future)
        try:
            await write
        except asyncio.CancelledError:
            seen.append(write.outcome())
            raise

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done(), "it waits for its end"
    settle(future)
    await asyncio.wait([task])
    return task, seen


async def test_a_cancellation_comes_out_when_it_is_settled():
    task, seen = await cancelled_meanwhile(lambda future: future.set_result("stored"))
    assert task.cancelled()
    assert seen == ["stored"]


async def test_a_refusal_is_told_in_place_of_the_cancellation():
    task, seen = await cancelled_meanwhile(lambda future: future.set_exception(StoreError("disk full")))
    assert isinstance(task.exception(), StoreError)
    assert seen == []


async def test_it_begins_when_it_is_awaited_and_once():
    begun = []

    def begin():
        begun.append(1)
        future = Settled()
        future.set_result("stored")
        return future

    write = Settling(begin)
    assert begun == []
    assert [await write, await write, write.outcome()] == ["stored"] * 3
    assert begun == [1]


async def test_what_cannot_begin_raises_when_it_is_awaited():
    def begin():
        raise StoreError("closed")

    write = Settling(begin)
    with pytest.raises(StoreError):
        await write
