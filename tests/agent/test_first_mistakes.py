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
