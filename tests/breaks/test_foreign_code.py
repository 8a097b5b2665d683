"""What users' functions may raise without ending a run, or hanging whoever waits for it."""

from __future__ import annotations

import asyncio
import threading

import pydantic
import pytest

from tenuto import Agent, tool
from tenuto.core.foreign import Escaped, contained
from tenuto.errors import TenutoError
from tenuto.store import SQLiteStore
from tenuto.testing import Call, ScriptedModel
from tests.agent.kit import both, run


class Mute(Exception):
    """Its text cannot be had."""

    def __str__(self):
        raise ValueError("no text")


class Outcome(BaseException):
    """As the exceptions of `pytest.fail` and `pytest.skip`: no `Exception`."""


class Broken(pydantic.BaseModel):
    x: int = 1

    @pydantic.field_serializer("x")
    def written(self, _value):
        raise KeyError("x")


class Unreadable(dict[str, int]):
    def __getattribute__(self, name):
        if name == "items":
            raise LookupError(name)
        return super().__getattribute__(name)


def agent(script, *tools, **more):
    return Agent(id="a", model=ScriptedModel(script), tools=tools, **more)


# -- tools -------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_tool_whose_exception_has_no_text(verb, is_async):
    async def asynchronous() -> None:
        raise Mute

    def synchronous() -> None:
        raise Mute

    made = tool(id="t", effects="none")(asynchronous if is_async else synchronous)
    ran = await run(verb, agent([Call("t"), "done"], made))
    assert (ran.result.finish_reason, ran.result.text) == ("stop", "done")
    assert ran.result.tool_results[0].payload.result == "Mute"


async def test_a_text_of_an_exception_that_no_store_can_hold(tmp_path):
    @tool(effects="none")
    async def t() -> None:
        raise ValueError("a\ud800")

    store = SQLiteStore(tmp_path / "a.db")
    result = await agent([Call("t"), "done"], t, store=store).generate("x")
    await store.aclose()
    assert result.text == "done"


@both
@pytest.mark.parametrize("value", [Broken(), {"deep": [Broken()]}, [Unreadable(a=object())]], ids=str)
async def test_a_result_that_raises_when_it_is_read(verb, value):
    @tool(effects="none")
    async def t() -> object:
        return value

    ran = await run(verb, agent([Call("t"), "done"], t))
    assert (ran.result.finish_reason, ran.result.text) == ("stop", "done")
    assert "cannot be written as JSON" in ran.result.tool_results[0].payload.result


@both
@pytest.mark.parametrize("number", ["1e999", "-1e400", "9" * 5000])
async def test_a_number_that_no_float_holds(verb, number):
    @tool(effects="none")
    async def t(x: float) -> float:
        return x

    model = ScriptedModel([Call("t", f'{{"x": {number}}}'), "done"])
    ran = await run(verb, Agent(id="a", model=model, tools=[t]))
    assert (ran.result.finish_reason, ran.result.text) == ("stop", "done")
    assert "not valid JSON" in model.requests[1].last


# -- callbacks and other functions -------------------------------------------------------------------------------


def raising(error, *, is_async):
    async def asynchronous(_):
        raise error

    def synchronous(_):
        raise error

    return asynchronous if is_async else synchronous


ERRORS = [asyncio.CancelledError(), Outcome("x"), Mute()]


def named(error):
    return type(error).__name__


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("error", ERRORS, ids=named)
@pytest.mark.parametrize("name", ["on_chunk", "on_step_finish", "on_finish"])
async def test_a_callback_never_ends_the_run(name, error, is_async):
    async with asyncio.timeout(5):
        result = await agent("done").generate("x", **{name: raising(error, is_async=is_async)})
    assert (result.finish_reason, result.text) == ("stop", "done")


async def test_a_callback_that_awaits_a_cancelled_task():
    async def waits(_chunk):
        task = asyncio.ensure_future(asyncio.Event().wait())
        await asyncio.sleep(0)
        task.cancel()
        await task

    stream = await agent("done").stream("x", on_chunk=waits)
    assert await stream.text == "done"


async def test_the_cancellation_of_the_task_itself_passes():
    async def waits():
        with contained():
            await asyncio.Event().wait()

    task = asyncio.ensure_future(waits())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Fails:
    """Dependencies that fail when they are opened, or closed."""

    def __init__(self, error, *, at):
        self.error = error
        self.at = at

    async def __aenter__(self):
        if self.at == "enter":
            raise self.error
        return self

    async def __aexit__(self, *_exc):
        raise self.error


@pytest.mark.parametrize("error", ERRORS, ids=named)
@pytest.mark.parametrize("name", ["instructions", "model", "tools", "deps"])
async def test_a_function_of_the_definition_fails_the_run(name, error):
    given = {"id": "a", "model": ScriptedModel("x"), name: raising(error, is_async=False)}
    async with asyncio.timeout(5):
        with pytest.raises(TenutoError, match="Preparing the run failed"):
            await Agent(**given).generate("x")


@pytest.mark.parametrize("error", ERRORS, ids=named)
async def test_dependencies_that_cannot_be_opened(error):
    async with asyncio.timeout(5):
        with pytest.raises(TenutoError, match="Preparing the run failed"):
            await agent("x", deps=lambda _: Fails(error, at="enter")).generate("x")


@pytest.mark.parametrize("error", ERRORS, ids=named)
async def test_dependencies_that_cannot_be_closed(error):
    result = await agent("x", deps=lambda _: Fails(error, at="exit")).generate("x")
    assert result.finish_reason == "stop"


@pytest.mark.parametrize("error", ERRORS, ids=named)
async def test_a_stop_condition_that_fails_stops(error):
    @tool(effects="none")
    async def t() -> str:
        return "x"

    result = await agent([Call("t"), "never"], t).generate("x", stop_when=raising(error, is_async=False), max_steps=3)
    assert (result.finish_reason, len(result.steps)) == ("tool-calls", 1)


@both
@pytest.mark.parametrize("error", [asyncio.CancelledError(), Outcome("x")], ids=named)
async def test_a_model_that_raises_no_exception(verb, error):
    async def model(_request):
        raise error

    async with asyncio.timeout(5):
        ran = await run(verb, agent(model))
    assert (ran.result.finish_reason, ran.error.id) == ("error", "AGENT_STREAM_ERROR")


async def test_what_is_contained_has_its_cause():
    with pytest.raises(Escaped, match="Outcome: x") as raised, contained():
        raise Outcome("x")
    assert isinstance(raised.value.__cause__, Outcome)


# -- the end of the process ----------------------------------------------------------------------------------------


def leaves(error, *, is_async):
    async def asynchronous() -> None:
        raise error

    def synchronous() -> None:
        raise error

    return tool(id="t", effects="none")(asynchronous if is_async else synchronous)


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=named)
def test_a_tool_that_ends_the_process_does_not_hang_the_sync_twins(error, is_async, calls):
    leaving = agent([[Call("t")] * calls, "never"], leaves(error, is_async=is_async))
    with pytest.raises(type(error)):
        leaving.generate_sync("x")
    assert agent("fine").generate_sync("x").text == "fine"


def test_a_tool_that_ends_the_process_leaves_other_threads_alone():
    entered, go, texts = threading.Event(), threading.Event(), []

    @tool(effects="none")
    def wait() -> str:
        entered.set()
        go.wait(5)
        return "waited"

    other = threading.Thread(target=lambda: texts.append(agent([Call("wait"), "fine"], wait).generate_sync("x").text))
    other.start()
    entered.wait(5)
    with pytest.raises(SystemExit):
        agent([Call("t")], leaves(SystemExit(3), is_async=True)).generate_sync("x")
    go.set()
    other.join(5)
    assert texts == ["fine"]


def test_a_reader_of_the_sync_twins_hears_of_it():
    output = agent([Call("t")], leaves(SystemExit(3), is_async=False)).stream_sync("x")
    with pytest.raises(SystemExit):
        _ = output.text
