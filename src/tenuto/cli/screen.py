"""What a person sees: the answer on stdout, everything about it on stderr.

Invariant: nothing a model or a tool wrote can control the terminal.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from tenuto.core.errors import TenutoError

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SHOWN = 300
"""Characters of a call or result that are shown."""


def printable(text: str) -> str:
    """The text without control characters other than tab and line feed."""
    return _CONTROLS.sub("", text)


def note(text: str, style: str = "dim") -> None:
    """Say one line on stderr."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(printable(text), style=style))


def failed(text: str) -> None:
    """Say one line about a failure."""
    note(f"error: {text}", "bold red")


def brief(text: str) -> str:
    """At most 300 characters, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def accept_any_text() -> None:
    """Let stdout and stderr show `?` for a character that their encoding does not have, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@contextmanager
def failures() -> Generator[None]:
    """Turn an error of the library or the system into one line and exit code 1, and Ctrl-C into exit code 130."""
    try:
        yield
    except TenutoError as error:
        failed(str(error))
        raise typer.Exit(1) from None
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # the reader of our output has left; click ends quietly
        _drop_output()
        failed(str(error))
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _drop_output() -> None:
    """Let what stdout could not take go nowhere: else Python tries once more at its exit, and ends with code 120.

    Source: the note on SIGPIPE in the documentation of Python's `signal` module.
    """
    try:
        sys.stdout.flush()
    except OSError:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


class Answer:
    """Text as it streams to stdout, and lines about it on stderr that begin on a line of their own."""

    def __init__(self) -> None:
        self._open = False

    def text(self, text: str) -> None:
        """Write more of the answer."""
        if text := printable(text):
            sys.stdout.write(text)
            sys.stdout.flush()
            self._open = not text.endswith("\n")

    def note(self, text: str, style: str = "dim") -> None:
        """Say something about it."""
        self.close()
        note(text, style)

    def close(self) -> None:
        """End the line."""
        if self._open:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._open = False
