"""`prepare_step`: what it sees, and what it puts in place of the run's own for one step."""

from __future__ import annotations

import asyncio

import pytest

from tenuto import AbortController, Agent, tool
from tenuto.errors import ConfigurationError, ModelError
from tenuto.models.ports import NamedTool
from tenuto.testing import Call, Reply, ScriptedModel
from tests.agent.kit import both, hasty, run


@tool(effects="none")
async def add(a: int = 1, b: int = 2) -> int:
    return a + b


@tool(effects="none")
async def look() -> str:
    return "seen"


@tool(effects="none")
async def spell(word: str) -> str:
    return "-".join(word)


ADD = Reply(calls=[Call("add", {"a": 1}, "c1")])


def agent(*script, **more):
    return Agent(
        id="a", **({"model": ScriptedModel(list(script)), "tools": [add, look], "instructions": "Be kind."} | more)
    )


def model_of(one):
    return one.setup().definition.model


def first(**changes):
    """Change the first step only."""
    return lambda step: changes if step.step_number == 0 else None


@both
async def test_it_sees_each_step_before_it_begins(verb):
    seen = []
    one = agent(ADD, "done")
    ran = await run(verb, one, prepare_step=seen.append, request_context={"user": "ann"}, active_tools=["add"])
    begin, then = seen
    assert (begin.step_number, begin.steps, begin.run_id) == (0, (), ran.result.run_id)
    assert [message.text for message in begin.messages] == ["hi"]
    assert [turn.text for turn in begin.system_messages] == ["Be kind."]
    assert begin.model is model_of(one)
    assert list(begin.tools) == ["add", "look"]
    assert (begin.tool_choice, begin.active_tools) == ("auto", ("add",))
    assert begin.request_context.get("user") == "ann"
    assert begin.abort_signal.aborted is False
    assert (then.step_number, [step.text for step in then.steps]) == (1, [""])
    assert then.steps[0].tool_results[0].payload.result == 3
    assert [message.role for message in then.messages] == ["user", "assistant"]
    assert (begin.message_id, ran.error) == (ran.result.messages[-1].id, None)


@both
async def test_nothing_returned_changes_nothing(verb):
    one = agent(ADD, "done")
    await run(verb, one, prepare_step=lambda _: None)
    assert [request.tool_names for request in model_of(one).requests] == [("add", "look")] * 2


@both
async def test_each_change_is_for_one_step(verb):
    one = agent(ADD, "done")
    changes = first(
        tool_choice={"type": "tool", "toolName": "add"},
        activeTools=["add"],
        model_settings={"temperature": 0.5},
        provider_options={"scripted": {"tier": "flex"}},
        system="Now add.",
    )
    settings = {"temperature": 0.1, "seed": 7}
    ran = await run(verb, one, prepare_step=changes, model_settings=settings, provider_options={"x": {"y": 1}})
    begin, then = model_of(one).requests
    assert (begin.tool_choice, begin.tool_names) == (NamedTool("add"), ("add",))
    assert (begin.settings.temperature, begin.settings.seed) == (0.5, None)
    assert begin.provider_options == {"scripted": {"tier": "flex"}}
    assert [m["content"] for m in begin.messages] == ["Now add.", "hi"]
    assert (then.tool_choice, then.tool_names) == ("auto", ("add", "look"))
    assert (then.settings.temperature, then.settings.seed, then.provider_options) == (0.1, 7, {"x": {"y": 1}})
    assert then.messages[0]["content"] == "Be kind."
    assert ran.result.text == "done"


@both
async def test_another_model_for_one_step(verb):
    other = ScriptedModel([ADD], model_id="other")
    one = agent("done")
    ran = await run(verb, one, prepare_step=first(model=other))
    assert [step.model for step in ran.result.steps] == ["scripted/other", "scripted/model"]


@both
async def test_a_list_of_models_for_one_step(verb):
    bad, other = ScriptedModel(ModelError("no"), model_id="bad"), ScriptedModel([ADD], model_id="other")
    ran = await run(verb, agent("done"), prepare_step=first(model=[bad, {"model": other}]))
    assert [step.model for step in ran.result.steps] == ["scripted/other", "scripted/model"]


@both
async def test_other_messages_for_one_step_leave_the_history_alone(verb):
    one = agent(ADD, "done")
    changes = lambda step: {"messages": [*step.messages[:1], "short"]} if step.step_number else None
    ran = await run(verb, one, prepare_step=changes)
    assert [m["content"] for m in model_of(one).requests[1].messages] == ["Be kind.", "hi", "short"]
    assert [message.role for message in ran.result.messages] == ["user", "assistant"]
    assert ran.result.text == "done"


@both
async def test_other_tools_for_one_step_can_be_called_in_it(verb):
    one = agent(Call("spell", {"word": "ab"}, "c1"), Call("spell", {"word": "ab"}, "c2"), "done")
    ran = await run(verb, one, prepare_step=first(tools=[spell]))
    begin, then, _ = model_of(one).requests
    assert (begin.tool_names, then.tool_names) == (("spell",), ("add", "look"))
    good, bad = ran.result.tool_results
    assert good.payload.result == "a-b"
    assert "not found" in bad.payload.result


@both
async def test_a_tool_that_is_hidden_in_a_step_is_not_run_in_it(verb):
    one = agent(Call("look", {}, "c1"), "done")
    ran = await run(verb, one, prepare_step=first(active_tools=["add"]))
    assert "not found" in ran.result.tool_results[0].payload.result


@both
async def test_retries_and_limits_stay_unless_they_are_given(verb):
    model = ScriptedModel([ModelError("busy", retryable=True), "done"])
    one, waits = hasty(agent(model=model))
    ran = await run(
        verb, one, model_settings={"max_retries": 1}, prepare_step=lambda _: {"model_settings": {"seed": 3}}
    )
    assert (ran.result.text, waits) == ("done", [1.0])
    assert [request.settings.seed for request in model.requests] == [3, 3]


@both
async def test_it_is_asked_once_for_a_step_whatever_becomes_of_its_attempts(verb):
    asked = []
    models = [ScriptedModel(ModelError("no"), model_id="bad"), ScriptedModel([ADD, "done"])]

    async def prepare(step):
        await asyncio.sleep(0)
        asked.append(step.step_number)
        return {"system": "Now."}

    ran = await run(verb, agent(model=models), prepare_step=prepare)
    assert (ran.result.text, asked) == ("done", [0, 1])
    assert models[1].requests[0].messages[0]["content"] == "Now."


@both
async def test_the_system_messages_of_the_context_can_be_given_back(verb):
    one = agent("done")
    await run(verb, one, prepare_step=lambda step: {"systemMessages": [*step.system_messages, "More."]})
    assert [m["content"] for m in model_of(one).requests[0].messages][:2] == ["Be kind.", "More."]


WRONG = [
    3,
    {"temprature": 1},
    {"tool_choice": "any"},
    {"active_tools": "add"},
    {"active_tools": ["nope"]},
    {"model": 3},
    {"model": "nope/x"},
    {"model_settings": {"temperature": "hot"}},
    {"model_settings": {"timeout": {"total_ms": 5}}},
    {"provider_options": {"openai": 3}},
    {"messages": [3]},
    {"system": "a", "instructions": "b"},
    {"tools": 3},
]


@both
@pytest.mark.parametrize("wrong", WRONG, ids=str)
async def test_what_it_may_not_return_ends_the_run(verb, wrong):
    one, told = agent("never"), []
    with pytest.raises(ConfigurationError) as caught:
        ran = await run(verb, one, prepare_step=lambda _: wrong, on_error=told.append)
        raise ran.error
    assert told == [caught.value]
    assert caught.value.result.finish_reason == "error"
    assert model_of(one).requests == []


@both
async def test_what_it_raises_ends_the_run(verb):
    def fail(_):
        raise ZeroDivisionError("x")

    with pytest.raises(ConfigurationError, match="ZeroDivisionError: x") as caught:
        ran = await run(verb, agent(ADD, "never"), prepare_step=fail)
        raise ran.error
    assert caught.value.id == "AGENT_PREPARE_STEP_FAILED"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@both
async def test_an_abort_ends_it_at_once(verb):
    controller, entered = AbortController(), asyncio.Event()

    async def wait(_):
        entered.set()
        await asyncio.Event().wait()

    one = agent("never")
    task = asyncio.create_task(run(verb, one, prepare_step=wait, abort_signal=controller.signal))
    await entered.wait()
    controller.abort()
    ran = await task
    assert (ran.result.finish_reason, model_of(one).requests) == ("aborted", [])


@both
@pytest.mark.parametrize("policy", [None, {"targets": ["display"]}], ids=["own", "run's"])
async def test_a_tool_of_one_step_keeps_its_veil(verb, policy):
    forms = {"display": {"input": lambda _: "***"}, "transcript": {"input": lambda _: "***", "output": lambda _: "***"}}

    @tool(effects="none", transform=forms)
    async def card(number: str) -> str:
        return f"ok {number}"

    one = agent(Call("card", {"number": "4111"}, "c1"), "done")
    more = {} if policy is None else {"transform": policy}
    ran = await run(verb, one, prepare_step=first(tools=[card]), **more)
    (shown,) = ran.of("tool-call")
    assert shown.payload.args != {"number": "4111"}
    kept = ran.result.messages[-1].to_transcript().to_dict()
    assert "4111" not in str(kept)
    assert ran.result.text == "done"
