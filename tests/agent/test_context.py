"""Request values, their schema, and dependencies: two kinds of context, kept apart."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from tenuto import AbortController, Agent, RequestContext, Tenuto, ToolContext, tool
from tenuto.errors import ConfigurationError, ModelError, TenutoError
from tenuto.store import InMemoryStore
from tenuto.testing import Call, Gate, Reply, ScriptedModel
from tests.agent.kit import both, run


@dataclass
class Tenant:
    plan: str
    seats: int = 1


class TenantModel(BaseModel):
    plan: str
    seats: int = 1


class TenantDict(TypedDict):
    plan: str


class Look:
    """A tool that keeps the contexts it is called with."""

    def __init__(self):
        self.seen = []

        @tool(effects="none")
        async def look(ctx: ToolContext) -> str:
            self.seen.append(ctx)
            return "seen"

        self.tool = look

    @property
    def last(self):
        return self.seen[-1]


def agent(look, script=None, **more):
    look.model = ScriptedModel(script or (lambda request: "ok" if request.last == "seen" else Call("look")))
    return Agent(id="a", model=look.model, tools=[look.tool], **more)


# -- request values -----------------------------------------------------------------------------------------------


@both
async def test_tools_read_and_write_one_context(verb):
    seen = []

    @tool(effects="none")
    async def visit(ctx: ToolContext) -> str:
        seen.append(ctx.request_context.get("visits", 0))
        ctx.request_context.set("visits", seen[-1] + 1)
        return "ok"

    context = RequestContext({"visits": 5})
    one = Agent(id="a", model=ScriptedModel([Call("visit"), Call("visit"), "ok"]), tools=[visit])
    await run(verb, one, request_context=context)
    assert seen == [5, 6]
    assert context.get("visits") == 7


@both
@pytest.mark.parametrize(
    "given", [{"plan": "gold"}, RequestContext({"plan": "gold"}), Tenant("gold"), TenantModel(plan="gold")]
)
async def test_what_may_be_given(verb, given):
    look = Look()
    await run(verb, agent(look), request_context=given)
    assert look.last.request_context.get("plan") == "gold"
    assert look.last.values is None


@both
@pytest.mark.parametrize("schema", [Tenant, TenantModel])
async def test_a_schema_makes_a_validated_view(verb, schema):
    look = Look()
    one = agent(look, request_context_schema=schema)
    await run(verb, one, request_context={"plan": "gold", "seats": "3", "other": 1})
    assert look.last.values == schema(plan="gold", seats=3)
    assert look.last.request_context.all == {"plan": "gold", "seats": "3", "other": 1}  # not written back
    own = schema(plan="gold", seats=2)
    await run(verb, one, request_context=own)
    assert look.last.values is own


async def test_a_typed_dict_as_schema():
    look = Look()
    await agent(look, request_context_schema=TenantDict).generate("hi", request_context={"plan": "gold"})
    assert look.last.values == {"plan": "gold"}


@both
@pytest.mark.parametrize("given", [None, {}, {"plan": 3, "seats": "many"}])
async def test_conformance_16_values_that_do_not_fit_keep_the_run_from_starting(verb, given):
    look = Look()
    asked = []
    one = agent(look, request_context_schema=Tenant, instructions=lambda _: asked.append(1) or "x")
    with pytest.raises(ConfigurationError, match=r"Agent 'a'[^\n]*\n- plan: ") as caught:
        await run(verb, one, **({} if given is None else {"request_context": given}))
    assert caught.value.id == "AGENT_REQUEST_CONTEXT_VALIDATION_FAILED"
    assert caught.value.category == "USER"
    assert (look.model.requests, asked) == ([], [])


async def test_a_call_without_values_gets_an_empty_context_of_its_own():
    look = Look()
    one = agent(look)
    await one.generate("hi")
    await one.generate("hi")
    first, second = (ctx.request_context for ctx in look.seen)
    assert first is not second
    assert len(first) == 0


@both
async def test_every_dynamic_part_gets_the_context(verb):
    seen = []

    def part(value):
        def resolve(context):
            seen.append(context)
            return value

        return resolve

    async def model(context):
        seen.append(context)
        return ScriptedModel("ok")

    context = RequestContext()
    one = Agent(
        id="a",
        model=model,
        instructions=part("x"),
        tools=part([]),
        deps=part("d"),
        default_options=part({"max_steps": 2}),
    )
    await run(verb, one, request_context=context)
    assert len(seen) == 5
    assert all(each is context for each in seen)


@both
@pytest.mark.parametrize("text", ["", None])
async def test_dynamic_instructions_must_return_something(verb, text):
    model = ScriptedModel()
    with pytest.raises(TenutoError) as caught:
        await run(verb, Agent(id="a", model=model, instructions=lambda _: text))
    assert caught.value.id == "AGENT_GET_INSTRUCTIONS_FUNCTION_EMPTY_RETURN"
    assert model.requests == []


# -- dependencies ----------------------------------------------------------------------------------------------------


@both
async def test_a_value(verb):
    look = Look()
    services = object()
    await run(verb, agent(look, deps=services))
    assert look.last.deps is services


@both
async def test_without_them_a_tool_that_asks_is_told_where_they_go(verb):
    look = Look()
    await run(verb, agent(look))
    with pytest.raises(ConfigurationError, match=r"Tool 'look' .* deps= to agent 'a', to its app .*, or to the call"):
        _ = look.last.deps
    assert "deps" not in repr(look.last)


async def test_what_a_tool_is_told_reaches_the_model_and_the_log(caplog):
    @tool(effects="none")
    async def ask(ctx: ToolContext[dict[str, str]]) -> str:
        return ctx.deps["answer"]

    result = await Agent(id="a", model=ScriptedModel([Call("ask"), "ok"]), tools=[ask]).generate("hi")
    (failed,) = result.tool_results
    assert failed.payload.is_error
    assert "pass deps= to agent 'a'" in failed.payload.result
    assert "TOOL_DEPS_MISSING" in caplog.text or "pass deps= to agent" in caplog.text


async def test_those_of_the_app_serve_agents_without_their_own():
    look, own = Look(), Look()
    agents = {"a": agent(look), "b": agent(own, deps="own").replace(id="b")}
    async with Tenuto(agents=agents, store=InMemoryStore(), deps=lambda: "the app's"):
        await agents["a"].generate("hi")
        await agents["b"].generate("hi")
        assert (look.last.deps, own.last.deps) == ("the app's", "own")
        await agents["a"].generate("hi", deps="call")
        assert look.last.deps == "call"


@both
async def test_a_factory_is_asked_for_each_run(verb):
    look = Look()
    made = []

    def connect(context):
        made.append(context.get("user"))
        return [context.get("user")]

    one = agent(look, deps=connect)
    for user in ("ann", "bob"):
        await run(verb, one, request_context={"user": user})
        assert look.last.deps == [user]
    assert made == ["ann", "bob"]


@both
async def test_an_async_factory_and_one_that_takes_nothing(verb):
    look = Look()

    async def connect(context):
        await asyncio.sleep(0)
        return "async"

    await run(verb, agent(look, deps=connect))
    assert look.last.deps == "async"
    await run(verb, agent(look, deps=lambda: "nothing"))
    assert look.last.deps == "nothing"


@both
async def test_those_of_the_call_are_nearer(verb):
    look = Look()
    one = agent(look, deps="own")
    await run(verb, one, deps="call")
    assert look.last.deps == "call"
    await run(verb, one, deps=lambda _: "made")
    assert look.last.deps == "made"
    await run(verb, one, deps=None)
    assert look.last.deps is None


class Connection:
    def __init__(self):
        self.log = []

    @asynccontextmanager
    async def open(self, context):
        self.log.append("open")
        try:
            yield self
        finally:
            self.log.append("closed")


@both
async def test_a_context_manager_is_closed_after_the_run(verb):
    look, connection = Look(), Connection()
    ran = await run(verb, agent(look, deps=connection.open))
    await asyncio.sleep(0)
    assert look.last.deps is connection
    assert connection.log == ["open", "closed"]
    assert ran.result.text == "ok"


@both
async def test_it_is_open_while_the_run_goes_on_and_the_callbacks_are_told(verb):
    look, connection = Look(), Connection()
    seen = []

    def listen(_):
        seen.append(list(connection.log))

    await run(verb, agent(look, deps=connection.open), on_step_finish=listen, on_finish=listen)
    assert seen == [["open"]] * 3


async def test_it_is_closed_when_generate_returns():
    connection = Connection()
    await agent(Look(), deps=connection.open).generate("hi")
    assert connection.log == ["open", "closed"]


async def test_it_is_closed_after_a_failure():
    connection = Connection()
    with pytest.raises(ModelError):
        await agent(Look(), [ModelError("no")], deps=connection.open).generate("hi")
    assert connection.log == ["open", "closed"]


async def test_it_is_closed_after_an_abort():
    connection, gate, controller = Connection(), Gate(), AbortController()
    one = agent(Look(), [Reply("x", gate=gate)], deps=connection.open)
    task = asyncio.create_task(one.generate("hi", abort_signal=controller.signal))
    await gate.wait_blocked()
    controller.abort()
    await task
    assert connection.log == ["open", "closed"]


async def test_it_is_closed_after_a_cancellation():
    connection, gate = Connection(), Gate()
    one = agent(Look(), [Reply("x", gate=gate)], deps=connection.open)
    task = asyncio.create_task(one.generate("hi"))
    await gate.wait_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert connection.log == ["open", "closed"]


def test_it_is_closed_when_the_loop_ends():
    connection, gate = Connection(), Gate()
    one = agent(Look(), [Reply("x", gate=gate)], deps=connection.open)

    async def main():
        await one.stream("hi")
        await gate.wait_blocked()

    asyncio.run(main())
    assert connection.log == ["open", "closed"]


async def test_it_is_closed_when_the_preparation_fails_after_it():
    connection = Connection()
    one = agent(Look(), ["never"], deps=connection.open)
    with pytest.raises(ConfigurationError):
        await one.generate([])
    assert connection.log in ([], ["open", "closed"])


@both
async def test_a_factory_that_fails_keeps_the_run_from_starting(verb):
    look = Look()
    one = agent(look, deps=lambda _: 1 / 0)
    with pytest.raises(TenutoError, match="ZeroDivisionError") as caught:
        await run(verb, one)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert look.model.requests == []


async def test_closing_that_fails_is_logged(caplog):
    @asynccontextmanager
    async def broken(context):
        yield "deps"
        raise ZeroDivisionError

    assert (await agent(Look(), deps=broken).generate("hi")).text == "ok"
    assert "Closing the dependencies" in caplog.text


async def test_a_context_manager_given_as_a_value_is_left_alone():
    look, connection = Look(), Connection()
    async with connection.open(None) as opened:
        await agent(look).generate("hi", deps=opened)
        assert connection.log == ["open"]
