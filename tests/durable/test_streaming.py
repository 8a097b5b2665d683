"""spec/durable.md 10.2, cases F: what viewers see, early, late, in the middle, and when the driver is gone."""

from __future__ import annotations

import asyncio
import random

import pytest

from tenuto import tool
from tenuto.errors import RunError
from tenuto.runs import observe
from tenuto.testing import Call, FakeProvider, Gate, Reply
from tests.durable.kit import World, clerk, of, read, settled, shown_by, soon, text_of, types

kinds = pytest.mark.parametrize("durable", [False, True], ids=["plain", "durable"])


@tool(effects="none")
async def look(at: str) -> str:
    return f"saw {at}"


@tool(require_approval=True)
async def pay(order: str) -> str:
    return f"paid {order}"


PAY = Reply(calls=[Call("pay", {"order": "A"}, "c1")])


@pytest.fixture
def impatient(monkeypatch):
    """Viewers look often."""
    monkeypatch.setattr(observe, "POLL_SECONDS", 0.001)


async def test_S11_stream_returns_before_the_model_speaks(world):
    gate = Gate()
    async with FakeProvider([Reply("Hello", gate=gate)]) as provider:
        first = world.process(clerk(provider))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        reader = output.full_stream
        start = await anext(reader)
        assert (start.type, start.run_id, start.payload.id) == ("start", "r", "clerk")
        assert start.payload.message_id == output.message_id
        assert not of(output._chunks, "text-delta")
        gate.open()
        rest = [chunk async for chunk in reader]
    assert rest[-1].type == "finish"
    assert [start, *rest] == await world.whole("r")


async def test_S12_the_order_of_a_tool_round(world):
    """`iteration-complete` of the specification is an event of the HTTP envelope; here a step ends by `step-finish`."""
    async with FakeProvider([Reply(calls=[Call("look", {"at": "a"}, "c1")]), Reply("done")]) as provider:
        first = world.process(clerk(provider, [look]))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        chunks = await read(output)
    wanted = {"start", "step-start", "tool-call", "tool-result", "step-finish", "finish"}
    assert [kind for kind in types(chunks) if kind in wanted] == [
        "start", "step-start", "tool-call", "tool-result", "step-finish", "step-start", "step-finish", "finish",
    ]  # fmt: skip
    assert [chunk.payload.step_result.is_continued for chunk in of(chunks, "step-finish")] == [True, False]
    assert chunks == await world.whole("r")


async def test_S13_results_come_as_they_are_ready_and_are_kept_in_the_order_of_the_calls(world):
    done = {name: asyncio.Event() for name in "123"}

    @tool(effects="none")
    async def wait(at: str) -> str:
        after = {"3": None, "1": "3", "2": "1"}[at]
        if after is not None:
            await done[after].wait()
        return at

    def seen(chunk):
        if chunk.type == "tool-result":
            done[chunk.payload.result].set()

    calls = [Call("wait", {"at": each}, f"c{each}") for each in "123"]
    async with FakeProvider([Reply(calls=calls), Reply("done")]) as provider:
        first = world.process(clerk(provider, [wait]))
        result = await first.call(lambda agent: agent.generate("hi", run_id="r", on_chunk=seen))
        told = [message["content"] for message in provider.requests[1].body["messages"] if message["role"] == "tool"]
    log = await world.whole("r")
    assert [chunk.payload.result for chunk in of(log, "tool-result")] == ["3", "1", "2"]
    assert types(log).index("step-finish") > max(
        place for place, kind in enumerate(types(log)) if kind == "tool-result"
    )
    assert told == ["1", "2", "3"]
    parts = [part.tool_invocation for part in result.messages[1].content.parts if hasattr(part, "tool_invocation")]
    assert [part.result for part in parts] == ["1", "2", "3"]
    assert [each.payload.result for each in result.tool_results] == ["1", "2", "3"]


async def test_S14_F01_viewers_that_come_at_any_moment(world, impatient):
    """50 of them, in the driver's process and in another one; each sees its part once and in order."""
    chance = random.Random(14)
    text = " ".join(str(number) for number in range(60))
    gate = Gate()
    viewers = []
    async with FakeProvider([Reply(text, chunk_size=1, gate=gate)]) as provider:
        first, second = world.process(clerk(provider)), world.process(clerk(provider))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        for _ in range(50):
            gate.release(chance.randrange(6))
            await asyncio.sleep(0)
            there = (await world.store.event_count("r", resource=None)) + 1
            offset = chance.randrange(there)
            process = chance.choice([first, second])
            viewers.append((offset, await process.call(lambda agent, offset=offset: agent.observe("r", offset=offset))))
        gate.open()
        live = await read(output)
        seen = [(offset, await read(viewer), viewer.last_index) for offset, viewer in viewers]
    log = await world.whole("r")
    assert (text_of(log), live) == (text, log)
    for offset, chunks, last in seen:
        assert chunks == log[offset:]
        assert last == len(log) - 1


async def test_F01_an_observer_without_offset_gets_all_once(world, impatient):
    gate = Gate(permits=5)
    async with FakeProvider([Reply("Hello world", chunk_size=1, gate=gate)]) as provider:
        first = world.process(clerk(provider))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        await gate.wait_blocked()
        early = await first.call(lambda agent: agent.observe("r"))
        gate.open()
        await output.get_full_output()
        late = await first.call(lambda agent: agent.observe("r"))
        assert await read(early) == await read(late) == await world.whole("r")
        assert (await late.get_full_output()).text == await early.text == "Hello world"


LETTERS = "The quick brown fox"


async def half_way(world: World, provider, gate):
    """A driver that has said some of it, and is killed there; what was stored of it."""
    first = world.process(clerk(provider))
    output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
    await gate.wait_blocked()
    await soon(lambda: len(of(output._chunks, "text-delta")) >= 5)
    return first


@pytest.mark.parametrize("offset", [None, 3])
async def test_S22_F03_the_viewer_of_a_killed_driver_sees_the_run_go_on(world, impatient, offset):
    gate = Gate(permits=6)
    async with FakeProvider([Reply(LETTERS, chunk_size=1, gate=gate), Reply(LETTERS, chunk_size=1)]) as provider:
        first = await half_way(world, provider, gate)
        second = world.process(clerk(provider), recovery="auto")
        viewer = await second.call(lambda agent: agent.observe("r", offset=offset))
        await first.kill()
        await second.call(lambda _: second.app.start())
        reading = asyncio.create_task(read(viewer))
        while not reading.done():
            await world.clock.advance(1)
        chunks = reading.result()
    log = await world.whole("r")
    assert chunks == log[offset or 0 :]
    assert shown_by(chunks, offset or 0) == LETTERS
    assert types(chunks)[-1] == "finish"


async def test_S22_F03_the_viewer_of_a_run_that_nobody_takes_up_is_told(world, impatient, monkeypatch):
    monkeypatch.setattr(observe, "LIVENESS_SECONDS", 0.0)
    gate = Gate(permits=6)
    async with FakeProvider([Reply(LETTERS, chunk_size=1, gate=gate), Reply(LETTERS, chunk_size=1)]) as provider:
        first = await half_way(world, provider, gate)
        second = world.process(clerk(provider))
        viewer = await second.call(lambda agent: agent.observe("r"))
        await first.kill()
        await soon(lambda: viewer._chunks)
        assert viewer.status == "running"  # its lease has not run out: it may just be busy
        await world.leases_expire()
        chunks = await read(viewer)
        with pytest.raises(RunError, match="recover") as raised:
            await viewer.get_full_output()
        assert raised.value.id == chunks[-1].payload.error.id == "RUN_INTERRUPTED"
        assert viewer.last_index == len(chunks) - 2  # the error is this viewer's alone
        # and it goes on without a gap
        output = await second.call(lambda agent: agent.recover("r"))
        again = await second.call(lambda agent: agent.observe("r", offset=viewer.last_index + 1))
        rest = await read(again)
        assert (await output.get_full_output()).text == LETTERS
    assert chunks[:-1] + rest == await world.whole("r")
    assert shown_by(chunks[:-1] + rest) == LETTERS


def viewers():
    return [task for task in asyncio.all_tasks() if "viewer of" in task.get_name() and not task.done()]


async def test_S23_a_viewer_that_detaches_leaves_nothing_and_the_run_goes_on(world, impatient):
    gate = Gate(permits=3)
    async with FakeProvider([Reply("Hello world", gate=gate)]) as provider:
        first = world.process(clerk(provider))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        output.detach()  # of the driver's own process: there is nothing to end
        viewer = await first.call(lambda agent: agent.observe("r"))
        await gate.wait_blocked()
        reader = asyncio.create_task(read(viewer))
        await soon(lambda: len(viewer._chunks) >= 3)
        assert first.app.bus._topics
        viewer.detach()
        viewer.detach()
        seen = await reader
        await soon(lambda: not first.app.bus._topics)
        await soon(lambda: not viewers())
        with pytest.raises(RunError, match=rf"observe\(offset={viewer.last_index + 1}\)") as raised:
            await viewer.text
        assert raised.value.id == "RUN_DETACHED"
        gate.open()
        assert await output.text == "Hello world"
    assert seen == (await world.whole("r"))[: len(seen)]


@pytest.mark.parametrize("how", ["cancelled", "closed"])
async def test_S23_a_viewer_whose_consumer_is_gone_holds_nothing(world, impatient, how):
    gate = Gate(permits=3)
    async with FakeProvider([Reply("Hello world", gate=gate)]) as provider:
        first = world.process(clerk(provider))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        viewer = await first.call(lambda agent: agent.observe("r"))
        await gate.wait_blocked()
        if how == "cancelled":
            reader = asyncio.create_task(read(viewer))
            await soon(lambda: viewer._readers and len(viewer._chunks) >= 3)
            reader.cancel()
        else:
            stream = viewer.full_stream
            await anext(stream)
            await stream.aclose()
        await soon(lambda: not first.app.bus._topics)
        await soon(lambda: not viewers())
        assert output.status == "running"
        gate.open()
        assert await output.text == "Hello world"
        assert await read(viewer) == await world.whole("r")  # read again, it goes on where it was


async def test_S23_the_caller_of_generate_may_go_away(world):
    gate = Gate(permits=3)
    async with FakeProvider([Reply("Hello world", gate=gate)]) as provider:
        first = world.process(clerk(provider))
        calling = first.begin(lambda agent: agent.generate("hi", run_id="r"))
        await gate.wait_blocked()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        gate.open()
        viewer = await first.call(lambda agent: agent.observe("r"))
        assert await viewer.text == "Hello world"
    assert (await world.row("r")).status == "success"


@kinds
async def test_S24_a_failing_callback_hurts_nobody(world, durable, caplog):
    seen, others = [], []

    def broken(chunk):
        seen.append(chunk.type)
        raise ValueError("mine")

    async with FakeProvider([Reply(calls=[Call("look", {"at": "a"}, "c1")]), Reply("done")]) as provider:
        first = world.process(clerk(provider, [look]), durable=durable)
        result = await first.call(
            lambda agent: agent.generate(
                "hi", run_id="r", on_chunk=broken, on_step_finish=others.append, on_finish=others.append
            )
        )
        if durable:
            viewer = await first.call(lambda agent: agent.observe("r", on_chunk=broken))
            await viewer.get_full_output()
            assert seen == types(await world.whole("r")) * 2
    assert (result.text, len(others)) == ("done", 3)
    assert len([record for record in caplog.records if "on_chunk failed" in record.message]) == len(seen)


@kinds
async def test_F02_the_stream_ends_at_a_suspension(world, durable):
    async with FakeProvider([PAY, Reply("done")]) as provider:
        first = world.process(clerk(provider, [pay]), durable=durable)
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        async with asyncio.timeout(5):
            chunks = await read(output)
        assert chunks[-1].type == "tool-call-approval"
        resumed = await first.call(lambda agent: agent.approve_tool_call(run_id="r"))
        if durable:
            viewer = await first.call(lambda agent: agent.observe("r", offset=output.last_index + 1))
            assert await read(viewer) == await read(resumed)
        assert await resumed.text == "done"
        if durable:
            assert chunks + await read(resumed) == await world.whole("r")


async def test_F06_the_numbers_go_on_after_a_crash(world, impatient):
    gate = Gate(permits=12)
    async with FakeProvider([Reply(LETTERS, chunk_size=1, gate=gate), Reply(LETTERS, chunk_size=1)]) as provider:
        first = await half_way(world, provider, gate)
        second = world.process(clerk(provider))
        viewer = await second.call(lambda agent: agent.observe("r"))
        await soon(lambda: len(viewer._chunks) >= 6)
        before, cursor = list(viewer._chunks), viewer.last_index
        viewer.detach()
        await first.kill()
        await world.leases_expire()
        output = await second.call(lambda agent: agent.recover("r"))
        again = await second.call(lambda agent: agent.observe("r", offset=cursor + 1))
        beyond = await second.call(lambda agent: agent.observe("r", offset=1_000_000))
        rest, gapped = await read(again), await read(beyond)
        await output.get_full_output()
    log = await world.whole("r")
    assert before + rest == log
    assert (again.last_index, viewer.last_index) == (len(log) - 1, cursor)
    # an index that never came: said so, then the end
    gap, last = gapped
    assert (gap.type, gap.payload.requested, gap.payload.first) == ("gap", 1_000_000, len(log) - 1)
    assert (last, beyond.last_index) == (log[-1], len(log) - 1)
    assert await beyond.text == LETTERS


async def test_a_viewer_of_a_run_that_is_cleaned_up_gets_a_gap_then_the_end(world, impatient):
    async with FakeProvider([Reply("Hello")]) as provider:
        first = world.process(clerk(provider))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        await output.get_full_output()
        log = await world.whole("r")
        await first.call(lambda _: cleaned(output))
        await settled(first)
        viewer = await first.call(lambda agent: agent.observe("r"))
        gap, last = await read(viewer)
    assert (gap.payload.requested, gap.payload.first, last) == (0, len(log) - 1, log[-1])
    assert viewer.last_index == len(log) - 1
    assert await viewer.text == "Hello"


async def cleaned(output):
    output.cleanup()
    output.cleanup()


async def test_an_unknown_run_is_no_silence(world):
    async with FakeProvider() as provider:
        first = world.process(clerk(provider))
        with pytest.raises(RunError) as raised:
            await first.call(lambda agent: agent.observe("nothing"))
        assert raised.value.id == "DURABLE_AGENT_RUN_NOT_FOUND"
