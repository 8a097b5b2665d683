"""How far an evaluation is, on stderr: a bar on a terminal, a line at each quarter elsewhere.

Invariant: stdout belongs to whoever asked; what is shown ends with the block, whatever ends it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

Advance = Callable[[], None]
"""One more is done."""


def showing(title: str, total: int, *, progress: bool) -> AbstractContextManager[Advance]:
    """Show how many of `total` are done, if `progress` says so."""
    if not progress or not total:
        return nullcontext(lambda: None)
    return _bar(title, total) if sys.stderr.isatty() else _lines(title, total)


@contextmanager
def _lines(title: str, total: int) -> Generator[Advance]:
    done = told = 0

    def advance() -> None:
        nonlocal done, told
        done += 1
        if 4 * done // total > told:
            told = 4 * done // total
            sys.stderr.write(f"{title}: {done} of {total}\n")

    yield advance


@contextmanager
def _bar(title: str, total: int) -> Generator[Advance]:
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(title, total=total)
        yield lambda: shown.advance(task)
