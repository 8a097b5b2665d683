"""Cases of class K: loops, tasks, threads and context variables."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from contextvars import ContextVar
from pathlib import Path

import pytest

from tenuto import Agent, tool
from tenuto.store import InMemoryStore
from tenuto.testing import Call, FakeProvider, Gate, Reply, ScriptedModel, run_virtual
from tests.agent.kit import all_ended, both, run

who: ContextVar[str] = ContextVar("who", default="nobody")

LOOPS = """
import asyncio, logging, threading
logging.getLogger("asyncio").setLevel(logging.ERROR)  # debug mode also reports a slow first import
from tenuto import Agent, tool
from tenuto.testing import Call, FakeProvider, Reply

@tool(effects="none")
async def add(a: int, b: int) -> int:
    return a + b

@tool(effects="none")
def add_in_a_thread(a: int, b: int) -> int:
    return a + b

def answer(request):
    if request.body["messages"][-1]["role"] == "tool":
        return Reply("3")
    return Reply(calls=[Call("add", {"a": 1, "b": 2}), Call("add_in_a_thread", {"a": 1, "b": 2})])

with FakeProvider(answer) as provider:
    agent = Agent(id="a", model={"id": "test/m", "url": provider.base_url}, tools=[add, add_in_a_thread])
    texts = [agent.generate_sync("hi").text for _ in range(2)]
    texts += [asyncio.run(agent.generate("hi")).text for _ in range(2)]
    def in_a_thread():
        texts.append(asyncio.run(agent.generate("hi")).text)
        texts.append(agent.generate_sync("hi").text)
    threads = [threading.Thread(target=in_a_thread) for _ in range(2)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert texts == ["3"] * 8, texts
    assert provider.connections < len(provider.requests)  # kept alive between calls
print("fine")
"""


@pytest.mark.slow
def test_k01_any_number_of_loops_one_after_another_and_at_once():
    command = [sys.executable, "-W", "error", "-X", "dev", "-c", LOOPS]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=root)
    assert (done.stdout, done.stderr) == ("fine\n", "")


async def test_k03_created_read_and_closed_in_three_tasks(caplog):
    gate = Gate(permits=3)
    one = Agent(id="a", model=ScriptedModel([Reply("Hello world", gate=gate)]))
    streams, readers = [], []

    async def create():
        who.set("creator")
        streams.append(await one.stream("x"))

    async def read():
        reader = streams[0].full_stream
        readers.append(reader)
        assert (await anext(reader)).type == "start"

    async def close():
        await readers[0].aclose()

    with caplog.at_level(logging.ERROR):
        for work in (create, read, close):
            await asyncio.create_task(work())
        gate.open()
        assert await asyncio.create_task(text_of(streams[0])) == "Hello world"
    assert caplog.records == []


async def text_of(stream):
    return "".join([text async for text in stream.text_stream])


@both
async def test_k05_sync_tools_run_at_once_and_leave_the_loop_alone(verb):
    loop = asyncio.get_running_loop()
    together, on_the_loop, seen = threading.Barrier(2), threading.Event(), []

    @tool(effects="none")
    def block(n: int) -> int:
        seen.append(who.get())
        together.wait(10)  # broken unless both are inside
        loop.call_soon_threadsafe(on_the_loop.set)
        assert on_the_loop.wait(10)  # not set unless the loop runs meanwhile
        return n

    who.set("caller")
    model = ScriptedModel([[Call("block", {"n": 1}), Call("block", {"n": 2})], "done"])
    ran = await run(verb, Agent(id="a", model=model, tools=[block]))
    assert [done.payload.result for done in ran.result.tool_results] == [1, 2]
    assert seen == ["caller", "caller"]


def test_k07_a_cancelled_run_stops_its_tools_first():
    async def main():
        log, entered, ended = [], asyncio.Event(), []

        @tool
        async def append() -> str:
            entered.set()
            try:
                while True:
                    log.append(1)
                    await asyncio.sleep(0.05)
            finally:
                ended.append(True)

        one = Agent(id="a", model=ScriptedModel([Call("append"), "never"]), tools=[append], abort_grace=0.2)
        task = asyncio.create_task(one.generate("x"))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        length = len(log)
        assert ended == [True]
        await asyncio.sleep(10)
        assert len(log) == length

    run_virtual(main())


class SlowStore(InMemoryStore):
    """A store whose last commit waits."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    async def commit(self, fence, write):
        if write.status is not None:
            await self.gate.take()
        return await super().commit(fence, write)


@pytest.mark.parametrize("place", ["model", "tool", "save"])
async def test_k11_a_cancelled_run_is_not_left_open(place):
    gate, store = Gate(), SlowStore()

    @tool
    async def wait() -> str:
        await gate.take()
        return "never"

    script = {"model": Reply("x", gate=gate), "tool": Call("wait"), "save": "Hello"}
    one = Agent(id="a", model=ScriptedModel([script[place]]), tools=[wait], store=store, abort_grace=0.01)
    task = asyncio.create_task(one.generate("x", run_id="r"))
    await (store.gate if place == "save" else gate).wait_blocked()
    task.cancel()
    store.gate.open()
    with pytest.raises(asyncio.CancelledError):
        await task
    await all_ended()
    row = await store.run("r", resource=None)
    assert row.status == ("success" if place == "save" else "canceled")


@both
async def test_context_variables_of_the_caller_reach_async_tools(verb):
    seen = []

    @tool(effects="none")
    async def look() -> str:
        seen.append(who.get())
        who.set("tool")
        return "ok"

    who.set("caller")
    await run(verb, Agent(id="a", model=ScriptedModel([Call("look"), Call("look"), "ok"]), tools=[look]))
    assert seen == ["caller", "caller"]
    assert who.get() == "caller"


@pytest.mark.slow
async def test_200_runs_at_once_do_not_mix():
    @tool(effects="none")
    async def echo(word: str) -> str:
        await asyncio.sleep(0)
        return f"{word}/{who.get()}"

    def answer(request):
        last = request.body["messages"][-1]
        if last["role"] == "tool":
            return Reply(f"{last['content']}!")
        return Reply(calls=[Call("echo", {"word": last["content"]})])

    async def one(number):
        who.set(str(number))
        chunks = []
        result = await agent.generate(f"word {number}", on_chunk=chunks.append)
        return result, chunks

    async with FakeProvider(answer) as provider:
        agent = Agent(id="a", model={"id": "test/m", "url": provider.base_url}, tools=[echo])
        ran = await asyncio.gather(*[asyncio.create_task(one(number)) for number in range(200)])
    assert len({result.run_id for result, _ in ran}) == 200
    for number, (result, chunks) in enumerate(ran):
        assert result.text == f"word {number}/{number}!"
        assert {chunk.run_id for chunk in chunks} == {result.run_id}
        assert result.messages[0].text == f"word {number}"
        assert len(result.steps) == 2
    ids = [call.payload.tool_call_id for result, _ in ran for call in result.tool_calls]
    assert len(ids) == 200
