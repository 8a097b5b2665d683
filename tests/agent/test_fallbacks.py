"""Lists of models: what makes the next one be asked, what is its own, and where the run goes on."""

from __future__ import annotations

import asyncio

import pytest

from tenuto import AbortController, Agent, tool
from tenuto.core import payloads as p
from tenuto.errors import ConfigurationError, ModelError, ModelHTTPError, TenutoError
from tenuto.models.ports import Finish
from tenuto.testing import Batches, Call, FakeProvider, Gate, Reply, ScriptedModel
from tests.agent.kit import both, hasty, run


@tool(effects="none")
async def add(a: int = 1, b: int = 2) -> int:
    return a + b


def model(name, *script):
    return ScriptedModel(list(script), model_id=name)


def failing(name, error=None):
    return ScriptedModel(
        lambda _: error or ModelHTTPError(f"{name} is busy", status=503, retryable=True), model_id=name
    )


def agent(*models, **more):
    return Agent(id="a", model=list(models), **({"tools": [add]} | more))


CALL = Call("add", {"a": 1}, "c1")
EMPTY = Batches([[Finish("other", p.Usage(), "weird")]])
FAILURES = {
    "it raises": lambda: failing("one"),
    "it raises what is no model's error": lambda: failing("one", ZeroDivisionError("x")),
    "what would fail again": lambda: failing("one", ModelHTTPError("no", status=401)),
    "it says nothing": lambda: model("one", EMPTY),
    "it says error": lambda: model("one", Reply("", finish="error")),
    "a missing key": lambda: "openai/gpt-x",
    "it breaks the rules": lambda: model("one", Batches([[p.TextDeltaPayload("t", "x")]])),
    "it ends without an end": lambda: model("one", Batches([[p.TextStartPayload("t")]])),
}


@both
@pytest.mark.parametrize("first", FAILURES.values(), ids=FAILURES)
async def test_the_next_model_is_asked(verb, first, monkeypatch, caplog):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    told = []
    ran = await run(verb, agent(first(), model("two", "fine")), on_error=told.append)
    assert (ran.result.text, ran.error, told) == ("fine", None, [])
    assert ran.result.steps[0].model == "scripted/two"
    assert ran.types.count("step-finish") == 1
    assert "scripted/two is asked instead" in caplog.text


@both
async def test_what_showed_nothing_leaves_no_trace_in_the_stream(verb):
    ran = await run(verb, agent(failing("one"), failing("two"), model("three", "fine")))
    assert ran.types == ["start", "step-start", "text-start", "text-delta", "text-end", "step-finish", "finish"]


@both
async def test_what_was_shown_is_taken_back(verb):
    ran = await run(verb, agent(model("one", Reply("Hel", drop_after=1)), model("two", "fine")))
    (restart,) = ran.of("attempt-restarted")
    assert (restart.payload.step, restart.payload.attempt, restart.payload.discard_from) == (1, 2, 1)
    assert ran.types == [
        "start", "step-start", "text-start", "text-delta", "attempt-restarted",
        "step-start", "text-start", "text-delta", "text-end", "step-finish", "finish",
    ]  # fmt: skip
    assert ran.result.text == "fine"
    assert len(ran.result.steps) == 1


@both
async def test_a_call_that_was_taken_back_is_not_run(verb):
    ran_tools = []

    @tool(effects="none")
    async def act(n: int) -> str:
        ran_tools.append(n)
        return "did"

    cut = model("one", Reply(calls=[Call("act", {"n": 1}, "c1"), Call("act", {"n": 2}, "c2")], drop_after=2))
    other = model("two", Call("act", {"n": 3}, "c1"), "done")
    ran = await run(verb, agent(cut, other, tools=[act]))
    assert ran_tools == [3]
    assert [call.payload.args for call in ran.result.tool_calls] == [{"n": 3}]


@both
async def test_the_text_of_a_reader_honours_the_restart(verb):
    if verb == "stream":
        stream = await agent(model("one", Reply("Hel", drop_after=1)), model("two", "fine")).stream("hi")
        assert await stream.text == "fine"


@both
async def test_the_run_stays_with_the_model_that_worked_and_the_next_run_begins_anew(verb):
    first, second = model("one", ModelError("no"), "first again"), model("two", CALL, CALL, "done")
    one = agent(first, second)
    ran = await run(verb, one)
    assert [step.model for step in ran.result.steps] == ["scripted/two"] * 3
    assert len(first.requests) == 1
    again = await run(verb, one)
    assert again.result.text == "first again"


@both
async def test_a_model_that_fails_later_in_the_run(verb):
    first = model("one", CALL, ModelError("no"))
    second = model("two", CALL, ModelError("no"))
    third = model("three", "done")
    ran = await run(verb, agent(first, second, third))
    assert [step.model for step in ran.result.steps] == ["scripted/one", "scripted/two", "scripted/three"]
    assert ran.result.text == "done"


@both
async def test_when_all_fail_the_last_error_names_them(verb):
    told = []
    one = agent(failing("one"), failing("two"), failing("two", ModelHTTPError("gone", status=410)))
    ran = await run(verb, one, on_error=told.append)
    assert (ran.error.status, str(ran.error)) == (410, "gone")
    assert ran.error.details["triedModels"] == "scripted/one, scripted/two, scripted/two#2"
    assert told == [ran.error]
    assert ran.types == ["start", "step-start", "error", "step-finish", "finish"]


@both
async def test_an_abort_asks_nobody_else(verb):
    gate, controller, second = Gate(), AbortController(), model("two", "never")
    task = asyncio.create_task(
        run(verb, agent(model("one", Reply("x", gate=gate)), second), abort_signal=controller.signal)
    )
    await gate.wait_blocked()
    controller.abort()
    ran = await task
    assert (ran.result.finish_reason, second.requests) == ("aborted", [])


@both
async def test_each_entry_has_its_own_retries(verb):
    first, second = failing("one"), model("two", ModelError("x", retryable=True), "fine")
    one, waits = hasty(agent({"model": first, "maxRetries": 2}, {"model": second}, max_retries=1))
    ran = await run(verb, one)
    assert (len(first.requests), len(second.requests)) == (3, 2)
    assert waits == [1.0, 2.0, 1.0]
    assert ran.result.text == "fine"


@both
async def test_an_entry_that_is_not_enabled_is_never_looked_at(verb):
    def fail(_):
        raise AssertionError("it was resolved")

    ran = await run(verb, agent({"model": fail, "enabled": False, "headers": fail}, model("two", "fine")))
    assert ran.result.text == "fine"


@both
async def test_what_is_of_the_entry_and_what_of_the_call(verb):
    entry = {
        "id": "mine",
        "model": None,
        "model_settings": {"temperature": 0.5, "headers": {"X-Team": "entry"}},
        "provider_options": {"test": {"a": {"x": 1}}},
        "headers": {"x-low": "entry", "x-call": "entry", "X-TEAM": "low"},
    }
    settings = {"temperature": 0.1, "top_p": 0.9, "headers": {"x-team": "call", "x-call": "call"}}
    options = {"test": {"a": {"x": 0, "y": 2}, "b": 3}}
    extra = {"a", "b"}
    async with FakeProvider([Reply("fine")], allow_extra=extra) as provider:
        entry["model"] = {"id": "test/m", "url": provider.base_url, "headers": {"x-low": "record", "x-own": "record"}}
        ran = await run(verb, agent(entry), model_settings=settings, provider_options=options)
        sent = provider.requests[0]
    assert ran.result.text == "fine"
    assert (sent.body["temperature"], sent.body["top_p"]) == (0.5, 0.9)
    assert (sent.body["a"], sent.body["b"]) == ({"x": 1, "y": 2}, 3)
    names = ("x-team", "x-call", "x-low", "x-own")
    assert [sent.headers[name] for name in names] == ["entry", "call", "entry", "record"]


@both
async def test_everything_of_an_entry_may_be_a_function_of_the_request(verb):
    def settings(context):
        return {"temperature": context.get("heat")}

    async def options(context):
        return {"scripted": {"tier": context.get("tier")}}

    one = model("one", "fine")
    entry = {
        "model": lambda _: one,
        "modelSettings": settings,
        "providerOptions": options,
        "headers": lambda: {"a": "b"},
    }
    ran = await run(verb, agent(entry), request_context={"heat": 0.25, "tier": "flex"})
    (request,) = one.requests
    assert ran.result.text == "fine"
    assert (request.settings.temperature, request.settings.headers) == (0.25, {"a": "b"})
    assert request.provider_options == {"scripted": {"tier": "flex"}}


@both
async def test_a_function_may_give_the_list(verb):
    def models(context):
        return [failing("one"), context.get("name") and model("two", "fine")]

    ran = await run(verb, Agent(id="a", model=models), request_context={"name": "x"})
    assert ran.result.text == "fine"


@both
async def test_a_list_of_the_call_stands_in_for_the_agents_model(verb):
    own, second = model("own", "never"), model("two", "fine")
    ran = await run(verb, agent(own), model=[failing("one"), {"model": second, "max_retries": 1}])
    assert (ran.result.text, own.requests) == ("fine", [])


@both
@pytest.mark.parametrize("given", [list, lambda: [{"model": "openai/x", "enabled": False}]], ids=["empty", "off"])
async def test_a_function_that_gives_no_model(verb, given):
    with pytest.raises(ConfigurationError, match="empty") as caught:
        await run(verb, Agent(id="a", model=given))
    assert caught.value.id == "AGENT_RESOLVE_MODEL_EMPTY_ARRAY"


@both
@pytest.mark.parametrize("given", [3, None, [3], [["openai/x"]], [{"model": 3}]], ids=str)
async def test_a_function_that_gives_something_else(verb, given):
    with pytest.raises(TenutoError) as caught:
        await run(verb, Agent(id="a", model=lambda: given))
    assert caught.value.id == "AGENT_GET_MODEL_MISSING_MODEL_INSTANCE"
    assert caught.value.details["originalError"]


@both
async def test_a_model_without_a_name(verb):
    with pytest.raises(ConfigurationError) as caught:
        await run(verb, Agent(id="a", model=[ScriptedModel("x", model_id="")]))
    assert caught.value.id == "AGENT_PREPARE_MODELS_MISSING_MODEL_ID"


WRONG = [
    {"model": "openai/x", "retries": 2},
    {"model": "openai/x", "max_retries": "2"},
    {"model": "openai/x", "max_retries": 1, "maxRetries": 1},
    {"model": "openai/x", "enabled": "yes"},
    {"model": "openai/x", "id": 3},
    {"model": "openai/x", "headers": {"a": 1}},
    {"model": "openai/x", "provider_options": {"openai": 3}},
    {"model": "openai/x", "model_settings": {"temprature": 1}},
    {"model": "openai/x", "model_settings": {"timeout": {"total_ms": 5}}},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
async def test_an_entry_of_the_wrong_shape_is_refused_at_once(wrong):
    with pytest.raises(TypeError):
        agent(wrong)
    with pytest.raises(TypeError):
        agent("openai/x").stream("hi", model=[wrong])


def test_an_empty_list_is_refused_at_once():
    with pytest.raises(ConfigurationError) as caught:
        Agent(id="a", model=[])
    assert caught.value.id == "AGENT_CONSTRUCTOR_MODEL_ARRAY_EMPTY"
    with pytest.raises(ConfigurationError):
        Agent(id="a", model=[{"model": "openai/x", "enabled": False}])


async def test_an_agent_shows_no_key_of_its_entries():
    record = {"id": "test/m", "url": "http://127.0.0.1:1/v1", "api_key": "sk-canary-9"}
    one = agent({"model": record, "headers": {"x-api-key": "sk-canary-9"}}, model("two", "fine"))
    ran = await run("generate", one)
    assert ran.result.text == "fine"
    shown = repr((one, one.setup(), one.setup().definition.resolved, ran.result))
    assert "sk-canary-9" not in shown


async def test_all_fail_at_a_real_address():
    async with FakeProvider([]) as provider:
        url = provider.base_url
    ran = await run("stream", agent({"id": "test/m", "url": url}, {"model": {"id": "test/n", "url": url}}))
    assert ran.error.id == "MODEL_CONNECTION_FAILED"
    assert ran.error.details["triedModels"] == "test/m, test/n"
