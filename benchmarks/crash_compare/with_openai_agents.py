"""openai-agents: a runner with a SQLite session; the second process goes on with the session's items."""

from __future__ import annotations

import asyncio
import os
from typing import Any

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage, function_tool
from agents.testing import assistant_message, function_call
from biller import charge_effect, model_called


class Script(Model):
    """A model that charges twice, then says done."""

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **options: Any) -> ModelResponse:
        model_called()
        done = sum(isinstance(item, dict) and item.get("type") == "function_call_output" for item in input)
        said = assistant_message("done") if done >= 2 else function_call("charge", {"n": done + 1}, call_id=f"c{done}")
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("not streamed here")


@function_tool
def charge(n: int) -> str:
    """Charge."""
    return charge_effect(n)


async def main() -> None:
    session = SQLiteSession("t", "openai_agents.db")
    known = await session.get_items()
    agent = Agent(name="biller", model=Script(), tools=[charge])
    result = await Runner.run(agent, [] if known else "go", session=session)
    print(result.final_output)


asyncio.run(main())
