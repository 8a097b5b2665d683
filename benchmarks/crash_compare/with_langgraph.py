"""LangGraph: an agent with the SQLite checkpointer, durability="sync"; the second process goes on with the thread."""

from __future__ import annotations

import asyncio
from typing import Any

from biller import charge_effect, model_called
from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


class Script(BaseChatModel):
    """A model that charges twice, then says done."""

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        model_called()
        done = sum(isinstance(message, ToolMessage) for message in messages)
        call = {"name": "charge", "args": {"n": done + 1}, "id": f"c{done}"}
        said = AIMessage("done") if done >= 2 else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=said)])


@tool
def charge(n: int) -> str:
    """Charge."""
    return charge_effect(n)


async def main() -> None:
    async with AsyncSqliteSaver.from_conn_string("langgraph.db") as saver:
        agent = create_agent(Script(), [charge], checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "t"}}
        known = (await agent.aget_state(config)).values
        result = await agent.ainvoke(None if known else {"messages": "go"}, config, durability="sync")
        print(result["messages"][-1].content)


asyncio.run(main())
