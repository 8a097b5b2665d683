"""The real engine and the real weights, which are pulled if need be."""

import asyncio
import os
import subprocess
import sys
import time
from contextlib import aclosing
from typing import Literal

import pytest
from pydantic import BaseModel

from tenuto import AbortController, Agent, tool
from tenuto.core.errors import ModelError, TenutoError
from tenuto.core.payloads import TextDeltaPayload, ToolCallPayload
from tenuto.messages.turns import Prompt, SystemTurn, Text, UserTurn
from tenuto.models.local import local_model, pull
from tenuto.models.local.engine import Completion, close_engines, engine_for
from tenuto.models.local.generation import generate
from tenuto.models.ports import Finish, ModelRequest, ModelSettings, NamedTool, ToolSpec
from tests.models.local.kit import WEATHER, asked, parts_of

pytestmark = pytest.mark.local_model


@pytest.fixture(scope="session")
def weights():
    try:
        return pull("smollm2")
    except TenutoError as error:
        pytest.fail(f"the weights of local/smollm2 cannot be had: {error}")


@pytest.fixture
def smollm2(weights):
    return local_model("smollm2")


def text_of(parts):
    return "".join(part.text for part in parts if isinstance(part, TextDeltaPayload))


async def test_it_knows_the_capital_of_france_and_counts_tokens(smollm2):
    parts = await parts_of(smollm2, asked("What is the capital of France?"))
    assert "Paris" in text_of(parts)
    assert len([part for part in parts if isinstance(part, TextDeltaPayload)]) > 3
    assert isinstance(parts[-1], Finish)
    assert parts[-1].reason == "stop"
    assert parts[-1].usage.output_tokens > 3


async def test_the_same_question_has_the_same_answer(smollm2):
    answers = {text_of(await parts_of(smollm2, asked("Tell me a joke.", settings=ModelSettings(max_output_tokens=12))))
               for _ in range(2)}  # fmt: skip
    assert len(answers) == 1


async def test_a_forced_call_follows_the_schema(smollm2):
    parts = await parts_of(smollm2, asked("Is it raining in London?", tools=(WEATHER,), tool_choice="required"))
    [call] = [part for part in parts if isinstance(part, ToolCallPayload)]
    assert call.args == {"city": "London"}


AWKWARD = {
    "type": "object",
    "title": "Awkward",
    "properties": {
        "amount": {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"}]},
        "when": {"type": "string", "format": "date"},
        "unit": {"$ref": "#/$defs/Unit"},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "uniqueItems": True, "maxItems": 2},
        "odd": {"type": "string", "format": "no-such-format", "maxLength": 8},
    },
    "required": ["amount", "when", "unit", "tags", "odd"],
    "$defs": {"Unit": {"enum": ["MB", "GB"], "title": "Unit", "type": "string"}},
}


async def test_keywords_the_grammar_does_not_know_do_not_switch_it_off(smollm2):
    tool_ = ToolSpec("store", "Store a value", AWKWARD)
    parts = await parts_of(smollm2, asked("Store 5 MB.", tools=(tool_, WEATHER), tool_choice=NamedTool("store")))
    [call] = [part for part in parts if isinstance(part, ToolCallPayload)]
    assert set(call.args) == set(AWKWARD["required"])
    assert call.args["unit"] in {"MB", "GB"}
    assert len(call.args["odd"]) <= 8


async def test_a_forced_call_cut_by_the_limit_is_an_error(smollm2):
    settings = ModelSettings(max_output_tokens=2)
    with pytest.raises(ModelError) as caught:
        await parts_of(smollm2, asked("Rome?", tools=(WEATHER,), tool_choice="required", settings=settings))
    assert caught.value.id == "MODEL_OUTPUT_CUT"


async def test_a_prompt_beyond_the_context_is_an_error_with_the_limit(weights):
    small = local_model("smollm2", context=256)
    with pytest.raises(ModelError, match="256") as caught:
        await parts_of(small, asked("word " * 600))
    assert caught.value.id == "MODEL_CONTEXT_EXCEEDED"


async def test_leaving_early_frees_the_engine_for_the_next_one(smollm2):
    async with aclosing(smollm2.stream(asked("Write a very long story."))) as stream:
        await anext(stream)
        await anext(stream)
    started = time.monotonic()
    await parts_of(smollm2, asked("Hi", settings=ModelSettings(max_output_tokens=1)))
    assert time.monotonic() - started < 8  # the story would have taken longer


async def test_the_loop_stays_free_while_the_model_writes(smollm2):
    await parts_of(smollm2, asked("Hi", settings=ModelSettings(max_output_tokens=1)))
    beats = 0

    async def beat():
        nonlocal beats
        while True:
            await asyncio.sleep(0)
            beats += 1

    beating = asyncio.ensure_future(beat())
    await parts_of(smollm2, asked("Count to five.", settings=ModelSettings(max_output_tokens=8)))
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)
    assert beats > 100


async def test_several_callers_are_answered_one_after_another(smollm2):
    question = asked("What is the capital of France?")
    answers = await asyncio.gather(*(parts_of(smollm2, question) for _ in range(3)))
    assert all("Paris" in text_of(answer) for answer in answers)


async def test_a_file_by_its_path_runs_through_its_own_template_too(weights):
    model = local_model(str(weights))
    assert "Paris" in text_of(await parts_of(model, asked("What is the capital of France?")))
    own = local_model(str(weights))
    own._profile = type(own._profile)(template="own")
    request = ModelRequest(
        prompt=Prompt(
            (SystemTurn("You are a helpful assistant."),), [UserTurn((Text("What is the capital of France?"),))]
        )
    )
    assert "Paris" in text_of(await parts_of(own, request))


async def test_an_engine_can_be_closed_and_is_loaded_again(smollm2):
    short = asked("Hi", settings=ModelSettings(max_output_tokens=1))
    await parts_of(smollm2, short)
    await asyncio.to_thread(close_engines)
    assert isinstance((await parts_of(smollm2, short))[-1], Finish)


@tool(effects="none")
def disk_usage(folder: Literal["docs", "src"]) -> str:
    """How much disk space a folder uses."""
    return f"The folder {folder} uses 4.27 MB of disk space."


def demo_agent(**options):
    brief = "You are a helpful assistant. Answer in one short sentence."
    return Agent(id="demo", instructions=brief, model="local/smollm2", tools=[disk_usage], **options)


async def test_an_agent_calls_the_tool_and_its_streamed_answer_has_the_figure(weights):
    question = "How much disk space does the folder src use?"
    async with demo_agent().stream(question, tool_choice="required", max_steps=3) as stream:
        pieces = [piece async for piece in stream.text_stream]
        result = await stream.get_full_output()
    assert result.tool_calls[0].payload.args == {"folder": "src"}
    assert "4.27" in result.text
    assert len(pieces) > 3
    assert len(result.steps) == 2
    assert result.finish_reason == "stop"


async def test_an_agent_is_aborted_in_the_middle_of_its_answer(weights):
    controller = AbortController()
    stream = await demo_agent().stream("Write a very long story.", tool_choice="none", abort_signal=controller.signal)
    async for _ in stream.text_stream:
        controller.abort()
    result = await stream.get_full_output()
    assert result.finish_reason == "aborted"
    assert result.text


FORK = """
import asyncio, os, sys
from tenuto.models.local import local_model
from tenuto.models.ports import ModelRequest, ModelSettings, Finish
from tenuto.messages.turns import Prompt, Text, UserTurn
request = ModelRequest(prompt=Prompt((), [UserTurn((Text("Hi"),))]), settings=ModelSettings(max_output_tokens=2))
model = local_model("smollm2")
async def ask():
    async for batch in model.stream(request):
        if isinstance(batch[-1], Finish): return batch[-1].reason
print(asyncio.run(ask()), flush=True)
if pid := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print("child", asyncio.run(ask()), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_loads_an_engine_of_its_own_and_exits(weights):
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.stdout.splitlines() == ["length", "child length"]
    assert run.returncode == 0
    assert run.stderr == ""  # the engine says nothing


BUSY = """
import asyncio
from tenuto.models.local import local_model
from tenuto.models.ports import ModelRequest
from tenuto.messages.turns import Prompt, Text, UserTurn
async def main():
    stream = local_model("smollm2").stream(ModelRequest(prompt=Prompt((), [UserTurn((Text("A long story."),))])))
    await anext(stream); await anext(stream)
    print("leaving", flush=True)
    await stream.aclose()
asyncio.run(main())
"""


@pytest.mark.slow
def test_a_process_that_ends_while_the_model_writes_ends_at_once(weights):
    run = subprocess.run([sys.executable, "-c", BUSY], capture_output=True, text=True, timeout=30, check=False)
    assert (run.stdout, run.stderr, run.returncode) == ("leaving\n", "", 0)


async def test_the_engines_port_refuses_strangers(weights):
    from urllib.error import HTTPError
    from urllib.request import urlopen

    engine = engine_for(weights, 4096)
    async with aclosing(generate(engine, Completion("Hi", {"max_tokens": 1}), None)) as chunks:
        async for _ in chunks:
            pass
    with pytest.raises(HTTPError) as caught:
        await asyncio.to_thread(urlopen, f"{engine._server.listening_address}/v1/models")
    assert caught.value.code == 401
    caught.value.close()


async def test_the_small_model_answers_with_data(smollm2):
    class City(BaseModel):
        name: str
        country: Literal["France", "Italy"]

    result = await Agent(id="a", model=smollm2).generate("What is the capital of France?", structured_output=City)
    assert result.object.name
    assert result.object.country in {"France", "Italy"}
