"""What a user gave and what never comes back: an abort ends it after the grace, and the run with it."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tenuto import AbortController, Agent, create_durable_agent, step_count_is, tool
from tenuto.store import InMemoryStore
from tenuto.testing import Call, Reply, ScriptedModel, run_virtual

GRACE = 3.0


async def for_ever(*_):
    await asyncio.Event().wait()


async def once_begun(chunk):
    if chunk.type != "start":
        await for_ever()


@tool(effects="none")
async def look() -> str:
    return "there"


def agent(script, **more):
    return Agent(id="a", model=ScriptedModel(script), tools=[look], abort_grace=GRACE, **more)


CALLING = [Call("look"), "done"]
HANGING = {
    "on_chunk": (CALLING, {"on_chunk": once_begun}),
    "on_step_finish": (CALLING, {"on_step_finish": for_ever}),
    "on_finish": (["done"], {"on_finish": for_ever}),
    "stop_when": (CALLING, {"stop_when": [for_ever]}),
    "approval": (CALLING, {"require_tool_approval": for_ever}),
    "on_error": ([ValueError("no")], {"on_error": for_ever}),
    "on_suspended": (CALLING, {"require_tool_approval": True, "on_suspended": for_ever}),
}


@pytest.mark.parametrize("name", HANGING)
def test_an_abort_ends_a_callback_after_the_grace(name):
    script, options = HANGING[name]

    async def main():
        loop = asyncio.get_running_loop()
        stream = await agent(script).stream("hi", **options)
        await asyncio.sleep(10)
        assert stream.status == "running", "it waits for its callback"
        stream.abort("enough")
        await asyncio.sleep(GRACE - 0.5)
        assert stream.status == "running"
        await asyncio.wait_for(stream.consume_stream(), 1)
        assert loop.time() == 10 + GRACE
        return await stream.get_full_output()

    reason = run_virtual(main()).finish_reason
    assert reason == {"on_finish": "stop", "on_error": "error", "on_suspended": "suspended"}.get(name, "aborted")


@pytest.mark.parametrize("where", ["instructions", "deps"])
def test_an_abort_ends_a_preparation_after_the_grace(where):
    async def main():
        controller = AbortController()
        asyncio.get_running_loop().call_later(2, controller.abort, "enough")
        output = await agent(["done"], **{where: for_ever}).stream("hi", abort_signal=controller.signal)
        await output.consume_stream()
        assert asyncio.get_running_loop().time() == 2 + GRACE
        return await output.get_full_output()

    assert run_virtual(main()).finish_reason == "aborted"


def test_on_abort_has_a_grace_of_its_own():
    told = []

    async def save(event):
        await asyncio.sleep(GRACE - 1)
        told.append("saved")
        await for_ever()

    async def main():
        stream = await agent(CALLING).stream("hi", on_step_finish=for_ever, on_abort=save)
        await asyncio.sleep(1)
        stream.abort()
        await stream.consume_stream()
        assert asyncio.get_running_loop().time() == 1 + 2 * GRACE

    run_virtual(main())
    assert told == ["saved"]


def test_an_on_chunk_that_had_to_be_ended_is_not_called_again():
    calls = Counter()

    async def hang(chunk):
        calls["on_chunk"] += 1
        await once_begun(chunk)

    async def main():
        stream = await agent(CALLING).stream("hi", on_chunk=hang)
        await asyncio.sleep(1)
        stream.abort()
        chunks = [chunk.type async for chunk in stream.full_stream]
        assert asyncio.get_running_loop().time() == 1 + GRACE
        return chunks

    assert run_virtual(main())[-2:] == ["abort", "finish"]
    assert calls["on_chunk"] == 2


def test_a_cancelled_generate_comes_back_from_a_callback():
    async def main():
        task = asyncio.ensure_future(agent(CALLING).generate("hi", on_step_finish=for_ever))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.get_running_loop().time() == 1 + GRACE

    run_virtual(main())


def test_a_callback_that_swallows_its_cancellation_does_not_keep_the_run():
    async def stubborn(_):
        try:
            await for_ever()
        except asyncio.CancelledError:
            await asyncio.sleep(0)

    async def main():
        stream = await agent(CALLING).stream("hi", on_step_finish=stubborn)
        await asyncio.sleep(1)
        stream.abort()
        return await stream.get_full_output()

    assert run_virtual(main()).finish_reason == "aborted"


def test_the_end_of_the_loop_ends_a_callback():
    """It cancels the driver: the run is aborted, and what hangs then gets the grace once more."""
    store, begun = InMemoryStore(), []

    async def main():
        stream = await agent(CALLING, store=store).stream("hi", on_step_finish=for_ever, on_abort=for_ever)
        begun.append(stream.run_id)
        await asyncio.sleep(1)

    run_virtual(main())
    assert run_virtual(store.run(begun[0], resource=None)).status == "canceled"


@pytest.mark.parametrize("name", ["on_chunk", "on_step_finish", "on_finish"])
def test_a_durable_run_is_aborted_as_a_plain_one(name):
    script, options = HANGING[name]

    async def main():
        durable = create_durable_agent(agent(script, store=InMemoryStore()))
        stream = await durable.stream("hi", **options)
        await asyncio.sleep(10)
        await durable.abort_run_stream(stream.run_id)
        await stream.consume_stream()
        assert asyncio.get_running_loop().time() == 10 + GRACE

    run_virtual(main())


def test_callbacks_cost_no_task():
    made = Counter()

    def counting(loop, coro, **named):
        made["tasks"] += 1
        return asyncio.Task(coro, loop=loop, **named)

    async def quick(_):
        pass

    async def main():
        asyncio.get_running_loop().set_task_factory(counting)
        await agent([Reply("x" * 500, chunk_size=1)]).generate("hi", on_chunk=quick, stop_when=step_count_is(3))

    run_virtual(main())
    assert made["tasks"] <= 3
