"""Cases of class B: the loop, its tools and its limits."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from tenuto import AbortController, Agent, ToolContext, tool
from tenuto.store import InMemoryStore
from tenuto.testing import Call, FakeProvider, Gate, Reply, ScriptedModel
from tests.agent.kit import agent_on, answers, both, calls, piece, raw, run, says, sent


@tool(effects="none")
async def double(a: int) -> int:
    return 2 * a


@both
async def test_b07_stop_when_sees_all_results_of_its_step(verb):
    seen, told = [], []

    def stop(context):
        seen.append(context.steps)
        return len(context.steps) == 2

    script = [
        Reply(calls=[Call("double", {"a": 1})]),
        Reply(calls=[Call("double", {"a": 2}, "x"), Call("double", {"a": 3}, "y")]),
    ]
    async with FakeProvider(script) as provider:
        agent = agent_on(provider, [double])
        ran = await run(verb, agent, stop_when=stop, max_steps=9, on_step_finish=told.append)
    done = seen[-1][-1].tool_results
    assert [(each.payload.tool_call_id, each.payload.result) for each in done] == [("x", 4), ("y", 6)]
    assert seen[-1] == ran.result.steps == tuple(told)
    assert [len(steps) for steps in seen] == [1, 2]


@both
async def test_b09_the_limit_counts_whole_steps_and_is_hard(verb):
    runs = count()

    @tool(effects="none")
    async def more() -> int:
        return next(runs)

    async with FakeProvider(lambda _: Reply(calls=[Call("more")] * 5)) as provider:
        ran = await run(verb, agent_on(provider, [more]), max_steps=2)
        assert len(provider.requests) == 2
    assert next(runs) == 10
    assert ran.result.finish_reason == "tool-calls"


@both
async def test_b11_an_empty_list_of_calls_is_a_plain_answer(verb):
    async with FakeProvider([raw({"content": "hi", "tool_calls": []}), Reply("bye")]) as provider:
        agent = agent_on(provider, [double])
        ran = await run(verb, agent)
        await run(verb, agent, [*ran.result.messages, "and?"])
        assert sent(provider)[1] == {"role": "assistant", "content": "hi"}
    assert (ran.result.finish_reason, ran.result.tool_calls) == ("stop", ())


@both
@pytest.mark.parametrize("label", ["", "c1"])
async def test_b13_equal_ids_are_two_calls(verb, label):
    done = []

    @tool
    async def act(n: int) -> str:
        done.append(n)
        return f"did {n}"

    twice = [Call("act", {"n": 1}, label), Call("act", {"n": 2}, label)]
    again = [Call("act", {"n": 3}, label), Call("act", {"n": 4}, label)]
    async with FakeProvider([Reply(calls=twice), Reply(calls=again), Reply("ok"), Reply("bye")]) as provider:
        agent = agent_on(provider, [act])
        ran = await run(verb, agent, tool_call_concurrency=1)
        assert answers(provider) == ["did 1", "did 2", "did 3", "did 4"]
        await run(verb, agent, [*ran.result.messages, "more"])
    assert done == [1, 2, 3, 4]
    ids = [call.payload.tool_call_id for call in ran.result.tool_calls]
    assert len(set(ids)) == 4
    assert [each.payload.tool_call_id for each in ran.result.tool_results] == ids


@both
async def test_b13_an_id_used_again_in_a_later_turn(verb):
    reply = Reply(calls=[Call("double", {"a": 1}, "c1")])
    async with FakeProvider([reply, Reply("ok"), reply, Reply("ok")]) as provider:
        agent = agent_on(provider, [double])
        first = await run(verb, agent)
        second = await run(verb, agent, [*first.result.messages, "again"])
    ids = [call.payload.tool_call_id for ran in (first, second) for call in ran.result.tool_calls]
    assert len(set(ids)) == 2


@both
async def test_b15_malformed_arguments_are_an_answer(verb):
    broken = '{"{"tagIds":['
    script = [
        raw(calls(piece(broken, "double", id="c", index=0)), finish="tool_calls"),
        Reply(calls=[Call("double", {"a": 4})]),
        Reply("8"),
    ]
    async with FakeProvider(script) as provider:  # it refuses arguments that are not JSON
        ran = await run(verb, agent_on(provider, [double]))
        assert "not valid JSON" in answers(provider, 1)[0]
    assert [done.payload.result for done in ran.result.tool_results][-1] == 8
    first = ran.result.tool_calls[0].payload
    assert (first.args, first.raw_args) == (None, broken)
    assert ran.result.text == "8"


@both
async def test_b15_the_raw_text_survives_a_next_turn(verb):
    script = [raw(calls(piece("{oops", "double", id="c", index=0))), Reply("sorry"), Reply("bye")]
    async with FakeProvider(script) as provider:
        agent = agent_on(provider, [double])
        ran = await run(verb, agent)
        await run(verb, agent, [*[message.to_dict() for message in ran.result.messages], "again"])
        assert "oops" in str(sent(provider)[1]["tool_calls"][0]["function"]["arguments"])


@both
async def test_b17_one_failing_tool_leaves_its_siblings_alone(verb):
    @tool(effects="none")
    async def fine() -> str:
        return "value"

    @tool(effects="none")
    async def raises() -> str:
        raise ValueError("boom")

    @tool(effects="none")
    async def cancels() -> str:
        raise asyncio.CancelledError

    script = [Reply(calls=[Call("fine"), Call("raises"), Call("cancels")]), Reply("ok")]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent_on(provider, [fine, raises, cancels]))
        said = answers(provider)
    assert said[0] == "value"
    assert "boom" in said[1]
    assert "CancelledError" in said[2]
    assert [done.payload.is_error for done in ran.result.tool_results] == [None, True, True]
    assert ran.result.text == "ok"


@both
async def test_b19_an_abort_from_on_chunk_keeps_the_tool_from_running(verb):
    controller, ran_times = AbortController(), []

    @tool
    async def act() -> str:
        ran_times.append(1)
        return "did"

    def on_chunk(chunk):
        if chunk.type == "tool-call":
            controller.abort()

    agent = Agent(id="a", model=ScriptedModel([Reply("Well.", calls=[Call("act")])]), tools=[act])
    if verb == "generate":
        result = await agent.generate("hi", abort_signal=controller.signal, on_chunk=on_chunk)
    else:
        stream = await agent.stream("hi", abort_signal=controller.signal, on_chunk=on_chunk)
        result = await stream.get_full_output()
    assert ran_times == []
    assert (result.finish_reason, result.text) == ("aborted", "Well.")
    assert result.messages[0].text == "hi"


async def test_b19_an_abort_between_the_model_and_the_first_of_many_tools():
    controller, done = AbortController(), []

    @tool
    async def first() -> str:
        done.append("first")
        controller.abort()
        return "did"

    @tool
    async def second() -> str:
        done.append("second")
        return "did"

    model = ScriptedModel([[Call("first"), Call("second")]])
    agent = Agent(id="a", model=model, tools=[first, second])
    result = await agent.generate("hi", tool_call_concurrency=1, abort_signal=controller.signal)
    assert done == ["first"]
    assert result.finish_reason == "aborted"
    assert [each.payload.result for each in result.tool_results] == ["did"]  # it had ended: kept


@both
async def test_b21_a_huge_result_is_cut_for_the_model_only(verb):
    @tool(effects="none")
    async def dump() -> str:
        return "x" * 2_000_000

    script = [Reply(calls=[Call("dump")]), Reply("ok"), Reply("bye")]
    async with FakeProvider(script, max_body=1_000_000) as provider:
        agent = agent_on(provider, [dump])
        ran = await run(verb, agent)
        (said,) = answers(provider)
        await run(verb, agent, [*ran.result.messages, "again"])
        assert all(len(request.raw) < 100_000 for request in provider.requests)
        assert answers(provider) == [said]  # the same text in a later turn
    assert "more characters were left out]" in said
    assert len(ran.result.tool_results[0].payload.result) == 2_000_000
    assert len(ran.of("tool-result")[0].payload.result) == 2_000_000


@both
async def test_a_tool_sees_its_call(verb):
    seen = []

    @tool(effects="none")
    async def look(ctx: ToolContext, word: str) -> str:
        seen.append(ctx)
        return word

    script = [Reply(calls=[Call("look", {"word": "a"}, "c1")]), Reply(calls=[Call("look", {"word": "b"}, "c2")])]
    async with FakeProvider([*script, Reply("ok")]) as provider:
        ran = await run(verb, agent_on(provider, [look], store=InMemoryStore()), run_id="r1")
    assert [(ctx.run_id, ctx.agent_id, ctx.tool_call_id, ctx.tool_name, ctx.attempt) for ctx in seen] == [
        ("r1", "agent", "c1", "look", 1),
        ("r1", "agent", "c2", "look", 1),
    ]
    assert seen[0].idempotency_key != seen[1].idempotency_key
    assert [turn.content[0].text for turn in seen[0].messages] == ["hi"]
    assert ran.result.text == "ok"


@both
@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_calls_of_an_answer_that_was_cut_are_run_and_end_it(verb, finish):
    async with FakeProvider([Reply(calls=[Call("double", {"a": 1})], finish=finish)]) as provider:
        ran = await run(verb, agent_on(provider, [double]))
    assert [done.payload.result for done in ran.result.tool_results] == [2]
    assert ran.result.finish_reason == finish.replace("_", "-")


@both
async def test_calls_of_an_answer_that_says_stop_are_run(verb):
    script = [Reply(calls=[Call("double", {"a": 1})], finish="stop"), Reply("2")]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent_on(provider, [double]))
    assert ran.result.text == "2"


@both
async def test_an_unexplained_end_without_content_is_an_error(verb):
    async with FakeProvider([raw(finish="weird")]) as provider:
        ran = await run(verb, agent_on(provider))
        assert len(provider.requests) == 1
    assert ran.error.id == "AGENT_STREAM_ERROR"
    assert "weird" in str(ran.error)


@both
async def test_an_unexplained_end_with_content_goes_on(verb):
    async with FakeProvider([raw(says("Half"), finish="weird"), Reply(" more")]) as provider:
        ran = await run(verb, agent_on(provider))
    assert ran.result.text == "Half more"
    assert [step.finish_reason for step in ran.result.steps] == ["other", "stop"]


@both
async def test_an_empty_answer_with_stop_is_an_empty_answer(verb):
    async with FakeProvider([raw(finish="stop")]) as provider:
        ran = await run(verb, agent_on(provider))
    assert (ran.result.text, ran.result.finish_reason, ran.error) == ("", "stop", None)


async def test_tools_of_a_step_run_at_once_up_to_the_limit():
    inside, peak, gate = [], [], Gate()

    @tool(effects="none")
    async def wait(n: int) -> int:
        inside.append(n)
        peak.append(len(inside))
        await gate.take()
        inside.remove(n)
        return n

    model = ScriptedModel([[Call("wait", {"n": n}) for n in range(6)], "done"] * 2)
    agent = Agent(id="a", model=model, tools=[wait])
    for limit in (3, 1):
        peak.clear()
        task = asyncio.create_task(agent.generate("x", tool_call_concurrency=limit))
        for _ in range(6):
            await gate.wait_blocked()
            assert len(inside) <= limit
            gate.release()
            await asyncio.sleep(0)
        result = await task
        assert max(peak) == limit
        assert [each.payload.result for each in result.tool_results] == list(range(6))
