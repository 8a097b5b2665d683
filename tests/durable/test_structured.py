"""Structured output of durable runs: what is stored of it, who asks whom again, and what type another process has."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from tenuto import Agent, StructuredOutput, ToolContext, tool
from tenuto.errors import OutputInvalid
from tenuto.machine.records import RunStarted, StepJudged
from tenuto.testing import Call, FakeProvider, Reply, ScriptedModel
from tests.durable.kit import clerk, in_memory, of


class City(BaseModel):
    name: str
    people: int = 3


ROME = '{"name":"Rome","people":3}'


@tool(require_approval=True, effects="none")
async def look() -> str:
    """Look it up."""
    return "seen"


@tool
async def ask(ctx: ToolContext) -> str:
    """Ask."""
    return "seen" if ctx.resume_data is not None else await ctx.suspend({"q": 1})


def scripted(*answers: Any, tools: Any = (), **more: Any) -> Agent[Any, Any]:
    return Agent(id="clerk", model=ScriptedModel(list(answers)), tools=tools, **more)


async def test_s79_after_a_restart_the_answer_is_validated_against_the_stored_schema(world):
    script = [*[Reply(calls=[Call("look")])] * 2, Reply('{"name":"Rome"}'), Reply('{"people":1}')]
    async with FakeProvider(script) as provider:
        first = world.process(clerk(provider, [look]))
        for run_id in ("good", "bad"):
            parked = await first.call(lambda a, r=run_id: a.generate("hi", run_id=r, structured_output=City))
            assert (parked.finish_reason, parked.object_state) == ("suspended", "none")
        await first.kill()
        second = world.process(clerk(provider, [look]))
        result = await second.call(lambda a: a.approve_tool_call_generate(run_id="good"))
        assert (result.object, result.degraded) == ({"name": "Rome"}, ("structured_output",))
        assert "response_format" in provider.requests[2].body
        with pytest.raises(OutputInvalid) as caught:
            await second.call(lambda a: a.approve_tool_call_generate(run_id="bad"))
        assert [issue.path for issue in caught.value.issues] == [("name",)]


async def test_the_schema_given_again_brings_the_type_back(world):
    first = world.process(scripted(Call("look"), tools=[look]))
    await first.call(lambda a: a.generate("hi", run_id="r", structured_output=City))
    await first.kill()
    second = world.process(scripted('{"name":"Rome"}', tools=[look]))
    result = await second.call(lambda a: a.approve_tool_call_generate(run_id="r", structured_output=City))
    assert (result.object, result.degraded) == (City(name="Rome"), ())


async def test_so_do_the_agents_own_default_options(world):
    defaults: Any = {"structured_output": {"schema": City, "error_strategy": "warn"}}
    first = world.process(scripted(Call("look"), tools=[look], default_options=defaults))
    await first.call(lambda a: a.generate("hi", run_id="r"))
    await first.kill()
    second = world.process(scripted('{"name":"Rome"}', tools=[look], default_options=defaults))
    result = await second.call(lambda a: a.approve_tool_call_generate(run_id="r"))
    assert (result.object, result.degraded) == (City(name="Rome"), ())


@in_memory
async def test_in_the_process_that_parked_it_nothing_is_lost(world):
    process = world.process(scripted(Call("ask"), '{"name":"Rome"}', tools=[ask]))
    await process.call(lambda a: a.generate("hi", run_id="r", structured_output=City))
    result = await process.call(lambda a: a.resume_generate({"a": 1}, run_id="r"))
    assert (result.object, result.degraded) == (City(name="Rome"), ())


@pytest.mark.parametrize("given", [None, City])
async def test_a_viewer_has_the_object_too(world, given):
    first = world.process(scripted(ROME))
    await first.call(lambda a: a.generate("hi", run_id="r", structured_output=City))
    await first.kill()
    second = world.process(scripted())
    options = {} if given is None else {"structured_output": given}
    viewer = await second.call(lambda a: a.observe("r", **options))
    result = await second.call(lambda _: viewer.get_full_output())
    assert result.object == ({"name": "Rome", "people": 3} if given is None else City(name="Rome"))
    assert result.degraded == (("structured_output",) if given is None else ())
    partials = await second.call(lambda _: _all(viewer.object_stream))
    assert partials[-1] == {"name": "Rome", "people": 3}


async def _all(stream):
    return [each async for each in stream]


async def test_what_is_stored_is_json_schema_and_options_and_no_code(world):
    wanted = StructuredOutput(City, error_strategy="fallback", fallback_value=City(name="?"), instructions="Names.")
    process = world.process(scripted(ROME))
    await process.call(lambda a: a.generate("hi", run_id="r", structured_output=wanted))
    begun, *_ = records = await world.records("r")
    assert isinstance(begun, RunStarted)
    kept = begun.options["structured_output"]
    assert (kept["schema"], kept["typed"]) == (City.model_json_schema(), True)
    assert (kept["error_strategy"], kept["fallback_value"]) == ("fallback", {"name": "?", "people": 3})
    [judged] = [record for record in records if isinstance(record, StepJudged)]
    assert (judged.answer.state, judged.answer.value) == ("fits", {"name": "Rome", "people": 3})


async def test_the_other_models_answer_is_stored_and_it_is_not_asked_twice(world):
    other = ScriptedModel([ROME])
    wanted = {"schema": City, "model": other}
    first = world.process(scripted("It is Rome."))
    await first.killed_in(lambda a: a.generate("hi", run_id="r", structured_output=wanted), "run.after_finalise")
    assert len(other.requests) == 1
    await world.leases_expire()
    second = world.process(scripted())
    output = await second.call(lambda a: a.recover("r", structured_output=City))
    result = await second.call(lambda _: output.get_full_output())
    assert (result.object, result.text, len(other.requests)) == (City(name="Rome"), "It is Rome.", 1)
    assert result.usage.total_tokens == 30


async def test_a_structuring_model_that_is_gone_is_stood_in_for_by_the_runs_own(world):
    wanted = {"schema": City, "model": ScriptedModel()}
    first = world.process(scripted("It is Rome."))
    await first.killed_in(lambda a: a.generate("hi", run_id="r", structured_output=wanted), "model.after_commit")
    await world.leases_expire()
    own = scripted(ROME)
    second = world.process(own)
    output = await second.call(lambda a: a.recover("r"))
    result = await second.call(lambda _: output.get_full_output())
    assert result.object == {"name": "Rome", "people": 3}
    assert set(result.degraded) == {"structured_output", "structured_output.model"}


async def test_a_failure_is_the_same_for_who_comes_later(world):
    first = world.process(scripted('{"people":"many"}'))
    with pytest.raises(OutputInvalid) as here:
        await first.call(lambda a: a.generate("hi", run_id="r", structured_output=City))
    await first.kill()
    second = world.process(scripted())
    viewer = await second.call(lambda a: a.observe("r"))
    with pytest.raises(OutputInvalid) as there:
        await second.call(lambda _: _await(viewer.object))
    assert there.value.issues == here.value.issues
    assert (there.value.id, there.value.text, there.value.value) == (
        here.value.id,
        '{"people":"many"}',
        {"people": "many"},
    )
    assert (await world.row("r")).status == "failed"
    assert [chunk.type for chunk in of(await world.whole("r"), "error", "finish")] == ["error", "finish"]


async def _await(later):
    return await later


async def test_a_death_between_failure_and_end_fails_the_run_all_the_same(world):
    first = world.process(scripted("no"))
    await first.killed_in(lambda a: a.generate("hi", run_id="r", structured_output=City), "run.after_finalise")
    await world.leases_expire()
    second = world.process(scripted())
    output = await second.call(lambda a: a.recover("r"))
    with pytest.raises(OutputInvalid):
        await second.call(lambda _: _await(output.object))


@in_memory
async def test_partial_objects_cost_no_commit_each(world):
    async with FakeProvider([Reply('{"name":"' + "x" * 4_000 + '"}', chunk_size=4)]) as provider:
        process = world.process(clerk(provider))
        await process.call(lambda a: a.generate("hi", run_id="r", structured_output=City))
        events = len(await world.log("r"))
    assert len(process.store.writes) < events / 8
