"""`python -m benchmarks.crash_compare`: who repeats a payment after kill -9.

Invariant: every contestant runs the same two-payment script in processes of its own, killed by itself right behind the
second effect and started again until it says that it is done (at most four times); what counts is the file that the
tool's body wrote.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.contestants import Missing, environment, interpreter

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "durability.md"
BEGIN, END = "<!-- crash compare: begin -->", "<!-- crash compare: end -->"
STARTS = 4
SECONDS = 90


@dataclass(frozen=True)
class Contestant:
    """A program and its environment."""

    name: str
    script: str
    pins: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    def python(self) -> Path:
        """Its interpreter.

        Raises:
            Missing: Its environment could not be made.
        """
        return Path(sys.executable) if self.pins is None else interpreter(HERE / self.pins)


CONTESTANTS = (
    Contestant("tenuto, SQLite", "with_tenuto.py"),
    Contestant("pydantic-ai + DBOS, SQLite", "with_pydantic_ai.py", "pydantic_ai.txt"),
    Contestant("the same, tool made a DBOS step by hand", "with_pydantic_ai.py", "pydantic_ai.txt", {"STEP": "1"}),
    Contestant("LangGraph, SQLite checkpointer", "with_langgraph.py", "langgraph.txt"),
    Contestant("openai-agents, SQLite session", "with_openai_agents.py", "openai_agents.txt"),
)


@dataclass(frozen=True)
class Outcome:
    """What was seen from outside."""

    effects: str
    model_calls: int
    starts: int
    said: str

    def row(self, name: str) -> str:
        """A line of the table."""
        return f"| {name} | {self.effects} | {self.model_calls} | {self.starts} | {self.said} |"


def run(contestant: Contestant) -> Outcome:
    """Start the contestant until it has ended by itself."""
    python = contestant.python()
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder, "ledger")
        variables = {**environment(), **contestant.variables, "LEDGER": str(ledger), "PYTHONPATH": str(HERE)}
        starts, said, code = 0, "", -1
        while code != 0 and starts < STARTS:
            starts += 1
            code, said = _start([str(python), str(HERE / contestant.script)], variables, folder)
        return Outcome(
            effects=" ".join(_lines(ledger)) or "none",
            model_calls=len(_lines(ledger.with_suffix(".model"))),
            starts=starts,
            said=said if code == 0 else f"failed: {said}",
        )


def _start(command: list[str], variables: Mapping[str, str], folder: str) -> tuple[int, str]:
    done = subprocess.run(
        command, env=dict(variables), cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return done.returncode, " ".join(lines[-2:])[:150] if lines else ""


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split() if file.exists() else []


def main() -> None:
    """Run all, print the table and write it into the page."""
    rows = [
        "| | effects seen (wanted: 1 2) | model calls | processes | it said at the end |",
        "|---|---|---|---|---|",
    ]
    for contestant in CONTESTANTS:
        print(f"running {contestant.name} ...", file=sys.stderr, flush=True)
        try:
            rows.append(run(contestant).row(contestant.name))
        except Missing as reason:
            rows.append(f"| {contestant.name} | missing: {reason} | | | |")
    table = "\n".join(rows)
    print(table)
    _write(table)


def _write(table: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    if rest:
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
