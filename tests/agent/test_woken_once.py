"""Who waits for the end of a run is not woken for what comes before it."""

from tenuto import Agent, tool
from tenuto.runs.waiting import Waiters
from tenuto.testing.provider import FakeProvider, ToolRounds


async def test_generate_is_woken_at_the_end_only(monkeypatch):
    began = []
    wait = Waiters.wait

    async def counted(self, there):
        began.append(self)
        await wait(self, there)

    monkeypatch.setattr(Waiters, "wait", counted)

    @tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    async with FakeProvider(ToolRounds(3)) as provider:
        model = {"id": "fake/m", "url": provider.base_url}
        agent = Agent(id="a", instructions="", model=model, tools=[add])
        result = await agent.generate("hi", max_steps=9)
    assert len(result.steps) == 4
    assert len(began) == 1
