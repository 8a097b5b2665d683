"""Mistakes of the first hour: each is named with its remedy, none is silent."""

import logging

import pytest

from tenuto import Agent, Tenuto, create_tool, tool
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


@pytest.mark.parametrize("key", ["parameters", "inputSchema", "schema"])
def test_the_schema_of_a_tool_under_another_name(key):
    with pytest.raises(TypeError, match="did you mean 'input_schema'"):
        create_tool(id="pay", **{key: {"type": "object"}})
    with pytest.raises(TypeError, match=r"input_schema= is one of create_tool\(\)"):
        tool(**{key: {"type": "object"}})


def test_a_tool_of_what_cannot_be_called():
    with pytest.raises(ConfigurationError, match="execute= takes a function, not str"):
        create_tool(id="pay", execute="pay")
    with pytest.raises(ConfigurationError, match="effects= takes 'none', 'idempotent', 'once', not 'read'"):
        tool(effects="read")(pay.fn)


def test_properties_that_were_given_as_a_schema():
    """They are a valid JSON Schema that demands nothing, so a model would be held to nothing."""
    names = {"city": {"type": "string"}}
    with pytest.raises(ConfigurationError, match=r"'city' is no keyword .*'properties'"):
        create_tool(id="weather", input_schema=names)
    with pytest.raises(ConfigurationError, match=r"'city' is no keyword .*'properties'"):
        Agent(name="clerk", model=ScriptedModel("{}")).generate_sync("Hi", structured_output={"schema": names})
    create_tool(id="weather", input_schema={"properties": names})


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}, '"type": "image"'),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "c"}]}, '"type": "tool-call"'),
        ({"role": "tool", "tool_call_id": "c", "content": "paid"}, '"type": "tool-result", "tool_call_id"'),
    ],
)
def test_messages_in_the_form_of_a_vendor(message, remedy):
    with pytest.raises(ConfigurationError, match=remedy):
        Agent(name="clerk", model=ScriptedModel("Hi")).generate_sync([message])
