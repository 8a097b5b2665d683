"""The callbacks of a call: when, with what, in which order, and that they never harm the run."""

from __future__ import annotations

import asyncio
import inspect
import logging

import pytest

from tenuto import AbortController, Agent, tool
from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.errors import ModelError, TenutoError
from tenuto.runs.result import Result
from tenuto.steps.results import AbortEvent, StepResult
from tenuto.store import InMemoryStore
from tenuto.testing import Batches, Call, Gate, Reply, ScriptedModel
from tests.agent.kit import aborted, both

NAMES = ("on_chunk", "on_step_finish", "on_finish", "on_error", "on_abort")


@tool(effects="none")
async def add(a: int = 1, b: int = 2) -> int:
    return a + b


def agent(script):
    return Agent(id="a", model=ScriptedModel(script), tools=[add])


async def call(verb, script, **options):
    """The run with nothing listening but `options`."""
    if verb == "stream":
        return await (await agent(script).stream("hi", **options)).get_full_output()
    try:
        return await agent(script).generate("hi", **options)
    except TenutoError as error:
        return error.result


def listeners(log, *, later=False):
    """All five callbacks, which note what they get."""

    def make(name):
        def listen(event):
            log.append((name, event))

        async def listen_later(event):
            await asyncio.sleep(0)
            log.append((name, event))

        return listen_later if later else listen

    return {name: make(name) for name in NAMES}


def told(log):
    return [name if name != "on_chunk" else event.type for name, event in log if name != "on_chunk" or solid(event)]


def solid(chunk):
    return chunk.type in {"start", "step-start", "tool-call", "tool-result", "step-finish", "finish", "error", "abort"}


@both
@pytest.mark.parametrize("later", [False, True])
async def test_their_order_in_a_good_run(verb, later):
    log = []
    result = await call(verb, [Call("add"), "3"], **listeners(log, later=later))
    assert told(log) == [
        "start",
        "step-start",
        "tool-call",
        "tool-result",
        "step-finish",
        "on_step_finish",
        "step-start",
        "step-finish",
        "on_step_finish",
        "finish",
        "on_finish",
    ]
    steps = [event for name, event in log if name == "on_step_finish"]
    assert tuple(steps) == result.steps
    assert log[-1] == ("on_finish", result)


@both
@pytest.mark.parametrize("later", [False, True])
async def test_their_order_in_a_failed_run(verb, later):
    log = []
    result = await call(verb, [Call("add"), ModelError("no")], **listeners(log, later=later))
    assert told(log)[5:] == ["on_step_finish", "step-start", "error", "step-finish", "on_error", "finish"]
    errors = [event for name, event in log if name == "on_error"]
    assert errors == [result.error]
    assert errors[0].error is errors[0]


@both
@pytest.mark.parametrize("later", [False, True])
async def test_their_order_in_an_aborted_run(verb, later):
    log = []
    await call(verb, ["never"], abort_signal=aborted(), **listeners(log, later=later))
    assert told(log) == ["start", "abort", "on_abort", "finish"]


@both
async def test_what_they_get(verb):
    log = []
    await call(verb, [Call("add"), "3"], **listeners(log))
    await call(verb, [ModelError("no")], **listeners(log))
    await call(verb, ["never"], abort_signal=aborted(), **listeners(log))
    kinds = {
        "on_step_finish": StepResult,
        "on_finish": Result,
        "on_error": ModelError,
        "on_abort": AbortEvent,
    }
    for name, event in log:
        assert isinstance(event, kinds.get(name, object))
        if name == "on_chunk":
            assert type(event).__module__ == c.__name__


@both
async def test_exactly_one_positional_argument(verb):
    seen = []

    def listen(*args, **named):
        seen.append((len(args), named))

    await call(verb, [Call("add"), "3"], **dict.fromkeys(NAMES, listen))
    await call(verb, [ModelError("no")], **dict.fromkeys(NAMES, listen))
    await call(verb, ["never"], abort_signal=aborted(), **dict.fromkeys(NAMES, listen))
    assert seen
    assert all(each == (1, {}) for each in seen)


@both
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("name", NAMES)
async def test_one_that_raises_is_logged_and_harms_nobody(verb, later, name, caplog):
    def fail(event):
        raise ZeroDivisionError

    async def fail_later(event):
        await asyncio.sleep(0)
        raise ZeroDivisionError

    failing = {name: fail_later if later else fail}
    with caplog.at_level(logging.ERROR, "tenuto"):
        good = await call(verb, [Call("add"), "3"], **failing)
        bad = await call(verb, [ModelError("no")], **failing)
        stopped = await call(verb, ["never"], abort_signal=aborted(), **failing)
    assert [each.finish_reason for each in (good, bad, stopped)] == ["stop", "error", "aborted"]
    assert good.text == "3"
    assert f"The callback {name} failed" in caplog.text
    assert all(record.exc_info[0] is ZeroDivisionError for record in caplog.records)


@both
@pytest.mark.parametrize("later", [False, True])
async def test_on_chunk_gets_exactly_the_stream(verb, later):
    seen, log = [], listeners([], later=later)

    def listen(chunk):
        seen.append(chunk)

    async def listen_later(chunk):
        await asyncio.sleep(0)
        seen.append(chunk)

    script = [Reply("Well.", reasoning="Hm.", calls=[Call("add"), Call("nope")]), "3"]
    assert log
    stream = await agent(script).stream("hi", on_chunk=listen_later if later else listen)
    read = [chunk async for chunk in stream.full_stream]
    await stream.get_full_output()
    assert seen == read
    if verb == "generate":
        kinds = [chunk.type for chunk in read]
        seen.clear()
        await agent(script).generate("hi", on_chunk=listen_later if later else listen)
        assert [chunk.type for chunk in seen] == kinds


async def test_on_chunk_gets_the_whole_stream_of_an_aborted_run():
    """Also when the abort comes while an async callback waits."""
    seen, controller = [], AbortController()

    async def listen(chunk):
        seen.append(chunk)
        if chunk.type == "text-delta":
            controller.abort()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    stream = await agent(["Hello world"]).stream("hi", on_chunk=listen, abort_signal=controller.signal)
    await stream.consume_stream()
    assert [chunk.type for chunk in seen] == [chunk.type async for chunk in stream.full_stream]


async def test_on_chunk_gets_every_chunk_of_a_batch_that_an_abort_meets():
    seen, controller = [], AbortController()

    async def listen(chunk):
        seen.append(chunk.type)
        if chunk.type == "text-start":
            controller.abort()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    batch = [p.TextStartPayload("t"), p.TextDeltaPayload("t", "a"), p.TextDeltaPayload("t", "b")]
    script = [Batches([batch, Gate()])]
    stream = await agent(script).stream("hi", on_chunk=listen, abort_signal=controller.signal)
    await stream.consume_stream()
    assert seen == [chunk.type async for chunk in stream.full_stream]


async def test_an_abort_does_not_cut_a_callback_short():
    done, controller = [], AbortController()

    async def listen(chunk):
        if chunk.type == "text-start":
            controller.abort()
            for _ in range(5):
                await asyncio.sleep(0)
            done.append(chunk.type)

    stream = await agent(["Hello world"]).stream("hi", on_chunk=listen, abort_signal=controller.signal)
    await stream.consume_stream()
    assert done == ["text-start"]


@both
async def test_a_result_of_a_callback_means_nothing_here(verb):
    result = await call(verb, [Call("add"), "3"], **dict.fromkeys(NAMES, lambda _: {"continue": False}))
    assert result.text == "3"


async def test_a_callback_may_be_any_callable():
    class Listener:
        def __init__(self):
            self.seen = 0

        async def __call__(self, event):
            self.seen += 1

        def method(self, event):
            self.seen += 1

    listener = Listener()
    await agent(["x"]).generate("hi", on_finish=listener, on_step_finish=listener.method)
    assert listener.seen == 2
    assert inspect.iscoroutinefunction(Listener.__call__)


async def test_a_slow_callback_holds_the_run_but_not_its_readers():
    gate = Gate()

    async def wait(chunk):
        if chunk.type == "text-start":
            await gate.take()

    stream = await agent(["Hello"]).stream("hi", on_chunk=wait)
    await gate.wait_blocked()
    seen = []
    async for chunk in stream.full_stream:
        seen.append(chunk.type)
        if chunk.type == "text-start":
            break
    assert stream.status == "running"
    gate.open()
    assert await stream.text == "Hello"


async def test_the_result_is_there_when_on_finish_is_told():
    async def finish(result):
        assert result.text == "x"
        assert await asyncio.wait_for(store.run(result.run_id, resource=None), 1)

    store = InMemoryStore()
    told_of = []
    one = Agent(id="a", model=ScriptedModel("x"), store=store)

    async def look(result):
        await finish(result)
        told_of.append((await store.run(result.run_id, resource=None)).status)

    await one.generate("hi", on_finish=look)
    assert told_of == ["success"]
