"""Measures every row of a table, or the ones asked for, and prints it; a run of all rows also writes it into the docs.

There are two tables: that of the floor and the peers, and with `--dialects` that of tenuto's wire formats.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.facts import facts, load
from benchmarks.measure import Field, measure, provider
from benchmarks.report import DIALECTS, MAIN, PAGE, section, written
from benchmarks.rows import DIALECT_ROWS, ROWS, Repetition, Row

REPETITIONS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    known = DIALECT_ROWS if given.dialects else ROWS
    rows = [row for row in known if not given.row or row.name in given.row]
    field = Field(list(dict.fromkeys(name for row in rows for name in row.contestants)), _say)
    measured: list[tuple[Row, list[Repetition]]] = []
    loads = [load()]
    with provider() as base_url:
        for row in rows:
            measured.append((row, measure(row, field, base_url, given.reps, _say, small=given.small)))
            loads.append(load())
    form = DIALECTS if given.dialects else MAIN
    print(form.table(measured))
    if not given.row and not given.small:
        text = section(form.table(measured), facts(loads, given.reps), field.absent, _command(given))
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), text, form.place), encoding="utf-8")
        _say(f"written to {PAGE.name}")
    return 0


def _command(given: argparse.Namespace) -> str:
    asked = ["--dialects"] * given.dialects + ["--reps", str(given.reps)] * (given.reps != REPETITIONS)
    return f'make bench ARGS="{" ".join(asked)}"' if asked else "make bench"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = list(dict.fromkeys(row.name for row in (*ROWS, *DIALECT_ROWS)))
    parser.add_argument("--row", action="append", choices=names, help="only this one; repeatable")
    parser.add_argument("--dialects", action="store_true", help="all wire formats, against chat completions")
    parser.add_argument("--reps", type=int, default=REPETITIONS, help="processes of each contestant (default 5)")
    parser.add_argument("--small", action="store_true", help="tiny amounts: shows that it works, measures nothing")
    return parser


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
