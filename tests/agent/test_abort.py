"""Aborting a run: before it, in each of its places, from anywhere, too late."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tenuto import AbortController, AbortSignal, Agent, ToolContext, tool
from tenuto.core import payloads as p
from tenuto.store import InMemoryStore
from tenuto.testing import Batches, Call, Gate, Reply, ScriptedModel, run_virtual
from tests.agent.kit import aborted, both, run


def agent(model, *tools, **more):
    return Agent(id="a", model=model, tools=tools, **more)


@both
async def test_before_the_start(verb):
    model, store, told = ScriptedModel("never"), InMemoryStore(), []
    ran = await run(verb, agent(model, store=store), run_id="r", abort_signal=aborted("no"), on_abort=told.append)
    assert model.requests == []
    assert (ran.result.finish_reason, ran.result.text, ran.error) == ("aborted", "", None)
    assert ran.types == ["start", "abort", "finish"]
    assert (await store.run("r", resource=None)).status == "canceled"
    assert [(event.steps, event.text) for event in told] == [((), "")]


async def test_before_the_start_with_async_with():
    async with agent(ScriptedModel("never")).stream("x", abort_signal=aborted()) as stream:
        assert await stream.finish_reason == "aborted"


async def test_during_the_wait_for_the_model():
    gate, told = Gate(), []
    model = ScriptedModel([Reply("never", gate=gate)])
    stream = await agent(model).stream("x", on_abort=told.append)
    await gate.wait_blocked()
    stream.abort()
    result = await stream.get_full_output()
    assert (result.finish_reason, result.text, len(result.steps)) == ("aborted", "", 1)
    assert told[0].steps == ()


async def test_during_the_answer():
    gate, told = Gate(permits=2), []
    model = ScriptedModel(["First.", Reply("Hello world", gate=gate)])
    one = agent(model)
    before = await one.generate("x")
    stream = await one.stream([*before.messages, "y"], on_abort=told.append)
    await gate.wait_blocked()
    stream.abort("enough")
    result = await stream.get_full_output()
    assert (result.text, await stream.text) == ("Hello wo", "Hello wo")
    assert (told[0].text, told[0].steps) == ("Hello wo", ())
    assert result.messages[-1].text == "Hello wo"


async def test_a_call_that_was_streamed_is_closed():
    """The call stands in the stream already, but the model has not ended: it is closed like any other."""
    gate = Gate()
    start, end = p.ToolInputStartPayload("c1", "act"), p.ToolInputEndPayload("c1")
    model = ScriptedModel([Batches([[start, end, p.ToolCallPayload("c1", "act", {})], gate])])
    one = agent(model, act)
    stream = await one.stream("x")
    await gate.wait_blocked()
    stream.abort()
    await stream.consume_stream()
    left = [chunk.payload.tool_call_id async for chunk in stream.full_stream if chunk.type == "tool-error"]
    assert left == ["c1"]
    result = await stream.get_full_output()
    follow_up = ScriptedModel("ok")
    await one.generate([*result.messages, "go on"], model=follow_up)
    assert [message["role"] for message in follow_up.requests[0].messages] == ["user", "assistant", "tool", "user"]


@tool
async def act() -> str:
    return "did"


def test_a_tool_that_cooperates_ends_at_once():
    async def main():
        entered, controller = asyncio.Event(), AbortController()

        @tool
        async def wait(ctx: ToolContext) -> str:
            entered.set()
            await ctx.abort_signal.wait()
            raise RuntimeError("stopped")

        one = agent(ScriptedModel([Call("wait")]), wait)
        task = asyncio.create_task(one.generate("x", abort_signal=controller.signal))
        await entered.wait()
        began = asyncio.get_running_loop().time()
        controller.abort()
        assert (await task).finish_reason == "aborted"
        assert asyncio.get_running_loop().time() - began < 1

    run_virtual(main())


def test_a_tool_that_returns_within_the_grace_keeps_its_result():
    async def main():
        entered, controller = asyncio.Event(), AbortController()

        @tool
        async def slow() -> str:
            entered.set()
            await asyncio.sleep(3)
            return "did it"

        one = agent(ScriptedModel([Call("slow")]), slow)
        task = asyncio.create_task(one.generate("x", abort_signal=controller.signal))
        await entered.wait()
        controller.abort()
        result = await task
        assert result.finish_reason == "aborted"
        assert [done.payload.result for done in result.tool_results] == ["did it"]

    run_virtual(main())


@pytest.mark.parametrize("grace", [5.0, 0.5, 0.0])
def test_a_tool_that_does_not_is_cancelled_after_the_grace(grace):
    async def main():
        entered, controller, ended = asyncio.Event(), AbortController(), []

        @tool
        async def stubborn() -> str:
            entered.set()
            try:
                await asyncio.sleep(3600)
            finally:
                ended.append(asyncio.get_running_loop().time())
            return "never"

        one = agent(ScriptedModel([Call("stubborn")]), stubborn, abort_grace=grace)
        task = asyncio.create_task(one.generate("x", abort_signal=controller.signal))
        await entered.wait()
        began = asyncio.get_running_loop().time()
        controller.abort()
        result = await task
        assert (result.finish_reason, result.tool_results) == ("aborted", ())
        assert ended == [pytest.approx(began + grace)]

    run_virtual(main())


def test_a_thread_is_abandoned_after_the_grace():
    async def main():
        entered, let_go, controller = asyncio.Event(), threading.Event(), AbortController()
        loop = asyncio.get_running_loop()

        @tool
        def blocking() -> str:
            loop.call_soon_threadsafe(entered.set)
            let_go.wait(10)
            return "late"

        one = agent(ScriptedModel([Call("blocking")]), blocking, abort_grace=2.0)
        task = asyncio.create_task(one.generate("x", abort_signal=controller.signal))
        with loop.hold():
            await entered.wait()
        began = loop.time()
        controller.abort()
        result = await task
        assert (result.finish_reason, result.tool_results) == ("aborted", ())
        assert loop.time() - began == pytest.approx(2.0)
        let_go.set()

    run_virtual(main())


async def test_from_another_thread():
    gate, controller = Gate(permits=1), AbortController()
    stream = await agent(ScriptedModel([Reply("Hello world", gate=gate)])).stream("x", abort_signal=controller.signal)
    await gate.wait_blocked()
    thread = threading.Thread(target=controller.abort)
    thread.start()
    assert await stream.finish_reason == "aborted"
    thread.join()


async def test_stream_abort_from_another_thread():
    gate = Gate(permits=1)
    stream = await agent(ScriptedModel([Reply("Hello world", gate=gate)])).stream("x")
    await gate.wait_blocked()
    await asyncio.to_thread(stream.abort, "enough")
    assert await stream.finish_reason == "aborted"


async def test_after_the_end_it_changes_nothing():
    controller = AbortController()
    stream = await agent(ScriptedModel("Hello")).stream("x", abort_signal=controller.signal)
    assert await stream.text == "Hello"
    stream.abort()
    controller.abort()
    assert (await stream.finish_reason, stream.status) == ("stop", "success")
    types = [chunk.type async for chunk in stream.full_stream]
    assert types.count("finish") == 1
    assert "abort" not in types


async def test_twice_is_once():
    gate, told = Gate(permits=1), []
    stream = await agent(ScriptedModel([Reply("Hello", gate=gate)])).stream("x", on_abort=told.append)
    await gate.wait_blocked()
    stream.abort()
    stream.abort()
    await stream.consume_stream()
    stream.abort()
    assert len(told) == 1


async def test_one_signal_stops_several_runs():
    gate, controller = Gate(), AbortController()
    model = ScriptedModel(Reply("x", gate=gate))
    tasks = [asyncio.create_task(agent(model).generate("x", abort_signal=controller.signal)) for _ in range(3)]
    await gate.wait_blocked()
    controller.abort()
    assert [result.finish_reason for result in await asyncio.gather(*tasks)] == ["aborted"] * 3
    assert not controller._switch.listeners


async def test_a_finished_run_lets_go_of_the_signal():
    controller = AbortController()
    for _ in range(3):
        await agent(ScriptedModel("x")).generate("x", abort_signal=controller.signal)
    await asyncio.sleep(0)
    assert not controller._switch.listeners


async def test_the_signal_reaches_the_tool_and_the_model():
    seen = []
    controller = AbortController()

    @tool(effects="none")
    async def look(ctx: ToolContext) -> str:
        controller.abort("because")
        await ctx.abort_signal.wait()
        seen.append((ctx.abort_signal.aborted, ctx.abort_signal.reason))
        return "seen"

    model = ScriptedModel([Call("look")])
    await agent(model, look).generate("x", abort_signal=controller.signal)
    assert seen == [(True, "because")]
    assert model.requests[0].abort.aborted


async def test_a_signal_without_a_controller_never_fires():
    result = await agent(ScriptedModel("x")).generate("x", abort_signal=AbortSignal())
    assert result.finish_reason == "stop"


@both
async def test_from_on_step_finish(verb):
    controller = AbortController()
    model = ScriptedModel([Call("act"), "never"])
    ran = await run(
        verb, agent(model, act), abort_signal=controller.signal, on_step_finish=lambda _: controller.abort()
    )
    assert len(model.requests) == 1
    assert ran.result.finish_reason == "aborted"
    assert len(ran.result.steps) == 1
    assert ran.types[-3:] == ["step-finish", "abort", "finish"]


@both
async def test_from_stop_when(verb):
    controller = AbortController()

    def stop(context):
        controller.abort()
        return False

    model = ScriptedModel([Call("act"), "never"])
    ran = await run(verb, agent(model, act), abort_signal=controller.signal, stop_when=stop, max_steps=3)
    assert len(model.requests) == 1
    assert ran.result.finish_reason == "aborted"


@both
async def test_from_a_dynamic_part_of_the_agent(verb):
    controller = AbortController()

    def instructions(context):
        controller.abort()
        return "Be brief."

    model = ScriptedModel("never")
    ran = await run(verb, agent(model, instructions=instructions), abort_signal=controller.signal)
    assert model.requests == []
    assert ran.result.finish_reason == "aborted"


async def test_calls_that_wait_for_their_turn_never_run():
    controller, started = AbortController(), []

    @tool
    async def one_by_one(ctx: ToolContext, n: int) -> int:
        started.append(n)
        controller.abort()
        return n

    model = ScriptedModel([[Call("one_by_one", {"n": n}) for n in range(4)]])
    stream = await agent(model, one_by_one).stream("x", tool_call_concurrency=1, abort_signal=controller.signal)
    result = await stream.get_full_output()
    assert started == [0]
    errors = [chunk.payload.error.message async for chunk in stream.full_stream if chunk.type == "tool-error"]
    assert errors == ["aborted"] * 3
    assert len(result.tool_calls) == 4


async def test_the_next_turn_closes_the_calls_an_abort_left_open():
    entered, controller = asyncio.Event(), AbortController()

    @tool
    async def wait(ctx: ToolContext) -> str:
        entered.set()
        await ctx.abort_signal.wait()
        raise RuntimeError

    one = agent(ScriptedModel([Call("wait")]), wait)
    task = asyncio.create_task(one.generate("x", abort_signal=controller.signal))
    await entered.wait()
    controller.abort()
    result = await task
    follow_up = ScriptedModel("ok")
    await one.generate([*result.messages, "go on"], model=follow_up)
    closed = follow_up.requests[0].messages[2]
    assert closed["role"] == "tool"
    assert "no result" in closed["content"]
