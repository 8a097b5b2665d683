"""spec/durable.md 10.5, conformance 6 and 7, cases E: calls that wait for somebody's word, and what the word does."""

from __future__ import annotations

import itertools

import pytest
from pydantic import BaseModel

from tenuto import Agent, ToolContext, tool
from tenuto.errors import RunError
from tenuto.runs import observe
from tenuto.testing import Call, FakeProvider, Reply, ScriptedModel, Usage
from tests.durable.kit import answers, clerk, in_memory, of, read, settled, soon, text_of, types

kinds = pytest.mark.parametrize("durable", [False, True], ids=["plain", "durable"])
elsewhere = pytest.mark.parametrize("other", [False, True], ids=["same process", "other process"])


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(observe, "POLL_SECONDS", 0.001)


class Desk:
    """Tools that note what they did."""

    def __init__(self) -> None:
        self.ran = []

        @tool(require_approval=True)
        async def refund(ctx: ToolContext, order: str) -> str:
            self.ran.append((ctx.tool_call_id, order, ctx.resume_data))
            return f"refunded {order}"

        @tool
        async def pay(ctx: ToolContext, order: str) -> str:
            self.ran.append((ctx.tool_call_id, order, ctx.resume_data))
            return f"paid {order}"

        @tool
        async def ask(ctx: ToolContext, what: str) -> str:
            if ctx.suspend_payload is None:
                await ctx.suspend({"ask": what})
            self.ran.append((ctx.tool_call_id, ctx.suspend_payload, ctx.resume_data))
            return f"{what}: {ctx.resume_data}"

        self.tools = [refund, pay, ask]


@pytest.fixture
def desk():
    return Desk()


def refunds(*orders):
    return Reply(calls=[Call("refund", {"order": order}, f"c{order}") for order in orders])


DONE = Reply("done")


async def suspended(world, provider, tools, *, durable=True, **options):
    """A process and the result of its run `r`, which waits."""
    first = world.process(clerk(provider, tools), durable=durable)
    waiting = await first.call(lambda agent: agent.generate("hi", run_id="r", **options))
    assert waiting.finish_reason == "suspended"
    return first, waiting


async def next_process(world, provider, tools, first, *, other, durable=True):
    """The same process; or another one, after the first was killed."""
    if not other:
        return first
    await first.kill()
    return world.process(clerk(provider, tools), durable=durable)


# -- conformance -------------------------------------------------------------------------------------------------------


@kinds
@elsewhere
async def test_conformance_06_approve_runs_once(world, desk, durable, other):
    async with FakeProvider([refunds("A"), DONE]) as provider:
        first, waiting = await suspended(world, provider, desk.tools, durable=durable)
        assert waiting.suspend_payload["toolCallId"] == "cA"
        assert waiting.suspend_payload["args"] == {"order": "A"}
        assert "approved" in waiting.resume_schema
        assert desk.ran == []
        second = await next_process(world, provider, desk.tools, first, other=other, durable=durable)
        result = await second.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
        assert answers(provider) == ["refunded A"]
    assert [call for call, *_ in desk.ran] == ["cA"]
    assert (result.text, result.finish_reason, result.run_id) == ("done", "stop", "r")


@kinds
@elsewhere
async def test_conformance_06_decline_never_runs(world, desk, durable, other):
    async with FakeProvider([refunds("A"), DONE]) as provider:
        first, _ = await suspended(world, provider, desk.tools, durable=durable)
        second = await next_process(world, provider, desk.tools, first, other=other, durable=durable)
        result = await second.call(lambda agent: agent.decline_tool_call_generate(run_id="r", reason="too much"))
        assert answers(provider) == ["too much"]
    assert (desk.ran, result.text) == ([], "done")


@kinds
@elsewhere
async def test_conformance_07_suspended_twice_in_one_tool(world, durable, other):
    seen = []

    @tool
    async def form(ctx: ToolContext) -> str:
        seen.append((ctx.suspend_payload, ctx.resume_data))
        if ctx.suspend_payload is None:
            await ctx.suspend("name?")
        if ctx.suspend_payload == "name?":
            await ctx.suspend("sure?")
        return f"sure: {ctx.resume_data}"

    async with FakeProvider([Reply(calls=[Call("form", {}, "c1")]), DONE]) as provider:
        first, waiting = await suspended(world, provider, [form], durable=durable)
        assert waiting.pending[0].suspend_payload == "name?"
        second = await next_process(world, provider, [form], first, other=other, durable=durable)
        again = await second.call(lambda agent: agent.resume_generate("Ann", run_id="r", tool_call_id="c1"))
        assert (again.finish_reason, again.pending[0].suspend_payload) == ("suspended", "sure?")
        with pytest.raises(RunError) as stale:
            await second.call(lambda agent: agent.resume_generate(True, run_id="r", tool_call_id="c0"))
        assert stale.value.id == "AGENT_RESUME_TOOL_CALL_NOT_SUSPENDED"
        result = await second.call(lambda agent: agent.resume_generate(False, run_id="r", tool_call_id="c1"))
        assert answers(provider) == ["sure: False"]
        with pytest.raises(RunError) as stale:
            await second.call(lambda agent: agent.resume_generate(False, run_id="r", tool_call_id="c1"))
        assert stale.value.id == "AGENT_RESUME_TOOL_CALL_NOT_SUSPENDED"
    assert seen == [(None, None), ("name?", "Ann"), ("sure?", False)]
    assert result.text == "done"


@in_memory
@kinds
@pytest.mark.parametrize("data", [False, 0, "", [], {}])
async def test_conformance_07_falsy_data_is_data(world, desk, durable, data):
    async with FakeProvider([Reply(calls=[Call("ask", {"what": "n"}, "c1")]), DONE]) as provider:
        first, _ = await suspended(world, provider, desk.tools, durable=durable)
        result = await first.call(lambda agent: agent.resume_generate(data, run_id="r"))
    assert (desk.ran, result.text) == ([("c1", {"ask": "n"}, data)], "done")


# -- approval ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, pytest.param(5_000_000, marks=pytest.mark.slow)])
async def test_S55_whoever_reacts_to_the_chunk_may_approve_at_once(world, desk, size):
    order = "A" * size
    async with FakeProvider([Reply(calls=[Call("pay", {"order": order}, "c1")], chunk_size=0), DONE]) as provider:
        first = world.process(clerk(provider, desk.tools))
        reacted = []

        async def on_chunk(chunk):
            if chunk.type == "tool-call-approval":
                assert [row.call_id for row in await world.store.pending("r", resource=None)] == ["c1"]
                assert desk.ran == []
                reacted.append(first.begin(lambda agent: agent.approve_tool_call(run_id="r", tool_call_id="c1")))

        output = await first.call(
            lambda agent: agent.stream("hi", run_id="r", require_tool_approval=True, on_chunk=on_chunk)
        )
        await soon(lambda: reacted)
        resumed = await (await reacted[0]).get_full_output()
        await output.get_full_output()
    assert [(call, given) for call, given, _ in desk.ran] == [("c1", order)]
    assert resumed.text == "done"
    assert len(of(await world.whole("r"), "tool-call-approval")) == 1


@kinds
async def test_S55_who_is_told_of_the_suspension_may_answer_at_once(world, desk, durable):
    results = []
    async with FakeProvider([refunds("A"), DONE]) as provider:
        first = world.process(clerk(provider, desk.tools), durable=durable)

        async def approve(result):
            results.append(await first.agent.approve_tool_call_generate(run_id=result.run_id))

        waiting = await first.call(lambda agent: agent.generate("hi", run_id="r", on_suspended=approve))
    assert (waiting.finish_reason, [result.text for result in results]) == ("suspended", ["done"])
    assert [call for call, *_ in desk.ran] == ["cA"]


async def test_S55_no_tool_runs_before_it_is_approved(world, desk):
    calls = [Call("pay", {"order": "A"}, "c1"), Call("pay", {"order": "B"}, "c2")]
    async with FakeProvider([Reply(calls=calls)]) as provider:
        first = world.process(clerk(provider, desk.tools))
        waiting = await first.call(lambda agent: agent.generate("hi", run_id="r", require_tool_approval=True))
    assert ([call.id for call in waiting.pending], desk.ran) == (["c1", "c2"], [])


async def test_S56_a_policy_that_a_restart_has_lost_asks_every_time(world, desk):
    def policy(request):
        return request.args["order"] == "A"

    script = [Reply(calls=[Call("pay", {"order": each}, f"c{each}")]) for each in "ABA"]
    async with FakeProvider([*script[:2], DONE]) as provider:
        first, _ = await suspended(world, provider, desk.tools, require_tool_approval=policy)
        second = await next_process(world, provider, desk.tools, first, other=True)
        again = await second.call(lambda agent: agent.decline_tool_call_generate(run_id="r"))
        assert [call.args for call in again.pending] == [{"order": "B"}]  # the policy would have let it pass
        assert again.degraded == ("require_tool_approval",)
        result = await second.call(lambda agent: agent.decline_tool_call_generate(run_id="r"))
    assert (desk.ran, result.text, result.degraded) == ([], "done", ("require_tool_approval",))


async def test_S56_the_policy_holds_as_long_as_its_process_lives(world, desk):
    def policy(request):
        return request.args["order"] == "A"

    script = [Reply(calls=[Call("pay", {"order": each}, f"c{each}")]) for each in "AB"]
    async with FakeProvider([*script, DONE]) as provider:
        first, _ = await suspended(world, provider, desk.tools, require_tool_approval=policy)
        result = await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
    assert [order for _, order, _ in desk.ran] == ["A", "B"]
    assert result.text == "done"


@in_memory
@kinds
@pytest.mark.parametrize(
    ("reason", "told"), [("too much", "too much"), (None, "Tool call was not approved by the user")]
)
async def test_S57_a_declined_call(world, desk, durable, reason, told):
    async with FakeProvider([refunds("A"), DONE]) as provider:
        first, _ = await suspended(world, provider, desk.tools, durable=durable)
        output = await first.call(lambda agent: agent.decline_tool_call(run_id="r", reason=reason))
        chunks = await read(output)
        assert answers(provider) == [told]
        result = await output.get_full_output()
    (denied,) = of(chunks, "tool-output-denied")
    assert (denied.payload.tool_call_id, denied.payload.args) == ("cA", {"order": "A"})
    assert (denied.payload.approval.approved, denied.payload.approval.reason) == (False, told)
    (part,) = [part for part in result.messages[1].content.parts if hasattr(part, "tool_invocation")]
    assert part.tool_invocation.state == "output-denied"
    assert (desk.ran, result.text) == ([], "done")
    assert types(chunks)[-1] == "finish"


@in_memory
@kinds
@pytest.mark.parametrize("call_id", ["cB", "nothing"])
async def test_S58_a_call_that_does_not_wait(world, desk, durable, call_id):
    calls = [Call("refund", {"order": "A"}, "cA"), Call("pay", {"order": "B"}, "cB")]
    async with FakeProvider([Reply(calls=calls), DONE]) as provider:
        first, _ = await suspended(world, provider, desk.tools, durable=durable)
        before = list(desk.ran)
        for word in ({"approved": True}, {"approved": False}):
            with pytest.raises(RunError) as raised:
                await first.call(lambda agent, word=word: agent.resume_generate(word, run_id="r", tool_call_id=call_id))
            assert raised.value.id == "AGENT_RESUME_TOOL_CALL_NOT_SUSPENDED"
            assert "cA" not in str(raised.value)
        assert desk.ran == before
        assert (await world.row("r")).status == "suspended"
        assert (await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))).text == "done"


async def test_S58_a_call_of_an_earlier_step(world, desk):
    async with FakeProvider([refunds("A"), refunds("B")]) as provider:
        first, _ = await suspended(world, provider, desk.tools)
        await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r", tool_call_id="cA"))
        with pytest.raises(RunError) as raised:
            await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r", tool_call_id="cA"))
        assert raised.value.id == "AGENT_RESUME_TOOL_CALL_NOT_SUSPENDED"
    assert [order for _, order, _ in desk.ran] == ["A"]
    assert (await world.row("r")).status == "suspended"


async def test_S58_a_call_of_another_run(world, desk):
    async with FakeProvider([refunds("A"), refunds("B")]) as provider:
        first, _ = await suspended(world, provider, desk.tools)
        await first.call(lambda agent: agent.generate("hi", run_id="s"))
        with pytest.raises(RunError) as raised:
            await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r", tool_call_id="cB"))
        assert raised.value.id == "AGENT_RESUME_TOOL_CALL_NOT_SUSPENDED"
    assert desk.ran == []


@in_memory
@kinds
async def test_S59_the_call_may_be_left_out_when_one_waits(world, desk, durable):
    async with FakeProvider([refunds("A", "B"), DONE]) as provider:
        first, _ = await suspended(world, provider, desk.tools, durable=durable)
        with pytest.raises(RunError, match="cA, cB") as raised:
            await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
        assert raised.value.id == "AGENT_RESUME_AMBIGUOUS_TOOL_CALL"
        assert desk.ran == []
        half = await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r", tool_call_id="cA"))
        assert [call.id for call in half.pending] == ["cB"]
        result = await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
        assert result.text == "done"
        with pytest.raises(RunError, match="was not suspended"):
            await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))


@kinds
async def test_S60_after_the_approval_the_data_are_the_tools(world, durable):
    seen = []

    @tool(require_approval=True)
    async def pay(ctx: ToolContext) -> str:
        seen.append(ctx.resume_data)
        if ctx.suspend_payload is None:
            await ctx.suspend({"ask": "x"})
        return "paid"

    async with FakeProvider([Reply(calls=[Call("pay", {}, "c1")]), DONE]) as provider:
        first, waiting = await suspended(world, provider, [pay], durable=durable)
        again = await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
        assert (waiting.pending[0].kind, again.pending[0].kind) == ("approval", "suspension")
        whole = {"approved": True, "x": 1}
        result = await first.call(lambda agent: agent.resume_generate(whole, run_id="r"))
    assert (seen, result.text) == ([None, {"approved": True, "x": 1}], "done")


@kinds
@elsewhere
async def test_S61_what_else_the_approval_holds_is_for_the_tool(world, desk, durable, other):
    async with FakeProvider([refunds("A"), DONE]) as provider:
        first, _ = await suspended(world, provider, desk.tools, durable=durable)
        second = await next_process(world, provider, desk.tools, first, other=other, durable=durable)
        await second.call(lambda agent: agent.resume_generate({"approved": True, "note": "n"}, run_id="r"))
    assert desk.ran == [("cA", "A", {"note": "n"})]


class Account(BaseModel):
    iban: str


@in_memory
@kinds
async def test_S62_an_answer_that_does_not_fit_is_refused(world, durable):
    """Raised, in plain and durable agents alike (corrections, agent 6.5)."""
    seen = []

    @tool(resume_schema=Account)
    async def pay(ctx: ToolContext) -> str:
        if ctx.resume_data is None:
            await ctx.suspend({"ask": "iban"})
        seen.append(ctx.resume_data)
        return "paid"

    async with FakeProvider([Reply(calls=[Call("pay", {}, "c1")]), DONE]) as provider:
        first, _ = await suspended(world, provider, [pay], durable=durable)
        for wrong in ({"iban": 3}, {}, None, "x"):
            with pytest.raises(RunError) as raised:
                await first.call(lambda agent, wrong=wrong: agent.resume_generate(wrong, run_id="r"))
            assert raised.value.id == "AGENT_RESUME_INVALID_DATA"
            assert (await world.row("r")).status == "suspended"
        result = await first.call(lambda agent: agent.resume_generate({"iban": "DE1"}, run_id="r"))
    assert (seen, result.text) == ([Account(iban="DE1")], "done")


@in_memory
@kinds
@pytest.mark.parametrize("word", [{}, None, True, {"approved": "yes"}, {"approve": True}])
async def test_S62_a_word_without_approved_decides_nothing(world, desk, durable, word):
    async with FakeProvider([refunds("A"), DONE]) as provider:
        first, _ = await suspended(world, provider, desk.tools, durable=durable)
        with pytest.raises(RunError) as raised:
            await first.call(lambda agent: agent.resume_generate(word, run_id="r"))
        assert raised.value.id == "AGENT_RESUME_INVALID_DATA"
        assert ((await world.row("r")).status, desk.ran) == ("suspended", [])
        assert (await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))).text == "done"


@kinds
async def test_arguments_may_be_edited_at_the_approval(world, desk, durable):
    async with FakeProvider([refunds("A"), DONE]) as provider:
        first, _ = await suspended(world, provider, desk.tools, durable=durable)
        with pytest.raises(RunError) as raised:
            await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r", args={"order": 3}))
        assert (raised.value.id, desk.ran) == ("AGENT_RESUME_INVALID_DATA", [])
        result = await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r", args={"order": "B"}))
        (told,) = answers(provider)
        (call,) = provider.requests[1].body["messages"][-2]["tool_calls"]
    assert desk.ran == [("cA", "B", None)]
    assert "refunded B" in told
    assert "edited arguments" in told
    assert call["function"]["arguments"] == '{"order":"A"}'
    assert result.tool_calls[0].payload.args == {"order": "A"}


# -- streams -----------------------------------------------------------------------------------------------------------


@elsewhere
async def test_S65_a_reader_may_follow_beyond_the_suspension(world, desk, other):
    script = [Reply(calls=[Call("refund", {"order": "A"}, "cA")], usage=Usage(10, 1)), Reply("done", usage=Usage(5, 2))]
    async with FakeProvider(script) as provider:
        first = world.process(clerk(provider, desk.tools))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r", close_on_suspend=False))
        viewer = await first.call(lambda agent: agent.observe("r", close_on_suspend=False))
        closing = await first.call(lambda agent: agent.observe("r"))
        before = await read(closing)
        assert before[-1].type == "tool-call-approval"
        second = world.process(clerk(provider, desk.tools)) if other else first
        result = await second.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
        seen, watched = await read(output), await read(viewer)
        whole = await output.get_full_output()
    assert seen == watched == await world.whole("r")
    assert before == seen[: len(before)]
    assert (whole.text, result.text) == ("done", "done")
    for each in (whole, result, await viewer.get_full_output()):
        assert (each.usage.input_tokens, each.usage.output_tokens) == (15, 3)


@kinds
async def test_S66_generate_that_suspends_may_be_resumed_elsewhere_at_once(world, desk, durable):
    async with FakeProvider([refunds("A"), DONE]) as provider:
        first = world.process(clerk(provider, desk.tools), durable=durable)
        second = world.process(clerk(provider, desk.tools), durable=durable)
        waiting = await first.call(lambda agent: agent.generate("hi", run_id="r"))
        result = await second.call(lambda agent: agent.approve_tool_call_generate(run_id=waiting.run_id))
    assert (waiting.finish_reason, result.text) == ("suspended", "done")
    assert [call for call, *_ in desk.ran] == ["cA"]


@kinds
@elsewhere
async def test_S67_a_resumed_stream_begins_with_the_new_segment(world, desk, durable, other):
    async with FakeProvider([refunds("A"), DONE]) as provider:
        first, _ = await suspended(world, provider, desk.tools, durable=durable)
        second = await next_process(world, provider, desk.tools, first, other=other, durable=durable)
        output = await second.call(lambda agent: agent.resume_stream({"approved": True}, run_id="r"))
        chunks = await read(output)
    assert types(chunks)[:3] == ["tool-result", "step-finish", "step-start"]
    assert not of(chunks, "start", "tool-call", "tool-call-approval")
    assert (types(chunks)[-1], text_of(chunks)) == ("finish", "done")


async def test_S68_a_suspended_run_that_was_cleaned_up_can_be_resumed(world, desk):
    async with FakeProvider([refunds("A"), DONE]) as provider:
        first = world.process(clerk(provider, desk.tools))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        await output.get_full_output()

        async def clean(_):
            output.cleanup()

        await first.call(clean)
        await settled(first)
        second = await next_process(world, provider, desk.tools, first, other=True)
        viewer = await second.call(lambda agent: agent.observe("r"))
        assert types(await read(viewer)) == ["gap", "tool-call-approval"]
        result = await second.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
    assert (result.text, result.tool_results[0].payload.result) == ("done", "refunded A")
    events = await world.store.events("r", resource=None)
    assert [event.index for event in events] == list(range(events[0].index, events[-1].index + 1))


# -- cases -------------------------------------------------------------------------------------------------------------


@kinds
@elsewhere
@pytest.mark.parametrize("first_call", ["A", "B"])
@pytest.mark.parametrize("words", list(itertools.product([True, False], repeat=2)), ids=str)
async def test_E01_each_decision_hits_its_own_call(world, desk, durable, other, first_call, words):  # noqa: PLR0917
    said = dict(zip("AB", words, strict=True))
    async with FakeProvider([refunds("A", "B"), DONE]) as provider:
        process, waiting = await suspended(world, provider, desk.tools, durable=durable)
        (run,) = (await process.call(lambda agent: agent.list_suspended_runs())).runs
        for listed in (run.tool_calls, waiting.pending):
            assert [(call.id, call.args) for call in listed] == [("cA", {"order": "A"}), ("cB", {"order": "B"})]
        for order in (first_call, "AB".replace(first_call, "")):
            process = await next_process(world, provider, desk.tools, process, other=other, durable=durable)
            result = await process.call(
                lambda agent, order=order: agent.resume_generate(
                    {"approved": said[order], "reason": f"no {order}"}, run_id="r", tool_call_id=f"c{order}"
                )
            )
        assert answers(provider) == [f"refunded {each}" if said[each] else f"no {each}" for each in "AB"]
    assert sorted(order for _, order, _ in desk.ran) == [each for each in "AB" if said[each]]
    assert result.text == "done"


RAISES = "raises"


@in_memory
@kinds
@pytest.mark.parametrize(
    ("everywhere", "own", "policy"), list(itertools.product([False, True], [False, True], [False, True, RAISES]))
)
async def test_E03_a_policy_only_makes_it_stricter(world, durable, everywhere, own, policy):
    ran = []

    def asked(_):
        if policy == RAISES:
            raise ValueError("the policy's own fault")
        return policy

    @tool(require_approval=own)
    async def pay() -> str:
        ran.append("pay")
        return "paid"

    needed = everywhere or own or policy is not False
    script = [Reply(calls=[Call("pay", {}, "c1")])] + ([] if needed else [DONE])
    async with FakeProvider(script) as provider:
        process = world.process(clerk(provider, [pay], require_tool_approval=everywhere), durable=durable)
        result = await process.call(lambda agent: agent.generate("hi", run_id="r", require_tool_approval=asked))
    assert (result.finish_reason, ran) == (("suspended", []) if needed else ("stop", ["pay"]))


@in_memory
@kinds
@pytest.mark.parametrize("policy", [False, True, RAISES])
async def test_E03_the_tools_own_function_too(world, durable, policy):
    ran = []

    def asked(args):
        if policy == RAISES:
            raise ValueError("the policy's own fault")
        return policy and args["order"] == "A"

    @tool(require_approval=asked)
    async def pay(order: str) -> str:
        ran.append(order)
        return "paid"

    script = [Reply(calls=[Call("pay", {"order": "A"}, "c1")])] + ([] if policy else [DONE])
    async with FakeProvider(script) as provider:
        process = world.process(clerk(provider, [pay], require_tool_approval=lambda _: False), durable=durable)
        result = await process.call(lambda agent: agent.generate("hi", run_id="r"))
    assert (result.finish_reason, ran) == (("suspended", []) if policy else ("stop", ["A"]))


@kinds
@pytest.mark.parametrize("how", ["approve", "decline", "resume"])
async def test_E05_a_cold_process_has_all_it_needs(world, desk, durable, how):
    asked = Call("ask", {"what": "iban"}, "cA") if how == "resume" else Call("refund", {"order": "A"}, "cA")
    async with FakeProvider([Reply(calls=[asked]), DONE]) as provider:
        first = world.process(clerk(provider, desk.tools), durable=durable)
        output = await first.call(lambda agent: agent.stream("hi", run_id="r"))
        async for chunk in output.full_stream:
            if chunk.type in {"tool-call-approval", "tool-call-suspended"}:
                await first.kill()
                break
        await world.leases_expire()
        second = world.process(clerk(provider, desk.tools), durable=durable)
        word = {"approve": {"approved": True}, "decline": {"approved": False}, "resume": "DE1"}[how]
        result = await second.call(lambda agent: agent.resume_generate(word, run_id="r"))
    ran = {"approve": [("cA", "A", None)], "decline": [], "resume": [("cA", {"ask": "iban"}, "DE1")]}[how]
    assert (desk.ran, result.text) == (ran, "done")


@kinds
@elsewhere
async def test_E07_both_results_are_kept(world, desk, durable, other):
    script = [
        Reply(calls=[Call("refund", {"order": each}, f"c{each}") for each in "AB"], usage=Usage(10, 2)),
        Reply("done", usage=Usage(20, 3)),
    ]
    async with FakeProvider(script) as provider:
        process, _ = await suspended(world, provider, desk.tools, durable=durable)
        for call_id in ("cA", "cB"):
            process = await next_process(world, provider, desk.tools, process, other=other, durable=durable)
            result = await process.call(
                lambda agent, call_id=call_id: agent.approve_tool_call_generate(run_id="r", tool_call_id=call_id)
            )
        assert answers(provider) == ["refunded A", "refunded B"]
    parts = [part.tool_invocation for part in result.messages[1].content.parts if hasattr(part, "tool_invocation")]
    assert [(part.tool_call_id, part.result) for part in parts] == [("cA", "refunded A"), ("cB", "refunded B")]
    assert (result.usage.input_tokens, result.usage.output_tokens, len(result.steps)) == (30, 5, 2)


@kinds
@pytest.mark.parametrize("kind", ["approval", "suspension"])
async def test_E12_a_tool_that_is_gone_keeps_its_call_waiting(world, desk, durable, kind):
    call = Call("refund", {"order": "A"}, "c1") if kind == "approval" else Call("ask", {"what": "n"}, "c1")
    word = {"approved": True} if kind == "approval" else "x"
    async with FakeProvider([Reply(calls=[call]), DONE]) as provider:
        first, _ = await suspended(world, provider, desk.tools, durable=durable)
        renamed = await next_process(world, provider, {"other": desk.tools[1]}, first, other=True, durable=durable)
        with pytest.raises(RunError, match="it has: other") as raised:
            await renamed.call(lambda agent: agent.resume_generate(word, run_id="r"))
        assert raised.value.id == "AGENT_RESUME_TOOL_NOT_FOUND"
        assert ((await world.row("r")).status, desk.ran) == ("suspended", [])
        assert (await renamed.call(lambda agent: agent.list_suspended_runs())).total == 1
        back = await next_process(world, provider, desk.tools, renamed, other=True, durable=durable)
        result = await back.call(lambda agent: agent.resume_generate(word, run_id="r"))
    assert (len(desk.ran), result.text) == (1, "done")


ASKING = [("ask", "what", "one", "c1"), ("pay", "order", "B", "c2"), ("ask", "what", "three", "c3")]


@kinds
@pytest.mark.parametrize("order", [("c1", "c3"), ("c3", "c1")])
async def test_E13_parallel_tools_that_suspend_themselves(world, desk, durable, order):
    calls = [
        Call("ask", {"what": "one"}, "c1"),
        Call("pay", {"order": "B"}, "c2"),
        Call("ask", {"what": "three"}, "c3"),
    ]
    async with FakeProvider([Reply(calls=calls), DONE]) as provider:
        first, waiting = await suspended(world, provider, desk.tools, durable=durable)
        assert {call.id: call.suspend_payload for call in waiting.pending} == {
            "c1": {"ask": "one"},
            "c3": {"ask": "three"},
        }
        for call_id in order:
            result = await first.call(
                lambda agent, call_id=call_id: agent.resume_generate(f"for {call_id}", run_id="r", tool_call_id=call_id)
            )
        assert answers(provider) == ["one: for c1", "paid B", "three: for c3"]
    assert [call for call, *_ in desk.ran].count("c2") == 1
    assert result.text == "done"


async def test_a_call_that_suspended_itself_may_be_declined():
    entered = []

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        entered.append(ctx.attempt)
        await ctx.suspend({"question": "sure?"})
        return "never"

    model = ScriptedModel([Call("ask", {}), "as you wish"])
    agent = Agent(name="asker", model=model, tools=[ask])
    result = await agent.generate("go")
    assert result.pending[0].kind == "suspension"
    done = await agent.decline_tool_call_generate(run_id=result.run_id, reason="nobody knows")
    assert (done.text, entered) == ("as you wish", [1])
    assert model.requests[1].last == "nobody knows"
    assert done.tool_results[0].payload.is_error
