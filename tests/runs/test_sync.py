"""The sync twins: without a loop, beside one, in threads, and under Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from contextvars import ContextVar
from pathlib import Path

import pytest

from tenuto import Agent, tool
from tenuto.core.portal import Portal
from tenuto.errors import ConfigurationError, ModelError
from tenuto.store import InMemoryStore
from tenuto.testing import Call, FakeProvider, Gate, Reply, ScriptedModel

who: ContextVar[str] = ContextVar("who", default="nobody")


@tool(effects="none")
async def add(a: int = 1, b: int = 2) -> int:
    return a + b


def agent(script, *tools, **more):
    return Agent(id="a", model=ScriptedModel(script), tools=[add, *tools], **more)


def test_generate_sync():
    result = agent([Call("add"), "3"]).generate_sync("hi", max_steps=4)
    assert (result.text, result.finish_reason) == ("3", "stop")


def test_stream_sync():
    output = agent([Reply("Well.", calls=[Call("add")]), "It is 3."]).stream_sync("hi")
    chunks = list(output.full_stream)
    assert (chunks[0].type, chunks[-1].type) == ("start", "finish")
    assert list(output) == chunks
    assert "".join(output.text_stream) == "Well.It is 3."
    assert (output.text, output.finish_reason, output.status) == ("It is 3.", "stop", "success")
    result = output.get_full_output()
    assert result.run_id == output.run_id
    for name in ("tool_calls", "tool_results", "steps", "usage", "reasoning", "sources", "files"):
        assert getattr(output, name) == getattr(result, name)


def test_every_twin_has_the_arguments_of_its_other():
    import inspect

    for name in ("generate", "stream"):
        own = inspect.signature(getattr(Agent, name)).parameters
        twin = inspect.signature(getattr(Agent, f"{name}_sync")).parameters
        assert list(own) == list(twin)


def test_chunks_come_as_they_are_made():
    gate = Gate(permits=2)
    output = agent([Reply("Hello world", gate=gate)]).stream_sync("hi")
    texts = output.text_stream
    assert next(texts) == "Hell"
    gate.wait_blocked_sync()
    assert output.status == "running"
    gate.open()
    assert "".join(texts) == "o world"


def test_breaking_out_leaves_the_run_alone():
    output = agent("Hello world").stream_sync("hi")
    for _ in output:
        break
    assert output.text == "Hello world"


def test_abort():
    gate = Gate(permits=1)
    output = agent([Reply("Hello world", gate=gate)]).stream_sync("hi")
    gate.wait_blocked_sync()
    output.abort()
    assert (output.finish_reason, output.text) == ("aborted", "Hell")


def test_errors_come_through_with_their_result():
    with pytest.raises(ModelError, match="no") as caught:
        agent(ModelError("no")).generate_sync("hi")
    assert caught.value.result.finish_reason == "error"
    with pytest.raises(TypeError, match="max_steps"):
        agent("x").generate_sync("hi", max_step=1)
    with pytest.raises(ConfigurationError):
        agent("x").stream_sync([])
    output = agent(ModelError("no")).stream_sync("hi")
    assert [chunk.type for chunk in output][-1] == "finish"
    with pytest.raises(ModelError, match="no"):
        _ = output.text


async def test_beside_a_running_loop():
    assert agent([Call("add"), "3"]).generate_sync("hi").text == "3"
    assert "".join(agent("Hello").stream_sync("hi").text_stream) == "Hello"


async def test_in_a_thread_of_a_running_loop():
    results = await asyncio.gather(*[asyncio.to_thread(agent(f"{n}").generate_sync, "hi") for n in range(5)])
    assert [result.text for result in results] == ["0", "1", "2", "3", "4"]


def test_in_many_threads():
    one, texts = agent(lambda request: request.last), []

    def work(number):
        texts.append((number, one.generate_sync(f"{number}").text))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(texts) == [(number, f"{number}") for number in range(10)]


def test_inside_a_tool_that_runs_in_a_thread():
    inner = agent("inner")

    @tool(effects="none")
    def ask() -> str:
        return inner.generate_sync("hi").text

    assert agent([Call("ask"), "ok"], ask).generate_sync("hi").tool_results[0].payload.result == "inner"


def test_inside_an_async_tool_it_is_refused_with_the_remedy():
    inner = agent("inner")

    @tool(effects="none")
    async def ask() -> str:
        return inner.generate_sync("hi").text

    result = agent([Call("ask"), "ok"], ask).generate_sync("hi")
    assert result.tool_results[0].payload.is_error
    assert "await its twin" in result.tool_results[0].payload.result


def test_context_variables_of_the_caller_are_seen():
    seen = []

    @tool(effects="none")
    async def look() -> str:
        seen.append(who.get())
        return "ok"

    who.set("caller")
    agent([Call("look"), "ok"], look).generate_sync("hi")
    list(agent([Call("look"), "ok"], look).stream_sync("hi"))
    assert seen == ["caller", "caller"]


def test_the_loop_is_kept_from_call_to_call():
    with FakeProvider([Reply("a"), Reply("b")]) as provider:
        one = Agent(id="a", model={"id": "test/m", "url": provider.base_url})
        assert [one.generate_sync("hi").text for _ in range(2)] == ["a", "b"]
        assert provider.connections == 1
    assert Portal.current() is Portal.current()


INTERRUPTED = """
import signal, sys, threading
from tenuto import Agent
from tenuto.store import InMemoryStore
from tenuto.testing import FakeProvider, Reply
import asyncio

store = InMemoryStore()
with FakeProvider([Reply("Hello world", hang_after=2)]) as provider:
    agent = Agent(id="a", model={"id": "test/m", "url": provider.base_url}, store=store)
    def ready():
        provider.wait_for_requests_sync(1)
        print("ready", flush=True)
    threading.Thread(target=ready).start()
    try:
        if sys.argv[1] == "generate":
            agent.generate_sync("hi", run_id="r")
        else:
            for chunk in agent.stream_sync("hi", run_id="r"):
                pass
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    provider.wait_for_disconnect_sync()
    while (row := asyncio.run(store.run("r", resource=None))).status == "running":
        pass
    print(row.status, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["generate", "stream"])
def test_ctrl_c_aborts_the_run(verb):
    command = [sys.executable, "-W", "error", "-c", INTERRUPTED, verb]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (out, err) == ("interrupted\ncanceled\n", "")
    assert process.returncode == 0


def test_a_run_left_behind_ends_by_itself():
    store = InMemoryStore()
    output = agent("Hello", store=store).stream_sync("hi", run_id="r")
    run_id = output.run_id
    output.get_full_output()
    del output
    assert asyncio.run(store.run(run_id, resource=None)).status == "success"
