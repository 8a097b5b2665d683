"""A support desk: each customer's conversation is kept in a file, and a refund waits for a person's yes.

python examples/support_desk.py                       # a small model on this computer
python examples/support_desk.py openai/gpt-5-mini     # a better one, with its key in OPENAI_API_KEY
"""

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tenuto import Agent, Memory, Tenuto, create_durable_agent, tool
from tenuto.durable import DurableAgent
from tenuto.store import SQLiteStore


@tool(effects="once", key=("order_id",), require_approval=True)
async def refund(order_id: str) -> str:
    """Refund an order.

    Args:
        order_id: As printed on the invoice.
    """
    return f"Order {order_id} is refunded."


def desk(model: Any) -> Agent[None]:
    """The agent."""
    return Agent(
        id="desk",
        instructions="You are a support desk. Be brief. Refund an order when the customer asks for it.",
        model=model,
        tools=[refund],
        memory=Memory(last_messages=20),
        default_options={"model_settings": {"max_output_tokens": 120}},
    )


async def say(agent: DurableAgent[Any, Any], customer: str, text: str, **options: Any) -> str:
    """One message of a customer; whoever sits at the desk says yes to what waits."""
    print(f"{customer:10}  {text}")
    result = await agent.generate(text, memory={"thread": f"chat of {customer}", "resource": customer}, **options)
    for call in result.pending:
        print(f"waits       {call.tool_name}({call.args}): approved")
        result = await agent.approve_tool_call_generate(run_id=result.run_id, tool_call_id=call.id)
    print(f"desk        {result.text}")
    return result.text


async def day(model: Any, path: Path, **forced: Any) -> list[str]:
    """What is said on one day, and what is kept of it."""
    store = SQLiteStore(path)
    async with Tenuto(agents={"desk": create_durable_agent(desk(model))}, store=store) as app:
        agent = app.get_agent("desk")
        await say(agent, "ann", "I am Ann, and the lamp of order A-17 is broken.")
        await say(agent, "bob", "Hello, what do you know about me?")
        await say(agent, "ann", "Please refund it.", **forced)
        memory = await agent.get_memory()
        assert memory is not None
        page = await memory.recall(thread_id="chat of ann", resource_id="ann", per_page=False)
        print(f"\n{len(page.messages)} messages are kept of ann.")
        return [message.text for message in page]


if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else "local/smollm2"
    # SmolLM2 is too small to decide on a tool by itself, so the call makes it; larger models do without tool_choice.
    small: Any = {"tool_choice": {"type": "tool", "tool_name": "refund"}, "max_steps": 2}
    with TemporaryDirectory() as place:
        asyncio.run(day(name, Path(place) / "desk.db", **(small if name == "local/smollm2" else {})))
