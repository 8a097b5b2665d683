"""An app in a folder of its own, the runs it leaves there, and the command line that looks at them."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys

from typer.testing import CliRunner

from tenuto.cli.commands import app as command_line
from tenuto.core.chunks import TextDelta

SOURCE = r'''
from pathlib import Path

from tenuto import Agent, Tenuto, ToolContext, tool
from tenuto.store import SQLiteStore
from tenuto.testing import Call, Reply, ScriptedModel


@tool(effects="once", require_approval=lambda args: args["amount"] > 100)
def pay(ctx: ToolContext, amount: int) -> str:
    """Pay an amount."""
    with Path("paid.txt").open("a") as paid:
        paid.write(f"{amount}\n")
    return f"paid {amount}"


@tool(effects="none")
async def ask(ctx: ToolContext) -> str:
    """Ask somebody."""
    if ctx.resume_data is None:
        await ctx.suspend({"question": "Which one?"})
    return f"they said {ctx.resume_data}"


def answer(request):
    asked = request.messages[-1]["content"]
    words = asked.split()
    match words:
        case ["pay", *amounts]:
            return [Call("pay", {"amount": int(amount)}) for amount in amounts]
        case ["ask"]:
            return Call("ask", {})
        case ["speak"] if Path("hang").exists():
            return Reply(text="Half an answer", hang_after=4)
        case ["fail"]:
            raise ValueError("out of luck")
        case _:
            return f"You see: {asked}"


def delegate(request):
    last = request.messages[-1]
    if last["role"] == "tool":
        return f"They said: {last['content']}"
    return Call("agent-helper", {"prompt": last["content"]}, "d1")


def agents():
    helper = Agent(id="helper", description="Helps.", model=ScriptedModel(answer), tools=[pay, ask])
    return {
        "boss": Agent(id="boss", model=ScriptedModel(delegate), agents={"helper": helper}, durable=True),
        "clerk": Agent(id="clerk", model=ScriptedModel(answer), tools=[pay, ask], durable=True),
        "plain": Agent(id="plain", model=ScriptedModel(answer), tools=[pay]),
    }


def open_app(**options):
    return Tenuto(agents=agents(), store=SQLiteStore("shop.db"), **options)


app = open_app()
memory = Tenuto(agents={})
'''


class Shop:
    """A folder with `shop.py` and its store `shop.db`."""

    def __init__(self, folder) -> None:
        self.folder = folder
        (folder / "shop.py").write_text(SOURCE)

    def module(self):
        """`shop`, as a new process would have it: a store that was closed stays closed."""
        sys.modules.pop("shop", None)
        importlib.invalidate_caches()
        if str(self.folder) not in sys.path:
            sys.path.insert(0, str(self.folder))
        return importlib.import_module("shop")

    def run(self, prompt, agent="clerk", **options):
        """Run an agent to its end, or until it waits; the id of the run."""

        async def run():
            async with self.module().open_app(recovery="off") as app:
                output = await app.get_agent(agent).stream(prompt, **options)
                await output.consume_stream()
                return output.run_id

        return asyncio.run(run())

    def abandon(self):
        """A run whose process ended in the middle of the answer; its id."""
        hang = self.folder / "hang"
        hang.touch()

        async def begin():
            async with self.module().open_app(recovery="off") as app:
                output = await app.get_agent("clerk").stream("speak")
                async for chunk in output.full_stream:
                    if isinstance(chunk, TextDelta):
                        return output.run_id
            raise AssertionError

        run_id = asyncio.run(begin())
        hang.unlink()
        return run_id

    def paid(self):
        """What the tool paid."""
        path = self.folder / "paid.txt"
        return path.read_text().split() if path.exists() else []

    def __call__(self, *arguments):
        """`tenuto runs ...`."""
        sys.modules.pop("shop", None)
        importlib.invalidate_caches()
        return CliRunner().invoke(command_line, ["runs", *map(str, arguments)])

    def shown(self, run_id):
        """The lines of a run's timeline: kind and text."""
        shown = self("show", run_id, "--store", "shop.db", "--json")
        assert shown.exit_code == 0, shown.stderr
        return [(entry["kind"], entry["text"]) for entry in json.loads(shown.stdout)["timeline"]]

    def status(self, run_id):
        """The status of a run."""
        return json.loads(self("show", run_id, "--store", "shop.db", "--json").stdout)["run"]["status"]
