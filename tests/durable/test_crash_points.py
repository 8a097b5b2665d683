"""spec/durable.md 10.3: a process that is killed at a failpoint, and the one that takes its runs up.

The same points with real processes are in tests/proof.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from asyncio.subprocess import PIPE

import pytest

from tenuto import Agent, Tenuto, ToolContext, create_durable_agent, tool
from tenuto.core import codec
from tenuto.errors import RunError
from tenuto.machine.records import SegmentStarted, StepJudged
from tenuto.store import SQLiteStore
from tenuto.testing import Call, FakeProvider, Gate, Reply
from tests.durable.kit import Process, World, answers, clerk, of, read, shown_by, soon, text_of, types

LETTERS = "The quick brown fox jumps over dogs once"
assert len(LETTERS) == 40


async def recovered(world: World, process: Process, run_id: str = "r"):
    """The result of the run, which `process` takes up once its lease has run out."""
    await world.leases_expire()
    output = await process.call(lambda agent: agent.recover(run_id))
    return await output.get_full_output()


@pytest.mark.parametrize("point", ["journal.commit.after", "model.before_call"])
async def test_S26_killed_before_the_model_call(world, point):
    async with FakeProvider([Reply("Hello")]) as provider:
        first = world.process(clerk(provider))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), point)
        assert (await world.row("r")).status == "running"
        result = await recovered(world, world.process(clerk(provider)))
        assert len(provider.requests) == 1
    assert result.text == "Hello"
    assert [(each.role, each.text) for each in result.messages] == [("user", "hi"), ("assistant", "Hello")]
    assert (await world.row("r")).status == "success"
    await world.whole("r")


async def test_S26_killed_before_the_input_was_stored(world):
    """Nobody was told that the run exists; it ends, instead of being taken up for ever."""
    async with FakeProvider() as provider:
        first = world.process(clerk(provider))
        assert await first.killed_in(lambda agent: agent.stream("hi", run_id="r"), "run.after_claim") is None
        result = await recovered(world, world.process(clerk(provider)))
    assert result.error.id == "RUN_INPUT_LOST"
    assert (await world.row("r")).status == "failed"
    assert types(await world.whole("r")) == ["start", "error", "finish"]


async def test_S28_killed_after_20_of_40_deltas(world):
    gate = Gate(permits=21)  # the role, then the letters
    async with FakeProvider([Reply(LETTERS, chunk_size=1, gate=gate), Reply(LETTERS, chunk_size=1)]) as provider:
        first = world.process(clerk(provider))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        await gate.wait_blocked()
        await soon(lambda: len(of(output._chunks, "text-delta")) == 20)
        third = world.process(clerk(provider))
        viewer = await third.call(lambda agent: agent.observe("r"))
        await first.kill()
        result = await recovered(world, world.process(clerk(provider)))
        seen = await read(viewer)
    log = await world.whole("r")
    assert seen == log
    (restart,) = of(log, "attempt-restarted")
    assert (restart.payload.step, restart.payload.attempt) == (1, 2)
    assert restart.payload.discard_from == types(log).index("step-start")
    assert shown_by(log) == LETTERS
    assert len(text_of(log)) <= 60
    (said,) = result.messages[1:]
    assert (said.role, said.text, result.text) == ("assistant", LETTERS, LETTERS)


async def test_S29_killed_when_the_tool_call_is_decided(world):
    ran = []

    @tool
    async def pay(order: str) -> str:
        ran.append(order)
        return "paid"

    async with FakeProvider([Reply(calls=[Call("pay", {"order": "A"}, "c1")]), Reply("done")]) as provider:
        first = world.process(clerk(provider, [pay]))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), "model.after_commit")
        assert (len(provider.requests), ran) == (1, [])
        result = await recovered(world, world.process(clerk(provider, [pay])))
        assert len(provider.requests) == 2  # the second step's
    assert (ran, result.text) == (["A"], "done")
    assert not of(await world.whole("r"), "attempt-restarted")


def counting(effects, **more):
    """A tool that counts what took effect by its key, and tells each of its calls."""
    entries, effect = [], set()

    @tool(effects=effects, **more)
    async def pay(ctx: ToolContext, order: str) -> str:
        entries.append((ctx.tool_call_id, ctx.idempotency_key, ctx.attempt))
        effect.add(ctx.idempotency_key)
        return f"paid {order}"

    return pay, entries, effect


async def killed_in_its_tool(world, provider, pay, point):
    first = world.process(clerk(provider, [pay]))
    await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), point)
    return world.process(clerk(provider, [pay]))


PAY = Reply(calls=[Call("pay", {"order": "A"}, "c1")])


async def test_S30_killed_after_the_intent_of_an_idempotent_tool(world):
    pay, entries, _ = counting("idempotent")
    async with FakeProvider([PAY, Reply("done")]) as provider:
        second = await killed_in_its_tool(world, provider, pay, "tool.after_intent")
        assert entries == []
        result = await recovered(world, second)
        assert answers(provider) == ["paid A"]
    ((call_id, _, attempt),) = entries
    assert (call_id, attempt, result.text) == ("c1", 2, "done")


async def test_S31_killed_after_the_effect_of_an_idempotent_tool(world):
    pay, entries, effect = counting("idempotent")
    async with FakeProvider([PAY, Reply("done")]) as provider:
        second = await killed_in_its_tool(world, provider, pay, "tool.after_effect")
        await recovered(world, second)
        assert answers(provider) == ["paid A"]
    assert [(call_id, attempt) for call_id, _, attempt in entries] == [("c1", 1), ("c1", 2)]
    assert len(effect) == 1  # what dedupes by the key took effect once


async def test_S32_killed_after_the_effect_of_a_tool_that_must_not_run_twice(world):
    pay, entries, _ = counting("once")
    async with FakeProvider([PAY, Reply("done")]) as provider:
        second = await killed_in_its_tool(world, provider, pay, "tool.after_effect")
        result = await recovered(world, second)
        (told,) = answers(provider)
    assert len(entries) == 1
    assert "unknown after a restart" in told
    (failed,) = of(await world.whole("r"), "tool-error")
    assert (failed.payload.tool_call_id, failed.payload.error.id) == ("c1", "TOOL_OUTCOME_UNKNOWN")
    assert result.tool_results[0].payload.is_error


@pytest.mark.parametrize(
    ("word", "told", "ran"),
    [
        ({"outcome": "applied", "result": "paid, said the bank"}, "paid, said the bank", 1),
        ({"outcome": "not-applied"}, "paid A", 2),
        ({"outcome": "unknown"}, "unknown", 1),
    ],
    ids=["applied", "not applied", "unknown"],
)
async def test_S32_or_the_run_waits_for_a_human(world, word, told, ran):
    pay, entries, _ = counting("once", on_unknown="suspend")
    async with FakeProvider([PAY, Reply("done")]) as provider:
        second = await killed_in_its_tool(world, provider, pay, "tool.after_effect")
        waiting = await recovered(world, second)
        assert (waiting.finish_reason, waiting.pending[0].kind, len(entries)) == ("suspended", "suspension", 1)
        third = world.process(clerk(provider, [pay]))
        with pytest.raises(RunError, match="whether it took effect"):
            await third.call(lambda agent: agent.resume_generate("yes", run_id="r"))
        result = await third.call(lambda agent: agent.resume_generate(word, run_id="r"))
        (said,) = answers(provider)
    assert told in said
    assert (len(entries), result.text) == (ran, "done")
    await world.whole("r")


async def test_S33_two_of_three_parallel_results_are_stored(world):
    ran = []

    @tool(effects="none")
    async def look(ctx: ToolContext, at: str) -> str:
        ran.append(at)
        if at == "c" and ctx.attempt == 1:
            await asyncio.Event().wait()
        return f"saw {at}"

    calls = [Call("look", {"at": each}, each) for each in "abc"]
    async with FakeProvider([Reply(calls=calls), Reply("done")]) as provider:
        first = world.process(clerk(provider, [look]))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), "tool.after_result", 2)
        assert ran == ["a", "b", "c"]
        await recovered(world, world.process(clerk(provider, [look])))
        assert answers(provider) == ["saw a", "saw b", "saw c"]
    assert ran == ["a", "b", "c", "c"]
    assert len(of(await world.whole("r"), "tool-result")) == 3


def gated(ran):
    @tool(require_approval=True)
    async def refund(ctx: ToolContext, order: str) -> str:
        ran.append((ctx.tool_call_id, order))
        return f"refunded {order}"

    return refund


REFUND = Reply(calls=[Call("refund", {"order": "A"}, "c1")])


async def test_S34_killed_before_the_request_for_approval_is_stored(world):
    ran = []
    async with FakeProvider([REFUND]) as provider:
        first = world.process(clerk(provider, [gated(ran)]))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), "call.before_pending")
        assert await world.store.pending("r", resource=None) == []
        waiting = await recovered(world, world.process(clerk(provider, [gated(ran)])))
    assert [each.id for each in waiting.pending] == ["c1"]
    assert len(of(await world.whole("r"), "tool-call-approval")) == 1
    assert [each.call_id for each in await world.store.pending("r", resource=None)] == ["c1"]
    assert ran == []


@pytest.mark.parametrize("point", ["run.before_park", "run.after_park"])
async def test_S35_killed_when_the_request_for_approval_is_stored(world, point):
    ran = []
    async with FakeProvider([REFUND, Reply("done")]) as provider:
        first = world.process(clerk(provider, [gated(ran)]))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), point)
        second = world.process(clerk(provider, [gated(ran)]))
        if point == "run.before_park":  # its driver was still to let go of it
            await recovered(world, second)
        await world.leases_expire()
        (run,) = (await second.call(lambda agent: agent.list_suspended_runs())).runs
        (call,) = run.tool_calls
        assert (run.run_id, call.id, call.args, call.kind) == ("r", "c1", {"order": "A"}, "approval")
        viewer = await second.call(lambda agent: agent.observe("r"))
        assert len(of(await read(viewer), "tool-call-approval")) == 1
        result = await second.call(lambda agent: agent.approve_tool_call_generate(run_id="r", tool_call_id="c1"))
    assert (ran, result.text) == ([("c1", "A")], "done")
    assert len(of(await world.whole("r"), "tool-call-approval")) == 1


@pytest.mark.parametrize("point", ["run.after_post", "run.after_resume_claim", "run.after_decision"])
@pytest.mark.parametrize("approved", [True, False], ids=["approved", "declined"])
async def test_S36_killed_when_the_decision_is_stored(world, point, approved):
    ran = []
    async with FakeProvider([REFUND, Reply("done")]) as provider:
        first = world.process(clerk(provider, [gated(ran)]))
        await first.call(lambda agent: agent.generate("hi", run_id="r"))
        word = {"approved": approved, "reason": "too much"}
        await first.killed_in(lambda agent: agent.resume_generate(word, run_id="r"), point)
        assert ran == []
        second = world.process(clerk(provider, [gated(ran)]))
        if point == "run.after_post":  # nobody has claimed it: who decides the same again goes on with it
            with pytest.raises(RunError) as refused:
                await second.call(lambda agent: agent.resume_generate({"approved": not approved}, run_id="r"))
            assert refused.value.id == "WORKFLOW_RESUME_ALREADY_CLAIMED"
            result = await second.call(lambda agent: agent.resume_generate(word, run_id="r"))
        else:
            result = await recovered(world, second)
        assert answers(provider) == ["refunded A" if approved else "too much"]
    assert (ran, result.text) == ([("c1", "A")] if approved else [], "done")
    log = await world.whole("r")
    assert len(of(log, "tool-call-approval")) == 1
    assert len(of(log, "tool-output-denied")) == (not approved)


@pytest.mark.parametrize("point", ["run.after_finalise", "run.before_terminal"])
async def test_S37_S38_killed_before_the_end_is_stored(world, point):
    pay, entries, _ = counting("once")
    async with FakeProvider([PAY, Reply("done")]) as provider:
        second = await killed_in_its_tool(world, provider, pay, point)
        result = await recovered(world, second)
        assert len(provider.requests) == 2
    assert len(entries) == 1
    assert [each.role for each in result.messages] == ["user", "assistant"]
    started = (await world.records("r"))[0]
    assert result.messages[1].id == started.message_id
    assert types(await world.whole("r")).count("finish") == 1


@pytest.mark.parametrize("shown", [False, True])
async def test_S38_killed_when_the_end_is_stored(world, shown):
    async with FakeProvider([Reply("Hello"), Reply("Hello")]) as provider:
        commits = []
        faults_seen = world.process(clerk(provider))
        faults_seen.hit = lambda point: commits.append(point) if point == "journal.commit.after" else None
        await faults_seen.call(lambda agent: agent.generate("hi", run_id="whole"))
        first = world.process(clerk(provider))
        point = ("run.after_terminal", 1) if shown else ("journal.commit.after", len(commits))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), *point)
        assert (await world.row("r")).status == "success"
        second = world.process(clerk(provider))
        viewer = await second.call(lambda agent: agent.observe("r"))
        assert types(await read(viewer))[-1] == "finish"
        assert (await viewer.text) == "Hello"
        await world.leases_expire()
        with pytest.raises(RunError) as refused:
            await second.call(lambda agent: agent.recover("r"))
        assert refused.value.id == "DURABLE_AGENT_RECOVER_NOT_RUNNING"
        assert len(provider.requests) == 2
    await world.whole("r")


async def test_S39_killed_while_it_waits_and_approved_much_later(world):
    seen = []

    @tool(require_approval=True)
    async def refund(ctx: ToolContext, order: str) -> str:
        seen.append((order, ctx.request_context.all, ctx.run_id, ctx.tool_call_id))
        return "refunded"

    options = {
        "request_context": {"user": "ann", "plan": {"name": "gold"}},
        "model": "openai/other",
        "model_settings": {"temperature": 0.25},
        "active_tools": ["refund"],
        "provider_options": {"openai": {"user": "u1"}},
        "instructions": "Be brief.",
    }
    async with FakeProvider([REFUND, Reply("done")]) as provider:
        options["model"] = {"id": "openai/other", "url": provider.base_url}
        first = world.process(clerk(provider, [refund]))
        waiting = await first.call(lambda agent: agent.generate("hi", run_id="r", **options))
        assert waiting.finish_reason == "suspended"
        await first.kill()
        await world.clock.advance(3 * 3600)
        second = world.process(clerk(provider, [refund]))
        result = await second.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
        before, after = (request.body for request in provider.requests)
    assert seen == [("A", {"user": "ann", "plan": {"name": "gold"}}, "r", "c1")]
    assert result.text == "done"
    assert {name: value for name, value in after.items() if name != "messages"} == {
        name: value for name, value in before.items() if name != "messages"
    }
    assert after["messages"][: len(before["messages"])] == before["messages"]
    assert (after["model"], after["temperature"], after["user"]) == ("other", 0.25, "u1")


async def test_S40_killed_after_a_resume_before_its_tool_had_finished(world):
    ran = []
    async with FakeProvider([REFUND, Reply("done")]) as provider:
        first = world.process(clerk(provider, [gated(ran)]))
        await first.call(lambda agent: agent.generate("hi", run_id="r"))
        await first.killed_in(lambda agent: agent.approve_tool_call_generate(run_id="r"), "tool.after_effect")
        assert (await world.row("r")).status == "running"
        second = world.process(clerk(provider, [gated(ran)]))
        for word in ({"approved": True}, {"approved": False}):
            with pytest.raises(RunError) as refused:
                await second.call(lambda agent, word=word: agent.resume("r", word, tool_call_id="c1"))
            assert refused.value.id == "WORKFLOW_RESUME_ALREADY_CLAIMED"
            assert refused.value.details["status"] == 409
        result = await recovered(world, second)
        (told,) = answers(provider)
    assert ran == [("c1", "A")]
    assert "unknown after a restart" in told
    assert result.text == "done"
    assert len(of(await world.whole("r"), "tool-call-approval")) == 1


def scripted(request):
    """Two rounds of calls, then an answer; by the conversation alone."""
    said = sum(message["role"] == "assistant" for message in request.body["messages"])
    if said < 2:
        return Reply(
            "Wait. ", calls=[Call("put", {"at": f"{said}a"}, f"c{said}a"), Call("put", {"at": f"{said}b"}, f"c{said}b")]
        )
    return Reply("All done.")


def shape(result):
    """Of the messages, what two runs of one script have in common."""
    parts = [(each.role, part) for each in result.messages for part in each.content.parts]
    return [
        (role, type(part).__name__, getattr(part, "text", None), getattr(part, "tool_invocation", None))
        for role, part in parts
    ]


@pytest.mark.slow
async def test_S41_killed_at_every_commit(world):
    """Each in turn; what comes of it is what an uninterrupted run comes to."""

    @tool(effects="idempotent")
    async def put(at: str) -> str:
        return f"put {at}"

    async with FakeProvider(scripted) as provider:
        points = []
        whole = world.process(clerk(provider, [put]))
        whole.hit = points.append
        right = await whole.call(lambda agent: agent.generate("hi", run_id="whole"))
        assert right.text.endswith("All done.")
        commits = points.count("journal.commit.after")
        assert commits > 10
        for place in range(1, commits + 1):
            run_id = f"r{place}"
            first = world.process(clerk(provider, [put]))
            await first.killed_in(
                lambda agent, run_id=run_id: agent.generate("hi", run_id=run_id), "journal.commit.after", place
            )
            second = world.process(clerk(provider, [put]))
            if place < commits:
                result = await recovered(world, second, run_id)
            else:
                result = await (await second.call(lambda agent, at=run_id: agent.observe(at))).get_full_output()
            assert shape(result) == shape(right), f"killed after commit {place}"
            assert (result.text, result.usage) == (right.text, right.usage)
            assert (await world.row(run_id)).status == "success"
            await world.whole(run_id)


async def test_S42_without_recovery_nothing_is_taken_up_at_boot(world):
    ran = []
    async with FakeProvider([REFUND, Reply("Hello"), Reply("done")]) as provider:
        first = world.process(clerk(provider, [gated(ran)]))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), "model.before_call")
        again = world.process(clerk(provider, [gated(ran)]))
        await again.call(lambda agent: agent.generate("hi", run_id="waits"))
        await again.kill()
        await world.leases_expire()
        second = world.process(clerk(provider, [gated(ran)]))
        await second.call(lambda _: second.app.start())
        await world.clock.advance(60)
        assert ((await world.row("r")).status, len(provider.requests)) == ("running", 1)
        # recovery="off" keeps the sweep away, not the call (corrections X2)
        assert (await recovered(world, second)).text == "Hello"
        assert (await second.call(lambda agent: agent.approve_tool_call_generate(run_id="waits"))).text == "done"


async def test_S43_each_orphan_is_taken_up_once_at_boot(world):
    async with FakeProvider(lambda _: Reply("Hello")) as provider:
        for run_id in ("a", "b", "c"):
            lost = world.process(clerk(provider))
            await lost.killed_in(lambda agent, run_id=run_id: agent.generate("hi", run_id=run_id), "model.before_call")
        plain = world.process(Agent(id="plain", model=clerk(provider)._given["model"]), durable=False)
        await plain.killed_in(lambda agent: agent.generate("hi", run_id="p"), "model.before_call")
        await world.leases_expire()
        second = world.process(clerk(provider), recovery="auto")
        third = world.process(clerk(provider), recovery="auto")
        await second.call(lambda _: second.app.start())
        await third.call(lambda _: third.app.start())
        for run_id in ("a", "b", "c"):
            viewer = await second.call(lambda agent, run_id=run_id: agent.observe(run_id))
            assert (await viewer.get_full_output()).text == "Hello"
        assert len(provider.requests) == 3
    for run_id in ("a", "b", "c"):
        begun = [each for each in await world.records(run_id) if isinstance(each, SegmentStarted)]
        assert [each.cause for each in begun] == ["recover"]
        await world.whole(run_id)
    assert (await world.row("p")).status == "running"  # a plain run has no journal to go on from


async def test_S44_a_recovery_that_fails_ends_the_run_and_keeps_its_rows(world):
    async with FakeProvider([PAY]) as provider:
        first = world.process(clerk(provider, [counting("once")[0]]))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), "model.after_commit")
        before = await world.store.records("r", resource=None)

        def gone(_):
            raise ModuleNotFoundError("No module named 'refunds'")

        second = world.process(clerk(provider, gone))
        result = await recovered(world, second)
    assert "refunds" in str(result.error)
    log = await world.whole("r")
    assert types(log)[-2:] == ["error", "finish"]
    assert (await world.row("r")).status == "failed"
    assert (await world.store.records("r", resource=None))[: len(before)] == before


async def test_S45_what_a_step_stores_does_not_grow_with_the_steps(world):
    @tool(effects="none")
    async def look(at: str) -> str:
        return "x" * 100

    def answer(request):
        said = sum(message["role"] == "assistant" for message in request.body["messages"])
        return Reply(calls=[Call("look", {"at": f"{said:04}"}, f"call-{said:04}")]) if said < 40 else Reply("done")

    async with FakeProvider(answer) as provider:
        first = world.process(clerk(provider, [look]))
        await first.call(lambda agent: agent.generate("hi", run_id="r", max_steps=41))
    sizes, size = [], 0
    for write in first.store.writes:
        size += sum(len(codec.encode(record)) for record in write.records)
        size += sum(len(codec.encode(event.chunk)) for event in write.events)
        size += sum(len(codec.encode(row)) for row in (*write.effects, *write.pending))
        if any(isinstance(record, StepJudged) for record in write.records):
            sizes.append(size)
            size = 0
    assert len(sizes) == 41
    assert max(sizes[1:40]) <= min(sizes[1:40]) * 1.05


async def test_S46_shutdown_with_a_model_call_in_flight(world, caplog):
    gate = Gate(permits=3)
    async with FakeProvider([Reply("Hello world", gate=gate), Reply("Hello world")]) as provider:
        first = world.process(clerk(provider))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        await gate.wait_blocked()
        async with asyncio.timeout(3):
            await first.stop()
        await provider.wait_for_disconnect()
        assert (await world.row("r")).status == "running"
        with pytest.raises(RunError):
            await output.get_full_output()
        assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
        second = world.process(clerk(provider))  # at once: the lease is free
        result = await (await second.call(lambda agent: agent.recover("r"))).get_full_output()
    assert result.text == "Hello world"
    assert shown_by(await world.whole("r")) == "Hello world"


SERVICE = """
import asyncio, logging, signal, sys
from tenuto import Agent, Tenuto, create_durable_agent
from tenuto.models.sessions import close_session
from tenuto.store import SQLiteStore

path, url = sys.argv[1:]

async def main():
    task = asyncio.current_task()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    agent = create_durable_agent(Agent(id="clerk", model={"id": "test/m", "url": url}))
    async with Tenuto(agents={"agent": agent}, store=SQLiteStore(path)):
        output = await agent.stream("hi", run_id="r")
        async for chunk in output.full_stream:
            if chunk.type == "text-delta":
                print("speaking", flush=True)

logging.basicConfig()
try:
    asyncio.run(main())
except asyncio.CancelledError:
    print("stopped", flush=True)
"""


@pytest.mark.slow
async def test_S46_sigterm_with_a_model_call_in_flight(tmp_path):
    gate = Gate(permits=3)
    async with FakeProvider([Reply("Hello world", gate=gate), Reply("Hello world")]) as provider:
        command = [sys.executable, "-c", SERVICE, str(tmp_path / "runs.db"), provider.base_url]
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
        assert await process.stdout.readline() == b"speaking\n"
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(3):
            said, complaints = await process.communicate()
        assert said.endswith(b"stopped\n")
        assert b"ERROR" not in complaints
        agent = create_durable_agent(clerk(provider))
        async with Tenuto(agents={"agent": agent}, store=SQLiteStore(tmp_path / "runs.db"), recovery="off"):
            result = await (await agent.recover("r")).get_full_output()
    assert result.text == "Hello world"
