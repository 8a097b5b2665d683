"""`tenuto evals run`: tries an agent on a file of questions and shows what its answers score.

Invariant: the report goes to stdout, everything else to stderr; the exit code says whether every question was answered
and every wanted mean reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from tenuto.cli import screen
from tenuto.cli.agents import load_agent
from tenuto.cli.imports import load
from tenuto.core.errors import ConfigurationError
from tenuto.evals import (
    EvalReport,
    Scorer,
    create_completeness_scorer,
    create_content_similarity_scorer,
    create_keyword_coverage_scorer,
    run_evals,
)

evals: typer.Typer = typer.Typer(no_args_is_help=True, help="Try agents on files of questions.")

_SHIPPED = {
    "completeness": create_completeness_scorer,
    "content-similarity": create_content_similarity_scorer,
    "keyword-coverage": create_keyword_coverage_scorer,
}
"""Those that need neither a model nor an argument."""


@evals.callback()
def _group() -> None:
    """Try agents on files of questions."""


@evals.command()
def run(  # noqa: PLR0917 - typer reads its options from the signature
    agent: Annotated[str, typer.Argument(metavar="MODULE:AGENT", help="The agent: my_module:agent, or file.py:agent.")],
    data: Annotated[
        Path, typer.Argument(help="JSON Lines: a text, or an object with input and maybe ground_truth, on each line.")
    ],
    scorer: Annotated[
        list[str], typer.Option(help=f"my_module:scorer, or {', '.join(_SHIPPED)}; may be given more than once.")
    ],
    concurrency: Annotated[int, typer.Option(min=1, help="Questions that are under way at once.")] = 4,
    minimum: Annotated[
        float | None, typer.Option("--min", help="Exit with 1 when the mean of a scorer is below this.")
    ] = None,
    in_json: Annotated[bool, typer.Option("--json", help="Write answers, scores and reasons as JSON.")] = False,
) -> None:
    """Ask an agent each line of a file, score the answers, and write a table."""
    with screen.failures():
        scorers = [_scorer(name) for name in scorer]
        report = asyncio.run(_report(load_agent(agent), list(_items(data)), scorers, concurrency))
    print(screen.printable(msgspec.json.encode(report.to_dict()).decode() if in_json else report.table()))
    for each in report.failed:
        screen.note(f"line {each.place + 1}: {each.error}", "red")
    if report.failed or any(minimum is not None and (mean or 0.0) < minimum for mean in report.means.values()):
        raise typer.Exit(1)


async def _report(agent: Any, items: list[Any], scorers: list[Scorer], concurrency: int) -> EvalReport:
    return await run_evals(target=agent, data=items, scorers=scorers, concurrency=concurrency)


def _scorer(name: str) -> Scorer:
    return _SHIPPED[name]() if name in _SHIPPED else load(name, Scorer, "scorer")


def _items(path: Path) -> Iterator[Any]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            item: Any = msgspec.json.decode(line)
        except msgspec.DecodeError as error:
            message = f"{path}, line {number}: not JSON: {error}."
            raise ConfigurationError(message, id="CLI_DATA_INVALID") from error
        if not isinstance(item, str) and not (isinstance(item, dict) and "input" in item):
            message = f"{path}, line {number}: write a text, or an object with input."
            raise ConfigurationError(message, id="CLI_DATA_INVALID")
        yield item
