"""The getters of an agent: what a run with the same request context would begin with."""

from __future__ import annotations

import pytest

from tenuto import Agent, Tenuto, tool
from tenuto.errors import ConfigurationError, TenutoError
from tenuto.testing import ScriptedModel
from tenuto.testing.override import override


@tool(effects="none")
def add(a: int = 1, b: int = 2) -> int:
    return a + b


def plan(context):
    return context.get("plan", "free")


ONE, TWO = ScriptedModel("one", model_id="one"), ScriptedModel("two", model_id="two")
STATIC = Agent(
    id="clerk",
    description="Answers.",
    metadata={"team": "shop"},
    instructions=["Be brief.", {"role": "system", "content": "Be kind."}],
    model=ONE,
    tools={"sum": add},
    default_options={"maxSteps": 3},
    request_context_schema=dict,
)


async def later(context, app):
    return {"plan": plan(context), "app": app}


DYNAMIC = Agent(
    id="clerk",
    metadata=later,
    instructions=lambda context: f"Plan: {plan(context)}.",
    model=lambda context: TWO if plan(context) == "pro" else ONE,
    tools=lambda context: [add] if plan(context) == "pro" else [],
    default_options=lambda context: {"maxSteps": 9 if plan(context) == "pro" else 3},
)


async def test_what_was_given():
    assert STATIC.get_description() == "Answers."
    assert await STATIC.get_metadata() == {"team": "shop"}
    assert await STATIC.get_instructions() == ["Be brief.", {"role": "system", "content": "Be kind."}]
    assert await STATIC.get_model() is await STATIC.get_llm() is ONE
    assert await STATIC.get_model_list() is None
    assert dict(await STATIC.list_tools()) == dict(await STATIC.get_tools()) == {"sum": add}
    assert await STATIC.get_default_options() == {"max_steps": 3}
    assert STATIC.request_context_schema is dict
    assert STATIC.app is None


async def test_what_is_dynamic_is_asked_with_the_request():
    pro = {"plan": "pro"}
    assert await DYNAMIC.get_metadata(request_context=pro) == {"plan": "pro", "app": None}
    assert await DYNAMIC.get_instructions(request_context=pro) == "Plan: pro."
    assert await DYNAMIC.get_instructions() == "Plan: free."
    assert (await DYNAMIC.get_model(request_context=pro), await DYNAMIC.get_model()) == (TWO, ONE)
    assert (list(await DYNAMIC.list_tools(request_context=pro)), list(await DYNAMIC.list_tools())) == (["add"], [])
    assert await DYNAMIC.get_default_options(request_context=pro) == {"max_steps": 9}


def test_without_an_event_loop():
    assert STATIC.get_metadata_sync() == {"team": "shop"}
    assert DYNAMIC.get_instructions_sync(request_context={"plan": "pro"}) == "Plan: pro."
    assert STATIC.get_model_sync() is STATIC.get_llm_sync() is ONE
    assert STATIC.get_model_list_sync() is None
    assert list(STATIC.list_tools_sync()) == list(STATIC.get_tools_sync()) == ["sum"]
    assert STATIC.get_default_options_sync() == {"max_steps": 3}


async def test_a_list_of_models():
    one = STATIC.replace(model=[{"model": ONE, "enabled": False}, {"model": TWO, "max_retries": 2}])
    listed = await one.get_model_list()
    assert listed is not None
    assert [(each.model, each.max_retries) for each in listed] == [(TWO, 2)]
    assert await one.get_model() is TWO
    assert await one.get_model(model=ONE) is ONE


async def test_what_cannot_work_is_an_error():
    with pytest.raises(TenutoError, match="returned nothing") as caught:
        await STATIC.replace(instructions=lambda: "").get_instructions()
    assert caught.value.id == "AGENT_GET_INSTRUCTIONS_FUNCTION_EMPTY_RETURN"
    with pytest.raises(ConfigurationError, match="no usable model"):
        await STATIC.replace(model=lambda: 3).get_model()


async def test_the_app_and_a_tests_overrides_count():
    agent = DYNAMIC.replace()
    app = Tenuto(agents={"clerk": agent})
    assert agent.app is app
    assert (await agent.get_metadata())["app"] is app
    with override(agent, model=TWO):
        assert await agent.get_model() is TWO
