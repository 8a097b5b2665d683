"""Model calls that fail, and drivers that die between a failure and what follows it."""

from __future__ import annotations

import asyncio

import pytest

from tenuto import Agent, tool
from tenuto.machine.records import AttemptFailed, ModelStarted, decode_record
from tenuto.models import retries
from tenuto.testing import Call, FakeProvider, Gate, HTTPError, Reply, ScriptedModel
from tests.durable.kit import clerk, in_memory, of, shown_by, types


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(retries, "FIRST_WAIT", 0.001)


async def records(world, run_id="r"):
    return [decode_record(raw) for raw in await world.store.records(run_id, resource=None)]


async def recovered(world, process):
    world.clock.jump(60)
    output = await process.call(lambda agent: agent.recover("r"))
    return await output.get_full_output()


def two(first, second, **more):
    urls = {"first": first.base_url, "second": second.base_url}
    models = [{"model": {"id": f"test/{name}", "url": url}, **more} for name, url in urls.items()]
    return Agent(id="clerk", model=models, tools=[pay], max_retries=1)


@tool(effects="none")
async def pay(order: str) -> str:
    return f"paid {order}"


CALL = Reply(calls=[Call("pay", {"order": "A"}, "c1")])


async def test_killed_while_it_waits_for_a_retry(world):
    async with FakeProvider([HTTPError(503), Reply("Hello")]) as provider:
        first = world.process(clerk(provider, max_retries=1))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), "model.before_retry")
        result = await recovered(world, world.process(clerk(provider, max_retries=1)))
        assert len(provider.requests) == 2
    assert result.text == "Hello"
    log = await world.whole("r")
    assert shown_by(log) == "Hello"
    attempts = [(each.step, each.attempt) for each in await records(world) if isinstance(each, ModelStarted)]
    assert attempts == [(1, 1), (1, 2)]  # a retry is none, a recovery is


async def test_retries_are_no_business_of_the_journal(world):
    async with FakeProvider([HTTPError(503), Reply("Hello")]) as provider:
        first = world.process(clerk(provider, max_retries=1))
        await first.call(lambda agent: agent.generate("hi", run_id="r"))
    assert [each.attempt for each in await records(world) if isinstance(each, ModelStarted)] == [1]
    assert "attempt-restarted" not in types(await world.whole("r"))


@pytest.mark.parametrize("point", ["model.before_fallback", "model.before_call", "model.mid_stream"])
async def test_killed_between_a_failed_model_and_the_next(world, point):
    times = 2 if point == "model.before_call" else 1
    reply = Reply("Hello", chunk_size=1, gate=Gate(permits=3) if point == "model.mid_stream" else None)
    replies = iter([reply, Reply("Hello")])
    async with FakeProvider(lambda _: HTTPError(400)) as bad, FakeProvider(lambda _: next(replies)) as good:
        first = world.process(two(bad, good))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), point, times)
        result = await recovered(world, world.process(two(bad, good)))
        asked = len(bad.requests)
    assert result.text == "Hello"
    assert [step.model for step in result.steps] == ["test/second"]
    log = await world.whole("r")
    assert shown_by(log) == "Hello"
    failed = [each.model for each in await records(world) if isinstance(each, AttemptFailed)]
    assert failed == ["test/first"]
    assert asked == (1 if point == "model.mid_stream" else 2)  # what was not stored is found out again


async def test_a_recovered_run_stays_with_the_model_that_worked(world):
    async with FakeProvider([HTTPError(400)]) as bad, FakeProvider([CALL, Reply("done")]) as good:
        first = world.process(two(bad, good))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), "tool.after_result")
        result = await recovered(world, world.process(two(bad, good)))
        assert (len(bad.requests), len(good.requests)) == (1, 2)
    assert result.text == "done"


async def test_a_partial_answer_of_a_model_that_failed_is_void_for_every_viewer(world):
    gate = Gate(permits=2)
    script = [Reply("Good morning", chunk_size=4, drop_after=3, gate=gate)]
    async with FakeProvider(script) as bad, FakeProvider([Reply("Hello")]) as good:
        first = world.process(two(bad, good))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        async for chunk in output.full_stream:
            if chunk.type == "text-delta":
                break  # it was shown before the connection went, so it is no matter for a retry
        gate.open()
        viewer = await world.process(two(bad, good)).call(lambda agent: agent.observe("r"))
        seen = [chunk async for chunk in viewer.full_stream]
        result = await output.get_full_output()
    log = await world.whole("r")
    assert seen == log
    (restart,) = of(log, "attempt-restarted")
    assert (restart.payload.attempt, restart.payload.discard_from) == (2, types(log).index("step-start"))
    assert shown_by(log) == "Hello" == result.text == await viewer.text
    assert [(each.role, each.text) for each in result.messages] == [("user", "hi"), ("assistant", "Hello")]


@in_memory
async def test_all_models_fail(world):
    async with FakeProvider(lambda _: HTTPError(400)) as bad:
        first = world.process(two(bad, bad))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        result = await output.get_full_output()
    assert result.error.details["triedModels"] == "test/first, test/second"
    row = await world.row("r")
    assert (row.status, row.error.details["triedModels"]) == ("failed", "test/first, test/second")


async def test_a_list_of_the_call_is_kept_without_its_credentials(world):
    approve = Reply(calls=[Call("ask", {"order": "A"}, "c1")])

    @tool(require_approval=True)
    async def ask(order: str) -> str:
        return f"asked {order}"

    async with FakeProvider(lambda _: HTTPError(400)) as bad, FakeProvider([approve, Reply("done")]) as good:
        models = [
            {"id": "test/bad", "url": bad.base_url},
            {
                "model": {"id": "test/good", "url": good.base_url},
                "maxRetries": 2,
                "modelSettings": {"temperature": 0.5, "headers": {"x-api-key": "sk-canary-1", "x-team": "red"}},
                "headers": {"cookie": "sk-canary-2", "x-low": "1"},
            },
        ]
        first = world.process(clerk(good, [ask]))
        result = await first.call(lambda agent: agent.generate("hi", run_id="r", model=models))
        assert result.finish_reason == "suspended"
        kept = b"".join(await world.store.records("r", resource=None))
        second = world.process(clerk(bad, [ask]))
        result = await second.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
        again = good.requests[1]
        assert len(bad.requests) == 1
    assert b"sk-canary" not in kept
    assert result.text == "done"
    assert set(result.degraded) == {"model_settings.headers.x-api-key", "model.headers.cookie"}
    assert (again.body["temperature"], again.headers["x-team"], again.headers["x-low"]) == (0.5, "red", "1")


@in_memory
@pytest.mark.parametrize("live", ["a model", "a function"])
async def test_a_list_that_json_cannot_hold_falls_to_the_agents_own(world, live):
    @tool(require_approval=True)
    async def ask() -> str:
        return "asked"

    async with FakeProvider([Reply("own")]) as provider:
        entry = {"a model": ScriptedModel(Call("ask")), "a function": {"model": lambda: ScriptedModel(Call("ask"))}}
        first = world.process(clerk(provider, [ask]))
        await first.call(lambda agent: agent.generate("hi", run_id="r", model=["openai/x", entry[live]][1:]))
        second = world.process(clerk(provider, [ask]))
        result = await second.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
    assert (result.text, result.degraded) == ("own", ("model",))


async def test_time_while_a_run_waits_does_not_count(world):
    @tool(require_approval=True)
    async def ask() -> str:
        await asyncio.sleep(0)
        return "asked"

    async with FakeProvider([Reply(calls=[Call("ask", {}, "c1")]), Reply("done")]) as provider:
        first = world.process(clerk(provider, [ask]))
        limits = {"timeout": {"total_ms": 60_000}}
        await first.call(lambda agent: agent.generate("hi", run_id="r", model_settings=limits))
        assert first.context.run(timers) == []
        world.clock.jump(3600)
        result = await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
    assert (result.text, result.error) == ("done", None)


def timers():
    loop = asyncio.get_running_loop()
    return [each for each in loop._scheduled if not each.cancelled() and "_time_out" in repr(each)]
