"""Cases G: durability and crashes, each under its number. (G11 is in test_degradation.)"""

from __future__ import annotations

import asyncio

import pytest

from tenuto import ToolContext, tool
from tenuto.runs import live, observe
from tenuto.testing import Call, FakeProvider, Reply
from tenuto.tools import ToolFailed
from tests.durable.kit import Killed, answers, clerk, current, in_memory, of, read, soon, types

kinds = pytest.mark.parametrize("durable", [False, True], ids=["plain", "durable"])


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(observe, "POLL_SECONDS", 0.001)


DONE = Reply("done")


def die():
    """End this process here."""
    process = current.get()
    process.store.dead = True
    process.died.set()
    raise Killed


async def killed(process, make):
    task = process.begin(make)
    await process.died.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await process.kill()


async def recovered(world, process, run_id="r"):
    await world.leases_expire()
    return await (await process.call(lambda agent: agent.recover(run_id))).get_full_output()


@pytest.mark.parametrize("effects", ["once", "idempotent"])
async def test_G01_a_crash_between_effect_and_result(world, tmp_path, effects):
    file = tmp_path / "effects"

    @tool(require_approval=True, effects=effects)
    async def pay(ctx: ToolContext, order: str) -> str:
        with file.open("a") as lines:
            lines.write(f"{ctx.idempotency_key}\n")
        if ctx.attempt == 1:
            die()
        return "paid"

    async with FakeProvider([Reply(calls=[Call("pay", {"order": "A"}, "c1")]), DONE]) as provider:
        first = world.process(clerk(provider, [pay]))
        await first.call(lambda agent: agent.generate("hi", run_id="r"))
        await killed(first, lambda agent: agent.approve_tool_call_generate(run_id="r"))
        result = await recovered(world, world.process(clerk(provider, [pay])))
        (told,) = answers(provider)
    keys = file.read_text().split()
    if effects == "once":
        assert len(keys) == 1
        assert "unknown after a restart" in told
    else:
        assert (len(keys), len(set(keys)), told) == (2, 1, "paid")
    assert result.text == "done"
    assert len(of(await world.whole("r"), "tool-call-approval")) == 1


class Shop:
    def __init__(self):
        self.paid, self.put = [], []

        @tool(effects="once")
        async def pay(order: str) -> str:
            self.paid.append(order)
            return f"paid {order}"

        @tool(effects="idempotent")
        async def put(order: str) -> str:
            self.put.append(order)
            return f"put {order}"

        self.tools = [pay, put]


def shopping(request):
    """Pays and puts, pays again, then says so; by the conversation alone."""
    said = sum(message["role"] == "assistant" for message in request.body["messages"])
    if said == 0:
        return Reply("Well, ", calls=[Call("pay", {"order": "A"}, "c1"), Call("put", {"order": "B"}, "c2")])
    if said == 1:
        return Reply(calls=[Call("pay", {"order": "C"}, "c3")])
    return Reply("All done.", chunk_size=1)


@pytest.mark.slow
async def test_G04_killed_in_each_window(world):
    """At every pass of every failpoint: what comes of it is complete, and paid at most once."""
    async with FakeProvider(shopping) as provider:
        passed = []
        whole = world.process(clerk(provider, Shop().tools))
        whole.hit = passed.append
        await whole.call(lambda agent: agent.generate("hi", run_id="whole"))
        windows = [(point, passed[: place + 1].count(point)) for place, point in enumerate(passed)]
        windows.remove(("run.after_claim", 1))  # nothing is stored yet: see S26
        windows.remove(("journal.commit.before", 1))
        assert len({point for point, _ in windows}) >= 9
        for number, (point, times) in enumerate(windows):
            run_id, shop = f"r{number}", Shop()
            first = world.process(clerk(provider, shop.tools))
            await first.killed_in(lambda agent, run_id=run_id: agent.generate("hi", run_id=run_id), point, times)
            second = world.process(clerk(provider, shop.tools))
            if (await world.row(run_id)).status == "running":
                await recovered(world, second, run_id)
            result = await (await second.call(lambda agent, run_id=run_id: agent.observe(run_id))).get_full_output()
            window = f"{point} #{times}"
            assert (await world.row(run_id)).status == "success", window
            assert sorted(set(shop.paid)) == sorted(shop.paid), window
            parts = [part.tool_invocation for message in result.messages for part in message.content.parts
                     if hasattr(part, "tool_invocation")]  # fmt: skip
            assert {part.tool_call_id for part in parts} == {"c1", "c2", "c3"}, window
            assert all(part.state in {"result", "output-error"} for part in parts), window
            assert result.text.endswith("All done."), window
            await world.whole(run_id)


@kinds
async def test_G05_a_run_that_works_or_waits_is_never_forgotten(world, durable, monkeypatch):
    """The registry holds one parked run; many wait, and many are in a long tool."""
    monkeypatch.setattr(live, "PARKED_KEPT", 1)
    release, busy = asyncio.Event(), []

    @tool(require_approval=True)
    async def pay(order: str) -> str:
        return f"paid {order}"

    @tool
    async def long(order: str) -> str:
        busy.append(order)
        await release.wait()
        return f"did {order}"

    def answer(request):
        name, order = request.body["messages"][0]["content"].split()
        said = len(request.body["messages"]) > 1
        return Reply(f"done {order}") if said else Reply(calls=[Call(name, {"order": order}, f"c{order}")])

    async with FakeProvider(answer) as provider:
        process = world.process(clerk(provider, [pay, long]), durable=durable)
        working = [
            process.begin(lambda agent, n=n: agent.generate(f"long {n}", run_id=f"l{n}", max_steps=3))
            for n in range(20)
        ]
        for n in range(20):
            await process.call(lambda agent, n=n: agent.generate(f"pay {n}", run_id=f"p{n}", max_steps=3))
        await soon(lambda: len(busy) == 20)
        await world.clock.advance(3 * 3600)
        release.set()
        assert [(await task).text for task in working] == [f"done {n}" for n in range(20)]
        for n in range(20):
            result = await process.call(lambda agent, n=n: agent.approve_tool_call_generate(run_id=f"p{n}"))
            assert result.text == f"done {n}"


@kinds
async def test_G07_a_cold_resume_keeps_the_run_id_and_the_arguments(world, durable):
    seen = []

    @tool(require_approval=True)
    async def pay(ctx: ToolContext, order: str, amount: int) -> str:
        seen.append((ctx.run_id, ctx.tool_call_id, order, amount))
        return "paid"

    call = Call("pay", {"order": "A-17", "amount": 3}, "c1")
    async with FakeProvider([Reply(calls=[call]), DONE]) as provider:
        first = world.process(clerk(provider, [pay]), durable=durable)
        await first.call(lambda agent: agent.generate("hi", run_id="my-run"))
        await first.kill()
        second = world.process(clerk(provider, [pay]), durable=durable)
        if durable:
            viewer = await second.call(lambda agent: agent.observe("my-run"))
            assert {chunk.run_id for chunk in await read(viewer)} == {viewer.run_id} == {"my-run"}
        output = await second.call(lambda agent: agent.approve_tool_call(run_id="my-run"))
        chunks = await read(output)
        result = await output.get_full_output()
    assert seen == [("my-run", "c1", "A-17", 3)]
    assert {chunk.run_id for chunk in chunks} == {output.run_id} == {result.run_id} == {"my-run"}
    assert (await world.row("my-run")).status == "success"
    if durable:
        assert {chunk.run_id for chunk in await world.whole("my-run")} == {"my-run"}


async def test_G12_a_run_that_was_answered_recovers_from_a_later_crash(world):
    seen = []

    @tool
    async def ask(ctx: ToolContext) -> str:
        if ctx.resume_data is None:
            await ctx.suspend("which account?")
        seen.append(ctx.resume_data)
        return f"from {ctx.resume_data}"

    @tool(effects="idempotent")
    async def put(ctx: ToolContext) -> str:
        if ctx.attempt == 1:
            die()
        return "put"

    script = [Reply(calls=[Call("ask", {}, "c1")]), Reply(calls=[Call("put", {}, "c2")]), DONE]
    async with FakeProvider(script) as provider:
        first = world.process(clerk(provider, [ask, put]))
        await first.call(lambda agent: agent.generate("hi", run_id="r"))
        await killed(first, lambda agent: agent.resume_generate("savings", run_id="r"))
        result = await recovered(world, world.process(clerk(provider, [ask, put])))
        assert answers(provider) == ["from savings", "put"]
    log = await world.whole("r")
    assert len(of(log, "tool-call-suspended")) == 1
    assert seen == ["savings"]
    assert result.text == "done"
    assert result.tool_results[0].payload.result == "from savings"


@tool(effects="none")
async def look(at: str) -> str:
    return f"saw {at}"


@tool(effects="none")
async def fail(at: str) -> str:
    raise ValueError("no")


CALLBACKS = ("on_chunk", "on_step_finish", "on_finish", "on_error", "on_abort", "on_suspended")


@in_memory
async def test_G14_callbacks_and_options_of_a_call_are_the_same_in_both(world):
    """What each callback is told, what the model is sent, what is streamed."""
    both = []
    calls = [Call("look", {"at": "a"}, "c1"), Call("fail", {"at": "b"}, "c2")]
    for durable in (False, True):
        told = []

        def telling(name, told=told):
            return lambda event: told.append((name, getattr(event, "type", None) or type(event).__name__))

        def stop(context, told=told):
            told.append(("stop_when", len(context.steps)))
            return len(context.steps) == 2

        script = [Reply("one", calls=calls), Reply(calls=[Call("look", {"at": "c"}, "c3")])]
        async with FakeProvider(script) as provider:
            process = world.process(clerk(provider, [look, fail]), durable=durable)
            output = await process.call(
                lambda agent, telling=telling, stop=stop: agent.stream(
                    "hi",
                    stop_when=stop,
                    max_steps=9,
                    tool_call_concurrency=1,
                    context=[{"role": "user", "content": "earlier"}],
                    system="Be brief.",
                    instructions="Be kind.",
                    active_tools=["look", "fail"],
                    model_settings={"temperature": 0.5},
                    **{name: telling(name) for name in CALLBACKS},
                )
            )
            chunks = await read(output)
            result = await output.get_full_output()
            bodies = [request.body for request in provider.requests]
        assert [kind for name, kind in told if name == "on_chunk"] == types(chunks)
        both.append((told, bodies, types(chunks), result.text, result.finish_reason, result.usage, len(result.steps)))
    assert both[0] == both[1]
    assert ("stop_when", 2) in both[0][0]


@in_memory
@pytest.mark.parametrize("ends", ["fails", "aborts", "suspends"])
async def test_G14_so_are_the_callbacks_of_runs_that_end_otherwise(world, ends):
    both = []
    for durable in (False, True):
        told = []

        @tool
        async def ask(ctx: ToolContext) -> str:
            if ends == "aborts":
                current.get().abort()
                await ctx.abort_signal.wait()
            await ctx.suspend("why?")

        calling = Reply(calls=[Call("ask", {}, "c1")])
        script = [Reply("half", finish="error")] if ends == "fails" else [calling]
        async with FakeProvider(script) as provider:
            process = world.process(clerk(provider, [ask]), durable=durable)
            output = await process.call(
                lambda agent, told=told: agent.stream(
                    "hi", **{name: lambda event, name=name: told.append(name) for name in CALLBACKS[2:]}
                )
            )
            process.abort = output.abort
            chunks = await read(output)
            result = await output.get_full_output()
        both.append((told, types(chunks), result.finish_reason))
    assert both[0] == both[1]
    assert both[0][0] == [{"fails": "on_error", "aborts": "on_abort", "suspends": "on_suspended"}[ends]]


class Refused(ToolFailed):
    pass


G15 = {
    "returns": (lambda ctx: "fine", "tool-result"),
    "refuses": (lambda ctx: (_ for _ in ()).throw(ToolFailed("no money; nothing was paid")), "tool-error"),
    "refuses by a subclass": (lambda ctx: (_ for _ in ()).throw(Refused("no")), "tool-error"),
    "raises": (lambda ctx: (_ for _ in ()).throw(ValueError("odd")), "tool-error"),
    "is cancelled": (lambda ctx: (_ for _ in ()).throw(asyncio.CancelledError()), "tool-error"),
    "suspends": (lambda ctx: ctx.suspend_sync("why?"), "tool-call-suspended"),
    "returns what JSON cannot hold": (lambda ctx: object(), "tool-error"),
}


@in_memory
@pytest.mark.parametrize("how", G15)
async def test_G15_what_a_tool_raises_keeps_its_meaning(world, how):
    """In a plain run, in a durable one, and in one that another process recovered before the tool ran."""
    does, kind = G15[how]
    outcomes = []

    @tool(effects="none")
    async def act(ctx: ToolContext) -> object:
        return does(ctx)

    script = [Reply(calls=[Call("act", {}, "c1")])] + ([] if how == "suspends" else [DONE])
    for way in ("plain", "durable", "recovered"):
        async with FakeProvider(script) as provider:
            first = world.process(clerk(provider, [act]), durable=way != "plain")
            if way == "recovered":
                await first.killed_in(lambda agent: agent.generate("hi", run_id="recovered"), "model.after_commit")
                second = world.process(clerk(provider, [act]))
                await world.leases_expire()
                output = await second.call(lambda agent: agent.recover("recovered"))
            else:
                output = await first.call(lambda agent, way=way: agent.stream("hi", run_id=way))
            chunks = await read(output)
            result = await output.get_full_output()
            told = [] if how == "suspends" else answers(provider)
        errors = [chunk.payload.error for chunk in of(chunks, "tool-error")]
        outcomes.append((of_kinds(chunks), told, errors, result.finish_reason, [call.kind for call in result.pending]))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert outcomes[0][0][0] == kind


def of_kinds(chunks):
    wanted = {"tool-result", "tool-error", "tool-call-suspended", "tool-call-approval", "finish", "error"}
    return [kind for kind in types(chunks) if kind in wanted]


async def test_G15_a_call_that_needs_approval_waits_in_each_of_them(world):
    @tool(require_approval=True)
    async def act() -> str:
        return "fine"

    seen = []
    for way in ("plain", "durable", "recovered"):
        async with FakeProvider([Reply(calls=[Call("act", {}, "c1")]), DONE]) as provider:
            process = world.process(clerk(provider, [act]), durable=way != "plain")
            if way == "recovered":
                await process.killed_in(lambda agent: agent.generate("hi", run_id="recovered"), "model.after_commit")
                process = world.process(clerk(provider, [act]))
                await world.leases_expire()
                waiting = await (await process.call(lambda agent: agent.recover("recovered"))).get_full_output()
            else:
                waiting = await process.call(lambda agent, way=way: agent.generate("hi", run_id=way))
            result = await process.call(lambda agent, way=way: agent.approve_tool_call_generate(run_id=way))
        seen.append((waiting.finish_reason, waiting.suspend_payload, result.text, result.finish_reason))
    assert seen[0] == seen[1] == seen[2]
