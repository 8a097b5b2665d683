"""Readers on other loops than the run's: they follow it, and never hold it up."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tenuto import Agent
from tenuto.testing import Gate, Reply, ScriptedModel


async def held():
    """A run that has begun to answer and waits before its gate."""
    gate = Gate(permits=1)
    stream = await Agent(id="a", model=ScriptedModel([Reply("hello world", gate=gate)])).stream("x")
    await gate.wait_blocked()
    return stream, gate


@pytest.mark.parametrize("debug", [False, True])
async def test_a_reader_in_another_thread(debug):
    stream, gate = await held()
    waiting, types = threading.Event(), []

    async def read():
        async for chunk in stream.full_stream:
            types.append(chunk.type)
            if chunk.type == "text-delta":
                asyncio.get_running_loop().call_soon(waiting.set)

    reader = threading.Thread(target=lambda: asyncio.run(asyncio.wait_for(read(), 5), debug=debug))
    reader.start()
    await asyncio.to_thread(waiting.wait, 5)
    gate.open()
    async with asyncio.timeout(5):
        assert await stream.text == "hello world"
    await asyncio.to_thread(reader.join, 5)
    assert types == [chunk.type async for chunk in stream.full_stream]


async def test_a_reader_whose_loop_is_closed():
    stream, gate = await held()

    loop = asyncio.new_event_loop()
    task = None

    def elsewhere():
        nonlocal task

        async def read():
            async for _ in stream.full_stream:
                pass

        task = loop.create_task(read())
        loop.call_soon(lambda: loop.call_soon(lambda: loop.call_soon(loop.stop)))
        loop.run_forever()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    await asyncio.to_thread(thread.join, 5)
    assert not task.done()
    loop.close()
    gate.open()
    async with asyncio.timeout(5):
        assert await stream.text == "hello world"
    task._log_destroy_pending = False
