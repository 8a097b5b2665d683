"""agno as its users write it, on the `openai` package; without its telemetry."""

from __future__ import annotations

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from agno.run.agent import RunEvent
from scenarios import QUESTION, SYSTEM, OnText, OnTool, main


class WithAgno:
    async def start(self, base_url: str) -> None:
        self._url = base_url
        self._agents: dict[str, Agent] = {}
        self._on_tool: OnTool = lambda: None

    async def stop(self) -> None:
        """Nothing is documented that would have to be closed."""

    async def answer(self, model: str) -> str:
        return (await self._agent(model).arun(QUESTION)).content

    async def rounds(self, model: str, on_tool: OnTool) -> str:
        self._on_tool = on_tool
        return await self.answer(model)

    async def stream(self, model: str, on_text: OnText) -> None:
        async for event in self._agent(model).arun(QUESTION, stream=True):
            if event.event == RunEvent.run_content.value and event.content:
                on_text(event.content)

    def _agent(self, model: str) -> Agent:
        known = self._agents.get(model)
        if known is None:
            known = self._agents[model] = self._new_agent(model)
        return known

    def _new_agent(self, model: str) -> Agent:
        async def add(a: int, b: int) -> str:
            """Add two numbers."""
            self._on_tool()
            return str(a + b)

        return Agent(
            model=OpenAIChat(id=model, base_url=self._url, api_key="x", timeout=120),
            instructions=SYSTEM,
            tools=[add] if model.startswith("rounds") else [],
            telemetry=False,
        )


if __name__ == "__main__":
    main(WithAgno())
