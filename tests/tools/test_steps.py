"""`ctx.step`: recorded under call and name, and answered from the record on every later entry of the body."""

import asyncio
import threading

import pytest
from pydantic import BaseModel

from tenuto.core.errors import ConfigurationError, ToolError
from tenuto.tools import StepUnknown, ToolContext, ToolFailed, tool
from tenuto.tools.entry import SuspendSignal
from tenuto.tools.execute import run_tool
from tenuto.tools.outcome import Failed, Ok, Suspended, UnknownOutcome
from tenuto.tools.ports import MemoryLedger, StepDone, StepFailed, StepOpen


class Tracing(MemoryLedger):
    """A ledger that tells when it was asked, and by which thread."""

    def __init__(self, records=None):
        super().__init__()
        self.records = dict(records or {})
        self.trace = []
        self.threads = set()

    async def begin(self, name, effects):
        self.threads.add(threading.get_ident())
        await asyncio.sleep(0)
        found = await super().begin(name, effects)
        self.trace.append(("begin", name, self.records.get(name)))
        return found

    async def end(self, name, outcome):
        self.threads.add(threading.get_ident())
        await asyncio.sleep(0)
        self.trace.append(("end", name, outcome))
        await super().end(name, outcome)


class Receipt(BaseModel):
    id: str


def charging(*, sync, effects="once", fails=None):
    """A tool of one step, the same for the loop and for a thread."""
    calls = []

    async def later(amount):
        calls.append((amount, threading.get_ident()))
        if fails:
            raise fails
        return Receipt(id=f"r{amount}")

    def now(amount):
        calls.append((amount, threading.get_ident()))
        if fails:
            raise fails
        return Receipt(id=f"r{amount}")

    @tool(effects="idempotent")
    async def asynchronous(ctx: ToolContext, amount: int) -> object:
        return await ctx.step("charge", later, amount, effects=effects)

    @tool(effects="idempotent")
    def synchronous(ctx: ToolContext, amount: int) -> object:
        return ctx.step_sync("charge", now, amount, effects=effects)

    return (synchronous if sync else asynchronous), calls


async def enter(made, ledger, args=None, **context):
    return await run_tool(made, ToolContext(ledger=ledger, **context), args or {"amount": 5})


both = pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])


@both
async def test_a_step_runs_once_and_later_entries_get_its_record(sync):
    made, calls = charging(sync=sync)
    ledger = Tracing()
    first = await enter(made, ledger)
    assert first.result == {"id": "r5"}  # JSON the first time too
    assert await enter(made, ledger) == first
    assert [amount for amount, _ in calls] == [5]
    assert ledger.trace == [
        ("begin", "charge", StepOpen()),
        ("end", "charge", StepDone({"id": "r5"})),
        ("begin", "charge", StepDone({"id": "r5"})),
    ]


async def test_a_sync_step_runs_in_its_thread_and_the_ledger_on_the_loop():
    made, calls = charging(sync=True)
    ledger = Tracing()
    await enter(made, ledger)
    assert ledger.threads == {threading.get_ident()}
    assert calls[0][1] != threading.get_ident()


@both
async def test_the_intent_is_stored_before_the_function_except_for_none(sync):
    made, _ = charging(sync=sync, effects="none")
    ledger = Tracing()
    await enter(made, ledger)
    assert ledger.trace[0] == ("begin", "charge", None)
    assert ledger.records["charge"] == StepDone({"id": "r5"})


@both
@pytest.mark.parametrize("effects", ["none", "idempotent"])
async def test_a_step_that_may_be_repeated_runs_again_when_nobody_knows_its_outcome(sync, effects):
    made, calls = charging(sync=sync, effects=effects)
    assert (await enter(made, Tracing({"charge": StepOpen()}))).result == {"id": "r5"}
    assert len(calls) == 1


@both
async def test_a_once_step_of_unknown_outcome_is_not_repeated_and_the_model_is_told(sync):
    made, calls = charging(sync=sync)
    outcome = await enter(made, Tracing({"charge": StepOpen()}))
    assert isinstance(outcome, UnknownOutcome)
    assert isinstance(outcome.error, StepUnknown)
    assert outcome.error.id == "TOOL_STEP_OUTCOME_UNKNOWN"
    assert "'charge' is unknown" in outcome.text
    assert "may have taken effect" in outcome.text
    assert not calls


async def test_an_unknown_step_makes_the_call_unknown_whatever_the_tool_says_of_itself():
    @tool(effects="none")
    async def reads(ctx: ToolContext) -> object:
        return await ctx.step("write", lambda: 1)

    outcome = await run_tool(reads, ToolContext(ledger=Tracing({"write": StepOpen()})), {})
    assert isinstance(outcome, UnknownOutcome)


async def test_a_tool_may_find_out_about_an_unknown_step_itself():
    @tool
    async def pay(ctx: ToolContext) -> object:
        try:
            return await ctx.step("charge", lambda: 1)
        except StepUnknown:
            return await ctx.step("look up", lambda: "found", effects="none")

    outcome = await run_tool(pay, ToolContext(ledger=Tracing({"charge": StepOpen()})), {})
    assert outcome == Ok("found", "found")


@both
async def test_what_a_step_raises_leaves_it_and_its_intent_stays(sync):
    error = ValueError("no")
    made, _ = charging(sync=sync, fails=error)
    ledger = Tracing()
    outcome = await enter(made, ledger)
    assert outcome.error is error
    assert ledger.records == {"charge": StepOpen()}
    assert isinstance((await enter(made, ledger)).error, StepUnknown)


@both
async def test_tool_failed_is_recorded_and_raised_again(sync):
    made, calls = charging(sync=sync, fails=ToolFailed("Declined."))
    ledger = Tracing()
    for _ in range(2):
        outcome = await enter(made, ledger)
        assert isinstance(outcome, Failed)
        assert outcome.text == "Declined."
    assert len(calls) == 1
    assert ledger.records == {"charge": StepFailed("Declined.")}


@both
async def test_one_name_twice_in_one_entry_is_an_error(sync):
    calls = []

    @tool
    async def asynchronous(ctx: ToolContext) -> None:
        await ctx.step("a", calls.append, 1)
        await ctx.step("a", calls.append, 2)

    @tool
    def synchronous(ctx: ToolContext) -> None:
        ctx.step_sync("a", calls.append, 1)
        ctx.step_sync("a", calls.append, 2)

    outcome = await run_tool(synchronous if sync else asynchronous, ToolContext(), {})
    assert outcome.error.id == "TOOL_STEP_NAME_TWICE"
    assert calls == [1]


async def test_steps_may_run_side_by_side():
    together = asyncio.Barrier(2)

    async def one(x):
        await together.wait()
        return x

    @tool
    async def both_at_once(ctx: ToolContext) -> list[int]:
        return await asyncio.gather(*(ctx.step(f"s{x}", one, x) for x in range(2)))

    assert (await run_tool(both_at_once, ToolContext(), {})).result == [0, 1]


async def test_a_sync_function_does_not_run_on_the_loop_and_may_return_an_awaitable():
    where = []

    async def answer():
        where.append(threading.get_ident())
        return "ok"

    @tool
    async def pay(ctx: ToolContext) -> object:
        await ctx.step("thread", lambda: where.append(threading.get_ident()))
        return await ctx.step("lambda", lambda: answer())  # noqa: PLW0108 - as users write it

    assert (await run_tool(pay, ToolContext(), {})).result == "ok"
    assert where[0] != threading.get_ident()
    assert where[1] == threading.get_ident()


async def test_an_async_function_in_a_sync_tool_runs_on_the_loop():
    async def answer(word):
        await asyncio.sleep(0)
        return [word, threading.get_ident()]

    @tool
    def pay(ctx: ToolContext) -> object:
        return ctx.step_sync("a", answer, "x")

    assert (await run_tool(pay, ToolContext(), {})).result == ["x", threading.get_ident()]


async def test_a_result_that_is_no_json_is_an_error_and_the_step_stays_open():
    @tool(effects="none")
    async def opens(ctx: ToolContext) -> object:
        return await ctx.step("a", object)

    ledger = MemoryLedger()
    outcome = await run_tool(opens, ToolContext(ledger=ledger), {})
    assert outcome.error.id == "TOOL_RESULT_NOT_SERIALISABLE"
    assert ledger.records == {"a": StepOpen()}


class Broken(MemoryLedger):
    def __init__(self, place):
        super().__init__()
        self.place = place

    async def begin(self, name, effects):
        if self.place == "begin":
            raise OSError("disk full")
        return await super().begin(name, effects)

    async def end(self, name, outcome):
        raise OSError("disk full")


@both
@pytest.mark.parametrize("place", ["begin", "end"])
async def test_a_ledger_that_fails_keeps_the_function_from_running_or_the_body_from_going_on(sync, place):
    made, calls = charging(sync=sync)
    outcome = await enter(made, Broken(place))
    assert isinstance(outcome, UnknownOutcome)
    assert "disk full" in outcome.text
    assert len(calls) == (place == "end")


async def test_a_wrong_word_for_effects():
    with pytest.raises(ConfigurationError, match="twice"):
        await ToolContext().step("a", lambda: 1, effects="twice")


async def test_a_step_may_have_steps_of_its_own():
    @tool
    async def pay(ctx: ToolContext) -> object:
        async def outer():
            return [await ctx.step("inner", lambda: 1)]

        return await ctx.step("outer", outer, effects="idempotent")

    ledger = MemoryLedger()
    assert (await run_tool(pay, ToolContext(ledger=ledger), {})).result == [1]
    assert set(ledger.records) == {"outer", "inner"}


async def test_a_cancelled_step_leaves_its_intent():
    @tool(timeout=1e-9)
    async def waits(ctx: ToolContext) -> None:
        await ctx.step("wait", asyncio.Event().wait)

    ledger = MemoryLedger()
    while not ledger.records:  # the timeout may come before the step
        outcome = await run_tool(waits, ToolContext(ledger=ledger), {})
    assert outcome.error.id == "TOOL_TIMEOUT"
    assert ledger.records == {"wait": StepOpen()}


async def test_a_thread_given_up_begins_no_further_step():
    release, raised, called = threading.Event(), [], []
    told = asyncio.Event()

    @tool(timeout=1e-9)
    def slow(ctx: ToolContext) -> None:
        release.wait(30)
        try:
            ctx.step_sync("late", called.append, 1)
        except ToolError as error:
            raised.append(error.id)
            raise

    late = []

    def tell(outcome):
        late.append(outcome)
        told.set()

    outcome = await run_tool(slow, ToolContext(), {}, late=tell)
    assert outcome.error.id == "TOOL_TIMEOUT"
    release.set()
    await told.wait()
    assert raised == ["TOOL_CALL_OVER"]
    assert not called
    assert late[0].error.id == "TOOL_CALL_OVER"


async def test_what_a_thread_has_under_way_on_the_loop_ends_with_the_call():
    stuck, cancelled, told = asyncio.Event(), [], asyncio.Event()

    class Stuck(MemoryLedger):
        async def begin(self, name, effects):
            stuck.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(name)
                raise

    @tool
    def pays(ctx: ToolContext) -> None:
        ctx.step_sync("charge", lambda: 1)

    calling = asyncio.ensure_future(run_tool(pays, ToolContext(ledger=Stuck()), {}, late=lambda _: told.set()))
    await stuck.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert cancelled == ["charge"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await told.wait()


async def test_step_sync_on_the_loop_is_refused():
    @tool
    async def wrong(ctx: ToolContext) -> object:
        return ctx.step_sync("a", lambda: 1)

    assert "awaits step()" in (await run_tool(wrong, ToolContext(), {})).text


async def test_after_a_swallowed_suspend_no_step_begins():
    called = []

    @tool
    async def swallows(ctx: ToolContext) -> str:
        try:
            await ctx.suspend("why")
        except BaseException:  # noqa: BLE001
            await ctx.step("charge", called.append, 1)
        return "done"

    assert await run_tool(swallows, ToolContext(), {}) == Suspended("why")
    assert not called


async def test_suspend_inside_a_step_is_refused():
    @tool
    async def wrong(ctx: ToolContext) -> object:
        return await ctx.step("ask", ctx.suspend, "why")

    outcome = await run_tool(wrong, ToolContext(), {})
    assert outcome.error.id == "TOOL_SUSPEND_INVALID"
    assert "inside the step 'ask'" in outcome.text


async def test_a_tool_called_directly_has_a_ledger_of_its_own():
    @tool
    async def later(ctx: ToolContext, x: int) -> object:
        return await ctx.step("a", lambda: x)

    @tool
    def now(ctx: ToolContext, x: int) -> object:
        return ctx.step_sync("a", lambda: x)

    assert await later(ToolContext(), 1) == 1
    assert now(ToolContext(), 2) == 2
    ledger = MemoryLedger()
    assert [now(ToolContext(ledger=ledger), x) for x in (1, 2)] == [1, 1]
    with pytest.raises(SuspendSignal):
        await ToolContext().suspend()


async def test_a_direct_call_that_would_have_to_wait_is_refused():
    @tool
    def now(ctx: ToolContext) -> object:
        return ctx.step_sync("a", asyncio.sleep, 0)

    with pytest.raises(ToolError, match="outside of a run"):
        now(ToolContext())
