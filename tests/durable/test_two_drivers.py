"""spec/durable.md 10.4 and S96: two processes, or two calls, that want the same run at once."""

from __future__ import annotations

import asyncio

import pytest

from tenuto import ToolContext, tool
from tenuto.errors import RunError, StaleLease, StoreError
from tenuto.machine.records import SegmentStarted
from tenuto.runs import observe
from tenuto.store.ports import Fence, HeldBy, Scope, Versioned, Write
from tenuto.testing import Call, FakeProvider, Gate, Reply
from tests.durable.kit import answers, clerk, of, shown_by, soon, types

places = pytest.mark.parametrize("other", [False, True], ids=["same process", "two processes"])


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(observe, "POLL_SECONDS", 0.001)


def refunding(ran, gate=None):
    @tool(require_approval=True)
    async def refund(ctx: ToolContext, order: str) -> str:
        ran.append(order)
        if gate is not None:
            await gate.wait()
        return f"refunded {order}"

    return refund


def refunds(*orders):
    return Reply(calls=[Call("refund", {"order": order}, f"c{order}") for order in orders])


DONE = Reply("done")
LETTERS = "The quick brown fox"


def two_of(world, provider, tools, *, other):
    first = world.process(clerk(provider, tools))
    return first, world.process(clerk(provider, tools)) if other else first


async def outcomes(*tasks):
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_S47_two_processes_recover_one_run(world):
    async with FakeProvider([Reply("Hello")]) as provider:
        lost = world.process(clerk(provider))
        await lost.killed_in(lambda agent: agent.generate("hi", run_id="r"), "model.before_call")
        await world.leases_expire()
        first, second = two_of(world, provider, (), other=True)
        told = await outcomes(*(each.begin(lambda agent: agent.recover("r")) for each in (first, second)))
        won = [each for each in told if not isinstance(each, BaseException)]
        refused = [each for each in told if isinstance(each, RunError)]
        assert (len(won), len(refused)) == (1, 1)
        assert refused[0].id == "DURABLE_AGENT_RECOVER_LEASE_ACQUIRE_FAILED"
        assert (await won[0].get_full_output()).text == "Hello"
        assert len(provider.requests) == 1
    assert len([each for each in await world.records("r") if isinstance(each, SegmentStarted)]) == 1
    await world.whole("r")


async def test_S47_a_run_that_is_driven_here_is_not_recovered(world):
    gate = Gate()
    async with FakeProvider([Reply("Hello", gate=gate)]) as provider:
        first = world.process(clerk(provider))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        with pytest.raises(RunError) as refused:
            await first.call(lambda agent: agent.recover("r"))
        assert refused.value.id == "DURABLE_AGENT_RECOVER_ALREADY_IN_PROGRESS"
        gate.open()
        assert await output.text == "Hello"


@pytest.mark.parametrize("stage", ["model", "tool"])
async def test_S48_a_driver_that_was_frozen_past_its_lease_writes_nothing(world, stage, caplog):
    gate, hold, ran = Gate(permits=5), asyncio.Event(), []

    @tool(effects="idempotent")
    async def put(ctx: ToolContext) -> str:
        ran.append(ctx.attempt)
        if len(ran) == 1:
            await hold.wait()
        return f"put {ctx.attempt}"

    call = Reply(calls=[Call("put", {}, "c1")])
    script = {
        "model": [Reply(LETTERS, chunk_size=1, gate=gate), Reply(LETTERS, chunk_size=1)],
        "tool": [call, Reply(LETTERS, chunk_size=1)],
    }[stage]
    async with FakeProvider(script) as provider:
        first, second = two_of(world, provider, [put], other=True)
        frozen = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        await (gate.wait_blocked() if stage == "model" else soon(lambda: ran))
        await world.leases_expire()  # it is frozen: its renewals do not come
        result = await (await second.call(lambda agent: agent.recover("r"))).get_full_output()
        log, records = await world.whole("r"), await world.records("r")
        gate.open()
        hold.set()
        with pytest.raises(StaleLease):
            await frozen.get_full_output()
    assert (await world.log("r"), await world.records("r")) == (log, records)
    assert (result.text, shown_by(log)) == (LETTERS, LETTERS)
    assert [record for record in caplog.records if "driven by another process now" in record.message]
    assert (await world.row("r")).status == "success"
    if stage == "tool":
        assert [chunk.payload.result for chunk in of(log, "tool-result")] == ["put 2"]


@places
async def test_S49_the_same_decision_twice_at_once_has_one_effect(world, other):
    ran = []
    async with FakeProvider([refunds("A"), DONE]) as provider:
        first, second = two_of(world, provider, [refunding(ran)], other=other)
        await first.call(lambda agent: agent.generate("hi", run_id="r"))
        told = await outcomes(
            *(
                each.begin(lambda agent: agent.approve_tool_call_generate(run_id="r", tool_call_id="cA"))
                for each in (first, second)
            )
        )
        assert len(provider.requests) == 2
    results = [each for each in told if not isinstance(each, BaseException)]
    refused = [each for each in told if isinstance(each, BaseException)]
    assert ran == ["A"]
    if other:  # the other process has no stream of it to give
        assert (len(results), len(refused)) == (1, 1)
        assert isinstance(refused[0], RunError)
        assert refused[0].id in {"WORKFLOW_RESUME_ALREADY_CLAIMED", "AGENT_RESUME_TOOL_CALL_NOT_SUSPENDED"}
    else:  # the same decision again attaches to what the first one started (design 2)
        assert [each.text for each in results] == ["done", "done"]
    await world.whole("r")


async def test_S49_the_same_decision_again_while_its_tool_runs(world):
    ran, gate = [], asyncio.Event()
    async with FakeProvider([refunds("A"), DONE]) as provider:
        first, second = two_of(world, provider, [refunding(ran, gate)], other=True)
        await first.call(lambda agent: agent.generate("hi", run_id="r"))
        one = await first.call(lambda agent: agent.approve_tool_call(run_id="r", tool_call_id="cA"))
        await soon(lambda: ran)
        again = await first.call(lambda agent: agent.approve_tool_call(run_id="r", tool_call_id="cA"))
        for process, word in ((first, False), (second, True)):
            with pytest.raises(RunError) as refused:
                await process.call(lambda agent, word=word: agent.resume("r", {"approved": word}, tool_call_id="cA"))
            assert refused.value.id == "WORKFLOW_RESUME_ALREADY_CLAIMED"
        gate.set()
        assert await again.text == await one.text == "done"
    assert ran == ["A"]


@places
async def test_S50_approve_and_decline_at_once(world, other):
    ran = []
    async with FakeProvider([refunds("A"), DONE]) as provider:
        first, second = two_of(world, provider, [refunding(ran)], other=other)
        await first.call(lambda agent: agent.generate("hi", run_id="r"))
        told = await outcomes(
            first.begin(lambda agent: agent.approve_tool_call_generate(run_id="r", tool_call_id="cA")),
            second.begin(lambda agent: agent.decline_tool_call_generate(run_id="r", tool_call_id="cA", reason="no")),
        )
        (said,) = answers(provider)
    approved = not isinstance(told[0], BaseException)
    won, lost = told if approved else reversed(told)
    assert won.text == "done"
    assert isinstance(lost, RunError)
    assert lost.id in {"WORKFLOW_RESUME_ALREADY_CLAIMED", "AGENT_RESUME_TOOL_CALL_NOT_SUSPENDED"}
    assert (ran, said) == ((["A"], "refunded A") if approved else ([], "no"))


@places
@pytest.mark.parametrize("order", [("cA", "cB"), ("cB", "cA")])
@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "at once"])
async def test_S51_two_pending_calls(world, other, order, at_once):
    ran = []
    async with FakeProvider([refunds("A", "B"), DONE]) as provider:
        processes = two_of(world, provider, [refunding(ran)], other=other)
        await processes[0].call(lambda agent: agent.generate("hi", run_id="r"))
        decide = [
            lambda agent, call_id=call_id: agent.approve_tool_call_generate(run_id="r", tool_call_id=call_id)
            for call_id in order
        ]
        if at_once:
            told = await outcomes(*(each.begin(make) for each, make in zip(processes, decide, strict=True)))
        else:
            told = [await each.call(make) for each, make in zip(processes, decide, strict=True)]
        viewer = await processes[0].call(lambda agent: agent.observe("r", close_on_suspend=False))
        result = await viewer.get_full_output()
        assert answers(provider) == ["refunded A", "refunded B"]
    assert sorted(ran) == ["A", "B"]
    assert result.text == "done"
    refused = [each for each in told if isinstance(each, BaseException)]
    assert len(refused) <= (at_once and other)
    for each in refused:  # another process drove it then: that one took the decision up
        assert isinstance(each, RunError)
        assert "is decided as asked" in str(each)
    log = await world.whole("r")
    assert {(chunk.payload.tool_call_id, chunk.payload.result) for chunk in of(log, "tool-result")} == {
        ("cA", "refunded A"),
        ("cB", "refunded B"),
    }


@places
async def test_who_comes_for_a_decision_that_was_taken_lets_the_run_wait_on(world, other):
    """The run is claimed once more then, with nothing to do; it waits for its other call as before."""
    ran, held = [], asyncio.Event()
    async with FakeProvider([refunds("A", "B"), DONE]) as provider:
        first, second = two_of(world, provider, [refunding(ran)], other=other)
        await first.call(lambda agent: agent.generate("hi", run_id="r"))
        post, late = second.store.post, []

        async def slow(item):
            answer = await post(item)
            if not late:
                late.append(item)
                await held.wait()
            return answer

        second.store.post = slow
        behind = second.begin(lambda agent: agent.approve_tool_call_generate(run_id="r", tool_call_id="cA"))
        await soon(lambda: late)
        await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r", tool_call_id="cA"))
        held.set()
        await outcomes(behind)
        assert (await world.row("r")).status == "suspended"
        waits = (await first.call(lambda agent: agent.list_suspended_runs())).runs
        assert [call.id for run in waits for call in run.tool_calls] == ["cB"]
        result = await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r", tool_call_id="cB"))
        assert (result.text, ran) == ("done", ["A", "B"])


async def test_S53_a_healthy_run_is_left_alone(world):
    gate = Gate()
    async with FakeProvider([Reply("x"), Reply("x"), Reply("Hello", gate=gate)]) as provider:
        for run_id in ("a", "b"):
            lost = world.process(clerk(provider))
            await lost.killed_in(lambda agent, run_id=run_id: agent.generate("hi", run_id=run_id), "model.after_commit")
            await world.clock.advance(100)
        first, second = two_of(world, provider, (), other=True)
        output = await first.call(lambda agent: agent.stream("hi", run_id="healthy"))
        await provider.wait_for_requests(3)
        old = (await world.row("b")).created_at
        none = await second.call(lambda agent: agent.recover_active_runs(limit=0))
        assert none.recovered == ()
        some = await second.call(lambda agent: agent.recover_active_runs(created_before=old))
        assert [run.run_id for run in some.recovered] == ["a"]
        rest = await second.call(lambda agent: agent.recover_active_runs())
        assert [(run.run_id, run.status) for run in rest.recovered] == [("b", "success")]
        assert (rest.succeeded, rest.failed) == (1, 0)
        named = await second.call(lambda agent: agent.recover_active_runs(run_id="healthy"))
        assert [run.error_id for run in named.recovered] == ["DURABLE_AGENT_RECOVER_LEASE_ACQUIRE_FAILED"]
        gate.open()
        assert await output.text == "Hello"
        assert len(provider.requests) == 3
    assert not of(await world.whole("healthy"), "attempt-restarted")
    assert types(await world.log("healthy"))[-1] == "finish"


async def test_S53_at_most_as_many_as_asked_for(world):
    async with FakeProvider(lambda _: Reply("x")) as provider:
        for run_id in ("a", "b", "c"):
            lost = world.process(clerk(provider))
            await lost.killed_in(lambda agent, run_id=run_id: agent.generate("hi", run_id=run_id), "model.before_call")
        await world.leases_expire()
        second = world.process(clerk(provider))
        done = await second.call(lambda agent: agent.recover_active_runs(limit=2))
        assert (done.succeeded, (await second.call(lambda agent: agent.list_active_runs())).total) == (2, 1)


async def test_S96_a_write_that_expects_another_state_changes_nothing(world):
    ran = []
    async with FakeProvider([refunds("A")]) as provider:
        first = world.process(clerk(provider, [refunding(ran)]))
        await first.call(lambda agent: agent.generate("hi", run_id="r"))
        store, scope = world.store, Scope("run", "r")
        before = (await world.row("r"), await world.records("r"), await world.log("r"))
        with pytest.raises(StoreError) as changed:
            await store.claim(scope, "me", run=before[0], expect="running")
        assert changed.value.id == "RUN_STATUS_CHANGED"
        with pytest.raises(StaleLease):
            await store.commit(Fence(scope, 0, "me"), Write(run_id="r", status="failed"))
        assert (await world.row("r"), await world.records("r"), await world.log("r")) == before
        fence = await store.claim(scope, "me", run=before[0], expect="suspended")
        assert isinstance(fence, Fence)
        assert isinstance(await store.claim(scope, "you", run=before[0], expect="suspended"), HeldBy)
        await store.release(fence)
    assert await store.swap(Versioned("lane", "k", {"n": 1}), 0)
    assert not await store.swap(Versioned("lane", "k", {"n": 2}), 0)
    assert (await store.versioned("lane", "k")).value == {"n": 1}
