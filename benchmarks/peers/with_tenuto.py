"""tenuto as its users write it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from scenarios import MAX_STEPS, QUESTION, SYSTEM, OnText, OnTool, main

from tenuto import Agent, tool


class WithTenuto:
    """An agent for each model, in one dialect."""

    def __init__(self, api: str = "chat") -> None:
        self._api = api

    async def start(self, base_url: str) -> None:
        self._url = base_url
        self._agents: dict[str, Agent] = {}
        self._on_tool: OnTool = lambda: None

    async def stop(self) -> None:
        """The end of the loop closes what was opened."""

    async def answer(self, model: str) -> str:
        return (await self._agent(model).generate(QUESTION)).text

    async def rounds(self, model: str, on_tool: OnTool) -> str:
        self._on_tool = on_tool
        return (await self._agent(model).generate(QUESTION, max_steps=MAX_STEPS)).text

    async def stream(self, model: str, on_text: OnText) -> None:
        async with self._agent(model).stream(QUESTION) as output:
            async for text in output.text_stream:
                if text:  # Gemini's last event has an empty one
                    on_text(text)

    async def watch(self, model: str, viewers: int, on_chunk: Callable[[], None]) -> None:
        async with self._agent(model).stream(QUESTION) as output:

            async def read() -> None:
                async for _ in output.full_stream:
                    on_chunk()

            await asyncio.gather(*[read() for _ in range(viewers)])

    def _agent(self, model: str) -> Agent:
        known = self._agents.get(model)
        if known is None:
            known = self._agents[model] = self._new_agent(model)
        return known

    def _new_agent(self, model: str) -> Agent:
        @tool
        async def add(a: int, b: int) -> str:
            """Add two numbers."""
            self._on_tool()
            return str(a + b)

        return Agent(
            id="bench",
            instructions=SYSTEM,
            model={"id": f"fake/{model}", "url": self._url, "api_key": "x", "api": self._api},
            tools=[add] if model.startswith("rounds") else [],
        )


if __name__ == "__main__":
    main(WithTenuto(), {api: WithTenuto(api) for api in ("responses", "anthropic", "google")})
