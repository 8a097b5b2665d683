"""Measures every row, or the ones asked for, and prints one table; a run of all rows also writes it into the docs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.facts import facts, load
from benchmarks.measure import Field, measure, provider
from benchmarks.report import PAGE, section, table, written
from benchmarks.rows import ROWS, Repetition, Row

REPETITIONS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    rows = [row for row in ROWS if not given.row or row.name in given.row]
    field = Field(list(dict.fromkeys(name for row in rows for name in row.contestants)), _say)
    measured: list[tuple[Row, list[Repetition]]] = []
    loads = [load()]
    with provider() as base_url:
        for row in rows:
            measured.append((row, measure(row, field, base_url, given.reps, _say, small=given.small)))
            loads.append(load())
    print(table(measured))
    if not given.row and not given.small:
        command = "make bench" if given.reps == REPETITIONS else f'make bench ARGS="--reps {given.reps}"'
        text = section(measured, facts(loads, given.reps), field.absent, command)
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
        _say(f"written to {PAGE.name}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--row", action="append", choices=[row.name for row in ROWS], help="only this one; repeatable")
    parser.add_argument("--reps", type=int, default=REPETITIONS, help="processes of each contestant (default 5)")
    parser.add_argument("--small", action="store_true", help="tiny amounts: shows that it works, measures nothing")
    return parser


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
