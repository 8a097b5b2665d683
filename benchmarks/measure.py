"""Runs contestants in turn, each time in a fresh process, and collects what they measured of themselves.

Invariant: one repetition is one process of each contestant, one after another, in an order that changes with every
repetition; ratios are taken within a repetition. A contestant that fails once is left out from then on and named.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.contestants import CONTESTANTS, Missing, environment
from benchmarks.rows import RARE_REPETITIONS, Figures, Repetition, Row

TIMEOUT = 600
IMPORT_REPETITIONS = 20
HEAVY = ("pydantic", "aiohttp", "sqlite3", "opentelemetry", "typer")

_IMPORT = """
import sys, time
start = time.perf_counter()
{statement}
spent = time.perf_counter() - start
import json
print(json.dumps([spent * 1000, sum(name in sys.modules for name in {heavy})]))
"""

Say = Callable[[str], None]


class Failed(Exception):
    """A measured process that did not come to its end; the text is the last line it wrote."""


class Field:
    """The contestants that can take part, and why the others cannot.

    Attributes:
        absent: By name, the reason.
    """

    def __init__(self, names: Sequence[str], say: Say) -> None:
        self.absent: dict[str, str] = {}
        self._pythons: dict[str, Path] = {}
        for name in names:
            try:
                self._pythons[name] = CONTESTANTS[name].python()
            except Missing as error:
                self.leave(name, str(error), say)

    def leave(self, name: str, reason: str, say: Say) -> None:
        """From now on without this one."""
        self.absent[name] = reason
        say(f"{name} is missing: {reason}")

    def run(self, name: str, row: Row, base_url: str, *, small: bool) -> Figures:
        """Measure one contestant once.

        Raises:
            Failed: It did not come to its end.
        """
        python, contestant = str(self._pythons[name]), CONTESTANTS[name]
        if row.name == "import":
            return _figures([python, "-c", _IMPORT.format(statement=contestant.imports, heavy=HEAVY)])
        return _figures([python, *contestant.command(row.name, base_url), *(["--small"] if small else [])])


def measure(
    row: Row, field: Field, base_url: str, repetitions: int, say: Say, *, small: bool = False
) -> list[Repetition]:
    """Repeat a row; each repetition holds those who came to an end in it."""
    found: list[Repetition] = []
    for place in range(_warm_up(row, field, base_url, repetitions, say)):
        names = [name for name in row.contestants if place < RARE_REPETITIONS or name not in row.rare]
        turn = place % len(names)
        figures = _repetition(row, field, base_url, names[turn:] + names[:turn], say, small=small)
        found.append(figures)
        say(f"{row.name} {place + 1}: " + "  ".join(f"{name} {_shown(figures[name])}" for name in sorted(figures)))
    return found


def _warm_up(row: Row, field: Field, base_url: str, repetitions: int, say: Say) -> int:
    """Imports are repeated more often, and once before, so that the bytecode is there."""
    if row.name != "import":
        return repetitions
    _repetition(row, field, base_url, row.contestants, say, small=False)
    return IMPORT_REPETITIONS if repetitions > 1 else 1


def _repetition(
    row: Row, field: Field, base_url: str, names: Sequence[str], say: Say, *, small: bool
) -> dict[str, Figures]:
    figures: dict[str, Figures] = {}
    for name in names:
        if name in field.absent:
            continue
        try:
            figures[name] = field.run(name, row, base_url, small=small)
        except Failed as error:
            field.leave(name, f"{row.name} failed: {error}", say)
    return figures


@contextmanager
def provider() -> Generator[str]:
    """A fake provider in a process of its own; gives its base URL."""
    command = [sys.executable, "-m", "tenuto.testing.provider"]
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            base_url = process.stdout.readline().strip()
            if not base_url:
                raise Failed("The fake provider did not start.")
            yield base_url
        finally:
            process.stdin.close()


def _figures(command: Sequence[str]) -> Figures:
    try:
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"no end within {TIMEOUT} s") from None
    if done.returncode != 0:
        raise Failed((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    return tuple(float(figure) for figure in json.loads(done.stdout.strip().splitlines()[-1]))


def _shown(figures: Figures) -> str:
    return ", ".join(f"{figure:.3g}" if figure < 100 else f"{figure:,.0f}" for figure in figures)
