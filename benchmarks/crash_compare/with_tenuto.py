"""tenuto: a durable agent on SQLite; a second process recovers what the first one left."""

from __future__ import annotations

import asyncio

from biller import charge_effect, model_called

from tenuto import Agent, Tenuto, tool
from tenuto.store import SQLiteStore
from tenuto.testing import Call, ScriptedModel
from tenuto.testing.scripted import Answer, ScriptedRequest


@tool
async def charge(n: int) -> str:
    """Charge."""
    return charge_effect(n)


def script(request: ScriptedRequest) -> Answer:
    model_called()
    done = sum(message["role"] == "tool" for message in request.messages)
    return "done" if done >= 2 else Call("charge", {"n": done + 1})


async def main() -> None:
    agent = Agent(id="biller", model=ScriptedModel(script), tools=[charge], durable=True)
    async with Tenuto(agents={"biller": agent}, store=SQLiteStore("tenuto.db"), recovery="off") as app:
        biller = app.get_agent("biller")
        left = await biller.list_active_runs()
        output = await biller.recover(left.runs[0].run_id) if left.runs else await biller.stream("go")
        result = await output.get_full_output()
        print(result.text)
        print("and was told:", " / ".join(str(each.payload.result).replace("\n", " ") for each in result.tool_results))


asyncio.run(main())
