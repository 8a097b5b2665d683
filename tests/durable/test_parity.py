"""One table of scenarios, run by a plain agent and by durable ones: what comes out is the same.

Chunks, callbacks, results, messages and what the model was sent are compared; `tenuto.testing.parity_allowed` lists
what may differ, and each line of it is shown to hold.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tenuto import AbortController, Agent, Tenuto, ToolContext, create_durable_agent, step_count_is, tool
from tenuto.core.errors import ModelError, TenutoError
from tenuto.core.ids import CountingIds
from tenuto.evals import create_scorer
from tenuto.processors import Processor
from tenuto.runs.supervisor import Supervisor
from tenuto.store import InMemoryStore, SQLiteStore
from tenuto.testing import Call, Gate, Reply, ScriptedModel, Usage
from tenuto.testing.parity_allowed import PARITY_ALLOWED
from tenuto.tools import ToolFailed
from tests.agent.kit import all_ended, all_scored

TRACED = re.compile(rb'"(traceId|spanId|trace_id|span_id)":"[0-9a-f]+"')
TOOK = re.compile(rb'"(duration|totalDuration)":[0-9.]+')
KINDS = ("plain", "durable, in memory", "durable, SQLite")


class Still:
    """Times of messages and chunks do not differ."""

    def now(self) -> float:
        return 1_900_000_000.0

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Case:
    """One scenario on one kind of agent; everything that anybody could see goes into `seen`."""

    def __init__(self, kind: str, folder: Any, stack: AsyncExitStack) -> None:
        self.kind = kind
        on_disk = kind == "durable, SQLite"
        self.store: Any = SQLiteStore(folder / "runs.db", clock=Still()) if on_disk else InMemoryStore(clock=Still())
        self.stack = stack
        self.seen: list[Any] = []
        self.models: list[ScriptedModel] = []

    @property
    def durable(self) -> bool:
        return self.kind != "plain"

    async def agent(self, script: Any, tools: Any = (), **fields: Any) -> Any:
        model = ScriptedModel(script)
        self.models.append(model)
        made: Any = Agent(id="agent", **{"model": model, "tools": tools, **fields})
        made = create_durable_agent(made) if self.durable else made
        object.__setattr__(made, "_base", replace(made._base, clock=Still(), ids=CountingIds()))
        app = Tenuto(agents={"agent": made}, store=self.store)
        await self.stack.enter_async_context(app)
        return made

    def note(self, *what: Any) -> None:
        self.seen.append(tuple(_plain(each) for each in what))

    def callbacks(self) -> dict[str, Any]:
        def keep(name: str) -> Callable[[Any], None]:
            return lambda given: self.note(name, given)

        names = ("on_chunk", "on_step_finish", "on_finish", "on_error", "on_abort", "on_suspended")
        return {name: keep(name) for name in names}

    async def stream(self, starting: Any) -> Any:
        """Read it to its end; returns the result."""
        try:
            output = await starting
        except TenutoError as error:
            self.note("did not start", error)
            return None
        first = output.last_index
        chunks = [chunk async for chunk in output.full_stream]
        result = await output.get_full_output()
        self.note("chunks", chunks)
        self.note("result", result)
        self.note("status", output.status, output.last_index - first >= 0)
        return result

    async def generate(self, running: Awaitable[Any]) -> Any:
        try:
            result = await running
        except TenutoError as error:
            self.note("raised", error, error.result)
            return error.result
        self.note("generated", result)
        return result

    async def ended(self) -> list[Any]:
        await all_ended()
        self.note("row", *[(row.status, row.reason, row.error) for row in await self.store.runs(resource=None)])
        for model in self.models:
            self.note("requests", *[[each.messages, each.tools, each.tool_choice] for each in model.requests])
        return self.seen


def _plain(value: Any) -> Any:
    """Comparable, and readable in a failure; ids that a tracer of the process makes up are all the same, and times."""
    encoded = TRACED.sub(rb'"\1":"..."', msgspec.json.encode(value, enc_hook=_other))
    return msgspec.json.decode(TOOK.sub(rb'"\1":0', encoded))


def _other(value: Any) -> Any:
    assert isinstance(value, TenutoError), value
    more = {name: getattr(value, name, None) for name in ("status", "code", "type", "retryable")}
    return {"error": type(value).__name__, "id": value.id, "text": str(value), "details": value.details, **more}


# -- tools -------------------------------------------------------------------------------------------------------------


@tool(effects="none")
async def add(a: int, b: int) -> int:
    return a + b


@tool
async def pay(ctx: ToolContext[Any, Any], order: int) -> dict[str, int]:
    """Pays once."""
    return {"order": order}


@tool
async def broken(order: int) -> str:
    raise ValueError("it broke")


@tool
async def refuses(order: int) -> str:
    raise ToolFailed("not this one")


@tool(require_approval=True)
async def wire(ctx: ToolContext[Any, Any], amount: int) -> str:
    return f"sent {amount}, told {ctx.resume_data}"


@tool
async def ask(ctx: ToolContext[Any, Any], what: str) -> str:
    if ctx.resume_data is None:
        await ctx.suspend({"question": what})
    return f"{what} {ctx.resume_data}"


@tool(effects="idempotent")
async def trip(ctx: ToolContext[Any, Any], to: str) -> list[str]:
    async def book(leg: str) -> str:
        return f"{leg} {to}"

    return [await ctx.step("out", book, "out"), await ctx.step("back", book, "back")]


@tool(key=("order",))
async def charge(order: int) -> str:
    return f"charged {order}"


# -- scenarios ---------------------------------------------------------------------------------------------------------


SCENARIOS: dict[str, Callable[[Case], Awaitable[None]]] = {}


def scenario(act: Callable[[Case], Awaitable[None]]) -> Callable[[Case], Awaitable[None]]:
    SCENARIOS[act.__name__] = act
    return act


def simple(name: str, script: Callable[[], Any], *tools: Any, **options: Any) -> None:
    """A run that is streamed, then one that is generated."""

    async def act(case: Case) -> None:
        agent = await case.agent([*script(), *script()], tools)
        await case.stream(agent.stream("hi", run_id="r1", **options, **case.callbacks()))
        await case.generate(agent.generate("hi", run_id="r2", **options, **case.callbacks()))

    SCENARIOS[name] = act


ADD, PAY = Call("add", {"a": 1, "b": 2}, "c1"), Call("pay", {"order": 7}, "c2")

simple("text", lambda: [Reply("Hello, you.", usage=Usage(10, 4))])
simple("reasoning", lambda: [Reply("So.", reasoning="Well, well.")])
simple("a tool", lambda: [ADD, "Three."], add)
simple("parallel tools", lambda: [[ADD, PAY, Call("trip", {"to": "Rome"}, "c3")], "Done."], add, pay, trip)
simple("one after the other", lambda: [[ADD, PAY], "Done."], add, pay, tool_call_concurrency=1)
simple("a tool that raises", lambda: [Call("broken", {"order": 1}, "c1"), "Oh."], broken)
simple("a tool that refuses", lambda: [Call("refuses", {"order": 1}, "c1"), "Oh."], refuses)
simple("arguments that do not fit", lambda: [Call("add", {"a": "x"}, "c1"), "Oh."], add)
simple("arguments that are no JSON", lambda: [Call("add", '{"a": 1, "b"', "c1"), "Oh."], add)
simple("an unknown tool", lambda: [Call("nothing", {}, "c1"), "Oh."], add)
simple(
    "the same effect twice",
    lambda: [Call("charge", {"order": 1}, "c1"), Call("charge", {"order": 1}, "c2"), "Oh."],
    charge,
)
simple("the step limit", lambda: [ADD, Call("add", {"a": 1, "b": 2}, "c2")], add, max_steps=2)
simple("stop_when", lambda: [ADD], add, stop_when=step_count_is(1))
simple("stop_when, a function", lambda: [ADD], add, stop_when=lambda context: True)
simple("stop_when that raises", lambda: [ADD], add, stop_when=lambda context: 1 / 0)
simple("a tool that is not active", lambda: [PAY, "Oh."], add, pay, active_tools=["add"])
simple("a tool choice", lambda: [ADD, "Oh."], add, tool_choice={"type": "tool", "tool_name": "add"})
simple("no tool choice", lambda: ["Oh."], add, tool_choice="none")
simple("instructions and context", lambda: ["Oh."], instructions="Be brief.", system="Really.", context="Earlier.")
simple("settings", lambda: ["Oh."], model_settings={"temperature": 0.5, "headers": {"x-team": "a"}})
simple("request values", lambda: ["Oh."], request_context={"user": "ann"})
simple("a model that fails", lambda: [ModelError("No more.", status=429, code="limit")])
simple("a model that fails after a step", lambda: [ADD, ModelError("No more.", status=500)], add)
simple("a model that is cut off", lambda: [Reply("Hello, you.", drop_after=2)])
simple("a model that raises anything", lambda: [ZeroDivisionError("oops")])
simple("a cut answer", lambda: [Reply("Hello", finish="length")])
simple("an empty answer", lambda: [Reply("")])
simple("no message", lambda: ["Oh."], context="x", instructions="y")


@scenario
async def nothing_to_answer(case: Case) -> None:
    agent = await case.agent(["Oh."])
    await case.stream(agent.stream([], run_id="r1", **case.callbacks()))
    await case.generate(agent.generate([], run_id="r2", **case.callbacks()))


@scenario
async def instructions_that_fail(case: Case) -> None:
    agent = await case.agent(["Oh."], instructions=lambda context: 1 / 0)
    await case.stream(agent.stream("hi", run_id="r1", **case.callbacks()))
    await case.generate(agent.generate("hi", run_id="r2", **case.callbacks()))


@scenario
async def a_run_id_twice(case: Case) -> None:
    agent = await case.agent(["One.", "Two."])
    await case.stream(agent.stream("hi", run_id="r1"))
    await case.stream(agent.stream("hi", run_id="r1"))


@scenario
async def a_conversation(case: Case) -> None:
    agent = await case.agent([ADD, "Three.", "Still three."], [add])
    first = await case.generate(agent.generate("1 + 2?", run_id="r1"))
    await case.generate(agent.generate([*first.messages, "Sure?"], run_id="r2"))


@scenario
async def callbacks_that_fail(case: Case) -> None:
    def fails(_: Any) -> None:
        raise RuntimeError("mine")

    agent = await case.agent([ADD, "Three."], [add])
    names = ("on_chunk", "on_step_finish", "on_finish")
    await case.stream(agent.stream("hi", run_id="r1", **dict.fromkeys(names, fails)))


@scenario
async def dynamic_parts_and_deps(case: Case) -> None:
    @asynccontextmanager
    async def deps() -> AsyncIterator[str]:
        case.note("deps opened")
        yield "deps"
        case.note("deps closed")

    @tool(effects="none")
    async def uses(ctx: ToolContext[Any, Any]) -> str:
        return f"{ctx.deps} {ctx.request_context.get('user')}"

    agent = await case.agent(
        [Call("uses", {}, "c1"), "Oh."],
        lambda request_context: [uses],
        deps=deps,
        instructions=lambda request_context: f"For {request_context.get('user')}.",
        default_options=lambda request_context: {"max_steps": 3},
    )
    await case.stream(agent.stream("hi", run_id="r1", request_context={"user": "ann"}, **case.callbacks()))


# -- aborts ------------------------------------------------------------------------------------------------------------


@scenario
async def aborted_before_it_starts(case: Case) -> None:
    controller = AbortController()
    controller.abort("no")
    agent = await case.agent(["Oh."])
    await case.stream(agent.stream("hi", run_id="r1", abort_signal=controller.signal, **case.callbacks()))


@scenario
async def aborted_while_the_model_speaks(case: Case) -> None:
    gate = Gate(permits=2)
    agent = await case.agent([Reply("Hello, you.", gate=gate)])
    output = await agent.stream("hi", run_id="r1", **case.callbacks())
    await gate.wait_blocked()
    output.abort("enough")
    case.note("chunks", [chunk async for chunk in output.full_stream])
    case.note("result", await output.get_full_output())


@scenario
async def aborted_while_a_tool_runs(case: Case) -> None:
    began = asyncio.Event()

    @tool
    async def waits(ctx: ToolContext[Any, Any]) -> str:
        began.set()
        await ctx.abort_signal.wait()
        return "stopped in time"

    agent = await case.agent([[Call("waits", {}, "c1"), ADD]], [waits, add])
    output = await agent.stream("hi", run_id="r1", tool_call_concurrency=1, **case.callbacks())
    await began.wait()
    output.abort("enough")
    case.note("chunks", [chunk async for chunk in output.full_stream])
    case.note("result", await output.get_full_output())


# -- decisions ---------------------------------------------------------------------------------------------------------


def decision(name: str, script: Callable[[], Any], decide: Callable[[Any], Any], *tools: Any, **options: Any) -> None:
    async def act(case: Case) -> None:
        agent = await case.agent(script(), tools)
        await case.stream(agent.stream("hi", run_id="r1", **options, **case.callbacks()))
        case.note("suspended", await agent.list_suspended_runs())
        await case.stream(decide(agent))

    SCENARIOS[name] = act


WIRE = Call("wire", {"amount": 5}, "w")
decision("approved", lambda: [WIRE, "Done."], lambda agent: agent.approve_tool_call(run_id="r1"), wire)
decision("declined", lambda: [WIRE, "Done."], lambda agent: agent.decline_tool_call(run_id="r1", reason="No."), wire)
decision(
    "approved with other arguments",
    lambda: [WIRE, "Done."],
    lambda agent: agent.approve_tool_call(run_id="r1", tool_call_id="w", args={"amount": 6}),
    wire,
)
decision(
    "approved with data",
    lambda: [WIRE, "Done."],
    lambda agent: agent.resume_stream({"approved": True, "note": "n"}, run_id="r1", tool_call_id="w"),
    wire,
)
decision(
    "approval of the run",
    lambda: [ADD, "Done."],
    lambda agent: agent.approve_tool_call(run_id="r1"),
    add,
    require_tool_approval=True,
)
decision(
    "approval by a function",
    lambda: [[ADD, PAY], "Done."],
    lambda agent: agent.approve_tool_call(run_id="r1"),
    add,
    pay,
    require_tool_approval=lambda request: request.tool_name == "pay",
)
decision(
    "suspended by a tool",
    lambda: [Call("ask", {"what": "size"}, "a"), "Done."],
    lambda agent: agent.resume_stream({"answer": 4}, run_id="r1"),
    ask,
)
decision(
    "an answer to nothing",
    lambda: [WIRE, "Done."],
    lambda agent: agent.approve_tool_call(run_id="r1", tool_call_id="x"),
    wire,
)
decision(
    "an answer that does not fit",
    lambda: [WIRE, "Done."],
    lambda agent: agent.resume_stream({"yes": 1}, run_id="r1"),
    wire,
)
decision("an unknown run", lambda: [WIRE, "Done."], lambda agent: agent.approve_tool_call(run_id="r9"), wire)


@scenario
async def two_pending_calls(case: Case) -> None:
    two = [Call("wire", {"amount": 1}, "w1"), Call("wire", {"amount": 2}, "w2"), ADD]
    agent = await case.agent([two, "Done."], [wire, add])
    await case.stream(agent.stream("hi", run_id="r1", **case.callbacks()))
    await case.stream(agent.approve_tool_call(run_id="r1"))
    await case.stream(agent.decline_tool_call(run_id="r1", tool_call_id="w2"))
    await case.stream(agent.approve_tool_call(run_id="r1", tool_call_id="w1"))
    await case.stream(agent.approve_tool_call(run_id="r1", tool_call_id="w1"))


@scenario
async def generated_decisions(case: Case) -> None:
    agent = await case.agent([WIRE, Call("ask", {"what": "size"}, "a"), "Done."], [wire, ask])
    first = await case.generate(agent.generate("hi", run_id="r1", **case.callbacks()))
    case.note(first.suspend_payload, first.resume_schema)
    await case.generate(agent.approve_tool_call_generate(run_id="r1", on_chunk=lambda chunk: case.note("again", chunk)))
    await case.generate(agent.resume_generate({"answer": 4}, run_id="r1"))


@scenario
async def a_reader_that_stays(case: Case) -> None:
    agent = await case.agent([WIRE, "Done."], [wire])
    output = await agent.stream("hi", run_id="r1", close_on_suspend=False)
    chunks: list[Any] = []
    async for chunk in output.full_stream:
        chunks.append(chunk)
        if chunk.type == "tool-call-approval":
            await agent.approve_tool_call(run_id="r1")
    case.note("chunks", chunks)
    result = await output.get_full_output()  # request bodies are there only if the answer came before the run parked
    case.note("result", result.text, result.finish_reason, result.usage, result.messages)


@scenario
async def a_model_that_fails_and_its_fallback(case: Case) -> None:
    cut = ScriptedModel([Reply("Hel", drop_after=1)], model_id="cut")
    agent = await case.agent([Call("add", {"a": 1, "b": 2}), "done"], [add], model=ScriptedModel())
    models = [ScriptedModel(ModelError("no")), cut, case.models[0]]
    result = await case.stream(agent.stream("hi", run_id="r1", model=models, **case.callbacks()))
    case.note("steps", [step.model for step in result.steps], result.degraded)


@scenario
async def a_task_that_is_checked(case: Case) -> None:
    word = create_scorer(id="word", score=lambda sample: "done" in sample.output_text, reason=lambda _: "as said")
    agent = await case.agent(["half", Call("add", {"a": 1, "b": 2}, "c1"), "done"], [add], scorers={"kept": word})
    asked = {"scorers": [word], "on_complete": lambda result: case.note("on_complete", result)}
    await case.stream(agent.stream("hi", is_task_complete=asked, return_scorer_data=True, **case.callbacks()))
    await all_scored()
    case.note("scores", *await case.store.scores(resource=None))


@scenario
async def a_scorer_that_fails(case: Case) -> None:
    def boom(sample: Any) -> float:
        raise ZeroDivisionError("by hand")

    bad = create_scorer(id="bad", score=boom)
    agent = await case.agent(["one", "two"], scorers={"bad": bad})
    await case.generate(agent.generate("hi", is_task_complete={"scorers": [bad]}, max_steps=2))
    await all_scored()
    case.note("scores", *await case.store.scores(resource=None))


class Guard(Processor):
    """Takes part everywhere, and refuses what is bad."""

    id = "guard"

    def process_input(self, context: Any) -> Any:
        if "bad" in context.messages[0].text:
            context.abort("bad input", metadata={"n": 1})
        return [*context.messages, {"role": "user", "content": "really"}]

    def process_input_step(self, context: Any) -> Any:
        context.state["steps"] = context.state.get("steps", 0) + 1
        return {"system_messages": f"step {context.state['steps']}"}

    def process_output_stream(self, context: Any) -> Any:
        part = context.part
        if part.type == "text-delta" and "stop" in part.payload.text:
            context.abort("stopped")
        return part

    def process_output_step(self, context: Any) -> None:
        if context.text == "draft":
            context.abort("no drafts", retry=True)

    def process_tool_result(self, context: Any) -> Any:
        return {"result": context.result + 1}

    def process_api_error(self, context: Any) -> bool:
        return context.retry_count == 0


@scenario
async def processors(case: Case) -> None:
    draft = Reply("draft", calls=[PAY])
    script = [draft, ADD, ModelError("down", status=500), "Four.", "Go, stop it", draft, draft]
    guard = Guard()
    agent = await case.agent(
        script, [add, pay], input_processors=[guard], output_processors=[guard], max_processor_retries=1
    )
    for place, message in enumerate(("hi", "and", "again", "bad")):
        result = await case.stream(agent.stream(message, run_id=f"r{place}", **case.callbacks()))
        case.note(result.tripwire, [(step.finish_reason, step.tripwire) for step in result.steps])


# -- the table ---------------------------------------------------------------------------------------------------------


async def seen_by(kind: str, act: Callable[[Case], Awaitable[None]], folder: Any) -> list[Any]:
    async with AsyncExitStack() as stack:
        case = Case(kind, folder, stack)
        await act(case)
        return await case.ended()


@pytest.mark.parametrize("name", SCENARIOS)
async def test_plain_and_durable_agents_do_the_same(name, tmp_path):
    plain = await seen_by("plain", SCENARIOS[name], tmp_path)
    assert plain
    for kind in KINDS[1:]:
        assert await seen_by(kind, SCENARIOS[name], tmp_path) == plain, kind


# -- what may differ ---------------------------------------------------------------------------------------------------


async def _cancelled(case: Case) -> str:
    gate = Gate(permits=2)
    agent = await case.agent([Reply("Hello, you.", gate=gate)])
    running = asyncio.ensure_future(agent.generate("hi", run_id="r1"))
    await gate.wait_blocked()
    running.cancel()
    await asyncio.wait([running])
    gate.open()
    await all_ended()
    status = (await case.store.run("r1", resource=None)).status
    return {"canceled": "the run is aborted and saved", "success": "the run goes on without its caller"}[status]


async def _loop_ends(case: Case) -> str:
    gate = Gate(permits=2)
    agent = await case.agent([Reply("Hello, you.", gate=gate)])
    await agent.stream("hi", run_id="r1")
    await gate.wait_blocked()
    await Supervisor.current().aclose()
    gate.open()
    status = (await case.store.run("r1", resource=None)).status
    return {
        "canceled": "the run is aborted and saved",
        "running": "the run stays where it is, to be recovered",
    }[status]


async def _model_record(case: Case) -> str:
    agent = await case.agent(["Oh."])
    record = {"id": "openai/m", "url": "http://127.0.0.1:9/v1", "api_key": "k"}
    await case.stream(agent.stream("hi", run_id="r1", model=record))
    row = await case.store.run("r1", resource=None)
    if row is not None:
        assert row.error.id == "MODEL_CONNECTION_FAILED"
        return "it is used, and kept in this process only"
    assert case.seen[0][1]["id"] == "DURABLE_OPTION_REFUSED"
    return "the call is refused before anything is stored"


async def _steered(case: Case) -> str:
    agent = await case.agent([Call("add", {"a": 1, "b": 2}), "done"], [add])
    result = await agent.generate("hi", run_id="r1", on_iteration_complete=lambda _: {"continue": False})
    return "the run goes on" if result.text else "the run stops"


async def _durable_method(case: Case) -> str:
    agent = await case.agent(["Oh."])
    await agent.generate("hi", run_id="r1")
    try:
        return "it is there" if await agent.list_active_runs() else ""
    except TenutoError as error:
        return error.id


DIFFERENT = {
    "the caller of generate is cancelled": _cancelled,
    "the loop ends in order": _loop_ends,
    "a model record with a key of its own": _model_record,
    "on_iteration_complete says stop": _steered,
    "a durable method": _durable_method,
}


@pytest.mark.parametrize("line", PARITY_ALLOWED, ids=lambda line: line.scenario)
async def test_a_listed_difference_is_one(line, tmp_path):
    for kind in KINDS:
        async with AsyncExitStack() as stack:
            what = await DIFFERENT[line.scenario](Case(kind, tmp_path, stack))
        assert what == (line.plain if kind == "plain" else line.durable), kind
