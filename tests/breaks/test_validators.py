"""Validators and serialisers of users' types that raise: no abort of the run, nor its end, nor that of its task."""

from __future__ import annotations

import asyncio
from typing import Annotated

import pydantic
import pytest

from tenuto import Agent, create_tool
from tenuto.errors import OutputInvalid
from tenuto.testing import Call, ScriptedModel
from tests.agent.kit import both, run


class Outcome(BaseException):
    """As the exceptions of `pytest.fail` and `pytest.skip`."""


def strict(error):
    def checked(_value):
        raise error

    class Strict(pydantic.BaseModel):
        a: Annotated[int, pydantic.AfterValidator(checked)]

    return Strict


ERRORS = [asyncio.CancelledError(), Outcome("x"), KeyError("x")]


def named(error):
    return type(error).__name__


@both
@pytest.mark.parametrize("error", ERRORS, ids=named)
async def test_of_an_answer(verb, error):
    ran = await run(verb, Agent(id="a", model=ScriptedModel('{"a":1}')), structured_output=strict(error))
    assert isinstance(ran.error, OutputInvalid)
    assert ran.result.finish_reason == "error"


@both
@pytest.mark.parametrize("error", ERRORS, ids=named)
async def test_of_arguments(verb, error):
    made = create_tool(id="t", input_schema=strict(error), effects="none", execute=lambda _: 1)
    ran = await run(verb, Agent(id="a", model=ScriptedModel([Call("t", {"a": 1}), "done"]), tools=[made]))
    assert (ran.result.finish_reason, ran.result.text) == ("stop", "done")
    assert type(error).__name__ in ran.result.tool_results[0].payload.result["message"]


@pytest.mark.parametrize("error", ERRORS, ids=named)
async def test_of_a_result(error):
    made = create_tool(id="t", output_schema=strict(error), effects="none", execute=lambda _: {"a": 1})
    ran = await run("stream", Agent(id="a", model=ScriptedModel([Call("t", {}), "done"]), tools=[made]))
    assert (ran.result.finish_reason, ran.result.text) == ("stop", "done")
    assert type(error).__name__ in str(ran.result.tool_results[0].payload.result)


class Broken(pydantic.BaseModel):
    a: int

    @pydantic.field_serializer("a")
    def written(self, _value):
        raise KeyError("a")


async def test_of_a_result_that_cannot_be_written():
    made = create_tool(id="t", output_schema=Broken, effects="none", execute=lambda _: {"a": 1})
    ran = await run("stream", Agent(id="a", model=ScriptedModel([Call("t", {}), "done"]), tools=[made]))
    assert (ran.result.finish_reason, ran.result.text) == ("stop", "done")
    assert "KeyError" in str(ran.result.tool_results[0].payload.result)
