"""The tables of a run, and their places in docs/performance.md.

Invariant: what is between the two markers of a table is written here and nowhere else; the rest is never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.rows import AGNO, DURABLE, FLOOR, OPENAI, TENUTO, Bar, Repetition, Row

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
COLUMNS = (TENUTO, DURABLE, FLOOR, OPENAI, AGNO)

Measured = Sequence[tuple[Row, Sequence[Repetition]]]


def table(measured: Measured) -> str:
    """A line per bar: the medians of each contestant, the bar, the median ratio (smallest to largest), the verdict."""
    lines = [["what", "figure", *COLUMNS, "bar", "measured", "verdict"]]
    for row, repetitions in measured:
        for place, bar in enumerate(row.bars):
            head = [row.what, row.unit, *(_shown(row, repetitions, name) for name in COLUMNS)]
            lines.append([*(head if place == 0 else [""] * len(head)), *_judged(bar, repetitions)])
    return _aligned(lines)


def table_of_dialects(measured: Measured) -> str:
    """A line per row: what chat completions cost, and the ratio of each other format to it with its verdict."""
    names = [bar.about for row, _ in measured[:1] for bar in row.bars]
    lines = [["what", "figure", "chat", *names]]
    for row, repetitions in measured:
        cells = (_against_chat(row, bar, repetitions) for bar in row.bars)
        lines.append([row.what, row.unit, _shown(row, repetitions, TENUTO), *cells])
    return _aligned(lines)


def _against_chat(row: Row, bar: Bar, repetitions: Sequence[Repetition]) -> str:
    _, ratio, word = _judged(bar, repetitions)
    return f"{_shown(row, repetitions, bar.about)}: {ratio}, {word}"


@dataclass(frozen=True)
class Form:
    """One of the tables.

    Attributes:
        place: The name in its markers.
    """

    place: str
    table: Callable[[Measured], str]


MAIN = Form("benchmarks", table)
DIALECTS = Form("dialects", table_of_dialects)


def section(table: str, facts: Sequence[str], absent: Mapping[str, str], command: str) -> str:
    """What stands between the markers."""
    missing = [f"- missing: {name} ({reason})" for name, reason in absent.items()]
    return "\n".join([f"`{command}`:", "", table, "", *(f"- {fact}" for fact in facts), *missing])


def written(page: str, text: str, place: str) -> str:
    """The page with `text` between the markers of `place`.

    Raises:
        ValueError: It has no markers.
    """
    first, last = f"<!-- {place}: begin -->", f"<!-- {place}: end -->"
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise ValueError(f"The page has no lines {first} and {last}.")
    return f"{before}{first}\n\n{text}\n\n{last}{after}"


def _shown(row: Row, repetitions: Sequence[Repetition], name: str) -> str:
    return _median(repetitions, name) if name in row.contestants else ""


def _median(repetitions: Sequence[Repetition], name: str) -> str:
    found = [each[name] for each in repetitions if name in each]
    if not found:
        return "none"
    figures = [median(column) for column in zip(*found, strict=True)]
    return ", ".join(_number(figure) for figure in figures)


def _judged(bar: Bar, repetitions: Sequence[Repetition]) -> list[str]:
    verdict = bar.verdict(repetitions)
    if verdict.ratios is None:
        return [bar.says, "none", verdict.word]
    found, least, most = (f"{ratio:.3g}" for ratio in verdict.ratios)
    shown = found if least == most else f"{found} ({least} to {most})"
    return [bar.says, shown, verdict.word if verdict.word == "met" else f"**{verdict.word}**"]


def _number(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    rule = ["-" * width for width in widths]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (padded[0], rule, *padded[1:]))
