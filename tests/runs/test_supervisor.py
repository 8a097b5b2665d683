"""Who owns the drivers of a loop, and how they end with it."""

from __future__ import annotations

import asyncio

from tenuto import Agent
from tenuto.runs.supervisor import Supervisor
from tenuto.store import InMemoryStore
from tenuto.testing import Gate, Reply, ScriptedModel
from tests.agent.kit import all_ended


async def test_one_per_loop():
    assert Supervisor.current() is Supervisor.current()
    other = await asyncio.to_thread(lambda: asyncio.run(current()))
    assert other is not Supervisor.current()


async def current():
    return Supervisor.current()


async def test_it_counts_what_runs():
    gate = Gate()
    one = Agent(id="a", model=ScriptedModel(Reply("x", gate=gate)))
    streams = [await one.stream("hi") for _ in range(3)]
    assert Supervisor.current().running == 3
    gate.open()
    for stream in streams:
        await stream.consume_stream()
    await all_ended()
    assert Supervisor.current().running == 0


async def test_closing_aborts_and_saves_what_runs():
    gate, store = Gate(permits=2), InMemoryStore()
    one = Agent(id="a", model=ScriptedModel(Reply("Hello world", gate=gate)), store=store)
    stream = await one.stream("hi", run_id="r")
    await gate.wait_blocked()
    await Supervisor.current().aclose()
    assert (await stream.finish_reason, await stream.text) == ("aborted", "Hello wo")
    assert (await store.run("r", resource=None)).status == "canceled"
    assert (await Agent(id="b", model=ScriptedModel("after")).generate("hi")).text == "after"
