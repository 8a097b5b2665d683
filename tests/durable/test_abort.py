"""spec/durable.md 10.6: stopping a run, from wherever, whatever it is doing."""

from __future__ import annotations

import asyncio

import pytest

from tenuto import AbortController, ToolContext, tool
from tenuto.errors import RunError
from tenuto.runs import live, observe
from tenuto.testing import Call, FakeProvider, Gate, Reply
from tests.durable.kit import answers, clerk, of, read, settled, soon, text_of, types

kinds = pytest.mark.parametrize("durable", [False, True], ids=["plain", "durable"])


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(observe, "POLL_SECONDS", 0.001)


@tool(effects="none")
async def look() -> str:
    return "seen"


@tool(require_approval=True)
async def pay(order: str) -> str:
    raise AssertionError("it was never approved")


PAY = Reply("Well. ", calls=[Call("pay", {"order": "A"}, "c1"), Call("pay", {"order": "B"}, "c2")])
LOOK = Reply(calls=[Call("look", {}, "c1")])


class Silent:
    """A transport that loses every message."""

    def publish(self, topic, index):
        pass

    def subscribe(self, topic, wake):
        return lambda: None


@kinds
async def test_S69_abort_in_the_middle_of_the_models_words(world, durable):
    gate, events = Gate(permits=2), []
    async with FakeProvider([Reply("Hello world", gate=gate)]) as provider:
        first = world.process(clerk(provider), durable=durable)
        output = await first.call(lambda agent: agent.stream("hi", run_id="r", on_abort=events.append))
        async for chunk in output.full_stream:
            if chunk.type == "text-delta":
                output.abort("enough")
                break
        async with asyncio.timeout(1):
            await provider.wait_for_disconnect()
        result = await output.get_full_output()
    (event,) = events
    assert (event.steps, event.text) == ((), "Hell")
    assert (result.finish_reason, result.error, result.text) == ("aborted", None, "Hell")
    assert [(each.role, each.text) for each in result.messages] == [("user", "hi"), ("assistant", "Hell")]
    chunks = await read(output)
    assert types(chunks)[-2:] == ["abort", "finish"]
    assert chunks[-1].payload.step_result.reason == "abort"
    assert (await world.row("r")).status == "canceled"
    if durable:
        assert chunks == await world.whole("r")


@pytest.mark.parametrize("bus", [None, Silent()], ids=["told", "not told"])
async def test_S70_abort_from_another_process_takes_effect_at_the_next_boundary(world, bus):
    gate, events = Gate(), []
    async with FakeProvider([Reply(calls=[Call("look", {}, "c1")], gate=gate)]) as provider:
        first = world.process(clerk(provider, [look]), pubsub=bus)
        second = world.process(clerk(provider, [look]), pubsub=bus)
        output = await first.call(lambda agent: agent.stream("hi", run_id="r", on_abort=events.append))
        assert await second.call(lambda agent: agent.abort_run_stream("r"))
        assert await second.call(lambda agent: agent.abort_run_stream("r"))
        gate.open()
        result = await output.get_full_output()
    assert (result.finish_reason, len(events)) == ("aborted", 1)
    assert (await world.row("r")).status == "canceled"
    log = await world.whole("r")
    assert types(log)[-2:] == ["abort", "finish"]
    assert not of(log, "tool-result")


async def test_S70_abort_before_the_first_step(world):
    ready, go = asyncio.Event(), asyncio.Event()

    async def instructions(_):
        ready.set()
        await go.wait()
        return "Be brief."

    async with FakeProvider() as provider:
        first = world.process(clerk(provider, instructions=instructions))
        second = world.process(clerk(provider))
        running = first.begin(lambda agent: agent.generate("hi", run_id="r"))
        await ready.wait()
        assert await second.call(lambda agent: agent.abort_run_stream("r"))
        go.set()
        assert (await running).finish_reason == "aborted"
        assert provider.requests == []
    assert types(await world.whole("r")) == ["start", "abort", "finish"]


async def test_S70_abort_of_a_run_whose_driver_is_gone(world):
    async with FakeProvider([LOOK]) as provider:
        first = world.process(clerk(provider, [look]))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), "tool.after_result")
        second = world.process(clerk(provider, [look]))
        assert await second.call(lambda agent: agent.abort_run_stream("r"))
        await world.leases_expire()
        result = await (await second.call(lambda agent: agent.recover("r"))).get_full_output()
    assert result.finish_reason == "aborted"
    assert types(await world.whole("r"))[-2:] == ["abort", "finish"]


async def test_S71_abort_through_a_viewer(world):
    gate, events = Gate(permits=2), []
    async with FakeProvider([Reply("Hello world", gate=gate)]) as provider:
        first = world.process(clerk(provider))
        second = world.process(clerk(provider))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r", on_abort=events.append))
        here = await first.call(lambda agent: agent.observe("r"))
        there = await second.call(lambda agent: agent.observe("r"))
        await gate.wait_blocked()
        await first.call(lambda _: aborted(here))
        log = await read(output)
        assert await read(here) == await read(there) == log
        for each in (output, here, there):
            assert (await each.get_full_output()).finish_reason == "aborted"
            assert each.status == "canceled"
    assert len(events) == 1
    assert log == await world.whole("r")
    assert log[-1].payload.step_result.reason == "abort"


async def test_S71_abort_through_a_viewer_in_another_process(world):
    gate, events = Gate(), []
    async with FakeProvider([Reply(calls=[Call("look", {}, "c1")], gate=gate)]) as provider:
        first = world.process(clerk(provider, [look]))
        second = world.process(clerk(provider, [look]))
        await first.call(lambda agent: agent.stream("hi", run_id="r", on_abort=events.append))
        viewer = await second.call(lambda agent: agent.observe("r"))

        await second.call(lambda _: aborted(viewer))
        await settled(second)
        gate.open()
        assert (await viewer.get_full_output()).finish_reason == "aborted"
    await soon(lambda: events)
    assert types(await world.whole("r"))[-2:] == ["abort", "finish"]


async def test_S72_abort_after_the_end(world):
    """`expected_run_id` belongs to the abort of a thread, which comes with threads."""
    async with FakeProvider([Reply("Hello")]) as provider:
        first = world.process(clerk(provider))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        result = await output.get_full_output()
        await soon(lambda: not first.context.run(live.process.get).drivers)
        log = await world.whole("r")
        output.abort()
        assert not await first.call(lambda agent: agent.abort_run_stream("r"))
        viewer = await first.call(lambda agent: agent.observe("r"))
        await viewer.get_full_output()
        await first.call(lambda _: aborted(viewer))
        with pytest.raises(RunError) as unknown:
            await first.call(lambda agent: agent.abort_run_stream("nothing"))
        assert unknown.value.id == "DURABLE_AGENT_RUN_NOT_FOUND"
    assert (result.finish_reason, await world.whole("r")) == ("stop", log)
    assert (await world.row("r")).status == "success"


async def aborted(viewer):
    viewer.abort()
    await asyncio.sleep(0)


@pytest.mark.parametrize("other", [False, True], ids=["same process", "other process"])
async def test_S73_abort_of_a_run_that_waits(world, other):
    async with FakeProvider([PAY]) as provider:
        first = world.process(clerk(provider, [pay]))
        waiting = await first.call(lambda agent: agent.generate("hi", run_id="r"))
        assert len(waiting.pending) == 2
        second = world.process(clerk(provider, [pay])) if other else first
        assert await second.call(lambda agent: agent.abort_run_stream("r", "enough"))
        assert (await world.row("r")).status == "canceled"
        assert await world.store.pending("r", resource=None) == []
        assert (await second.call(lambda agent: agent.list_suspended_runs())).total == 0
        with pytest.raises(RunError) as late:
            await second.call(lambda agent: agent.approve_tool_call_generate(run_id="r", tool_call_id="c1"))
        assert late.value.id == "AGENT_RESUME_TOOL_CALL_NOT_SUSPENDED"
        viewer = await second.call(lambda agent: agent.observe("r"))
        result = await viewer.get_full_output()
        assert result.finish_reason == "aborted"
        # nothing dangles: the next run may be given these messages
        provider.add(Reply("fine"))
        await second.call(lambda agent: agent.generate([*result.messages, {"role": "user", "content": "and now?"}]))
        assert len(answers(provider)) == 2
    log = await world.whole("r")
    errors = of(log, "tool-error")
    assert {chunk.payload.tool_call_id for chunk in errors} == {"c1", "c2"}
    assert {chunk.payload.error.message for chunk in errors} == {"aborted"}
    assert text_of(log) == "Well. "


@pytest.mark.parametrize("how", ["plain", "durable", "resumed", "resumed elsewhere"])
async def test_S74_a_long_tool_sees_its_cancellation(world, how):
    """The delegated path comes with sub-agents."""
    entered, ended = asyncio.Event(), []

    @tool(require_approval=how.startswith("resumed"))
    async def wait(ctx: ToolContext) -> str:
        entered.set()
        await ctx.abort_signal.wait()
        ended.append(ctx.abort_signal.reason)
        raise RuntimeError("stopped")

    controller = AbortController()
    async with FakeProvider([Reply(calls=[Call("wait", {}, "c1")])]) as provider:
        first = world.process(clerk(provider, [wait]), durable=how != "plain")
        if how.startswith("resumed"):
            await first.call(lambda agent: agent.generate("hi", run_id="r"))
            second = world.process(clerk(provider, [wait])) if how == "resumed elsewhere" else first
            running = second.begin(
                lambda agent: agent.approve_tool_call_generate(run_id="r", abort_signal=controller.signal)
            )
        else:
            running = first.begin(lambda agent: agent.generate("hi", run_id="r", abort_signal=controller.signal))
        await entered.wait()
        controller.abort("enough")
        result = await running
    assert (result.finish_reason, ended) == ("aborted", ["enough"])
    assert (await world.row("r")).status == "canceled"
    if how != "plain":
        (left,) = of(await world.whole("r"), "tool-error")
        assert left.payload.error.message == "aborted"


async def test_S74_a_tool_that_does_not_listen_is_cancelled_after_the_grace(world):
    entered, ended = asyncio.Event(), []

    @tool
    async def wait(ctx: ToolContext) -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async with FakeProvider([Reply(calls=[Call("wait", {}, "c1")])]) as provider:
        first = world.process(clerk(provider, [wait], abort_grace=0.01))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        await entered.wait()
        output.abort()
        result = await output.get_full_output()
    assert (result.finish_reason, ended) == ("aborted", ["cancelled"])
    await world.whole("r")
