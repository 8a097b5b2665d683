"""Faults that the simulation found, each with the smallest story that shows it."""

from __future__ import annotations

import asyncio

import pytest

from tenuto import ToolContext, tool
from tenuto.core.errors import StoreError
from tenuto.errors import RunError
from tenuto.store.ports import AbortRequest, Decide
from tenuto.testing import Call, FakeProvider, HTTPError, Reply
from tests.durable.kit import clerk, types


@tool(require_approval=True)
async def wire(amount: int) -> str:
    return "sent"


@tool
async def ask(ctx: ToolContext) -> str:
    if ctx.resume_data is None:
        await ctx.suspend({"question": "size"})
    return f"{ctx.resume_data}"


WIRE = Reply(calls=[Call("wire", {"amount": 1}, "w")])


async def test_a_decision_that_comes_with_the_abort_does_not_keep_the_run_from_its_end(world):
    """Finalised, not finished: the decision fits no phase any more, and each recovery failed over it."""
    async with FakeProvider([WIRE]) as provider:
        first = world.process(clerk(provider, [wire]))
        await first.call(lambda agent: agent.generate("hi", run_id="r"))
        (call,) = await world.store.pending("r", resource=None)
        await first.killed_in(lambda agent: agent.abort_run_stream("r"), "run.after_finalise")
        await world.store.post(Decide(run_id="r", call_id="w", args_hash=call.args_hash, approved=True))
        await world.leases_expire()
        second = world.process(clerk(provider, [wire]))
        result = await (await second.call(lambda agent: agent.recover("r"))).get_full_output()
    assert result.finish_reason == "aborted"
    assert (await world.row("r")).status == "canceled"
    await world.whole("r")


async def test_an_abort_after_the_model_has_failed_changes_nothing(world):
    """`error` is in the log: the run is a failed one, and no `abort` follows."""

    async def aborts(_error):
        await world.store.post(AbortRequest(run_id="r"))

    async with FakeProvider([HTTPError(400)]) as provider:
        process = world.process(clerk(provider))
        output = await process.call(lambda agent: agent.stream("hi", run_id="r", on_error=aborts))
        result = await output.get_full_output()
    assert result.finish_reason == "error"
    assert (await world.row("r")).status == "failed"
    assert types(await world.whole("r")) == ["start", "step-start", "error", "step-finish", "finish"]


async def test_a_store_that_fails_after_a_failed_model_call_adds_no_second_error(world):
    async with FakeProvider([HTTPError(400)]) as provider:
        process = world.process(clerk(provider))
        _fail_once(process.store, "posts", after="ModelFailed")
        output = await process.call(lambda agent: agent.stream("hi", run_id="r"))
        result = await output.get_full_output()
    assert result.error.status == 400
    assert types(await world.whole("r")).count("error") == 1


async def test_a_store_that_fails_when_the_run_has_parked_leaves_it_waiting(world):
    async with FakeProvider([WIRE, Reply("Done.")]) as provider:
        process = world.process(clerk(provider, [wire]))
        _fail_once(process.store, "posts", after="Parked")
        output = await process.call(lambda agent: agent.stream("hi", run_id="r"))
        with pytest.raises(StoreError):
            await output.get_full_output()
        await process.call(lambda _: asyncio.sleep(0))
        assert (await world.row("r")).status == "suspended"
        result = await process.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
    assert result.text == "Done."


async def test_edited_arguments_are_refused_where_nothing_is_approved(world):
    """They were dropped, and the tool got the approval as its data."""
    async with FakeProvider([Reply(calls=[Call("ask", {}, "a")]), Reply("Done.")]) as provider:
        process = world.process(clerk(provider, [ask]))
        await process.call(lambda agent: agent.generate("hi", run_id="r"))
        with pytest.raises(RunError, match="cannot be edited") as raised:
            await process.call(lambda agent: agent.approve_tool_call_generate(run_id="r", args={"x": 1}))
        assert raised.value.id == "AGENT_RESUME_INVALID_DATA"
        assert (await world.row("r")).status == "suspended"
        result = await process.call(lambda agent: agent.resume_generate({"size": 4}, run_id="r"))
    assert result.text == "Done."


def _fail_once(view, name, *, after):
    """Let one call of `name` fail, the first after a record of the kind `after` was stored."""
    real = view._store

    class Failing:
        armed = False
        done = False

        def __getattr__(self, asked):
            call = getattr(real, asked)

            async def may_fail(*args, **options):
                if asked == name and self.armed and not self.done:
                    self.done = True
                    raise StoreError("Not now.")
                answer = await call(*args, **options)
                if asked == "commit" and any(type(record).__name__ == after for record in args[1].records):
                    self.armed = True
                return answer

            return may_fail

    view._store = Failing()
