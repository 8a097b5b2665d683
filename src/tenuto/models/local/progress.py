"""Telling a person how far a fetch is: a bar on a terminal, plain lines elsewhere.

Invariant: everything goes to stderr; stdout belongs to the answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

Advance = Callable[[int], None]
"""Called with the number of bytes done so far."""


class Progress(Protocol):
    """Where a fetch reports."""

    def note(self, text: str) -> None:
        """Say one line."""
        ...

    def bar(self, title: str, total: int) -> Iterator[Advance]:
        """Yield once a function that takes the bytes done, of `total`; used as a context manager by `tracking`."""
        ...


@contextmanager
def tracking(progress: Progress, title: str, total: int) -> Generator[Advance]:
    """Show a bar for the length of the block."""
    yield from progress.bar(title, total)


class LineProgress:
    """One line at each quarter: for logs and pipes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def note(self, text: str) -> None:
        """See `Progress.note`."""
        print(text, file=self._stream or sys.stderr, flush=True)

    def bar(self, title: str, total: int) -> Iterator[Advance]:
        """See `Progress.bar`."""
        told = 0

        def advance(done: int) -> None:
            nonlocal told
            quarter = min(4, 4 * done // max(total, 1))
            if quarter > told:
                told = quarter
                self.note(f"{title}: {25 * quarter} % of {total / 1e6:.0f} MB")

        yield advance


class BarProgress:
    """A bar that redraws itself: for a person at a terminal."""

    def note(self, text: str) -> None:
        """See `Progress.note`."""
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - what a person is told

    def bar(self, title: str, total: int) -> Iterator[Advance]:
        """See `Progress.bar`."""
        from rich import progress as rich
        from rich.console import Console

        columns = (
            rich.TextColumn("{task.description}"),
            rich.BarColumn(),
            rich.DownloadColumn(),
            rich.TimeElapsedColumn(),
        )
        with rich.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
            task = shown.add_task(title, total=total)
            yield lambda done: shown.update(task, completed=min(done, total))


def terminal_progress() -> Progress:
    """A bar when stderr is a terminal, else plain lines."""
    return BarProgress() if sys.stderr.isatty() else LineProgress()
