"""Mistakes of the first hour: each is named with its remedy, none is silent."""

import logging

import pytest

from tenuto import Agent, Tenuto, tool
from tenuto.errors import ConfigurationError
from tenuto.testing import Call, ScriptedModel


@tool
def pay(amount: int) -> str:
    """Pay."""
    raise KeyError(amount)


async def test_whoever_wrote_a_tool_sees_its_traceback(caplog):
    agent = Agent(name="clerk", model=ScriptedModel([Call("pay", {"amount": 5}), "done"]), tools=[pay])
    with caplog.at_level(logging.WARNING, "tenuto"):
        assert (await agent.generate("pay")).text == "done"
    (record,) = [each for each in caplog.records if "raised" in each.message]
    assert "'pay'" in record.message
    assert record.exc_info[0] is KeyError


def test_a_tool_is_no_list_of_tools():
    with pytest.raises(ConfigurationError, match=r"tools=\[pay\]"):
        Agent(name="clerk", model=ScriptedModel(), tools=pay)


def test_what_an_app_takes():
    agent = Agent(name="clerk", model=ScriptedModel())
    with pytest.raises(ConfigurationError, match="agents="):
        Tenuto(agents=[agent])
    with pytest.raises(ConfigurationError, match="SQLiteStore"):
        Tenuto(agents={"clerk": agent}, store="runs.db")


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ({"temperature": 0}, r"model_settings=\{'temperature': ...\}"),
        ({"max_tokens": 10}, r"model_settings=\{'max_output_tokens': ...\}"),
        ({"maxOutputTokens": 10}, r"model_settings=\{'max_output_tokens': ...\}"),
        ({"timeout": 3}, r"model_settings=\{'timeout': \{...\}\}"),
        ({"max_retries": 3}, r"model_settings=\{'max_retries': ...\}"),
        ({"response_format": int}, "structured_output="),
        ({"system_prompt": "Be brief."}, "instructions="),
        ({"max_turns": 3}, "max_steps="),
        ({"tools": []}, r"Agent\(tools=\[...\]\).*toolsets="),
        ({"message_history": []}, r"\[\*result.messages"),
        ({"max_step": 3}, "did you mean 'max_steps'"),
    ],
)
def test_an_option_known_from_elsewhere_is_told_its_place(given, remedy):
    with pytest.raises(TypeError, match=remedy):
        Agent(name="clerk", model=ScriptedModel()).generate_sync("Hi", **given)


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ({"instruction": "Be brief."}, "did you mean 'instructions'"),
        ({"system_prompt": "Be brief."}, "instructions="),
        ({"output_type": int}, r"default_options=\{'structured_output': ...\}"),
        ({"max_steps": 3}, r"default_options=\{'max_steps': ...\}"),
        ({"temperature": 0}, r"default_options=\{'model_settings': \{'temperature': ...\}\}"),
        ({"qqq": 0}, "known: id, name, .*max_retries"),
    ],
)
def test_what_is_no_argument_of_an_agent_is_told_its_place(given, remedy):
    with pytest.raises(TypeError, match=remedy):
        Agent(name="clerk", model=ScriptedModel(), **given)


def test_an_agent_without_a_model():
    with pytest.raises(TypeError, match="model="):
        Agent(name="clerk", llm="openai/gpt-5-mini")
    with pytest.raises(ConfigurationError, match="needs model="):
        Agent(name="clerk")


async def test_a_stream_that_nobody_awaited():
    agent = Agent(name="clerk", model=ScriptedModel("Hi"))
    with pytest.raises(TypeError, match=r"await agent.stream"):
        async for _ in agent.stream("Hi"):
            pass
    with pytest.raises(AttributeError, match=r"await agent.stream"):
        _ = agent.stream("Hi").full_stream
    with pytest.raises(AttributeError, match="no attribute 'ful_stream'"):
        _ = agent.stream("Hi").ful_stream
    output = await agent.stream("Hi")
    assert "await it" in repr(output.text)
    assert await output.text == "Hi"


@pytest.mark.parametrize(("key", "meant"), [("model", "id"), ("base_url", "url"), ("apikey", "api_key")])
def test_a_key_that_no_model_record_has(key, meant):
    agent = Agent(name="clerk", model={"id": "mine/model", key: "x"})
    with pytest.raises(ConfigurationError, match=f"did you mean '{meant}'"):
        agent.generate_sync("Hi")
