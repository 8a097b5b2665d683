"""spec/durable.md 10.7, S9, S97, case G11: what of a call another process has, and what is never stored."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from tenuto import Agent, ToolContext, durable_function, step_count_is, tool
from tenuto.core import codec
from tenuto.errors import ConfigurationError
from tenuto.models.resolve import resolve_model
from tenuto.testing import Call, FakeProvider, Reply, ScriptedModel
from tests.durable.kit import clerk

CANARY = "sk-canary-7f3a"


@tool(require_approval=True)
async def pay(order: str) -> str:
    return f"paid {order}"


PAY = Reply(calls=[Call("pay", {"order": "A"}, "c1")])
DONE = Reply("done")


async def stored(world, run_id):
    """Every byte that is kept of the run, wherever it is."""
    kept = b"".join(await world.store.records(run_id, resource=None))
    for event in await world.store.events(run_id, resource=None):
        kept += codec.encode(event.chunk)
    kept += codec.encode(await world.row(run_id))
    if world.kind == "sqlite":
        kept += b"".join(path.read_bytes() for path in world.folder.iterdir())
    return kept


async def test_S77_no_credential_of_the_settings_is_kept(world, caplog):
    caplog.set_level(0)
    headers = {
        "Authorization": f"Bearer {CANARY}-1",
        "x-api-key": f"{CANARY}-2",
        "Cookie": f"{CANARY}-3",
        "X-Auth-Token": f"{CANARY}-4",
        "x-signature": f"{CANARY}-5",
        "Proxy-Thing": f"{CANARY}-6",
        "x-team": "red",
    }
    settings = {"temperature": 0.25, "seed": 7, "headers": headers}
    async with FakeProvider([PAY, DONE]) as provider:
        first = world.process(clerk(provider, [pay]))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r", model_settings=settings))
        await output.get_full_output()
        assert provider.requests[0].headers["x-api-key"] == f"{CANARY}-2"
        kept = await stored(world, "r")
        second = world.process(clerk(provider, [pay]))
        result = await second.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
        again = provider.requests[1]
    assert CANARY.encode() not in kept
    assert b'"x-team":"red"' in kept
    assert CANARY not in caplog.text
    assert CANARY.encode() not in codec.encode(output._chunks)
    assert (again.headers["x-team"], again.body["temperature"], again.body["seed"]) == ("red", 0.25, 7)
    assert "x-api-key" not in again.headers
    dropped = {f"model_settings.headers.{name}" for name in headers if name != "x-team"}
    assert set(result.degraded) == dropped


async def test_S77_a_model_record_with_a_key_is_refused(world):
    async with FakeProvider() as provider:
        first = world.process(clerk(provider))
        for record in (
            {"id": "openai/m", "url": provider.base_url, "api_key": CANARY},
            {"id": "openai/m", "url": provider.base_url, "headers": {"Authorization": CANARY}},
        ):
            with pytest.raises(ConfigurationError, match="give the record to the agent") as refused:
                await first.call(lambda agent, record=record: agent.generate("hi", run_id="r", model=record))
            assert refused.value.id == "DURABLE_OPTION_REFUSED"
            assert CANARY not in str(refused.value)
        assert provider.requests == []
    assert await world.row("r") is None


async def test_S77_the_key_of_the_agents_own_model_is_not_kept(world, caplog):
    caplog.set_level(0)
    async with FakeProvider([Reply("Hello")], api_key=CANARY) as provider:
        agent = Agent(id="clerk", model={"id": "test/m", "url": provider.base_url, "api_key": CANARY})
        first = world.process(agent)
        await first.call(lambda agent: agent.generate("hi", run_id="r"))
    assert CANARY.encode() not in await stored(world, "r")
    assert CANARY not in caplog.text


class Client:
    """Something that no journal can hold."""


@durable_function("tests: over after two")
def over(context):
    return len(context.steps) >= 2


G11 = {
    "a request value": ({"request_context": {"db": Client(), "user": "ann"}}, "request_context.db"),
    "a stop condition": ({"stop_when": lambda _: False, "max_steps": 5}, "stop_when"),
    "a shipped condition": ({"stop_when": step_count_is(9), "max_steps": 5}, "stop_when"),
    "an approval policy": ({"require_tool_approval": lambda _: False}, "require_tool_approval"),
    "callbacks": ({"on_chunk": lambda _: None, "on_finish": lambda _: None}, None),
    "a registered condition": ({"stop_when": over, "max_steps": 5}, None),
    "a model": ({"model": "other"}, "model"),
    "dependencies": ({"deps": Client()}, "deps"),
}


@pytest.mark.parametrize("durable", [False, True], ids=["plain", "durable"])
@pytest.mark.parametrize("case", G11)
async def test_G11_what_json_cannot_hold_is_named_when_it_is_lost(world, durable, case):
    """It works in the process of the call, and is named where another one goes on without it."""
    given, lost = G11[case]
    seen = []

    @tool(require_approval=True)
    async def pay(ctx: ToolContext, order: str) -> str:
        seen.append((ctx.request_context.all, ctx.deps))
        return "paid"

    script = [PAY, PAY] if case == "a registered condition" else [PAY, PAY, DONE]
    async with FakeProvider(script) as provider:
        if case == "a model":
            given = {"model": resolve_model({"id": "test/other", "url": provider.base_url})}
        agent = clerk(provider, [pay], deps=lambda: "built again")
        first = world.process(agent, durable=durable)
        waiting = await first.call(lambda agent: agent.generate("hi", run_id="r", **given))
        assert (waiting.finish_reason, waiting.degraded) == ("suspended", ())
        again = await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r", tool_call_id="c1"))
        assert (again.finish_reason, again.degraded) == ("suspended", ())
        await first.kill()
        second = world.process(agent.replace(), durable=durable)
        result = await second.call(lambda agent: agent.decline_tool_call_generate(run_id="r"))
    assert result.degraded == (() if lost is None else (lost,))
    if case == "a registered condition":
        assert (result.text, result.finish_reason, len(result.steps)) == ("", "tool-calls", 2)
        return
    assert result.text == "done"
    if case == "a model":
        assert [request.body["model"] for request in provider.requests] == ["other", "other", "m"]
    if case == "dependencies":
        assert isinstance(seen[0][1], Client)


async def test_G11_dependencies_that_nobody_could_build_again_are_refused(world):
    async with FakeProvider() as provider:
        first = world.process(clerk(provider, [pay]))
        with pytest.raises(ConfigurationError, match="deps= of this call") as refused:
            await first.call(lambda agent: agent.generate("hi", run_id="r", deps=Client()))
        assert refused.value.id == "DURABLE_OPTION_REFUSED"
        assert provider.requests == []
    assert await world.row("r") is None


class Tenant(BaseModel):
    user: str


async def test_the_validated_values_and_the_request_context_are_there_again(world):
    seen = []

    @tool(require_approval=True)
    async def pay(ctx: ToolContext, order: str) -> str:
        seen.append((ctx.values, ctx.request_context.get("user"), ctx.request_context.get("extra")))
        return "paid"

    async with FakeProvider([PAY, DONE]) as provider:
        agent = clerk(provider, [pay], request_context_schema=Tenant)
        first = world.process(agent)
        await first.call(lambda agent: agent.generate("hi", run_id="r", request_context=Tenant(user="ann")))
        await first.kill()
        second = world.process(agent.replace())
        await second.call(lambda agent: agent.approve_tool_call_generate(run_id="r", request_context={"extra": 1}))
    assert seen == [(Tenant(user="ann"), "ann", 1)]


async def test_options_are_remembered_over_several_suspensions(world):
    """In one process and in others; what the answering call gives wins."""
    options = {"max_steps": 9, "model_settings": {"temperature": 0.5}, "tool_choice": "required"}
    scripts = [Reply(calls=[Call("pay", {"order": str(n)}, f"c{n}")]) for n in range(4)]
    async with FakeProvider([*scripts, DONE]) as provider:
        process = world.process(clerk(provider, [pay]))
        await process.call(lambda agent: agent.generate("hi", run_id="r", **options))
        await process.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
        await process.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
        other = world.process(clerk(provider, [pay]))
        await other.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
        result = await other.call(
            lambda agent: agent.approve_tool_call_generate(run_id="r", model_settings={"temperature": 0.75})
        )
        bodies = [request.body for request in provider.requests]
    assert result.text == "done"
    assert [body["temperature"] for body in bodies] == [0.5, 0.5, 0.5, 0.5, 0.75]
    assert {body["tool_choice"] for body in bodies} == {"required"}


async def test_an_uninterrupted_run_has_lost_nothing():
    from tenuto import Tenuto, create_durable_agent

    agent = create_durable_agent(Agent(id="a", model=ScriptedModel("Hello")))
    async with Tenuto(agents={"a": agent}):
        result = await agent.generate("hi", stop_when=lambda _: False, max_steps=3)
    assert result.degraded == ()


async def test_S97_retention_never_takes_what_waits(world):
    if world.kind != "sqlite":
        return  # a store in memory has no retention of its own
    async with FakeProvider([PAY, Reply("Hello"), DONE]) as provider:
        first = world.process(clerk(provider, [pay]))
        await first.call(lambda agent: agent.generate("hi", run_id="waits"))
        await first.call(lambda agent: agent.generate("hi", run_id="over"))
        await first.kill()
        await world.clock.advance(365 * 24 * 3600)
        dropped = await world.store.prune(events_older_than=0, runs_older_than=0)
        assert (dropped.runs, await world.row("over")) == (1, None)
        second = world.process(clerk(provider, [pay]))
        (run,) = (await second.call(lambda agent: agent.list_suspended_runs())).runs
        assert (run.run_id, run.tool_calls[0].args) == ("waits", {"order": "A"})
        await world.whole("waits")
        result = await second.call(lambda agent: agent.approve_tool_call_generate(run_id="waits"))
    assert result.text == "done"


async def test_c19_a_durable_run_is_observed_and_never_steered(world):
    seen = []

    def steer(context):
        seen.append(context)
        return {"continue": False, "feedback": "Stop."}

    async with FakeProvider([PAY, DONE]) as provider:
        first = world.process(clerk(provider, [pay]))
        output = await first.call(lambda agent: agent.stream("hi", run_id="r", on_iteration_complete=steer))
        result = await output.get_full_output()
        assert seen == []  # the step is not over while a call of it waits
        result = await first.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
    assert (result.text, result.degraded) == ("done", ())
    assert [(each.iteration, each.is_final) for each in seen] == [(1, False), (2, True)]
    assert [message.role for message in seen[-1].message_list] == ["user", "assistant"]
    assert [message.text for message in result.messages] == ["hi", "done"]


@durable_function("coach of the clerk")
def coach(context):
    return {"feedback": "Be brief."} if context.iteration == 1 else None


@pytest.mark.parametrize("registered", [True, False])
async def test_a_plain_run_that_waited_is_steered_by_a_registered_function(world, registered):
    def unknown(context):
        return coach(context)

    async with FakeProvider([PAY, DONE]) as provider:
        first = world.process(clerk(provider, [pay]), durable=False)
        callback = coach if registered else unknown
        await first.call(lambda agent: agent.generate("hi", run_id="r", on_iteration_complete=callback))
        second = world.process(clerk(provider, [pay]), durable=False)
        result = await second.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
    feedback = ["Be brief."] if registered else []
    assert [message.text for message in result.messages if message.text] == ["hi", *feedback, "done"]
    assert result.degraded == (() if registered else ("on_iteration_complete",))
