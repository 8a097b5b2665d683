"""Cancelling the task that awaits a run, and loops that end while a run goes on."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tenuto import Agent, ToolContext, tool
from tenuto.store import InMemoryStore
from tenuto.testing import Call, Gate, Reply, ScriptedModel, run_virtual
from tests.agent.kit import all_ended


def agent(model, *tools, **more):
    return Agent(id="a", model=model, tools=tools, **more)


async def status(store, run_id="r"):
    row = await store.run(run_id, resource=None)
    return row.status if row else None


async def cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_during_the_model_call():
    gate, store, told = Gate(permits=2), InMemoryStore(), []
    one = agent(ScriptedModel([Reply("Hello world", gate=gate)]), store=store)
    task = asyncio.create_task(one.generate("x", run_id="r", on_abort=told.append))
    await gate.wait_blocked()
    await cancelled(task)
    assert await status(store) == "canceled"
    assert told[0].text == "Hello wo"


def test_during_a_tool_it_is_cancelled_and_awaited_first():
    async def main():
        entered, log, store = asyncio.Event(), [], InMemoryStore()

        @tool
        async def append() -> str:
            entered.set()
            try:
                while True:
                    log.append("tick")
                    await asyncio.sleep(0.05)
            finally:
                await asyncio.sleep(0.01)
                log.append("cleaned up")

        one = agent(ScriptedModel([Call("append")]), append, store=store, abort_grace=1.0)
        task = asyncio.create_task(one.generate("x", run_id="r"))
        await entered.wait()
        await cancelled(task)
        assert log[-1] == "cleaned up"
        length = len(log)
        await asyncio.sleep(10)
        assert len(log) == length
        assert await status(store) == "canceled"

    run_virtual(main())


def test_a_second_cancellation_does_not_wait():
    async def main():
        entered = asyncio.Event()

        @tool
        async def stubborn() -> str:
            entered.set()
            await asyncio.sleep(3600)
            return "never"

        one = agent(ScriptedModel([Call("stubborn")]), stubborn, abort_grace=100.0)
        task = asyncio.create_task(one.generate("x"))
        await entered.wait()
        began = asyncio.get_running_loop().time()
        task.cancel()
        await asyncio.sleep(1)
        assert not task.done()
        await cancelled(task)
        assert asyncio.get_running_loop().time() - began < 2
        await all_ended()

    run_virtual(main())


def test_asyncio_timeout_works():
    async def main():
        store = InMemoryStore()
        one = agent(ScriptedModel([Reply("x", hang_after=0)]), store=store)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await one.generate("x", run_id="r")
        assert await status(store) == "canceled"

    run_virtual(main())


async def test_before_the_run_is_prepared():
    gate, store = Gate(), InMemoryStore()

    async def instructions(context):
        await gate.take()
        return "Be brief."

    model = ScriptedModel("never")
    one = agent(model, instructions=instructions, store=store)
    for call in (one.generate("x", run_id="g"), awaited(one.stream("x", run_id="s"))):
        task = asyncio.create_task(call)
        await gate.wait_blocked()
        task.cancel()
        gate.release()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert model.requests == []
    assert [await status(store, run_id) for run_id in "gs"] == ["canceled"] * 2


async def awaited(pending):
    return await pending


async def test_a_cancelled_reader_leaves_the_run_alone():
    gate = Gate(permits=1)
    stream = await agent(ScriptedModel([Reply("Hello world", gate=gate)])).stream("x")
    reading = asyncio.create_task(collect(stream))
    waiting = asyncio.create_task(awaited(stream.text))
    await gate.wait_blocked()
    await cancelled(reading)
    await cancelled(waiting)
    gate.open()
    assert await stream.text == "Hello world"


async def collect(stream):
    return [chunk async for chunk in stream.full_stream]


async def test_a_task_group_that_fails_aborts_its_runs():
    gate, store = Gate(permits=1), InMemoryStore()
    one = agent(ScriptedModel(Reply("Hello world", gate=gate)), store=store)

    async def fail():
        await gate.wait_blocked()
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(one.generate("x", run_id="r"))
            group.create_task(fail())
    assert await status(store) == "canceled"


# -- the loop ends --------------------------------------------------------------------------------------------------


def test_a_loop_that_ends_during_the_model_call_saves_the_run():
    gate, store, told = Gate(permits=2), InMemoryStore(), []
    one = agent(ScriptedModel([Reply("Hello world", gate=gate)]), store=store)

    async def main():
        stream = await one.stream("x", run_id="r", on_abort=told.append)
        await gate.wait_blocked()
        return stream

    stream = asyncio.run(main())
    assert asyncio.run(status(store)) == "canceled"
    assert (stream.status, stream._result.finish_reason, stream._result.text) == ("canceled", "aborted", "Hello wo")
    assert told[0].text == "Hello wo"


def test_a_loop_that_ends_during_a_tool_saves_the_run():
    store, ended = InMemoryStore(), []

    @tool
    async def wait(ctx: ToolContext) -> str:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(True)
        return "never"

    one = agent(ScriptedModel([Call("wait")]), wait, store=store)

    async def main():
        stream = await one.stream("x", run_id="r")
        async for chunk in stream.full_stream:
            if chunk.type == "tool-call":
                break
        for _ in range(20):
            await asyncio.sleep(0)
        return stream

    stream = asyncio.run(main())
    assert ended == [True]
    assert asyncio.run(status(store)) == "canceled"
    assert stream._result.finish_reason == "aborted"


def test_a_loop_that_ends_before_the_run_began():
    store = InMemoryStore()
    one = agent(ScriptedModel("never"), store=store)
    kept = []

    async def main():
        kept.append(asyncio.ensure_future(one.generate("x", run_id="r")))
        await asyncio.sleep(0)

    asyncio.run(main())
    assert kept[0].cancelled()
    assert asyncio.run(status(store)) in {None, "canceled"}


def test_a_loop_that_ends_while_generate_waits_saves_the_run():
    gate, store = Gate(permits=2), InMemoryStore()
    one = agent(ScriptedModel([Reply("Hello world", gate=gate)]), store=store)

    async def main():
        task = asyncio.ensure_future(one.generate("x", run_id="r"))
        await gate.wait_blocked()
        return task

    task = asyncio.run(main())
    assert task.cancelled()
    assert asyncio.run(status(store)) == "canceled"


def test_an_exception_in_main_ends_the_run_too():
    gate, store = Gate(permits=1), InMemoryStore()
    one = agent(ScriptedModel([Reply("Hello world", gate=gate)]), store=store)

    async def main():
        await one.stream("x", run_id="r")
        await gate.wait_blocked()
        raise ZeroDivisionError

    with contextlib.suppress(ZeroDivisionError):
        asyncio.run(main())
    assert asyncio.run(status(store)) == "canceled"
