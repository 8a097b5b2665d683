"""Docstrings: the text for the model, and what each parameter is; Google, numpy and reST styles.

Invariant: an unknown style loses nothing: its whole text is the description.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

_PARAMETERS = frozenset({"args", "arguments", "parameters", "params", "keyword args", "other parameters"})
_SECTIONS = _PARAMETERS | {
    "returns", "return", "yields", "yield", "raises", "raise", "warns", "warnings", "examples", "example",
    "notes", "note", "references", "see also", "attributes", "source", "todo",
}  # fmt: skip
_GOOGLE = re.compile(rf"({'|'.join(sorted(_SECTIONS))}):\s*$", re.IGNORECASE)
_UNDERLINE = re.compile(r"-{3,}\s*$")
_REST = re.compile(r":(\w+)\b([^:]*):\s*(.*)$")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_ENTRY = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?$")
_REST_PARAMETERS = {"param", "parameter", "arg", "argument", "key", "keyword"}


class Docstring(Struct, frozen=True):
    """What a docstring says: `text` before its sections, and one description per parameter."""

    text: str
    parameters: Mapping[str, str]


def parse_docstring(text: str) -> Docstring:
    """Read a docstring of any of the three styles."""
    lines = inspect.cleandoc(text).splitlines()
    kept: list[str] = []
    for at, line in enumerate(lines):
        if _REST.match(line):
            return Docstring(_join(kept), dict(_rest_entries(lines[at:])))
        if _heading(lines, at):
            return Docstring(_join(kept), _sections(lines[at:]))
        kept.append(line)
    return Docstring(_join(kept), {})


def _join(lines: list[str]) -> str:
    return "\n".join(lines).strip()


def _heading(lines: list[str], at: int) -> str | None:
    """The name of the section that starts at line `at`, in lower case."""
    google = _GOOGLE.match(lines[at])
    if google:
        return google[1].lower()
    named = lines[at].strip().lower()
    underlined = at + 1 < len(lines) and _UNDERLINE.match(lines[at + 1])
    return named if underlined and named in _SECTIONS else None


def _sections(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    body: list[str] = []
    reading = numpy = False
    for at, line in enumerate(lines):
        heading = _heading(lines, at)
        if heading is None:
            body.append(line)
            continue
        found.update(_entries(body, numpy=numpy) if reading else ())
        body = []
        reading, numpy = heading in _PARAMETERS, not _GOOGLE.match(line)
    found.update(_entries(body, numpy=numpy) if reading else ())
    return found


def _entries(lines: list[str], *, numpy: bool) -> Iterator[tuple[str, str]]:
    """The parameters of a section: a line at its left edge names one, deeper lines go on."""
    lines = inspect.cleandoc("\n" + "\n".join(line for line in lines if not _UNDERLINE.match(line))).splitlines()
    names: list[str] = []
    words: list[str] = []
    for line in lines:
        entry = None if line[:1].isspace() else (_NUMPY_ENTRY if numpy else _GOOGLE_ENTRY).match(line)
        if entry is None:
            words.append(line.strip())
            continue
        yield from ((name, " ".join(words).strip()) for name in names)
        names = [name.strip() for name in entry[1].split(",")]
        words = [] if numpy else [entry[2]]
    yield from ((name, " ".join(words).strip()) for name in names)


def _rest_entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    name: str | None = None
    words: list[str] = []
    for line in lines:
        entry = _REST.match(line)
        if entry is None:
            words.append(line.strip())
            continue
        if name:
            yield name, " ".join(words).strip()
        name = (entry[2].split() or [""])[-1] if entry[1] in _REST_PARAMETERS else None
        words = [entry[3]]
    if name:
        yield name, " ".join(words).strip()
