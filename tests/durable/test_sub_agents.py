"""Sub-agents of durable runs: killed anywhere, recovered by their parent's step, answered from any process."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import msgspec
import pytest

from tenuto import Agent, Memory, ToolContext, create_durable_agent, durable_function, tool
from tenuto.core import codec
from tenuto.errors import RunError
from tenuto.machine.records import SegmentStarted
from tenuto.steps.delegation import child_id_of
from tenuto.store.ports import ANYONE
from tenuto.testing import Call, FakeProvider, Reply, ScriptedModel, Usage, check_stream
from tests.agent.kit import VERBS
from tests.durable.kit import Process, World, answers, in_memory, of, read, settled, shown_by, text_of, types

CHILD = child_id_of("r", 1, 0)


class Bank:
    """What the tools did."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.looked: list[str] = []

    def tools(self, **more: Any) -> list[Any]:
        @tool(effects="once", **more)
        async def pay(order: str) -> str:
            self.paid.append(order)
            return f"paid {order}"

        @tool(effects="none")
        async def look(order: str) -> str:
            self.looked.append(order)
            return f"seen {order}"

        @tool(effects="once")
        async def ask(ctx: ToolContext, order: str) -> str:
            if ctx.resume_data is None:
                await ctx.suspend({"order": order})
            self.paid.append(order)
            return f"paid {order} from {ctx.resume_data['account']}"

        return [pay, look, ask]


def script(calls: dict[str, list[Call]], **texts: str) -> Any:
    """By model name: first its calls, then its text; each request takes 10 tokens."""

    def answer(request: Any) -> Reply:
        name = request.body["model"]
        done = sum(message["role"] == "tool" for message in request.body["messages"])
        if done < len(calls.get(name, ())):
            return Reply("Wait. ", calls=calls[name], usage=Usage(6, 4))
        return Reply(texts.get(name, f"{name} done."), usage=Usage(6, 4), chunk_size=3)

    return answer


def model(provider: FakeProvider, name: str) -> dict[str, Any]:
    return {"id": f"test/{name}", "url": provider.base_url}


def tree(provider: FakeProvider, bank: Bank, *, levels: int = 1, **more: Any) -> Agent[Any, Any]:
    """A boss above `levels` - 1 agents that only delegate, above one with the bank's tools."""
    agent: Agent[Any, Any] = Agent(
        id="sub", description="Pays.", model=model(provider, "sub"), tools=bank.tools(**more), abort_grace=0.05
    )
    for level in range(levels - 1, 0, -1):
        agent = Agent(id=f"mid{level}", model=model(provider, f"mid{level}"), agents={"x": agent}, abort_grace=0.05)
    return Agent(id="boss", model=model(provider, "boss"), agents={"x": agent}, abort_grace=0.05)


GO = {"boss": [Call("agent-x", {"prompt": "go"}, "d1")], "mid1": [Call("agent-x", {"prompt": "go on"}, "d2")]}


async def recovered(world: World, process: Process, run_id: str = "r") -> Any:
    await world.leases_expire()
    output = await process.call(lambda agent: agent.recover(run_id))
    return await output.get_full_output()


async def requests_by(provider: FakeProvider) -> dict[str, int]:
    found: dict[str, int] = {}
    for request in provider.requests:
        found[request.body["model"]] = found.get(request.body["model"], 0) + 1
    return found


def nested(chunks: list[Any], call_id: str = "d1") -> list[dict[str, Any]]:
    """The sub-agent's stream, with what a restarted attempt makes void left out."""
    kept: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        if chunk.type == "tool-output" and chunk.payload.tool_call_id == call_id:
            inner = chunk.payload.output
            if inner["type"] == "attempt-restarted":
                kept = {at: each for at, each in kept.items() if at < inner["payload"]["discardFrom"]}
            kept[chunk.payload.index] = inner
    return list(kept.values())


def said(inner: list[dict[str, Any]]) -> str:
    return "".join(each["payload"]["text"] for each in inner if each["type"] == "text-delta")


# -- kept and shown --------------------------------------------------------------------------------------------------


async def test_a_child_run_is_kept_under_the_fence_of_its_root(world):
    bank = Bank()
    async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"})]})) as provider:
        process = world.process(tree(provider, bank, levels=2))
        result = await process.call(lambda agent: agent.generate("hi", run_id="r"))
    assert (result.text, bank.paid) == ("Wait. boss done.", ["a"])
    assert result.usage.total_tokens == 6 * 10
    root = await world.row("r")
    (middle,) = await world.store.children("r", resource=ANYONE)
    (leaf,) = await world.store.children(middle.run_id, resource=ANYONE)
    assert [each.agent_id for each in (root, middle, leaf)] == ["boss", "mid1", "sub"]
    assert {each.status for each in (root, middle, leaf)} == {"success"}
    assert {each.scope for each in (middle, leaf)} == {root.scope}
    assert {each.root_id for each in (middle, leaf)} == {"r"}
    assert (middle.run_id, middle.parent_id, middle.parent_call_id) == (CHILD, "r", "d1")
    for each in ("r", middle.run_id, leaf.run_id):
        await world.whole(each)


async def test_replay_shows_the_sub_agents_chunks(world):
    async with FakeProvider(script({**GO, "sub": [Call("look", {"order": "a"})]})) as provider:
        process = world.process(tree(provider, Bank()))
        live = await read(await process.call(lambda agent: agent.stream("hi", run_id="r")))
        replayed = await read(await process.call(lambda agent: agent.observe("r")))
        own = [msgspec.json.decode(codec.encode(chunk)) for chunk in await world.whole(CHILD)]
    assert replayed == live
    assert nested(live) == own
    assert said(own) == "Wait. sub done."


@pytest.mark.parametrize("verb", VERBS)
async def test_parity_of_plain_and_durable(world, verb):
    found: list[Any] = []
    for durable in (False, True):
        bank = Bank()
        async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"}, "p1")]})) as provider:
            process = world.process(tree(provider, bank), durable=durable)
            run_id = f"r{durable}"
            if verb == "stream":
                output = await process.call(lambda agent, run_id=run_id: agent.stream("hi", run_id=run_id))
                chunks, result = await read(output), await output.get_full_output()
            else:
                chunks = []
                result = await process.call(
                    lambda agent, run_id=run_id, keep=chunks.append: agent.generate("hi", run_id=run_id, on_chunk=keep)
                )
        found.append((types(chunks), [each["type"] for each in nested(chunks)], result.usage, result.text, bank.paid))
    assert found[0] == found[1]


async def test_a_plain_tree_stores_nothing_but_the_root(world):
    async with FakeProvider(script({**GO, "sub": [Call("look", {"order": "a"})]})) as provider:
        process = world.process(tree(provider, Bank(), levels=2), durable=False)
        await process.call(lambda agent: agent.generate("hi", run_id="r"))
    assert [row.run_id for row in await world.store.runs(resource=None)] == ["r"]


# -- crashes ---------------------------------------------------------------------------------------------------------


CRASHES = [
    ("model.before_call", 2, 1, "in the child's first model call"),
    ("model.after_commit", 2, 1, "behind the child's first model call"),
    ("tool.after_result", 1, 1, "behind the child's tool"),
    ("run.before_terminal", 1, 1, "before the child's end is stored"),
    ("run.after_terminal", 1, 1, "behind the child's end"),
    ("delegation.after_child", 1, 1, "between the child's end and the parent's outcome"),
    ("tool.after_result", 2, 1, "behind the delegation"),
    ("tool.after_intent", 1, 1, "before the child"),
]


@pytest.mark.parametrize(("point", "times", "paid", "_where"), CRASHES, ids=[each[3] for each in CRASHES])
async def test_a_killed_tree_is_recovered_by_its_root(world, point, times, paid, _where):
    bank = Bank()
    async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"})]})) as provider:
        first = world.process(tree(provider, bank))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), point, times)
        result = await recovered(world, world.process(tree(provider, bank)))
        asked = await requests_by(provider)
    assert (result.text, result.finish_reason, bank.paid) == ("Wait. boss done.", "stop", ["a"] * paid)
    assert result.usage.total_tokens == 4 * 10
    assert asked["boss"] == 2
    assert asked["sub"] <= 3
    assert {row.status for row in await world.store.runs(resource=None)} == {"success"}
    (child,) = await world.store.children("r", resource=ANYONE)
    log = await world.whole("r")
    own = await world.whole(child.run_id)
    assert (
        said(nested(log))
        == said([each.to_dict() for each in own if each.type != "attempt-restarted"][-len(own) :])[
            -len(said(nested(log))) :
        ]
    )
    kinds = [each["type"] for each in nested(log)]
    assert (kinds[0], kinds[-1]) == ("start", "finish")
    assert kinds.count("finish") == 1


async def test_killed_while_the_child_speaks(world):
    words = "The quick brown fox jumps over dogs once"
    boss_model = ScriptedModel(lambda asked: "Done." if asked.messages[-1]["role"] == "tool" else GO["boss"])
    sub_model = ScriptedModel(lambda _: Reply(words, chunk_size=1))

    def agent() -> Agent[Any, Any]:
        return Agent(id="boss", model=boss_model, agents={"x": Agent(id="sub", model=sub_model)})

    first = world.process(agent())
    await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), "model.mid_stream", 30)
    before = await world.log("r")
    assert 0 < len(said(nested(before))) < len(words)
    result = await recovered(world, world.process(agent()))
    assert (result.text, len(sub_model.requests), len(boss_model.requests)) == ("Done.", 2, 2)
    log = await world.whole("r")
    assert log[: len(before)] == before
    assert said(nested(log)) == shown_by(await world.whole(CHILD)) == words
    assert [each["type"] for each in nested(log)].count("finish") == 1


@pytest.mark.parametrize(("point", "times"), [("tool.after_intent", 2), ("tool.after_effect", 1)])
async def test_a_paid_tool_of_a_killed_child_is_not_run_twice(world, point, times):
    bank = Bank()
    async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"})]})) as provider:
        first = world.process(tree(provider, bank))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), point, times)
        paid = list(bank.paid)
        result = await recovered(world, world.process(tree(provider, bank)))
        told = next(each for each in provider.requests[::-1] if each.body["model"] == "sub").body["messages"][-1]
    assert bank.paid == paid
    assert "may have taken effect" in told["content"]
    assert result.text == "Wait. boss done."


async def test_a_tree_killed_again_and_again_comes_to_its_end(world):
    bank = Bank()
    async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"})]})) as provider:
        points = [("model.after_commit", 3), ("model.after_commit", 1), ("delegation.after_child", 2)]
        first = world.process(tree(provider, bank, levels=2))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), *points[0])
        for point, times in points[1:]:
            await world.leases_expire()
            process = world.process(tree(provider, bank, levels=2))

            async def taken_up(agent: Any) -> Any:
                return await (await agent.recover("r")).get_full_output()

            await process.killed_in(taken_up, point, times)
        result = await recovered(world, world.process(tree(provider, bank, levels=2)))
    assert (result.text, bank.paid) == ("Wait. boss done.", ["a"])
    assert result.usage.total_tokens == 60
    assert {row.status for row in await world.store.runs(resource=None)} == {"success"}


@in_memory
async def test_a_child_that_comes_on_is_no_crash_loop_of_its_root(world):
    """Five crashes within one delegation, each after another completed step of the child; without progress, four."""
    for steps in (True, False):
        bank, run_id = Bank(), f"r{steps}"
        sub_model = ScriptedModel(lambda _: Call("look", {"order": "a"}))
        boss_model = ScriptedModel(lambda _: GO["boss"])

        def agent(sub_model: Any = sub_model, boss_model: Any = boss_model, bank: Bank = bank) -> Agent[Any, Any]:
            sub = Agent(id="sub", model=sub_model, tools=bank.tools(), default_options={"max_steps": 50})
            return Agent(id="boss", model=boss_model, agents={"x": sub})

        point = "model.after_commit" if steps else "model.before_call"
        first = world.process(agent())
        await first.killed_in(lambda agent, run_id=run_id: agent.generate("hi", run_id=run_id), point, 2)
        for _ in range(4):
            await world.leases_expire()

            async def taken_up(agent: Any, run_id: str = run_id) -> Any:
                return await (await agent.recover(run_id)).get_full_output()

            await world.process(agent()).killed_in(taken_up, point)
        await world.leases_expire()
        last = world.process(agent())
        output = await last.call(lambda agent, run_id=run_id: agent.recover(run_id))
        if steps:
            output.abort("enough")
        result = await output.get_full_output()
        error = None if result.error is None else result.error.id
        assert (result.finish_reason, error) == (("aborted", None) if steps else ("error", "RECOVERY_EXHAUSTED"))


@in_memory
async def test_the_sweep_leaves_children_to_their_parents(world):
    bank = Bank()
    async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"})]})) as provider:
        first = world.process(tree(provider, bank))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), "model.after_commit", 2)
        await world.leases_expire()
        assert [row.run_id for row in await world.store.recoverable()] == ["r"]
        sub = create_durable_agent(tree(provider, bank)._given["agents"]["x"])
        process = world.process(sub)
        with pytest.raises(RunError) as caught:
            await process.call(lambda agent: agent.recover(CHILD))
        assert caught.value.id == "RUN_IS_A_CHILD"
        assert "'r'" in str(caught.value)
        await recovered(world, world.process(tree(provider, bank)))


@pytest.mark.parametrize("step", ["before", "after"])
async def test_the_agent_of_a_child_is_gone(world, step):
    """Another agent under the key does not get its run; the supervisor is told."""
    bank = Bank()
    async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"})]})) as provider:
        first = world.process(tree(provider, bank))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), "model.after_commit", 2)
        changed = tree(provider, bank)
        other = Agent(id="other", model=model(provider, "sub"), tools=bank.tools())
        agents = {} if step == "before" else {"x": other}
        result = await recovered(world, world.process(changed.replace(agents=agents)))
        told = provider.requests[-1].body["messages"][-1]["content"]
    assert result.text == "Wait. boss done."
    assert "unknown after a restart" in told if step == "before" else "failed (DURABLE_AGENT_RESUME" in told
    assert bank.paid == []
    assert (await world.row(CHILD)).status == "interrupted"


# -- decisions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("durable", [False, True])
async def test_approval_through_any_depth(world, levels, durable):
    bank = Bank()
    async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"}, "p1")]})) as provider:
        process = world.process(tree(provider, bank, levels=levels, require_approval=True), durable=durable)
        output = await process.call(lambda agent: agent.stream("hi", run_id="r"))
        chunks = await read(output)
        (asked,) = await output.pending
        assert (asked.id, asked.tool_name, asked.args, asked.kind) == ("d1", "pay", {"order": "a"}, "approval")
        last = chunks[-1]
        assert (last.type, last.run_id, last.payload.tool_call_id, last.payload.tool_name, last.payload.args) == (
            "tool-call-approval", "r", "d1", "pay", {"order": "a"},
        )  # fmt: skip
        assert nested(chunks)[-1]["type"] in {"tool-call-approval", "tool-output"}
        listed = await process.call(lambda agent: agent.list_suspended_runs())
        assert [(run.run_id, [call.id for call in run.tool_calls]) for run in listed.runs] == [("r", ["d1"])]
        output = await process.call(lambda agent: agent.approve_tool_call(run_id="r"))
        after = await read(output)
        result = await output.get_full_output()
        asked_by = await requests_by(provider)
    check_stream(after, resumed=True)
    assert (result.text, bank.paid) == ("Wait. boss done.", ["a"])
    assert asked_by == {"boss": 2, "sub": 2, **({"mid1": 2} if levels == 2 else {})}
    assert result.usage.total_tokens == 20 * (levels + 1)
    assert [chunk.type for chunk in after if chunk.type in {"start", "tool-result", "finish"}] == [
        "tool-result",
        "finish",
    ]


async def test_a_decision_by_another_process(world):
    """E11, first half: nothing of the first process is left but what is stored."""
    bank = Bank()
    async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"})]})) as provider:
        first = world.process(tree(provider, bank, levels=2, require_approval=True))
        await first.call(lambda agent: agent.generate("hi", run_id="r"))
        await first.kill()
        gc.collect()
        second = world.process(tree(provider, bank, levels=2, require_approval=True))
        result = await second.call(lambda agent: agent.approve_tool_call_generate(run_id="r", args={"order": "b"}))
    assert (result.text, bank.paid) == ("Wait. boss done.", ["b"])
    assert await world.store.pending(CHILD, resource=ANYONE) == []


async def test_two_suspended_tools_inside_one_delegation_come_up_one_after_the_other(world):
    bank = Bank()
    calls = [Call("ask", {"order": "a"}, "a1"), Call("ask", {"order": "b"}, "a2")]
    async with FakeProvider(script({**GO, "sub": calls})) as provider:
        process = world.process(tree(provider, bank))
        result = await process.call(lambda agent: agent.generate("hi", run_id="r"))
        for order in ("a", "b"):
            (asked,) = result.pending
            assert (asked.id, asked.tool_name, asked.suspend_payload) == ("d1", "ask", {"order": order})
            process = world.process(tree(provider, bank))
            result = await process.call(
                lambda agent, order=order: agent.resume_generate({"account": f"of {order}"}, run_id="r")
            )
        said_to_sub = answers(provider, -2)
    assert said_to_sub == ["paid a from of a", "paid b from of b"]
    assert (result.text, bank.paid) == ("Wait. boss done.", ["a", "b"])


@pytest.mark.parametrize("first", ["d1", "d2"])
async def test_two_suspended_delegations_in_any_order(world, first):
    """I07."""
    bank = Bank()
    boss = [Call("agent-x", {"prompt": "pay a"}, "d1"), Call("agent-x", {"prompt": "pay b"}, "d2")]

    def answer(request: Any) -> Reply:
        messages = request.body["messages"]
        done = sum(message["role"] == "tool" for message in messages)
        if request.body["model"] == "boss":
            return Reply("boss done.") if done else Reply(calls=boss)
        order = messages[-1]["content"].split()[-1] if not done else ""
        return Reply("paid.") if done else Reply(calls=[Call("pay", {"order": order})])

    async with FakeProvider(answer) as provider:
        agent = tree(provider, bank, require_approval=True)
        result = await world.process(agent).call(lambda agent: agent.generate("hi", run_id="r"))
        assert sorted((each.id, each.args["order"]) for each in result.pending) == [("d1", "a"), ("d2", "b")]
        for call_id in (first, {"d1": "d2", "d2": "d1"}[first]):
            process = world.process(tree(provider, bank, require_approval=True))
            result = await process.call(
                lambda agent, call_id=call_id: agent.approve_tool_call_generate(run_id="r", tool_call_id=call_id)
            )
    assert (result.text, sorted(bank.paid)) == ("boss done.", ["a", "b"])
    assert bank.paid[0] == {"d1": "a", "d2": "b"}[first]


async def test_decline_inside_a_delegation(world):
    bank = Bank()
    async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"})]})) as provider:
        process = world.process(tree(provider, bank, require_approval=True))
        await process.call(lambda agent: agent.generate("hi", run_id="r"))
        result = await process.call(lambda agent: agent.decline_tool_call_generate(run_id="r", reason="too dear"))
        told = next(each for each in provider.requests[::-1] if each.body["model"] == "sub").body["messages"][-1]
    assert (result.text, bank.paid, told["content"]) == ("Wait. boss done.", [], "too dear")


async def test_data_that_do_not_fit_leave_it_suspended(world):
    bank = Bank()
    async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"})]})) as provider:
        process = world.process(tree(provider, bank, levels=2, require_approval=True))
        await process.call(lambda agent: agent.generate("hi", run_id="r"))
        with pytest.raises(RunError) as caught:
            await process.call(lambda agent: agent.approve_tool_call_generate(run_id="r", args={"order": 3}))
        assert caught.value.id == "AGENT_RESUME_INVALID_DATA"
        with pytest.raises(RunError) as caught:
            await process.call(lambda agent: agent.resume_generate({"yes": 1}, run_id="r"))
        assert caught.value.id == "AGENT_RESUME_INVALID_DATA"
        result = await process.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
    assert (result.text, bank.paid) == ("Wait. boss done.", ["a"])


@pytest.mark.parametrize("point", ["call.before_pending", "run.before_park", "run.after_park"])
@pytest.mark.parametrize("times", [1, 2])
async def test_killed_while_the_child_begins_to_wait(world, point, times):
    bank = Bank()
    async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"})]})) as provider:
        first = world.process(tree(provider, bank, require_approval=True))
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), point, times)
        second = world.process(tree(provider, bank, require_approval=True))
        if (await world.row("r")).status == "running":
            result = await recovered(world, second)
            assert [(each.id, each.tool_name) for each in result.pending] == [("d1", "pay")]
        else:
            await world.leases_expire()
        result = await second.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
        log = await world.whole("r")
    assert (result.text, bank.paid) == ("Wait. boss done.", ["a"])
    assert [chunk.type for chunk in of(log, "tool-call-approval")] == ["tool-call-approval"]
    assert [each["type"] for each in nested(log)].count("tool-call-approval") == 1


@pytest.mark.parametrize(
    ("point", "times"), [("run.after_post", 1), ("run.after_decision", 1), ("run.after_decision", 2)]
)
async def test_killed_on_the_way_of_a_decision(world, point, times):
    bank = Bank()
    async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"})]})) as provider:
        first = world.process(tree(provider, bank, require_approval=True))
        await first.call(lambda agent: agent.generate("hi", run_id="r"))
        await first.killed_in(lambda agent: agent.approve_tool_call_generate(run_id="r"), point, times)
        result = await recovered(world, world.process(tree(provider, bank, require_approval=True)))
    assert (result.text, bank.paid) == ("Wait. boss done.", ["a"])


# -- ends ------------------------------------------------------------------------------------------------------------


async def test_an_abort_of_a_run_that_waits_ends_its_children(world):
    bank = Bank()
    async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"})]})) as provider:
        process = world.process(tree(provider, bank, require_approval=True))
        await process.call(lambda agent: agent.generate("hi", run_id="r"))
        assert await process.call(lambda agent: agent.abort_run_stream("r"))
        with pytest.raises(RunError):
            await process.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
    assert (await world.row("r")).status == "canceled"
    assert (await world.row(CHILD)).status in {"canceled", "interrupted"}
    assert bank.paid == []


async def test_an_abort_while_the_child_works(world):
    began = asyncio.Event()

    @tool(effects="none")
    async def wait() -> str:
        began.set()
        await asyncio.Event().wait()
        return ""

    async with FakeProvider(script({**GO, "sub": [Call("wait")]})) as provider:
        boss = tree(provider, Bank())
        sub = boss._given["agents"]["x"].replace(tools=[wait])
        process = world.process(boss.replace(agents={"x": sub}))
        output = await process.call(lambda agent: agent.stream("hi", run_id="r"))
        await began.wait()
        await process.call(lambda agent: agent.abort_run_stream("r"))
        result = await output.get_full_output()
        await settled(process)
    assert result.finish_reason == "aborted"
    assert result.usage.total_tokens == 20
    assert [(await world.row(each)).status for each in ("r", CHILD)] == ["canceled", "canceled"]
    await world.whole("r")
    await world.whole(CHILD)


# -- limits and options elsewhere ------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", [None, "delegation.after_child", "tool.after_result"])
async def test_a_token_limit_holds_for_the_tree_and_survives_a_crash(world, point):
    def answer(request: Any) -> Reply:
        done = any(message["role"] == "tool" for message in request.body["messages"])
        if request.body["model"] == "boss":
            return Reply("Done.") if done else Reply(calls=GO["boss"], usage=Usage(5, 5))
        calls = () if done else [Call("look", {"order": "a"})]
        return Reply("Fine.", calls=calls, usage=Usage(1000, 100))

    short = {"model_settings": {"max_output_tokens": 10}}
    async with FakeProvider(answer) as provider:

        def agent() -> Agent[Any, Any]:
            boss = tree(provider, Bank())
            return boss.replace(agents={"x": boss._given["agents"]["x"].replace(default_options=short)})

        def begin(agent: Any) -> Any:
            return agent.generate("hi", run_id="r", token_limit=2300, **short)

        first = world.process(agent())
        if point is None:
            with pytest.raises(RunError) as caught:
                await first.call(begin)
            result = caught.value.result
        else:
            await first.killed_in(begin, point)
            result = await recovered(world, world.process(agent()))
        asked = await requests_by(provider)
    assert (result.error.id, result.finish_reason) == ("AGENT_TOKEN_LIMIT_REACHED", "error")
    assert "token_limit is 2300 tokens: 2210 are spent, 0 put aside" in str(result.error)
    assert asked == {"boss": 1, "sub": 2}
    assert result.usage.total_tokens == 2210
    await world.whole("r")


@in_memory
async def test_hooks_elsewhere(world):
    """S76: a registered hook goes on, one that is not is gone and named; a lost filter lets nothing be delegated."""
    seen: list[str] = []

    @durable_function("noted")
    def noted(context: Any) -> None:
        seen.append(context.prompt)

    bank = Bank()
    hooks = {"on_delegation_start": noted, "message_filter": lambda context: context.messages}
    async with FakeProvider(script({**GO, "sub": [Call("look", {"order": "a"})]})) as provider:
        boss = tree(provider, bank)
        first = world.process(boss)
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r", delegation=hooks), "model.after_commit")
        result = await recovered(world, world.process(tree(provider, bank)))
        told = provider.requests[-1].body["messages"][-1]["content"]
        assert "message_filter is not in this process" in told
        assert result.degraded == ("delegation.message_filter",)
        assert seen == ["go"]
        own = tree(provider, bank).replace(default_options={"delegation": {"message_filter": lambda _: []}})
        first = world.process(own)
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r2"), "model.after_commit")
        result = await recovered(world, world.process(own.replace()), "r2")
    assert (result.degraded, result.text, bank.looked) == ((), "Wait. boss done.", ["a"])


async def test_text_of_a_child_is_not_the_parents(world):
    async with FakeProvider(script(GO)) as provider:
        process = world.process(tree(provider, Bank()))
        output = await process.call(lambda agent: agent.stream("hi", run_id="r"))
        chunks = await read(output)
    assert text_of(chunks) == "Wait. boss done."
    assert not any(isinstance(each, SegmentStarted) for each in await world.records("r"))


# -- threads -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("own", [False, True])
async def test_a_delegation_has_a_thread_of_its_own(world, durable, own):
    """Fresh for each, of a resource of its own; with the sub-agent's memory, else its supervisor's."""
    twice = [*GO["boss"], Call("agent-x", {"prompt": "go"}, "d2")]
    async with FakeProvider(script({"boss": twice, "sub": [Call("look", {"order": "a"})]})) as provider:
        boss = tree(provider, Bank()).replace(memory=Memory())
        if own:
            boss = boss.replace(agents={"x": boss._given["agents"]["x"].replace(memory=Memory())})
        process = world.process(boss, durable=durable)
        on = {"thread": "t", "resource": "ann"}
        result = await process.call(lambda agent: agent.generate("hi", memory=on))
    shown = [each.payload.result for each in result.tool_results]
    threads = [each["subAgentThreadId"] for each in shown]
    assert {each["subAgentResourceId"] for each in shown} == {"ann-x"}
    assert len(set(threads)) == 2
    assert all(thread.startswith("t-") for thread in threads)
    for thread in threads:
        kept = await world.store.messages(thread, resource="ann-x")
        assert [(each.message.role, each.message.text) for each in kept] == [
            ("user", "go"),
            ("assistant", "Wait. sub done."),
        ]
    kept = await world.store.messages("t", resource="ann")
    assert [each.message.role for each in kept] == ["user", "assistant"]


async def test_the_thread_of_a_delegation_after_a_crash_and_a_decision(world):
    bank = Bank()
    async with FakeProvider(script({**GO, "sub": [Call("pay", {"order": "a"})]})) as provider:

        def agent() -> Agent[Any, Any]:
            return tree(provider, bank, require_approval=True).replace(memory=Memory())

        first = world.process(agent())
        on = {"thread": "t", "resource": "ann"}
        await first.killed_in(lambda agent: agent.generate("hi", run_id="r", memory=on), "run.after_park")
        second = world.process(agent())
        await world.leases_expire()
        await (await second.call(lambda agent: agent.recover("r"))).get_full_output()
        await second.kill()
        third = world.process(agent())
        await world.leases_expire()
        result = await third.call(lambda agent: agent.approve_tool_call_generate(run_id="r", memory=on))
    assert (result.text, bank.paid) == ("Wait. boss done.", ["a"])
    thread = result.tool_results[0].payload.result["subAgentThreadId"]
    kept = await world.store.messages(thread, resource="ann-x")
    assert [(each.message.role, each.message.text) for each in kept] == [
        ("user", "go"),
        ("assistant", "Wait. sub done."),
    ]


async def test_feedback_is_kept_in_the_supervisors_memory(world):
    """C22: it steers the next step and is there in the next turn."""
    async with FakeProvider(script({**GO, "sub": []})) as provider:
        process = world.process(tree(provider, Bank()).replace(memory=Memory()))
        on = {"thread": "t", "resource": "ann"}
        hooks = {"on_delegation_complete": lambda _: {"feedback": "Name the source."}}
        await process.call(lambda agent: agent.generate("hi", memory=on, delegation=hooks))
        kept = await world.store.messages("t", resource="ann")
    assert [each.message.text for each in kept] == ["hi", "Wait. ", "Name the source.", "boss done."]
