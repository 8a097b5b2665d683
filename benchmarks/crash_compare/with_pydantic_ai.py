"""pydantic-ai with DBOS on SQLite; with STEP=1 its tool is made a DBOS step by hand. DBOS resumes at launch."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from biller import charge_effect, model_called
from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel


def script(messages: Any, info: Any) -> ModelResponse:
    model_called()
    done = sum(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
    call = ToolCallPart("charge", {"n": done + 1}, tool_call_id=f"c{done}")
    return ModelResponse([TextPart("done") if done >= 2 else call])


agent = Agent(FunctionModel(script), name="biller", capabilities=[DBOSDurability()])


async def charge(n: int) -> str:
    """Charge."""
    return charge_effect(n)


agent.tool_plain(DBOS.step()(charge) if os.environ.get("STEP") else charge)


@DBOS.workflow()
async def bill(prompt: str) -> str:
    return (await agent.run(prompt)).output


async def main() -> None:
    DBOS(config={"name": "biller", "system_database_url": "sqlite:///dbos.db", "application_version": "1"})
    DBOS.launch()
    with SetWorkflowID("w1"):
        handle = await DBOS.start_workflow_async(bill, "go")
    print(await handle.get_result())


asyncio.run(main())
