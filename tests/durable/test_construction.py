"""spec/durable.md 10.1: what makes an agent durable, and whose its runs are."""

from __future__ import annotations

import inspect

import pytest

from tenuto import Agent, DurableAgent, Tenuto, create_durable_agent, tool
from tenuto.errors import ConfigurationError, RunError
from tenuto.store import InMemoryStore
from tenuto.testing import Call, FakeProvider, Reply, ScriptedModel, override
from tests.durable.kit import clerk


@tool(effects="none")
async def look() -> str:
    return "seen"


@tool(require_approval=True)
async def pay() -> str:
    return "paid"


def app_of(*agents, **more):
    return Tenuto(agents={agent.id: agent for agent in agents}, store=InMemoryStore(), recovery="off", **more)


def test_S1_a_registered_agent_with_the_flag_is_wrapped_once():
    agent = Agent(id="a", name="Anna", model=ScriptedModel("x"), durable=True)
    plain = Agent(id="b", model=ScriptedModel("x"))
    wrapper = create_durable_agent(agent=Agent(id="c", model=ScriptedModel("x"), durable=True))
    app = app_of(agent, plain, wrapper)
    durable = app.get_agent("a")
    assert isinstance(durable, DurableAgent)
    assert isinstance(durable, Agent)
    assert durable.agent is agent
    assert (durable.id, durable.name) == ("a", "Anna")
    assert app.get_agent("a") is app.get_agent_by_id("a") is durable
    assert app.get_agent("b") is plain
    assert app.get_agent("c") is wrapper
    with pytest.raises(ConfigurationError, match="'a', 'b', 'c'") as raised:
        app.get_agent("d")
    assert raised.value.id == "AGENT_NOT_FOUND"


async def test_S1_the_flag_may_hold_the_factory_keywords():
    agent = Agent(id="a", model=ScriptedModel(Call("look")), tools=[look], durable={"max_steps": 2})
    async with app_of(agent) as app:
        durable = app.get_agent("a")
        assert len((await durable.generate("hi")).steps) == 2


async def test_S2_runs_belong_to_the_id_of_the_wrapper(world):
    async with FakeProvider([Reply(calls=[Call("pay", {}, "c1")]), Reply("done"), Reply("Hello")]) as provider:
        agent = clerk(provider, [pay])
        x = world.process(agent, durable={"id": "x"})
        waiting = await x.call(lambda agent: agent.generate("hi", run_id="r"))
        assert (await world.row("r")).agent_id == "x"
        assert ((await world.records("r"))[0]).agent_id == "x"
        y = world.process(agent.replace(), durable={"id": "y"})
        assert [run.run_id for run in (await x.call(lambda agent: agent.list_suspended_runs())).runs] == ["r"]
        assert (await y.call(lambda agent: agent.list_suspended_runs())).total == 0
        for refused in (
            lambda agent: agent.resume("r", {"approved": True}),
            lambda agent: agent.approve_tool_call_generate(run_id="r"),
            lambda agent: agent.recover("r"),
            lambda agent: agent.observe("r"),
            lambda agent: agent.abort_run_stream("r"),
        ):
            with pytest.raises(RunError, match="another agent") as raised:
                await y.call(refused)
            assert raised.value.id == "DURABLE_AGENT_RESUME_AGENT_MISMATCH"
        result = await x.call(lambda agent: agent.resume_generate({"approved": True}, run_id="r"))
        assert (waiting.finish_reason, result.text) == ("suspended", "done")

        again = world.process(agent.replace(), durable={"id": "x"})
        await again.killed_in(lambda agent: agent.generate("hi", run_id="lost"), "model.before_call")
        await world.leases_expire()
        for process, total in ((x, 1), (y, 0)):
            assert (await process.call(lambda agent: agent.list_active_runs())).total == total
        assert (await y.call(lambda agent: agent.recover_active_runs())).recovered == ()
        done = await x.call(lambda agent: agent.recover_active_runs())
        assert [(run.run_id, run.status) for run in done.recovered] == [("lost", "success")]


async def test_S3_an_agent_that_is_not_registered():
    agent = Agent(id="a", model=ScriptedModel("Hello"), durable=True)
    output = await agent.stream("hi")
    assert await output.text == "Hello"
    for name in ("observe", "resume", "recover", "list_active_runs", "recover_active_runs"):
        assert not hasattr(agent, name)
        with pytest.raises(RunError, match=r"Tenuto\(agents=.*get_agent") as raised:
            getattr(agent, name)
        assert raised.value.id == "DURABLE_AGENT_NOT_REGISTERED"
    with pytest.raises(AttributeError, match="no attribute 'obsrve'"):
        _ = agent.obsrve


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


async def test_the_flag_of_an_agent_outside_an_app_is_missed_with_one_warning(caplog):
    agent = Agent(id="a", model=ScriptedModel(["one", "two"]), durable=True)
    assert not warnings(caplog)
    await agent.generate("hi")
    await agent.generate("hi")
    (said,) = warnings(caplog)
    assert "durable=True" in said
    assert "Tenuto(agents={'key': agent}, store=...)" in said


async def test_an_app_without_a_store_says_which_agents_are_durable_in_vain(caplog):
    Tenuto(agents={"a": Agent(id="a", model=ScriptedModel("x"))})
    assert not warnings(caplog)
    app = Tenuto(agents={"b": Agent(id="b", model=ScriptedModel("x"), durable=True)})
    await app.get_agent("b").generate("hi")
    (said,) = warnings(caplog)
    assert "'b'" in said
    assert "store=" in said
    caplog.clear()
    app_of(Agent(id="c", model=ScriptedModel("x"), durable=True))
    assert not warnings(caplog), "a store in memory that was asked for is meant"


async def test_S3_a_durable_agent_that_is_not_registered(caplog):
    durable = create_durable_agent(Agent(id="a", model=ScriptedModel(["Hello", "again"])))
    with caplog.at_level("INFO", "tenuto"):
        assert (await durable.generate("hi", run_id="s3")).text == "Hello"
        await durable.generate("hi")
    assert len(warnings(caplog)) == 1
    assert len([record for record in caplog.records if "end with this process" in record.message]) == 1
    for call in (
        lambda: durable.observe("s3"),
        lambda: durable.resume("s3", {}),
        lambda: durable.recover("s3"),
        durable.list_active_runs,
        durable.recover_active_runs,
    ):
        with pytest.raises(RunError, match="store=") as raised:
            await call()
        assert raised.value.id == "DURABLE_AGENT_NOT_REGISTERED"
    stored = create_durable_agent(Agent(id="a", model=ScriptedModel("Hello"), store=InMemoryStore()))
    await stored.generate("hi", run_id="r")
    assert await (await stored.observe("r")).text == "Hello"


async def test_S4_each_wrapper_has_its_own_step_limit():
    model = ScriptedModel(Call("look"))
    agents = [
        create_durable_agent(Agent(id=f"a{limit}", model=model, tools=[look]), max_steps=limit) for limit in (2, 7)
    ]
    async with app_of(*agents):
        for agent, limit in zip(agents, (2, 7), strict=True):
            before = len(model.requests)
            assert (await agent.generate("hi")).finish_reason == "tool-calls"
            assert len(model.requests) - before == limit


@pytest.mark.parametrize(
    ("defaults", "wrapper", "call", "steps"),
    [
        ({}, None, {}, 5),
        ({"max_steps": 8}, None, {"max_steps": 3}, 3),
        ({"max_steps": 8}, None, {}, 8),
        ({"maxSteps": 6}, 4, {}, 6),
        ({}, 4, {}, 4),
        ({}, 4, {"max_steps": 2}, 2),
        (lambda _: {"max_steps": 6}, 4, {}, 6),
        (lambda _: {}, 4, {}, 4),
    ],
)
async def test_S5_the_nearest_step_limit_wins(defaults, wrapper, call, steps):
    agent = Agent(id="a", model=ScriptedModel(Call("look")), tools=[look], default_options=defaults)
    async with app_of(create_durable_agent(agent, max_steps=wrapper)) as app:
        assert len((await app.get_agent("a").generate("hi", **call)).steps) == steps


def test_S6_the_wrapper_has_all_that_an_agent_has():
    agent = Agent(id="a", name="Anna", description="Answers.", model=ScriptedModel("x"), durable=True)
    durable = create_durable_agent(agent)
    members = [name for name in dir(Agent) if not name.startswith("_")]
    assert len(members) > 12
    for name in members:
        own, wrapped = getattr(Agent, name), getattr(DurableAgent, name)
        if callable(own):
            parameters = inspect.signature(own).parameters
            assert parameters.keys() <= inspect.signature(wrapped).parameters.keys(), name
        else:
            assert getattr(durable, name) == getattr(agent, name), name
    assert not hasattr(durable, "no_such_thing")


async def test_S6_a_changed_copy_of_the_wrapper_is_one():
    model = ScriptedModel(Call("look"))
    durable = create_durable_agent(Agent(id="a", model=ScriptedModel("x"), tools=[look]), name="Anna", max_steps=3)
    copy = durable.replace(model=model, description="Looks.")
    assert isinstance(copy, DurableAgent)
    assert (copy.id, copy.name, copy.description) == ("a", "Anna", "Looks.")
    async with app_of(copy):
        assert len((await copy.generate("hi")).steps) == 3
    assert model.requests[0].tool_names == ("look",)
    assert (durable.replace(id="b").id, durable.replace(id="b").agent.id) == ("b", "b")


async def test_S6_what_overrides_the_agent_overrides_its_wrapper():
    agent = Agent(id="a", model=ScriptedModel("its own"), durable=True)
    async with app_of(agent) as app:
        durable = app.get_agent("a")
        with override(agent, model=ScriptedModel("Hello"), instructions="Be brief."):
            assert (await durable.generate("hi")).text == "Hello"
            with override(durable, model=ScriptedModel("Hi")):
                assert (await durable.generate("hi")).text == "Hi"
        assert (await durable.generate("hi")).text == "its own"


async def test_S9_an_unknown_option_is_named():
    agent = create_durable_agent(Agent(id="a", model=ScriptedModel("x")))
    async with app_of(agent):
        await agent.generate("hi", run_id="r")
        for call in (
            lambda: agent.stream("hi", max_step=3),
            lambda: agent.generate("hi", max_step=3),
            lambda: agent.resume("r", {}, max_step=3),
            lambda: agent.recover("r", max_step=3),
            lambda: agent.observe("r", max_step=3),
        ):
            with pytest.raises(TypeError, match="'max_step'; did you mean 'max_steps'"):
                await call()


def test_an_agent_belongs_to_one_app():
    agent = Agent(id="a", model=ScriptedModel("x"), durable=True)
    app_of(agent)
    with pytest.raises(ConfigurationError, match="replace") as raised:
        app_of(agent)
    assert raised.value.id == "AGENT_ALREADY_REGISTERED"
    app_of(agent.replace())


def test_two_agents_of_one_id_are_refused():
    with pytest.raises(ConfigurationError, match="have one id, 'a'"):
        Tenuto(agents={"x": Agent(id="a", model="openai/m"), "y": Agent(id="a", model="openai/m")})
