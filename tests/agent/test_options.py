"""Every option of a call: its effect, its default, wrong values, both spellings, and the agent's defaults below it."""

from __future__ import annotations

import logging

import pytest

from tenuto import (
    AbortController,
    AbortSignal,
    Agent,
    RequestContext,
    has_tool_call,
    step_count_is,
    tool,
    total_tokens_over,
)
from tenuto.agent_fields import AgentFields
from tenuto.core.payloads import wire_name
from tenuto.errors import ConfigurationError, TenutoError
from tenuto.models.ports import ModelSettings, NamedTool
from tenuto.options import AllOptions
from tenuto.read_agent import DEFAULTS
from tenuto.read_options import OPTIONS
from tenuto.store import InMemoryStore
from tenuto.testing import Call, FakeProvider, Raw, Reply, ScriptedModel, Usage, chat_chunk
from tests.agent.kit import agent_on, both, run, sent


@tool(effects="none")
async def add(a: int = 1, b: int = 2) -> int:
    return a + b


@tool(effects="none")
async def look() -> str:
    return "seen"


def agent(model, **more):
    return Agent(id="a", model=model, **({"tools": [add, look]} | more))


def always(*names):
    """Call these tools for ever."""
    return ScriptedModel(lambda _: Reply(calls=[Call(name) for name in names], usage=Usage(10, 5)))


# -- effects and defaults ---------------------------------------------------------------------------------


@both
async def test_max_steps(verb):
    model = always("add")
    await run(verb, agent(model), max_steps=3)
    assert len(model.requests) == 3


@both
async def test_max_steps_is_5_by_default(verb):
    model = always("add")
    ran = await run(verb, agent(model))
    assert len(model.requests) == 5
    assert ran.result.finish_reason == "tool-calls"


@both
async def test_stop_when_alone_is_capped_at_100_with_one_warning(verb, caplog):
    model = always("add")
    with caplog.at_level(logging.WARNING, "tenuto"):
        await run(verb, agent(model), stop_when=step_count_is(1_000))
    assert len(model.requests) == 100
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "100 steps" in caplog.text


async def never(context):
    return False


@both
@pytest.mark.parametrize(
    ("condition", "steps"),
    [
        (step_count_is(2), 2),
        (has_tool_call("look"), 3),
        (total_tokens_over(29), 2),
        (total_tokens_over(30), 3),
        ([never, step_count_is(2)], 2),
        ((step_count_is(4), has_tool_call("look")), 3),
        (lambda context: len(context.steps) == 2, 2),
        ([], 5),
        (None, 5),
    ],
)
async def test_stop_when(verb, condition, steps):
    model = ScriptedModel(lambda _: Call("look" if len(model.requests) == 3 else "add"))
    limit = {"max_steps": 9} if steps != 5 else {}
    await run(verb, agent(model), stop_when=condition, **limit)
    assert len(model.requests) == steps


@both
async def test_stop_when_is_not_asked_about_a_final_answer(verb):
    asked = []
    await run(verb, agent(ScriptedModel("done")), stop_when=asked.append, max_steps=3)
    assert asked == []


@both
async def test_a_stop_when_that_fails_stops_and_is_logged(verb, caplog):
    model = always("add")
    ran = await run(verb, agent(model), stop_when=lambda _: 1 / 0, max_steps=3)
    assert len(model.requests) == 1
    assert ran.error is None
    assert "stop_when" in caplog.text


@both
async def test_instructions_replace_and_system_and_context_add(verb):
    model = ScriptedModel("ok")
    ran = await run(
        verb,
        agent(model, instructions="Own."),
        instructions=["Mine.", {"role": "system", "content": "And mine."}],
        system="More.",
        context=[{"role": "user", "content": "before"}, {"role": "assistant", "content": "yes"}],
    )
    said = [(message["role"], message["content"]) for message in model.requests[0].messages]
    assert said == [
        ("system", "Mine."),
        ("system", "And mine."),
        ("system", "More."),
        ("user", "before"),
        ("assistant", "yes"),
        ("user", "hi"),
    ]
    assert [message.text for message in ran.result.messages] == ["before", "yes", "hi", "ok"]


async def test_without_them_the_agents_own_instructions_hold():
    model = ScriptedModel("ok")
    await agent(model, instructions="Own.").generate("hi")
    assert [message["content"] for message in model.requests[0].messages] == ["Own.", "hi"]


@both
@pytest.mark.parametrize(
    ("given", "taken", "on_the_wire"),
    [
        ("auto", "auto", None),
        ("none", "none", "none"),
        ("required", "required", "required"),
        ({"type": "tool", "tool_name": "add"}, NamedTool("add"), {"type": "function", "function": {"name": "add"}}),
        ({"type": "tool", "toolName": "add"}, NamedTool("add"), {"type": "function", "function": {"name": "add"}}),
        (None, "auto", None),
    ],
)
async def test_tool_choice(verb, given, taken, on_the_wire):
    async with FakeProvider([Reply(calls=[Call("add")]), Reply("ok")]) as provider:
        await run(verb, agent_on(provider, [add]), tool_choice=given)
        assert [request.body.get("tool_choice") for request in provider.requests] == [on_the_wire] * 2
    model = ScriptedModel("ok")
    await run(verb, agent(model), tool_choice=given)
    assert model.requests[0].tool_choice == taken


@both
async def test_active_tools(verb):
    model = ScriptedModel([Call("look"), "ok"])
    ran = await run(verb, agent(model), active_tools=["add"])
    assert [request.tool_names for request in model.requests] == [("add",)] * 2
    assert "Available tools: add." in ran.result.tool_results[0].payload.result
    model = ScriptedModel("ok")
    await run(verb, agent(model), active_tools=[])
    await run(verb, agent(model))
    assert [request.tool_names for request in model.requests] == [(), ("add", "look")]


@both
async def test_model(verb):
    model = ScriptedModel("other")
    assert (await run(verb, agent(ScriptedModel()), model=model)).result.text == "other"


@both
async def test_model_settings_and_provider_options_reach_the_wire(verb):
    async with FakeProvider([Reply("ok")]) as provider:
        await run(
            verb,
            agent_on(provider, [add]),
            model_settings={
                "temperature": 0.5,
                "max_output_tokens": 7,
                "top_p": 0.9,
                "presence_penalty": 1,
                "frequency_penalty": -1,
                "stop_sequences": ["END"],
                "seed": 3,
                "reasoning": "low",
                "headers": {"X-Team": "blue"},
            },
            provider_options={"test": {"user": "ann", "parallelToolCalls": False}},
        )
        (request,) = provider.requests
    found = request.body
    assert (found["temperature"], found["top_p"], found["seed"], found["stop"]) == (0.5, 0.9, 3, ["END"])
    assert (found["presence_penalty"], found["frequency_penalty"], found["reasoning_effort"]) == (1, -1, "low")
    assert 7 in {found.get("max_tokens"), found.get("max_completion_tokens")}
    assert (found["user"], found["parallel_tool_calls"]) == ("ann", False)
    assert request.headers["x-team"] == "blue"


async def test_what_a_dialect_cannot_say_is_a_warning():
    async with FakeProvider([Reply("ok")]) as provider:
        result = await agent_on(provider).generate("hi", model_settings={"top_k": 3})
    assert result.warnings[0]["setting"] == "topK"


@both
async def test_without_settings_nothing_is_sent(verb):
    async with FakeProvider([Reply("ok")]) as provider:
        await run(verb, agent_on(provider))
        assert provider.requests[0].body.keys() == {"model", "stream", "stream_options", "messages"}


@both
@pytest.mark.parametrize("given", [RequestContext({"user": "ann"}), {"user": "ann"}])
async def test_request_context(verb, given):
    seen = []

    def instructions(context):
        seen.append(context)
        return f"You serve {context.get('user')}."

    model = ScriptedModel("ok")
    await run(verb, agent(model, instructions=instructions), request_context=given)
    assert model.requests[0].messages[0]["content"] == "You serve ann."
    assert (seen[0] is given) is isinstance(given, RequestContext)


@both
async def test_run_id(verb):
    store = InMemoryStore()
    ran = await run(verb, agent(ScriptedModel("ok"), store=store), run_id="mine")
    assert ran.result.run_id == "mine"
    assert {chunk.run_id for chunk in ran.chunks} == {"mine"}
    assert (await store.run("mine", resource=None)).agent_id == "a"


async def test_run_ids_are_made_up_and_differ():
    one = agent(ScriptedModel("ok"))
    assert len({(await one.generate("hi")).run_id for _ in range(3)}) == 3


# -- wrong values --------------------------------------------------------------------------------------------

WRONG = [
    ("input_processors", 3),
    ("output_processors", "x"),
    ("error_processors", {"a": 1}),
    ("max_processor_retries", "3"),
    ("max_processor_retries", True),
    ("scorers", [3]),
    ("scorers", {"x": 3}),
    ("return_scorer_data", 1),
    ("is_task_complete", {}),
    ("is_task_complete", {"scorers": [3]}),
    ("memory", "t"),
    ("memory", {"thread": 3, "resource": "r"}),
    ("memory", {"thread": "t", "thread_id": "t"}),
    ("memory", {"thread": "t", "resource": "r", "options": {"last": 3}}),
    ("save_per_step", "yes"),
    ("max_steps", "3"),
    ("max_steps", 2.0),
    ("max_steps", True),
    ("stop_when", 3),
    ("stop_when", [3]),
    ("instructions", 3),
    ("instructions", {"role": "user", "content": "x"}),
    ("system", [3]),
    ("tool_choice", "any"),
    ("tool_choice", {"type": "tool"}),
    ("tool_choice", 3),
    ("active_tools", "add"),
    ("active_tools", 3),
    ("tool_call_concurrency", "3"),
    ("tool_call_concurrency", True),
    ("toolsets", 3),
    ("toolsets", [look]),
    ("client_tools", "look"),
    ("transform", 3),
    ("transform", {"targets": ["screen"]}),
    ("transform", {"transform_tool_payload": 3}),
    ("hooks", 3),
    ("hooks", {"before": print}),
    ("hooks", {"before_tool_call": 3}),
    ("model", 3),
    ("model_settings", 3),
    ("model_settings", {"temperature": "hot"}),
    ("model_settings", {"headers": 3}),
    ("provider_options", 3),
    ("provider_options", {"openai": 3}),
    ("abort_signal", AbortController()),
    ("abort_signal", 3),
    ("run_id", 3),
    ("on_chunk", 3),
    ("on_step_finish", "x"),
    ("on_finish", []),
    ("on_error", 3),
    ("on_abort", 3),
    ("on_suspended", 3),
    ("require_tool_approval", 3),
    ("delegation", 3),
    ("delegation", {"message_filter": 3}),
    ("delegation", {"on_delegation_start": "x"}),
    ("delegation", {"include_sub_agent_tool_results_in_model_context": "yes"}),
    ("cost_limit", "much"),
    ("token_limit", 1.5),
    ("telemetry", 3),
    ("telemetry", {"record_inputs": "yes"}),
    ("tracing_options", {"tags": 3}),
    ("tracing_context", 3),
    ("include_raw_chunks", 1),
    ("downloads", {"max_bytes": "many"}),
    ("on_iteration_complete", 3),
    ("structured_output", 3),
    ("structured_output", {"type": "object"}),
    ("prepare_step", 3),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=str)
async def test_a_value_of_the_wrong_type_is_refused_at_once(name, value):
    model = ScriptedModel()
    with pytest.raises(TypeError):
        await agent(model).generate("hi", **{name: value})
    with pytest.raises(TypeError):
        agent(model).stream("hi", **{name: value})
    assert model.requests == []


def test_every_option_has_a_wrong_value():
    others = {"context", "request_context", "close_on_suspend", "output"}  # no wrong type, or read later
    assert {name for name, _ in WRONG} | others == set(AllOptions.__annotations__)


def test_the_types_are_of_the_options_and_arguments_there_are():
    assert set(AllOptions.__annotations__) == set(OPTIONS.values())
    assert AgentFields.__annotations__.keys() | {"tools", "deps"} == DEFAULTS.keys()


@pytest.mark.parametrize("value", [0, -1.5, float("nan")])
async def test_a_cost_limit_out_of_range(value):
    with pytest.raises(ValueError, match="cost_limit= must be more than 0"):
        await agent(ScriptedModel()).generate("hi", cost_limit=value)


async def test_a_hook_error_strategy_that_is_none():
    with pytest.raises(ValueError, match="'warn' or 'throw', not 'ignore'"):
        await agent(ScriptedModel()).generate("hi", delegation={"hookErrorStrategy": "ignore"})


@pytest.mark.parametrize(
    ("name", "value"), [("max_steps", 0), ("max_steps", -1), ("tool_call_concurrency", 0), ("token_limit", 0)]
)
async def test_a_number_out_of_range(name, value):
    with pytest.raises(ValueError, match=f"{name}= must be at least 1, not {value}"):
        await agent(ScriptedModel()).generate("hi", **{name: value})


@both
async def test_a_request_context_of_the_wrong_type(verb):
    with pytest.raises(TypeError, match="request_context="):
        await run(verb, agent(ScriptedModel()), request_context=3)


@both
@pytest.mark.parametrize("context", [3, [3], [{"role": "robot", "content": "x"}]])
async def test_a_context_that_is_no_message(verb, context):
    with pytest.raises((TypeError, ConfigurationError)):
        started = agent(ScriptedModel()).stream("hi", context=context)
        await (started if verb == "stream" else agent(ScriptedModel()).generate("hi", context=context))


@both
async def test_active_tools_that_are_not_there(verb):
    model = ScriptedModel()
    one = agent(model)
    with pytest.raises(ConfigurationError, match=r"'ad'.*add, look"):
        await (one.generate("hi", active_tools=["ad"]) if verb == "generate" else one.stream("hi", active_tools=["ad"]))
    assert model.requests == []


# -- names ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_step": 3}, "did you mean 'max_steps'"),
        ({"maxStep": 3}, "did you mean 'max_steps'"),
        ({"on_chunks": print}, "did you mean 'on_chunk'"),
        ({"zip": 3}, "known: max_steps"),
        ({"model_settings": {"temprature": 1}}, "did you mean 'temperature'"),
        ({"tool_choice": {"type": "tool", "tool": "x"}}, "Unknown tool_choice key 'tool'"),
        ({"structured_outputs": str}, "did you mean 'structured_output'"),
        ({"structuredOutput": {"schema": str, "modell": "x"}}, "did you mean 'model'"),
    ],
)
async def test_an_unknown_name_has_a_suggestion(given, said):
    for call in (agent(ScriptedModel()).generate, agent(ScriptedModel()).stream):
        with pytest.raises(TypeError, match=said):
            await call("hi", **given)
    with pytest.raises(TypeError, match=said):
        agent(ScriptedModel(), default_options=given)


@both
async def test_camel_case_is_taken_too(verb):
    model, seen = always("add"), []
    await run(
        verb,
        agent(model),
        maxSteps=2,
        activeTools=["add"],
        toolCallConcurrency=3,
        modelSettings={"maxOutputTokens": 5, "topP": 0.5},
        providerOptions={"x": {"aB": 1}},
        onStepFinish=seen.append,
    )
    assert len(seen) == len(model.requests) == 2
    asked = model.requests[0]
    assert (asked.tool_names, asked.settings) == (("add",), ModelSettings(max_output_tokens=5, top_p=0.5))
    assert asked.provider_options == {"x": {"aB": 1}}  # the user's own keys stay


@pytest.mark.parametrize("name", [name for name in AllOptions.__annotations__ if wire_name(name) != name])
async def test_both_spellings_at_once_are_refused(name):
    with pytest.raises(TypeError, match=f"{name!r} is given twice"):
        await agent(ScriptedModel()).generate("hi", **{name: None, wire_name(name): None})


async def test_both_spellings_inside_are_refused():
    with pytest.raises(TypeError, match="'top_p' is given twice"):
        await agent(ScriptedModel()).generate("hi", model_settings={"top_p": 1, "topP": 1})


# -- the agent's defaults ------------------------------------------------------------------------------------------


def settings(temperature):
    return {"modelSettings": {"temperature": temperature, "seed": 1}, "maxSteps": 2}


@both
@pytest.mark.parametrize("kind", ["static", "function", "async function", "function of nothing"])
async def test_default_options_lie_below_the_calls(verb, kind):
    async def later(context):
        return settings(float(context.get("heat", 0.5)))

    defaults = {
        "static": settings(0.5),
        "function": lambda context: settings(float(context.get("heat", 0.5))),
        "async function": later,
        "function of nothing": lambda: settings(0.5),
    }
    model = always("add")
    one = agent(model, default_options=defaults[kind])
    await run(verb, one)
    assert len(model.requests) == 2
    assert model.requests[0].settings == ModelSettings(temperature=0.5, seed=1)
    await run(verb, one, max_steps=1, model_settings={"temperature": 1})
    assert len(model.requests) == 3
    assert model.requests[2].settings == ModelSettings(temperature=1, seed=1)  # merged key by key
    if "context" not in kind and kind in {"function", "async function"}:
        await run(verb, one, request_context={"heat": 0.1})
        assert model.requests[3].settings.temperature == 0.1


async def test_provider_options_merge_at_every_depth():
    model = ScriptedModel("ok")
    one = agent(model, default_options={"provider_options": {"a": {"x": 1, "y": {"z": 1}}, "b": {"x": 1}}})
    await one.generate("hi", provider_options={"a": {"x": 2, "y": {"w": 2}}})
    assert model.requests[0].provider_options == {"a": {"x": 2, "y": {"z": 1, "w": 2}}, "b": {"x": 1}}


async def test_lists_and_functions_replace():
    model, kept = always("add"), []
    one = agent(
        model, default_options={"active_tools": ["add"], "stop_when": [step_count_is(4)], "on_step_finish": kept.append}
    )
    await one.generate("hi", active_tools=["look"], stop_when=step_count_is(2), on_step_finish=lambda _: None)
    assert [request.tool_names for request in model.requests] == [("look",)] * 2
    assert kept == []


async def test_a_model_record_is_one_value():
    """The key of one provider does not travel to the address of another."""
    with FakeProvider([Reply("ok")]) as provider:
        own = {"id": "own/m", "url": "http://127.0.0.1:9/v1", "api_key": "own-secret"}
        one = Agent(id="a", model="openai/none", default_options={"model": own})
        await one.generate("hi", model={"id": "other/m", "url": provider.base_url})
        assert "authorization" not in provider.requests[0].headers


async def test_a_tool_choice_is_one_value():
    model = ScriptedModel("ok")
    one = agent(model, default_options={"tool_choice": {"type": "tool", "tool_name": "add"}})
    await one.generate("hi")
    await one.generate("hi", tool_choice={"type": "tool", "tool_name": "look"})
    await one.generate("hi", tool_choice="none")
    assert [request.tool_choice for request in model.requests] == [NamedTool("add"), NamedTool("look"), "none"]


@pytest.mark.parametrize("wrong", [{"max_steps": "3"}, {"on_chunk": 3}])
async def test_wrong_defaults_are_refused(wrong):
    with pytest.raises(TypeError):
        await agent(ScriptedModel(), default_options=wrong).generate("hi")
    with pytest.raises(TypeError):
        await agent(ScriptedModel(), default_options=lambda _: wrong).generate("hi")


@both
async def test_defaults_that_fail_keep_the_run_from_starting(verb):
    model = ScriptedModel()
    with pytest.raises((ZeroDivisionError, TenutoError)):
        await run(verb, agent(model, default_options=lambda _: 1 / 0))
    assert model.requests == []


async def test_a_copy_has_other_parts():
    model = ScriptedModel("ok")
    one = agent(model, instructions="Own.", default_options={"max_steps": 1})
    other = one.replace(instructions="Other.", id="b")
    assert (one.id, other.id, other.name) == ("a", "b", "b")
    await other.generate("hi")
    await one.generate("hi")
    assert [request.messages[0]["content"] for request in model.requests] == ["Other.", "Own."]
    with pytest.raises(AttributeError, match=r"agent\.replace\(id=...\)"):
        one.id = "c"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": "x/y"}, "id= or name="),
        ({"id": "a", "model": ""}, "needs model="),
        ({"id": "a", "model": None}, "needs model="),
        ({"id": "a", "model": []}, "list of models is empty"),
        ({"id": "a", "model": "x/y", "tools": [add, add]}, "'add'"),
        ({"id": "a", "model": "x/y", "tools": "add"}, "tools= takes"),
    ],
)
def test_an_agent_that_cannot_work(given, said):
    with pytest.raises(ConfigurationError, match=said):
        Agent(**given)


async def test_a_signal_in_the_defaults():
    controller = AbortController()
    model = ScriptedModel("ok")
    one = agent(model, default_options=lambda _: {"abort_signal": controller.signal})
    assert (await one.generate("hi")).finish_reason == "stop"
    controller.abort()
    assert (await one.generate("hi")).finish_reason == "aborted"
    assert (await one.generate("hi", abort_signal=AbortSignal())).finish_reason == "stop"


async def test_the_sent_body_is_in_the_result():
    async with FakeProvider([Reply("ok")]) as provider:
        result = await agent_on(provider).generate("hi", system="Be brief.")
        assert result.request.body == provider.requests[0].body
        assert result.request.body["messages"] == sent(provider)


@both
async def test_include_raw_chunks(verb):
    async with FakeProvider([Reply("Hello", chunk_size=2), Reply("Hello")]) as provider:
        ran = await run(verb, agent_on(provider), include_raw_chunks=True)
        without = await run(verb, agent_on(provider))
    assert without.of("raw") == []
    first, *_ = shown = [chunk.payload for chunk in ran.of("raw") if chunk.payload != "[DONE]"]
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert "".join(each["choices"][0]["delta"].get("content", "") for each in shown if each["choices"]) == "Hello"
    types = ran.types
    assert types.index("raw") < types.index("response-metadata") < types.index("text-start")
    assert ran.result.text == "Hello"


@both
async def test_a_raw_event_that_is_an_error_is_shown_without_the_key(verb):
    key = "sk-canary-raw-1234"
    refusal = {"error": {"message": f"no credit for {key}", "code": "insufficient_quota"}}
    async with FakeProvider([Raw(events=[chat_chunk({"content": "He"}), refusal])]) as provider:
        model = {"id": "test/m", "url": provider.base_url, "api_key": key}
        ran = await run(verb, Agent(id="a", model=model), include_raw_chunks=True)
    *_, last = ran.of("raw")
    assert last.payload == {"error": {"message": "no credit for [secret]", "code": "insufficient_quota"}}
    assert ran.result.text == "He"
    assert ran.error.code == "insufficient_quota"
