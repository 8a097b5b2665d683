"""The commands and their options; what they do is in the modules beside this one."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from tenuto.cli import screen
from tenuto.cli.agents import default_agent, load_agent
from tenuto.cli.chat import converse
from tenuto.cli.doctor import examine
from tenuto.cli.evals import evals
from tenuto.cli.models import show_models
from tenuto.cli.runs.commands import runs
from tenuto.cli.turn import run_once
from tenuto.core.errors import TenutoError
from tenuto.models.local import KNOWN, find, pull

app: typer.Typer = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Run and talk to agents, look at stored runs, list and fetch models, and check the installation.",
)

app.add_typer(runs, name="runs")
app.add_typer(evals, name="evals")

AgentName = Annotated[
    str, typer.Argument(metavar="MODULE:AGENT", help="Where the agent is: my_module:agent, or path/to/file.py:agent.")
]


def _version(asked: bool) -> None:
    if asked:
        from tenuto.cli.doctor import version_of

        print(f"tenuto {version_of('tenuto')}")
        raise typer.Exit


@app.callback()
def options(
    _asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run and talk to agents, look at stored runs, list and fetch models, and check the installation."""
    # What a model could not honour is in the stream, and shown from there.
    logging.getLogger("tenuto.models.local").setLevel(logging.ERROR)


@app.command()
def run(
    agent: AgentName,
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads it from stdin.")],
    max_steps: Annotated[int | None, typer.Option(min=1, help="Model calls at most.")] = None,
    tool_choice: Annotated[str | None, typer.Option(help="auto, none, required, or the name of a tool.")] = None,
) -> None:
    """Ask an agent once: the answer streams to stdout, tool calls are shown on stderr."""
    with screen.failures():
        text = sys.stdin.read() if prompt == "-" else prompt
        reason = run_once(load_agent(agent), text, max_steps=max_steps, tool_choice=tool_choice)
    if reason == "aborted":
        raise typer.Exit(130)
    if reason == "suspended":
        screen.note("This run waits and is not stored; start it from an app, then: tenuto runs resume")
        raise typer.Exit(3)


@app.command()
def chat(
    agent: Annotated[
        str | None,
        typer.Argument(metavar="[MODULE:AGENT]", help="Whom to talk to; default: a small model on this computer."),
    ] = None,
    tool_choice: Annotated[str | None, typer.Option(help="auto, none, required, or the name of a tool.")] = None,
) -> None:
    """Talk to an agent. Ctrl-C stops its turn, Ctrl-D or /exit leaves."""
    with screen.failures():
        converse(load_agent(agent) if agent else default_agent(), tool_choice=tool_choice)


@app.command()
def models(
    pattern: Annotated[
        str | None, typer.Argument(help="Part of provider/model, or a pattern with *; default: list the providers.")
    ] = None,
    provider: Annotated[str | None, typer.Option(help="Only the models of this provider.")] = None,
    with_key: Annotated[bool, typer.Option("--with-key", help="Only what has its key set, or needs none.")] = False,
    in_json: Annotated[bool, typer.Option("--json", help="Everything that is known, as JSON.")] = False,
) -> None:
    """List the models that 'provider/model' can name: context, price for a million tokens, abilities, key."""
    with screen.failures():
        found = show_models(pattern, provider=provider, with_key=with_key, in_json=in_json)
    if not found:
        raise typer.Exit(1)


@app.command(name="pull")
def pull_command(
    name: Annotated[str | None, typer.Argument(help="The model to fetch.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show the models that can be fetched.")] = False,
) -> None:
    """Fetch a local model into the cache, and check it."""
    with screen.failures():
        if list_ or name is None:
            for weights in KNOWN.values():
                print(f"{weights.name:<12} {weights.size / 1e6:>5.0f} MB  {weights.licence:<12} {_state(weights.name)}")
            return
        print(pull(name))


def _state(name: str) -> str:
    try:
        path = find(name)
    except TenutoError:
        return "refused: the file in the cache is another one"
    return f"not fetched; tenuto pull {name}" if path is None else str(path)


@app.command()
def doctor(
    store: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also look at the SQLite store in this file.")
    ] = None,
) -> None:
    """Look at the installation: what is there, what is missing, and how to get it."""
    if not examine(store):
        raise typer.Exit(1)
