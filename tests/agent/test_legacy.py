"""The old verbs: the same loop under defaults of their own, each use a warning that names the successor."""

from __future__ import annotations

import inspect
import warnings

import pytest

from tenuto import Agent, Tenuto, tool
from tenuto.testing import Call, Reply, ScriptedModel

VERBS = {
    "generate_legacy": "generate",
    "stream_legacy": "stream",
    "generate_legacy_sync": "generate_sync",
    "stream_legacy_sync": "stream_sync",
}
CALL = VERBS | {"stream_until_idle": "stream", "stream_until_idle_sync": "stream_sync"}


@tool(effects="none")
def add(a: int = 1, b: int = 2) -> int:
    return a + b


async def ended(agent, verb, **options):
    """The result of a legacy verb, and where its warning points."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if verb.endswith("_sync"):
            done = getattr(agent, verb)("hi", **options)
        else:
            done = await getattr(agent, verb)("hi", **options)
        output = done.get_full_output() if "stream" in verb else done
        result = await output if inspect.isawaitable(output) else output
    assert [each.category for each in told] == [DeprecationWarning]
    assert told[0].filename == __file__
    assert f"call {CALL[verb]}()" in str(told[0].message)
    return result


def agent_with(model, **more):
    return Agent(id="a", model=model, tools=[add], **more)


@pytest.mark.parametrize("verb", VERBS)
async def test_C9_the_same_loop_and_a_warning(verb):
    result = await ended(agent_with(ScriptedModel([Call("add"), "3"])), verb)
    assert (result.text, [done.payload.result for done in result.tool_results]) == ("3", [3])


@pytest.mark.parametrize("kind", ["static", "sync", "async"])
@pytest.mark.parametrize("verb", VERBS)
async def test_C9_its_defaults_are_below_the_call_and_no_others_are(verb, kind):
    given = {"maxSteps": 2, "model_settings": {"temperature": 0.1, "seed": 1}}

    async def later(context):
        return given if context.get("old") else {}

    own = {"static": given, "sync": lambda context: given if context.get("old") else {}, "async": later}[kind]
    name = "default_generate_options_legacy" if "generate" in verb else "default_stream_options_legacy"
    model = ScriptedModel(lambda _: Reply(calls=[Call("add")]))
    one = agent_with(model, **{name: own}, default_options={"max_steps": 4, "model_settings": {"top_p": 0.5}})
    options = {"request_context": {"old": True}, "model_settings": {"temperature": 0.9}}
    await ended(one, verb, **options)
    settings = model.requests[0].settings
    assert len(model.requests) == 2
    assert (settings.temperature, settings.seed, settings.top_p) == (0.9, 1, None)


@pytest.mark.parametrize("verb", [*VERBS, "stream_until_idle", "stream_until_idle_sync"])
async def test_they_take_a_type_for_the_answer(verb):
    result = await ended(agent_with(ScriptedModel("3")), verb, structured_output=int)
    assert result.object == 3


@pytest.mark.parametrize("name", ["default_generate_options_legacy", "default_stream_options_legacy"])
def test_an_unknown_default_is_refused_at_construction(name):
    with pytest.raises(TypeError, match="max_steps"):
        agent_with(ScriptedModel(), **{name: {"max_step": 2}})


@pytest.mark.parametrize("verb", VERBS)
async def test_a_durable_agent_has_them_too(verb):
    model = ScriptedModel(lambda _: Reply(calls=[Call("add")]))
    one = agent_with(model, durable={"max_steps": 3})
    result = await ended(Tenuto(agents={"a": one}).get_agent("a"), verb)
    assert (len(model.requests), result.finish_reason) == (3, "tool-calls")


@pytest.mark.parametrize("verb", ["stream_until_idle", "stream_until_idle_sync"])
async def test_C10_until_idle_is_a_stream(verb):
    one = agent_with(ScriptedModel([Call("add"), "3"]), default_options={"max_steps": 1})
    assert (await ended(one, verb, max_idle_ms=10)).finish_reason == "tool-calls"
    with pytest.warns(DeprecationWarning, match="call stream"), pytest.raises(ValueError, match="max_idle_ms"):
        getattr(one, verb)("hi", max_idle_ms=0)


@pytest.mark.parametrize("verb", ["generate_legacy", "stream_legacy", "stream_until_idle"])
def test_a_twin_has_the_same_parameters(verb):
    parameters = [list(inspect.signature(getattr(Agent, name)).parameters) for name in (verb, f"{verb}_sync")]
    assert parameters[0] == parameters[1]
