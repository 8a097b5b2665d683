"""Counted proxies of the performance budgets: how often the store is asked, a message encoded, a task left alive."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tenuto import Agent, tool
from tenuto.durable import create_durable_agent
from tenuto.models.render import Rendered
from tenuto.runs.journal import FLUSH_EVENTS
from tenuto.store import InMemoryStore
from tenuto.testing import Burst, Call, FakeProvider, Reply, ScriptedModel, ToolRounds
from tests.agent.kit import all_ended, run


class CountingStore(InMemoryStore):
    """Counts its calls, and what is written per commit."""

    def __init__(self):
        super().__init__()
        self.calls = Counter()
        self.commits = []

    async def claim(self, *args, **named):
        self.calls["claim"] += 1
        return await super().claim(*args, **named)

    async def renew(self, fence):
        self.calls["renew"] += 1
        return await super().renew(fence)

    async def release(self, *args, **named):
        self.calls["release"] += 1
        return await super().release(*args, **named)

    async def commit(self, fence, write):
        self.calls["commit"] += 1
        self.commits.append(write)
        return await super().commit(fence, write)

    async def posts(self, target):
        self.calls["posts"] += 1
        return await super().posts(target)

    @property
    def round_trips(self):
        return sum(self.calls.values())


@tool(effects="none")
async def add(a: int = 1, b: int = 2) -> int:
    return a + b


KINDS = {"plain": lambda agent: agent, "durable": create_durable_agent}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def agent_on(provider, store, kind):
    return kind(Agent(id="a", model={"id": "test/m", "url": provider.base_url}, tools=[add], store=store))


async def rounds(kind, count, width=1):
    store = CountingStore()
    async with FakeProvider(ToolRounds(count, width)) as provider:
        result = await agent_on(provider, store, kind).generate("hi", max_steps=count + 1)
    assert len(result.steps) == count + 1
    return store


@kinds
async def test_commits_per_tool_round(kind):
    few, many = await rounds(kind, 5), await rounds(kind, 25)
    assert (many.calls["commit"] - few.calls["commit"]) / 20 <= 5


@kinds
async def test_store_calls_of_a_run_without_tools(kind):
    store = await rounds(kind, 0)
    assert store.calls["claim"] == store.calls["release"] == 1
    assert store.calls["commit"] <= 5


@kinds
@pytest.mark.parametrize("count", [64, 640, pytest.param(5_000, marks=pytest.mark.slow)])
async def test_round_trips_of_a_burst(kind, count):
    """What a burst costs beyond the same run with an answer of one delta."""

    async def ask(deltas):
        store = CountingStore()
        async with FakeProvider(Burst(deltas)) as provider:
            await agent_on(provider, store, kind).generate("hi")
        return store.round_trips

    assert await ask(count) - await ask(1) <= count / FLUSH_EVENTS + 2


@kinds
async def test_what_is_stored_of_a_step_is_what_is_new(kind):
    """Step 40 writes about as much as step 4."""
    store = CountingStore()
    async with FakeProvider(ToolRounds(45)) as provider:
        await agent_on(provider, store, kind).generate("hi", max_steps=50)
    sizes = Counter()
    step = 0
    for write in store.commits:
        for record in write.records:
            if type(record).__name__ == "ModelStarted":
                step = record.step
            sizes[step] += len(str(record))
    if sizes:
        assert sizes[40] <= sizes[4] * 1.05
    assert step in {0, 46}


@kinds
async def test_the_indexes_of_what_is_stored_are_contiguous(kind):
    store = CountingStore()
    async with FakeProvider([Reply("Let me see.", calls=[Call("add")]), Burst(500)]) as provider:
        await agent_on(provider, store, kind).generate("hi")
    indexes = [event.index for write in store.commits for event in write.events]
    assert indexes == list(range(len(indexes)))


async def test_messages_encoded_per_step(monkeypatch):
    """A step encodes what is new in the history: its turn and the answers to its calls."""
    counts, known = [], {}
    render = Rendered.render

    def rendering(slot, prompt):
        before = slot.encoded
        messages = render(slot, prompt)
        new = len(messages) - known.get(id(prompt), 0)
        known[id(prompt)] = len(messages)
        counts.append((slot.encoded - before, new))
        return messages

    monkeypatch.setattr(Rendered, "render", rendering)
    await rounds(lambda agent: agent, 20, width=3)
    assert len(counts) == 21
    assert all(encoded <= new + 1 for encoded, new in counts)


@kinds
async def test_no_task_is_alive_after_a_run(kind):
    async with FakeProvider([Reply("Let me see.", calls=[Call("add")]), Burst(500)]) as provider:
        stream = await agent_on(provider, CountingStore(), kind).stream("hi")
        async for _ in stream.full_stream:
            pass
        await all_ended()
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_chunk_costs_no_task(monkeypatch):
    """Tasks of a run do not grow with its chunks."""
    made = Counter()

    def counting(loop, coro, **named):
        made["tasks"] += 1
        return asyncio.Task(coro, loop=loop, **named)

    asyncio.get_running_loop().set_task_factory(counting)
    one = Agent(id="a", model=ScriptedModel(lambda _: Reply("x" * size, chunk_size=1)))
    counted = {}
    for size in (10, 1_000):
        made.clear()
        await run("stream", one)
        counted[size] = made["tasks"]
    asyncio.get_running_loop().set_task_factory(None)
    assert counted[10] == counted[1_000] <= 4
