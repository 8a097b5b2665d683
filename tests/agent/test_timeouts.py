"""Time limits: of the run, of a model call, of the wait for its first content; all in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from tenuto import AbortController, Agent, ToolContext, tool
from tenuto.core import payloads as p
from tenuto.errors import ModelError, ModelTimeout
from tenuto.models.ports import Finish, RequestStart
from tenuto.processors import Processor
from tenuto.store import InMemoryStore
from tenuto.testing import Call, ScriptedModel, run_virtual
from tests.agent.kit import both, run


class Slow:
    """A model that says `parts`, each after its number of seconds."""

    provider = "slow"

    def __init__(self, *parts, model_id="model"):
        self.parts = parts
        self.model_id = model_id
        self.requests = 0

    async def stream(self, request):
        self.requests += 1
        yield [RequestStart(None)]
        for seconds, part in self.parts:
            if seconds:
                await asyncio.sleep(seconds)
            yield [part]


START, END, DONE = p.TextStartPayload("t"), p.TextEndPayload("t"), Finish("stop", p.Usage())


def delta(text):
    return p.TextDeltaPayload("t", text)


def answer(*waits):
    """An answer whose pieces come after these many seconds each."""
    pieces = [(seconds, delta(f"{place} ")) for place, seconds in enumerate(waits)]
    return ((0, START), *pieces, (0, END), (0, DONE))


def timed(verb, one, **options):
    async def main():
        loop = asyncio.get_running_loop()
        began = loop.time()
        ran = await run(verb, one, **options)
        return ran, loop.time() - began

    return run_virtual(main())


def limits(**timeout):
    return {"model_settings": {"timeout": timeout}}


def agent(model, **more):
    return Agent(id="a", model=model, **more)


@both
@pytest.mark.parametrize("key", ["step_ms", "stepMs"])
def test_a_model_call_that_takes_too_long(verb, key):
    model, told = Slow(*answer(1, 1, 1, 1)), []
    ran, took = timed(verb, agent(model, max_retries=3), on_error=told.append, **limits(**{key: 2500}))
    assert took == 2.5
    assert isinstance(ran.error, ModelTimeout)
    assert (ran.error.timeout_type, ran.error.timeout_ms) == ("step", 2500)
    assert ran.error.details == {"timeoutType": "step", "timeoutMs": 2500}
    assert (ran.error.id, ran.error.retryable, told) == ("MODEL_TIMEOUT", False, [ran.error])
    assert ran.result.text == "0 1 "
    assert ran.types[-3:] == ["error", "step-finish", "finish"]
    assert model.requests == 1


@both
def test_a_call_within_its_limits(verb):
    ran, took = timed(verb, agent(Slow(*answer(1, 1))), **limits(step_ms=2100, first_chunk_ms=1100, total_ms=2100))
    assert (ran.error, ran.result.text, took) == (None, "0 1 ", 2)


@both
def test_each_step_has_its_own_limit(verb):
    @tool(effects="none")
    async def wait() -> str:
        await asyncio.sleep(60)
        return "waited"

    call = ((1, p.ToolCallPayload("c", "wait", {})), (0, Finish("tool-calls", p.Usage())))
    model = Slow(*call)

    async def stream(request):
        model.parts = call if model.requests == 0 else answer(1)
        async for batch in Slow.stream(model, request):
            yield batch

    model.stream = stream
    ran, took = timed(verb, agent(model, tools=[wait]), **limits(step_ms=1500))
    assert (ran.error, took) == (None, 62)


@both
@pytest.mark.parametrize("first", [((5, START),), ((0, START), (5, delta("x")))], ids=["nothing", "an empty part"])
def test_the_first_content_comes_too_late(verb, first):
    ran, took = timed(verb, agent(Slow(*first, (0, END), (0, DONE))), **limits(first_chunk_ms=2000))
    assert took == 2
    assert (ran.error.timeout_type, ran.error.timeout_ms) == ("first_chunk", 2000)
    assert "slow/model had sent nothing" in str(ran.error)


@both
def test_after_the_first_content_that_limit_is_gone(verb):
    ran, took = timed(verb, agent(Slow(*answer(1, 5, 5))), **limits(first_chunk_ms=2000))
    assert (ran.error, took) == (None, 11)


@both
def test_the_first_content_is_waited_for_anew_after_a_retry(verb):
    model = Slow(*answer(2))

    async def stream(request):
        if model.requests == 0:
            model.requests += 1
            await asyncio.sleep(2)
            raise ModelError("busy", retryable=True)
        async for batch in Slow.stream(model, request):
            yield batch

    model.stream = stream
    ran, took = timed(verb, agent(model, max_retries=1), **limits(first_chunk_ms=2500))
    assert (ran.error, took) == (None, 2 + 1 + 2)


@both
def test_the_limit_of_a_step_counts_its_retries_and_their_waits(verb):
    model = ScriptedModel(lambda _: ModelError("busy", retryable=True))
    ran, took = timed(verb, agent(model, max_retries=9), **limits(step_ms=2000))
    assert (ran.error.timeout_type, took, len(model.requests)) == ("step", 2, 2)


@both
@pytest.mark.parametrize("limit", ["step_ms", "first_chunk_ms"])
def test_a_slow_model_is_followed_by_the_next_one(verb, limit):
    slow, quick = Slow(*answer(9)), Slow(*answer(1), model_id="quick")
    ran, took = timed(verb, agent([{"model": slow, "max_retries": 5}, quick]), **limits(**{limit: 2000}))
    assert (ran.error, ran.result.text, took) == (None, "0 ", 3)
    assert (slow.requests, quick.requests) == (1, 1)


@both
def test_an_entry_has_limits_of_its_own(verb):
    slow, quick = Slow(*answer(9)), Slow(*answer(4), model_id="quick")
    entry = {"model": slow, "model_settings": {"timeout": {"first_chunk_ms": 1000}}}
    ran, took = timed(verb, agent([entry, quick]), **limits(first_chunk_ms=5000, step_ms=4500))
    assert (ran.error, took) == (None, 5)


@both
def test_the_time_of_the_run_is_over_while_the_model_speaks(verb):
    store, told, second = InMemoryStore(), [], Slow(*answer(1))
    one = agent([Slow(*answer(1, 1, 1, 1)), second], store=store, max_retries=3)
    ran, took = timed(verb, one, run_id="r", on_error=told.append, **limits(total_ms=2500))
    assert (took, second.requests) == (2.5, 0)
    assert (ran.error.timeout_type, ran.error.timeout_ms, told) == ("total", 2500, [ran.error])
    assert ran.result.finish_reason == "error"
    assert ran.result.text == "0 1 "
    assert ran.types[-3:] == ["error", "step-finish", "finish"]
    row = asyncio.run(store.run("r", resource=None))
    assert (row.status, row.error.id) == ("failed", "MODEL_TIMEOUT")


@both
def test_the_time_of_the_run_is_over_during_a_wait_for_a_retry(verb):
    model = ScriptedModel(lambda _: ModelError("busy", retryable=True))
    ran, took = timed(verb, agent(model, max_retries=9), **limits(total_ms=1500))
    assert (ran.error.timeout_type, took, len(model.requests)) == ("total", 1.5, 2)


@both
@pytest.mark.parametrize("effects", ["none", "once"])
def test_the_time_of_the_run_is_over_while_a_tool_runs(verb, effects):
    heard, left = [], []

    key = {} if effects == "none" else {"key": ("order",)}

    @tool(effects=effects, **key)
    async def work(ctx: ToolContext, order: str) -> str:
        try:
            await ctx.abort_signal.wait()
            heard.append(asyncio.get_running_loop().time())
            await asyncio.sleep(60)
        finally:
            left.append(asyncio.get_running_loop().time())
        return "never"

    store = InMemoryStore()
    model = ScriptedModel([[Call("work", {"order": "a"}, "c1")], "never"])
    one = agent(model, tools=[work], abort_grace=3.0, store=store)
    ran, took = timed(verb, one, **limits(total_ms=2000))
    assert (heard, left, took) == ([2], [5], 5)
    assert ran.error.timeout_type == "total"
    (closed,) = ran.of("tool-error")
    assert closed.payload.tool_call_id == "c1"
    assert ran.types[-2:] == ["error", "finish"]
    assert len(model.requests) == 1
    assert [row.status for row in store._effects.values()] == ([] if effects == "none" else ["unknown"])


@both
def test_a_tool_that_ends_within_the_grace_keeps_its_result(verb):
    @tool(effects="none")
    async def work(ctx: ToolContext) -> str:
        await ctx.abort_signal.wait()
        return "saved what there was"

    model = ScriptedModel([[Call("work", {}, "c1")], "never"])
    ran, took = timed(verb, agent(model, tools=[work]), **limits(total_ms=2000))
    assert took == 2
    assert [done.payload.result for done in ran.result.tool_results] == ["saved what there was"]
    assert (ran.error.timeout_type, len(model.requests)) == ("total", 1)


@both
def test_calls_that_had_not_begun_are_closed_for_viewers(verb):
    @tool(effects="none")
    async def work(ctx: ToolContext) -> str:
        await ctx.abort_signal.wait()
        return "done"

    model = ScriptedModel([[Call("work", {}, "c1"), Call("work", {}, "c2")]])
    ran, _ = timed(verb, agent(model, tools=[work]), tool_call_concurrency=1, **limits(total_ms=1000))
    assert [chunk.payload.tool_call_id for chunk in ran.of("tool-result")] == ["c1"]
    assert [chunk.payload.tool_call_id for chunk in ran.of("tool-error")] == ["c2"]


@both
def test_an_abort_before_the_limit_is_an_abort(verb):
    controller = AbortController()

    async def main():
        task = asyncio.create_task(
            run(verb, agent(Slow(*answer(9))), abort_signal=controller.signal, **limits(total_ms=2000, step_ms=1500))
        )
        await asyncio.sleep(1)
        controller.abort()
        return await task

    ran = run_virtual(main())
    assert (ran.result.finish_reason, ran.error) == ("aborted", None)


@both
def test_an_abort_at_the_very_moment_of_a_limit_wins(verb):
    controller = AbortController()

    async def main():
        loop = asyncio.get_running_loop()
        loop.call_later(1.5, controller.abort)
        return await run(
            verb, agent([Slow(*answer(9)), "openai/never"]), abort_signal=controller.signal, **limits(step_ms=1500)
        )

    ran = run_virtual(main())
    assert (ran.result.finish_reason, ran.error) == ("aborted", None)


def test_a_model_that_turns_the_interruption_into_its_own_error():
    class Stubborn(Slow):
        async def stream(self, request):
            try:
                async for batch in super().stream(request):
                    yield batch
            except asyncio.CancelledError:
                raise ModelError("I was interrupted") from None

    ran, took = timed("generate", agent(Stubborn(*answer(9))), **limits(step_ms=1000))
    assert (ran.error.timeout_type, took) == ("step", 1)


def test_nothing_is_left_of_a_run_that_was_stopped():
    async def main():
        ran = await run("stream", agent(Slow(*answer(9))), **limits(step_ms=1000, total_ms=5000, first_chunk_ms=2000))
        before = asyncio.get_running_loop().time()
        await asyncio.sleep(60)
        return ran, before

    ran, ended = run_virtual(main())
    assert (ran.error.timeout_type, ended) == ("step", 1)


WRONG = [
    (3, TypeError),
    ({"total": 3}, TypeError),
    ({"total_ms": "3"}, TypeError),
    ({"total_ms": True}, TypeError),
    ({"total_ms": 3, "totalMs": 4}, TypeError),
    ({"step_ms": 0}, ValueError),
    ({"step_ms": -1}, ValueError),
    ({"first_chunk_ms": float("inf")}, ValueError),
    ({"first_chunk_ms": float("nan")}, ValueError),
]


@pytest.mark.parametrize(("wrong", "error"), WRONG, ids=str)
async def test_a_limit_of_the_wrong_shape_is_refused_at_once(wrong, error):
    with pytest.raises(error):
        agent(Slow()).stream("hi", model_settings={"timeout": wrong})


@both
def test_the_limits_of_the_agents_defaults_are_merged_key_by_key(verb):
    one = agent(Slow(*answer(3, 3)), default_options=limits(total_ms=5000, step_ms=1000))
    ran, took = timed(verb, one, **limits(step_ms=9000))
    assert (ran.error.timeout_type, took) == ("total", 5)


class _Stuck(Processor):
    id = "stuck"

    async def process_output_stream(self, context):
        if context.part.type == "step-start":
            await asyncio.sleep(9)
        return context.part


@both
def test_the_limit_passes_while_a_processor_looks_at_how_a_step_begins(verb):
    """Nothing of the attempt is recorded then, and it has to fail as a step of its own."""
    one = agent(Slow(*answer(1)), output_processors=[_Stuck()], abort_grace=1.0)
    ran, took = timed(verb, one, **limits(total_ms=2000))
    assert (ran.error.timeout_type, took) == ("total", 2 + 1)
    assert [type(each).__name__ for each in ran.chunks[-4:]] == ["StepStart", "Error", "StepFinish", "Finish"]
