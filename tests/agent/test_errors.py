"""What a run that fails raises, when, and what the exception carries."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tenuto import Agent, tool
from tenuto.errors import ConfigurationError, ModelError, ModelHTTPError, RunError, StoreError, TenutoError
from tenuto.store import InMemoryStore
from tenuto.testing import Call, FakeProvider, HTTPError, Reply, ScriptedModel
from tests.agent.kit import agent_on, both, run


@tool(effects="none")
async def add(a: int = 1, b: int = 2) -> int:
    return a + b


@both
async def test_the_exception_carries_the_result(verb):
    script = [Reply("Let me see.", calls=[Call("add")]), HTTPError(500)]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent_on(provider, [add]))
    error, result = ran.error, ran.result
    assert isinstance(error, ModelHTTPError)
    assert (error.status, error.provider, error.retryable) == (500, "test", True)
    assert error.result is result
    assert (result.finish_reason, result.error) == ("error", error)
    assert result.text == "Let me see."
    assert [done.payload.result for done in result.tool_results] == [3]
    assert ran.types[-3:] == ["error", "step-finish", "finish"]
    assert ran.chunks[-1].payload.step_result.reason == "error"


async def test_generate_raises_and_the_stream_tells():
    model = ScriptedModel(ModelError("no"))
    one = Agent(id="a", model=model)
    with pytest.raises(ModelError, match="no"):
        await one.generate("hi")
    stream = await one.stream("hi")
    assert (await stream.get_full_output()).finish_reason == "error"
    assert isinstance(stream.error, ModelError)
    assert stream.status == "failed"
    for field in (stream.text, stream.usage, stream.steps, stream.finish_reason):
        with pytest.raises(ModelError, match="no"):
            await field
    told = []
    await stream.consume_stream(told.append)
    await stream.consume_stream()
    assert told == [stream.error]


@both
async def test_the_row_has_the_error(verb):
    store = InMemoryStore()
    await run(verb, Agent(id="a", model=ScriptedModel(ModelError("no", code="x")), store=store), run_id="r")
    row = await store.run("r", resource=None)
    assert (row.status, row.reason, row.error.message, row.error.code) == ("failed", "error", "no", "x")


BROKEN = {
    "messages": {"messages": 3},
    "no messages": {"messages": []},
    "only a system message": {"messages": [{"role": "system", "content": "x"}]},
    "a role": {"messages": [{"role": "robot", "content": "x"}]},
    "a result without its call": {
        "messages": [{"role": "tool", "content": [{"type": "tool-result", "tool_call_id": "c", "result": 1}]}]
    },
    "a tool": {"active_tools": ["nope"]},
    "the context": {"context": [3]},
}


@both
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
async def test_what_cannot_be_prepared_raises_before_any_model_call(verb, broken):
    model, store = ScriptedModel(), InMemoryStore()
    options = {"messages": "hi"} | broken
    one = Agent(id="a", model=model, tools=[add], store=store)
    with pytest.raises(ConfigurationError):
        await (one.generate(**options, run_id="r") if verb == "generate" else one.stream(**options, run_id="r"))
    assert model.requests == []
    assert (await store.run("r", resource=None)).status == "failed"


@both
@pytest.mark.parametrize("part", ["model", "instructions", "tools"])
async def test_a_dynamic_part_that_raises(verb, part):
    def fail(context):
        raise ZeroDivisionError

    told = []
    parts = {"id": "a", "model": ScriptedModel(), part: fail}
    with pytest.raises(TenutoError, match="ZeroDivisionError") as caught:
        one = Agent(**parts)
        await (
            one.generate("hi", on_error=told.append) if verb == "generate" else one.stream("hi", on_error=told.append)
        )
    assert caught.value.id in {"AGENT_STREAM_FAILED", "AGENT_GENERATE_FAILED"}
    assert caught.value.category == "USER"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert told == [caught.value]


@both
@pytest.mark.parametrize("name", ["gpt", "nope/x", "openai"])
async def test_a_model_that_does_not_exist(verb, name):
    with pytest.raises(ConfigurationError):
        await run(verb, Agent(id="a", model=name))


@both
async def test_a_missing_key_names_its_variable(verb, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ran = await run(verb, Agent(id="a", model="openai/gpt-x"))
    assert ran.error.id == "MODEL_API_KEY_MISSING"
    assert "OPENAI_API_KEY" in str(ran.error)


@both
async def test_a_run_id_is_used_once(verb):
    model = ScriptedModel("ok")
    one = Agent(id="a", model=model, store=InMemoryStore())
    await run(verb, one, run_id="r")
    with pytest.raises(StoreError, match="'r'") as caught:
        await (one.generate("hi", run_id="r") if verb == "generate" else one.stream("hi", run_id="r"))
    assert caught.value.id == "RUN_EXISTS"
    assert len(model.requests) == 1


@both
async def test_a_run_id_that_is_running_now(verb):
    model = ScriptedModel([Reply("x", hang_after=0)])
    one = Agent(id="a", model=model, store=InMemoryStore())
    stream = await one.stream("hi", run_id="r")
    with pytest.raises((StoreError, RunError)):
        await (one.generate("hi", run_id="r") if verb == "generate" else one.stream("hi", run_id="r"))
    stream.abort()
    assert await stream.finish_reason == "aborted"


@both
async def test_a_model_that_is_no_gentleman(verb):
    """A model of the user's own may raise anything."""
    for error in (ValueError("x"), KeyError("y"), ConfigurationError("z")):
        ran = await run(verb, Agent(id="a", model=ScriptedModel(error)))
        assert isinstance(ran.error, ModelError)
        assert ran.error.__cause__ is error


class BrokenStore(InMemoryStore):
    """Fails at one of its calls."""

    def __init__(self, place):
        super().__init__()
        self.place, self.calls = place, 0

    def hit(self, name):
        self.calls += 1
        if self.place in (name, self.calls):
            raise StoreError("disk full")

    async def claim(self, *args, **named):
        self.hit("claim")
        return await super().claim(*args, **named)

    async def commit(self, fence, write):
        self.hit("commit")
        return await super().commit(fence, write)

    async def release(self, *args, **named):
        self.hit("release")
        return await super().release(*args, **named)


@pytest.mark.parametrize("place", ["claim", "commit", *range(1, 9)])
async def test_a_store_that_fails_is_an_error_and_no_hang(place):
    store = BrokenStore(place)
    one = Agent(id="a", model=ScriptedModel([Call("add"), "3"] * 2), tools=[add], store=store)
    with contextlib.suppress(TenutoError):
        result = await asyncio.wait_for(one.generate("hi"), 5)
        assert result.text == "3"  # only the last call of all, the release, may have failed
        assert store.calls <= place


async def test_a_release_that_fails_does_not_spoil_the_result(caplog):
    one = Agent(id="a", model=ScriptedModel("ok"), store=BrokenStore("release"))
    assert (await one.generate("hi")).text == "ok"


async def test_an_unread_failed_stream_makes_no_noise():
    stream = await Agent(id="a", model=ScriptedModel(ModelError("no"))).stream("hi")
    await stream.consume_stream()
    del stream
