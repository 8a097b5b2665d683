"""`RunOutput`: readers of every kind, and the object that `stream()` returns."""

from __future__ import annotations

import asyncio

import pytest

from tenuto import Agent, tool
from tenuto.errors import ConfigurationError, ModelError, OutputInvalid
from tenuto.runs.supervisor import Supervisor
from tenuto.store import InMemoryStore
from tenuto.testing import Call, Gate, Reply, ScriptedModel
from tests.agent.kit import all_ended


@tool(effects="none")
async def add(a: int = 1, b: int = 2) -> int:
    return a + b


def agent(script="Hello world", **more):
    return Agent(id="a", **({"model": ScriptedModel(script), "tools": [add]} | more))


async def read(stream):
    return [chunk async for chunk in stream.full_stream]


async def test_many_readers_at_once():
    gate = Gate(permits=2)
    stream = await agent([Reply("Hello world", gate=gate)]).stream("hi")
    readers = [asyncio.create_task(read(stream)) for _ in range(20)]
    await gate.wait_blocked()
    gate.open()
    first, *others = await asyncio.gather(*readers)
    assert all(chunks == first for chunks in others)
    assert first[-1].type == "finish"


async def test_every_access_is_a_new_reader_from_the_start():
    stream = await agent().stream("hi")
    one, two = stream.full_stream, stream.full_stream
    assert one is not two
    assert await anext(one) == await anext(two)
    assert [chunk async for chunk in stream] == await read(stream)
    await one.aclose()
    await two.aclose()


async def test_a_reader_that_leaves_does_not_stop_the_others():
    gate = Gate(permits=1)
    stream = await agent([Reply("Hello world", gate=gate)]).stream("hi")
    staying = asyncio.create_task(read(stream))
    async for chunk in stream.full_stream:
        if chunk.type == "text-delta":
            break
    leaving = asyncio.create_task(read(stream))
    await gate.wait_blocked()
    leaving.cancel()
    gate.open()
    assert (await staying)[-1].type == "finish"


async def test_a_late_reader_gets_everything():
    stream = await agent().stream("hi")
    await stream.consume_stream()
    chunks = await read(stream)
    assert chunks[0].type == "start"
    assert "".join([text async for text in stream.text_stream]) == "Hello world"


async def test_read_from_a_place():
    stream = await agent().stream("hi")
    chunks = await read(stream)
    assert await stream.read_from(3) == chunks[3:]
    assert await stream.read_from(len(chunks)) == []


async def test_nobody_reads_and_nobody_keeps_the_stream():
    store = InMemoryStore()
    await agent(store=store).stream("hi", run_id="r")
    await all_ended()
    assert (await store.run("r", resource=None)).status == "success"


async def test_it_is_started_when_awaited_once():
    model = ScriptedModel("Hello world")
    one = agent(model=model)
    pending = one.stream("hi")
    await asyncio.sleep(0)
    assert model.requests == []
    first, second, third = await pending, await pending, await asyncio.gather(as_task(pending))
    assert first is second is third[0]
    assert await first.text == "Hello world"
    assert len(model.requests) == 1


async def as_task(pending):
    return await pending


async def test_awaited_twice_at_the_same_time_it_is_one_run():
    model = ScriptedModel("Hello world")
    one = agent(model=model)
    pending = one.stream("hi")
    outputs = await asyncio.gather(*[as_task(pending) for _ in range(3)])
    assert len({id(output) for output in outputs}) == 1
    await outputs[0].consume_stream()
    assert len(model.requests) == 1


async def test_a_start_that_failed_stays_failed():
    asked = []
    one = Agent(id="a", model=ScriptedModel(), instructions=lambda _: asked.append(1) or "")
    pending = one.stream("hi")
    for _ in range(2):
        with pytest.raises(Exception, match="returned nothing"):
            await pending
    assert asked == [1]


async def test_one_never_awaited_does_nothing():
    model = ScriptedModel("Hello world")
    one = agent(model=model)
    one.stream("hi")
    await asyncio.sleep(0)
    assert model.requests == []
    assert Supervisor.current().running == 0


async def test_async_with_gives_the_output_and_leaving_it_detaches():
    gate = Gate(permits=1)
    async with agent([Reply("Hello world", gate=gate)]).stream("hi") as stream:
        await gate.wait_blocked()
    assert stream.status == "running"
    gate.open()
    assert await stream.text == "Hello world"


async def test_async_with_lets_exceptions_through_and_detaches():
    gate = Gate(permits=1)
    with pytest.raises(ZeroDivisionError):
        async with agent([Reply("Hello world", gate=gate)]).stream("hi") as stream:
            raise ZeroDivisionError
    gate.open()
    assert await stream.text == "Hello world"


async def test_async_with_raises_what_kept_the_run_from_starting():
    with pytest.raises(ConfigurationError):
        async with agent().stream([]):
            pass


async def test_the_status_at_each_stage():
    gate = Gate(permits=1)
    stream = await agent([Reply("Hello world", gate=gate)]).stream("hi", run_id="mine-1")
    assert (stream.run_id, stream.status, stream.error) == ("mine-1", "running", None)
    gate.open()
    await stream.consume_stream()
    assert (stream.status, stream.error) == ("success", None)


async def test_each_field_can_be_awaited_again_and_again():
    script = [Reply("Let me see.", reasoning="Hm.", calls=[Call("add")]), "3"]
    stream = await agent(script).stream("hi")
    result = await stream.get_full_output()
    text = stream.text
    assert (await text, await text) == ("3", "3")
    same = ("tool_calls", "tool_results", "steps", "finish_reason", "usage", "total_usage", "reasoning",
            "reasoning_text", "sources", "files", "warnings", "request", "response", "provider_metadata")  # fmt: skip
    for name in same:
        assert await getattr(stream, name) == getattr(result, name), name
    assert result.text == "Let me see.3"


async def test_without_tools_both_texts_are_the_same():
    stream = await agent().stream("hi")
    assert await stream.text == (await stream.get_full_output()).text == "Hello world"


async def test_there_is_no_object_unless_asked_for():
    stream = await agent().stream("hi")
    with pytest.raises(OutputInvalid):
        await stream.object
    result = await stream.get_full_output()
    assert result.object_or_none is None
    with pytest.raises(OutputInvalid):
        _ = result.object


async def test_a_reader_of_a_failed_run_gets_every_chunk_and_no_exception():
    stream = await agent([ModelError("no")]).stream("hi")
    assert [chunk.type for chunk in await read(stream)] == ["start", "step-start", "error", "step-finish", "finish"]


async def test_an_unread_stream_and_its_readers_leave_no_task():
    stream = await agent().stream("hi")
    reader = stream.full_stream
    await anext(reader)
    del reader
    await stream.consume_stream()
    await all_ended()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_waiting_reader_that_is_dropped_is_forgotten():
    gate = Gate(permits=1)
    stream = await agent([Reply("Hello world", gate=gate)]).stream("hi")
    tasks = [asyncio.create_task(read(stream)) for _ in range(5)]
    await gate.wait_blocked()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not stream._waiters
    gate.open()
    await stream.consume_stream()


async def test_what_a_suspended_run_waits_for_is_awaitable():
    @tool(require_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    agent = Agent(id="a", model=ScriptedModel([Call("pay", {"amount": 5})]), tools=[pay])
    stream = await agent.stream("pay")
    result = await stream.get_full_output()
    for name in ("pending", "suspend_payload", "resume_schema", "messages", "degraded", "trace_id", "span_id"):
        assert await getattr(stream, name) == getattr(result, name)
    assert [call.tool_name for call in await stream.pending] == ["pay"]
