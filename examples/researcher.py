"""A researcher with two sub-agents: one finds, one checks; the run ends before it costs too much.

python examples/researcher.py
python examples/researcher.py openai/gpt-5-mini "How tall is the Eiffel Tower?"
"""

import asyncio
import sys
from typing import Any

from tenuto import Agent, tool
from tenuto.core.chunks import TextDelta, ToolCall, ToolOutput, ToolResult

FACTS = {
    "eiffel tower": "The Eiffel Tower is 330 metres tall; it was opened in 1889. Source: the operator's web site.",
    "first flight": "The first powered flight was on 17 December 1903, at Kitty Hawk. Source: the Smithsonian.",
}
QUESTION = "How tall is the Eiffel Tower?"


@tool(effects="none")
async def search(topic: str) -> str:
    """Look a topic up in the library, such as "eiffel tower"."""
    found = [text for name, text in FACTS.items() if name in topic.lower() or topic.lower() in name]
    return " ".join(found) or f"The library has nothing on {topic!r}; it has: {', '.join(FACTS)}."


def team(model: Any, **options: Any) -> Agent[Any]:
    """The researcher and its two sub-agents, all on one model; `options` are those of the sub-agents' calls."""
    finder = Agent(
        id="finder",
        description="Finds facts in the library and names their source.",
        instructions="Search the library, then answer in one sentence with the source.",
        model=model,
        tools=[search],
        default_options={"tool_choice": "required", "max_steps": 2, **options},
    )
    checker = Agent(
        id="checker",
        description="Says whether a claim has a source.",
        instructions="Answer 'sourced' or 'not sourced', and why, in one sentence.",
        model=model,
    )
    return Agent(
        id="researcher",
        instructions="Have the finder look for facts and the checker look at them. Then answer in one sentence.",
        model=model,
        agents={"finder": finder, "checker": checker},
    )


def cut(messages: Any) -> Any:
    """The sub-agents see the question only, not what the others said."""
    return messages[:1]


async def ask(agent: Agent[Any], question: str, **options: Any) -> str:
    """Stream a run, with what its sub-agents do."""
    print(f"you         {question}")
    hooks = {"message_filter": lambda context: cut(context.messages)}
    stream = await agent.stream(question, delegation=hooks, token_limit=100_000, **options)
    async for chunk in stream.full_stream:
        match chunk:
            case ToolCall():
                print(f"delegates   {chunk.payload.tool_name}({chunk.payload.args})")
            case ToolOutput():
                inner: Any = chunk.payload.output
                if inner["type"] == "tool-call":
                    print(f"  calls     {inner['payload']['toolName']}({inner['payload'].get('args')})")
                elif inner["type"] == "text-delta":
                    print(inner["payload"]["text"], end="", flush=True)
                elif inner["type"] == "text-start":
                    print("  says      ", end="")
                elif inner["type"] == "text-end":
                    print()
            case ToolResult():
                print(f"is told     {chunk.payload.result['text']}")
            case TextDelta():
                print(chunk.payload.text, end="", flush=True)
            case _:
                pass
    usage = await stream.usage
    print(f"\n\n{usage.total_tokens} tokens, sub-agents included.")
    return await stream.text


if __name__ == "__main__":
    model, question = [*sys.argv[1:], None, None][:2]
    small = model in {None, "local/smollm2"}
    # SmolLM2 is too small to decide on a tool by itself, so the call makes it; larger models do without tool_choice.
    forced: Any = {"tool_choice": {"type": "tool", "tool_name": "agent-finder"}, "max_steps": 2} if small else {}
    asyncio.run(ask(team(model or "local/smollm2"), question or QUESTION, **forced))
