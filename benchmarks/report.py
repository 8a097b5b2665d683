"""The table of a run, and its place in docs/performance.md.

Invariant: what is between the two markers of the page is written here and nowhere else; the rest is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.rows import AGNO, DURABLE, FLOOR, OPENAI, TENUTO, Bar, Repetition, Row

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
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


def section(measured: Measured, facts: Sequence[str], absent: Mapping[str, str], command: str) -> str:
    """What stands between the markers."""
    missing = [f"- missing: {name} ({reason})" for name, reason in absent.items()]
    return "\n".join([f"`{command}`:", "", table(measured), "", *(f"- {fact}" for fact in facts), *missing])


def written(page: str, text: str) -> str:
    """The page with `text` between its markers.

    Raises:
        ValueError: It has no markers.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"The page has no lines {BEGIN} and {END}.")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


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
