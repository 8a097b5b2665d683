"""One question to one model."""

import asyncio

import pytest
from pydantic import BaseModel

from tenuto import AbortController
from tenuto.core.payloads import TextDeltaPayload, TextEndPayload, TextStartPayload
from tenuto.core.payloads import Usage as Tokens
from tenuto.errors import ModelError, OutputInvalid
from tenuto.models.ports import Finish, ModelSettings
from tenuto.structured.ask import ask
from tenuto.testing import Batches, Call, Gate, Reply, ScriptedModel


class City(BaseModel):
    name: str


ROME = '{"name":"Rome"}'


async def test_a_question_is_one_request_with_what_was_given():
    model = ScriptedModel([ROME])
    asked = await ask(
        model,
        City,
        "Which?",
        instructions="Be exact.",
        settings=ModelSettings(temperature=0),
        provider_options={"scripted": {"a": 1}},
    )
    assert asked == City(name="Rome")
    [request] = model.requests
    assert [each["content"] for each in request.messages] == ["Be exact.", "Which?"]
    assert (request.settings.temperature, request.provider_options) == (0, {"scripted": {"a": 1}})
    assert request.response_format.name == "City"


async def test_instructions_do_not_stand_in_for_the_schema():
    model = ScriptedModel([ROME], structured="prompt")
    await ask(model, City, "Which?", instructions="Be exact.")
    said = [each["content"] for each in model.requests[0].messages]
    assert said[0] == "Be exact."
    assert "JSON Schema" in said[1]


async def test_text_is_asked_for_as_text():
    model = ScriptedModel(["A title"])
    assert await ask(model, str, "Name it.") == "A title"
    assert model.requests[0].response_format is None


async def test_by_tool():
    model = ScriptedModel([[Call("final_answer", {"name": "Rome"})]], structured="tool")
    assert await ask(model, City, "Which?") == City(name="Rome")


@pytest.mark.parametrize(
    ("answer", "error", "id"),
    [
        ("no", OutputInvalid, "STRUCTURED_OUTPUT_SCHEMA_VALIDATION_FAILED"),
        (Reply(ROME, finish="length"), OutputInvalid, "STRUCTURED_OUTPUT_TRUNCATED"),
        (Reply(ROME, finish=""), ModelError, "MODEL_STREAM_CUT"),
        (Reply(ROME, finish="error"), ModelError, "MODEL_STREAM_CUT"),
        (ValueError("odd"), ModelError, "AGENT_STREAM_ERROR"),
    ],
)
async def test_what_is_no_answer_is_an_error(answer, error, id):
    with pytest.raises(error) as caught:
        await ask(ScriptedModel([answer]), City, "Which?")
    assert caught.value.id == id


async def test_an_abort_ends_it():
    gate, controller = Gate(), AbortController()
    question = asyncio.ensure_future(
        ask(ScriptedModel([Reply(ROME, gate=gate)]), City, "Which?", abort=controller.signal)
    )
    await asyncio.sleep(0)
    controller.abort()
    gate.open()
    with pytest.raises(ModelError) as caught:
        await question
    assert caught.value.id == "MODEL_CALL_ABORTED"


async def test_json_over_several_text_parts_is_one_answer():
    parts = [
        TextStartPayload("a"), TextDeltaPayload("a", '{"na'), TextEndPayload("a"),
        TextStartPayload("b"), TextDeltaPayload("b", 'me":"Rome"}'), TextEndPayload("b"),
        Finish("stop", Tokens()),
    ]  # fmt: skip
    assert await ask(ScriptedModel([Batches([parts])]), City, "Which?") == City(name="Rome")
