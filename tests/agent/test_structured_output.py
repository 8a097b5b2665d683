"""`structured_output=`: what it takes, how the model is asked, what a reader sees, and what a failure is."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

from tenuto import AbortController, Agent, StructuredOutput, tool
from tenuto.errors import ConfigurationError, ModelError, OutputInvalid
from tenuto.testing import Call, FakeProvider, Gate, Reply, ScriptedModel, Usage
from tests.agent.kit import agent_on, both, raw, run


class City(BaseModel):
    name: str
    people: int = 3


@dataclass
class Point:
    x: int


class Amount(TypedDict):
    amount: int


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


ROME = '{"name":"Rome","people":3}'
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@tool(effects="none")
async def look() -> str:
    """Look it up."""
    return "seen"


def scripted(*answers: Any, tools: Any = (), **more: Any) -> Agent[Any, Any]:
    return Agent(id="agent", model=ScriptedModel(list(answers), **more), tools=tools)


# -- what it takes ---------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("given", "wire", "expected"),
    [
        (City, ROME, City(name="Rome")),
        (Point, '{"x":1}', Point(1)),
        (Amount, '{"amount":1}', {"amount": 1}),
        (Mood, '{"result":"bad"}', Mood.BAD),
        (list[City], '{"elements":[' + ROME + "]}", [City(name="Rome")]),
        (Literal["a", "b"], '{"result":"b"}', "b"),
        (City | Point, '{"result":{"x":2}}', Point(2)),
        (TypeAdapter(list[int]), '{"elements":[1,2]}', [1, 2]),
        (StructuredOutput(City), ROME, City(name="Rome")),
        ({"schema": City}, ROME, City(name="Rome")),
        ({"schema": SCHEMA, "errorStrategy": "warn"}, ROME, {"name": "Rome", "people": 3}),
    ],
)
async def test_every_form_gives_its_object_by_the_providers_format(verb, given, wire, expected):
    async with FakeProvider([Reply(wire)]) as provider:
        ran = await run(verb, agent_on(provider), structured_output=given)
        asked = provider.requests[0].body["response_format"]
    assert (asked["type"], asked["json_schema"]["schema"]["type"]) == ("json_schema", "object")
    assert ran.result.object == ran.result.object_or_none == expected
    assert ran.types[-3:] == ["object-result", "step-finish", "finish"]
    assert (ran.result.object_state, ran.result.used_fallback_value) == ("fits", False)
    [message] = ran.result.response.db_messages
    assert message.content.metadata["structuredOutput"] == ran.of("object-result")[0].object


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        (SCHEMA, TypeError, r"structured_output=\{'schema': \{...\}\}"),
        ({"schema": City, "modle": "x"}, TypeError, "did you mean 'model'"),
        ({"schema": City, "error_strategy": "loose"}, ConfigurationError, "'strict', 'warn', 'fallback'"),
        ({"schema": City, "error_strategy": "fallback"}, ConfigurationError, "needs a fallback_value"),
        ({"schema": City, "fallback_value": {"people": 1}}, ConfigurationError, "name: Field required"),
        ({"schema": City, "json_prompt_injection": 1}, ConfigurationError, "json_prompt_injection"),
        ({"schema": City, "instructions": 3}, ConfigurationError, "are text"),
        ({"schema": StructuredOutput(City)}, TypeError, "pass that alone"),
        ({}, TypeError, "has nothing"),
        ({"error_strategy": "warn"}, TypeError, "the key 'schema'"),
        (City(name="x"), ConfigurationError, "has no JSON Schema"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(given, error, says):
    with pytest.raises(error, match=says):
        scripted().stream("hi", structured_output=given)


async def test_output_is_the_old_name_and_takes_a_bare_json_schema():
    for given in (City, SCHEMA, {"schema": SCHEMA}):
        with pytest.warns(DeprecationWarning, match="structured_output="):
            result = await scripted(ROME).generate("hi", output=given)
        assert result.object_state == "fits"
    with pytest.raises(TypeError, match="only the latter"):
        scripted().stream("hi", output=City, structured_output=City)


async def test_the_keys_of_the_call_win_over_those_of_the_agent_and_a_schema_is_one_value():
    defaults: Any = {"structured_output": {"schema": SCHEMA, "error_strategy": "warn"}}
    agent = Agent(id="a", model=ScriptedModel(["no"] * 3 + ['{"count":1}']), default_options=defaults)
    assert (await agent.generate("hi")).object_state == "none"
    with pytest.raises(OutputInvalid):
        await agent.generate("hi", structured_output={"error_strategy": "strict"})
    with pytest.raises(OutputInvalid):
        await agent.generate("hi", structured_output=City)
    other = {"schema": {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}}
    assert (await agent.generate("hi", structured_output=other)).object == {"count": 1}


# -- how the model is asked ------------------------------------------------------------------------


@pytest.mark.parametrize("injection", [True, "system"])
async def test_the_schema_in_the_system_message(injection):
    async with FakeProvider([Reply(f"Sure:\n```json\n{ROME}\n```")]) as provider:
        agent = agent_on(provider, instructions="Be brief.")
        result = await agent.generate("hi", structured_output={"schema": City, "json_prompt_injection": injection})
        body = provider.requests[0].body
    assert result.object == City(name="Rome")
    assert "response_format" not in body
    assert [each["role"] for each in body["messages"]] == ["system", "system", "user"]
    assert '"people"' in body["messages"][1]["content"]


async def test_the_schema_in_the_last_user_message_on_every_step():
    model = ScriptedModel([Call("look"), ROME], structured="prompt")
    agent = Agent(id="a", model=model, tools=[look])
    wanted: Any = {"schema": City, "json_prompt_injection": "auto"}
    result = await agent.generate(
        [{"role": "user", "content": "old"}, {"role": "user", "content": "new"}], structured_output=wanted
    )
    assert result.object == City(name="Rome")
    for request in model.requests:
        users = [str(each["content"]) for each in request.messages if each["role"] == "user"]
        assert "JSON Schema" not in users[0]
        assert "JSON Schema" in users[-1]
    assert [each["role"] for each in model.requests[1].messages][-2:] == ["assistant", "tool"]


async def test_auto_is_native_where_it_can_be_and_instructions_stand_in_for_the_schema():
    model = ScriptedModel([ROME])
    wanted: Any = {"schema": City, "json_prompt_injection": "auto"}
    await Agent(id="a", model=model).generate("hi", structured_output=wanted)
    assert model.requests[0].response_format.name == "City"
    model = ScriptedModel([ROME], structured="prompt")
    await Agent(id="a", model=model).generate("hi", structured_output={"schema": City, "instructions": "Name first."})
    assert model.requests[0].messages[0] == {"role": "system", "content": "Name first."}


async def test_a_model_that_says_nothing_of_itself_is_asked_in_the_prompt():
    class Own:
        provider, model_id = "own", "m"

        def __init__(self):
            self.inner = ScriptedModel([ROME])

        def stream(self, request):
            assert request.response_format is None
            return self.inner.stream(request)

    own = Own()
    result = await Agent(id="a", model=own).generate("hi", structured_output=City)
    assert result.object == City(name="Rome")
    assert "JSON Schema" in own.inner.requests[0].messages[0]["content"]


@pytest.mark.parametrize(
    ("support", "tools", "mode"),
    [
        ("native-alone", [], "format"),
        ("native-alone", [look], "tool"),
        ("tool", [], "tool"),
        ("native", [look], "format"),
    ],
)
async def test_the_way_that_suits_the_model(support, tools, mode):
    answer = ROME if mode == "format" else [Call("final_answer", {"name": "Rome"})]
    model = ScriptedModel([answer], structured=support)
    result = await Agent(id="a", model=model, tools=tools).generate("hi", structured_output=City)
    [request] = model.requests
    assert (request.response_format is not None) is (mode == "format")
    assert ("final_answer" in request.tool_names) is (mode == "tool")
    assert set(request.tool_names) >= {each.id for each in tools}
    assert (result.object, result.finish_reason, result.tool_calls) == (City(name="Rome"), "stop", ())


async def test_a_tool_of_that_name_keeps_it():
    @tool(effects="none")
    async def final_answer() -> str:
        return "mine"

    model = ScriptedModel([[Call("final_answer")], [Call("final_answer_", {"name": "Rome"})]], structured="tool")
    result = await Agent(id="a", model=model, tools=[final_answer]).generate("hi", structured_output=City)
    assert (result.object, [each.payload.tool_name for each in result.tool_calls]) == (
        City(name="Rome"),
        ["final_answer"],
    )


async def test_an_answer_beside_other_calls_is_not_the_last_word():
    both_calls = [Call("look", {}, "c1"), Call("final_answer", {"name": "Oslo"}, "c2")]
    agent = scripted(both_calls, [Call("final_answer", {"name": "Rome"})], tools=[look], structured="tool")
    result = await agent.generate("hi", structured_output=City)
    assert (len(result.steps), result.object) == (2, City(name="Rome"))


@both
async def test_only_the_final_step_is_read(verb):
    script = [Reply("Let me look {first}.", calls=[Call("look")]), Reply(ROME)]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent_on(provider, [look]), structured_output=City)
        assert all("response_format" in request.body for request in provider.requests)
    assert ran.result.object == City(name="Rome")
    assert len(ran.of("object-result")) == 1


# -- what a reader sees ----------------------------------------------------------------------------


async def test_partial_objects_elements_and_the_text_of_a_list():
    cities = '{"elements":[{"name":"Rome","people":1},{"name":"Oslo","people":2},{"name":"Bern"}]}'
    stream = await scripted(Reply(cities, chunk_size=3)).stream("hi", structured_output=list[City])
    partials = [each async for each in stream.object_stream]
    assert partials[0] == []
    assert partials[-1] == [{"name": "Rome", "people": 1}, {"name": "Oslo", "people": 2}, {"name": "Bern"}]
    assert [each async for each in stream.element_stream] == partials[-1]
    text = "".join([each async for each in stream.text_stream])
    assert text == await stream.text == cities.removeprefix('{"elements":').removesuffix("}")
    assert await stream.object == [City(name="Rome", people=1), City(name="Oslo", people=2), City(name="Bern")]


async def test_elements_come_while_the_answer_is_written():
    gate = Gate()
    text = '{"elements":[{"name":"Rome"},{"name":"Oslo"},{"name":"B'
    agent = scripted(Reply(text + 'ern"}]}', chunk_size=len(text), gate=gate))
    stream = await agent.stream("hi", structured_output=list[City])
    elements = stream.element_stream
    gate.release()
    assert [await anext(elements), await anext(elements)] == [{"name": "Rome"}, {"name": "Oslo"}]
    assert stream.status == "running"
    gate.open()
    assert [each async for each in elements] == [{"name": "Bern"}]


def test_the_sync_twins_have_it_too():
    output = scripted(ROME).stream_sync("hi", structured_output=City)
    assert list(output.object_stream)[-1] == {"name": "Rome", "people": 3}
    assert output.object == City(name="Rome")
    listed = scripted('{"elements":[1,2]}').stream_sync("hi", structured_output=list[int])
    assert list(listed.element_stream) == [1, 2]
    assert scripted(ROME).generate_sync("hi", structured_output=City).object == City(name="Rome")


async def test_without_it_there_is_no_object():
    stream = await scripted("hello").stream("hi")
    assert [each async for each in stream.object_stream] == []
    with pytest.raises(OutputInvalid, match="none was asked for"):
        await stream.object
    assert (await stream.get_full_output()).object_or_none is None


# -- failures --------------------------------------------------------------------------------------


@both
async def test_strict_fails_the_run_and_tells_everybody(verb):
    told: list[Any] = []
    ran = await run(
        verb, scripted('{"people":"many"}'), structured_output=City, on_error=told.append, on_finish=told.append
    )
    assert ran.types[-3:] == ["error", "step-finish", "finish"]
    assert isinstance(ran.error, OutputInvalid)
    assert told == [ran.error]
    assert {issue.path for issue in ran.error.issues} == {("name",), ("people",)}
    assert (ran.result.finish_reason, ran.result.text, ran.result.object_state) == (
        "error",
        '{"people":"many"}',
        "none",
    )
    with pytest.raises(OutputInvalid) as caught:
        _ = ran.result.object
    assert caught.value is ran.error


@both
@pytest.mark.parametrize("answer", ["no", '{"people":1}', "", '{"name":"Ro'])
async def test_warn_logs_and_leaves_the_object_out(verb, answer, caplog):
    own = logging.getLogger("mine")
    wanted: Any = StructuredOutput(City, error_strategy="warn", logger=own)
    ran = await run(verb, scripted(answer), structured_output=wanted)
    assert (ran.error, ran.result.object_or_none, ran.result.finish_reason) == (None, None, "stop")
    assert [record.name for record in caplog.records] == ["mine"]
    assert ran.types[-1] == "finish"


@both
async def test_fallback_stands_for_the_object(verb):
    wanted = StructuredOutput(City, error_strategy="fallback", fallback_value=City(name="?"))
    ran = await run(verb, scripted("no"), structured_output=wanted)
    assert (ran.result.object, ran.result.used_fallback_value) == (City(name="?"), True)
    [shown] = ran.of("object-result")
    assert (shown.object, shown.metadata) == ({"name": "?", "people": 3}, {"fallback": True})


async def test_elements_of_a_fallback_do_not_follow_others():
    wanted = StructuredOutput(list[int], error_strategy="fallback", fallback_value=[7, 8])
    stream = await scripted(Reply('{"elements":[1,2,"x"]}', chunk_size=1)).stream("hi", structured_output=wanted)
    assert [each async for each in stream.element_stream] == [1, 2]
    stream = await scripted("nothing").stream("hi", structured_output=wanted)
    assert [each async for each in stream.element_stream] == [7, 8]


@both
@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_a_whole_object_that_was_cut_off_is_no_object(verb, reason):
    ran = await run(verb, scripted(Reply(ROME, finish=reason)), structured_output=City)
    assert ran.error.id == "STRUCTURED_OUTPUT_TRUNCATED"


@both
async def test_a_refusal_is_an_error_of_its_own(verb):
    async with FakeProvider([Reply(refusal="I cannot help with that.")]) as provider:
        ran = await run(verb, agent_on(provider), structured_output=City)
    assert (ran.error.id, ran.error.text) == ("STRUCTURED_OUTPUT_REFUSED", "I cannot help with that.")
    assert "refused to answer: 'I cannot help with that.'" in str(ran.error)


async def test_raw_parts_of_text_are_one_answer():
    async with FakeProvider([raw({"content": '{"name":'}, {"content": '"Rome"}'})]) as provider:
        assert (await agent_on(provider).generate("hi", structured_output=City)).object == City(name="Rome")


# -- another model ---------------------------------------------------------------------------------


def separate(*answers: Any, **more: Any) -> dict[str, Any]:
    return {"schema": City, "model": ScriptedModel(list(answers)), **more}


@both
async def test_another_model_turns_the_work_into_data(verb):
    other = ScriptedModel([Reply(ROME, usage=Usage(7, 3))])
    main = ScriptedModel([Call("look"), Reply("It is Rome.", usage=Usage(10, 5))])
    agent = Agent(id="a", model=main, tools=[look])
    wanted = {"schema": City, "model": other, "provider_options": {"scripted": {"effort": "low"}}}
    ran = await run(verb, agent, structured_output=wanted)
    assert ran.result.object == City(name="Rome")
    assert (ran.result.text, ran.text) == ("It is Rome.", "It is Rome.")
    assert {chunk.metadata["from"] for chunk in [*ran.of("object"), *ran.of("object-result")]} == {"structured-output"}
    assert ran.result.usage.total_tokens == 15 + 15 + 10  # the call's, the answer's, the other model's
    assert ran.chunks[-1].payload.output.usage.total_tokens == 40
    [question] = other.requests
    assert question.provider_options == {"scripted": {"effort": "low"}}
    assert "Called look" in question.last
    assert "seen" in question.last
    assert "# Answer\nIt is Rome." in question.last
    assert all(request.response_format is None for request in main.requests)
    assert '"people"' in main.requests[0].messages[0]["content"]  # it is told what will be asked for


async def test_instructions_are_those_of_the_other_model():
    wanted = separate(ROME, instructions="You name cities.")
    await scripted("Rome").generate("hi", structured_output=wanted)
    assert wanted["model"].requests[0].messages[0] == {"role": "system", "content": "You name cities."}


@both
@pytest.mark.parametrize("failing", [ModelError("down"), ValueError("odd"), "nothing"])
async def test_a_failure_of_the_other_model_goes_by_the_strategy(verb, failing, caplog):
    ran = await run(verb, scripted("Rome"), structured_output=separate(failing))
    assert isinstance(ran.error, ModelError | OutputInvalid)
    assert ran.result.text == "Rome"
    warned = await run(verb, scripted("Rome"), structured_output=separate(failing, error_strategy="warn"))
    assert (warned.error, warned.result.object_or_none) == (None, None)
    assert len(caplog.records) == 1
    instead = separate(failing, error_strategy="fallback", fallback_value={"name": "?"})
    fallen = await run(verb, scripted("Rome"), structured_output=instead)
    assert (fallen.result.object, fallen.result.used_fallback_value) == (City(name="?"), True)


async def test_an_abort_ends_the_question_to_the_other_model():
    controller = AbortController()
    wanted = separate(Reply(ROME, hang_after=1))
    agent = scripted("Rome")
    stream = await agent.stream("hi", structured_output=wanted, abort_signal=controller.signal)
    async for _ in stream.object_stream:
        controller.abort()
    result = await stream.get_full_output()
    assert (result.finish_reason, result.text, result.object_state) == ("aborted", "Rome", "none")


async def test_a_wrong_name_of_the_other_model_fails_before_the_first_call():
    model = ScriptedModel()
    with pytest.raises(ConfigurationError, match="nowhere"):
        await Agent(id="a", model=model).generate("hi", structured_output={"schema": City, "model": "nowhere/m"})
    assert model.requests == []


async def test_a_refusal_is_not_turned_into_data():
    async with FakeProvider([Reply(refusal="No.")]) as provider:
        with pytest.raises(OutputInvalid) as caught:
            await agent_on(provider).generate("hi", structured_output=separate())
    assert caught.value.id == "STRUCTURED_OUTPUT_REFUSED"


async def test_many_runs_share_one_structured_output():
    wanted = StructuredOutput(City)
    agent = Agent(id="a", model=ScriptedModel(ROME))
    results = await asyncio.gather(*(agent.generate("hi", structured_output=wanted) for _ in range(5)))
    assert [result.object for result in results] == [City(name="Rome")] * 5
