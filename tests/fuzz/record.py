"""Pytest plugin: writes down every stream that a fake provider sends, one JSON array a line: dialect, then the bytes.

`python -m pytest -p tests.fuzz.record --record-streams=FILE tests/models` records; a stream that differs from another
in numbers alone is written once.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tenuto.testing.provider import server
from tests.fuzz.corpus import NAMES, Stream

_END = re.compile(rb"(?<=\n\n)|(?<=\r\r)|(?<=\r\n\r\n)")
_NUMBER = re.compile(rb"\d+")


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--record-streams", metavar="FILE", required=True)


def pytest_configure(config: Any) -> None:
    found: dict[tuple[str, bytes], bytes] = {}
    prepare = server.prepare

    def preparing(dialect: Any, *rest: Any) -> Any:
        outgoing = prepare(dialect, *rest)
        if b"text/event-stream" in outgoing.head:
            whole = b"".join(outgoing.items)
            found.setdefault((NAMES[type(dialect).__name__], _NUMBER.sub(b"0", whole)), whole)
        return outgoing

    server.prepare = preparing
    path = Path(config.getoption("--record-streams"))

    def write() -> None:
        lines = [json.dumps([name, whole.decode("latin-1")]) for (name, _), whole in found.items()]
        path.write_text("\n".join(lines))

    config.add_cleanup(write)


def read(path: Path) -> list[Stream]:
    """The recorded streams, cut into events after each blank line."""
    found: list[Stream] = []
    for number, line in enumerate(path.read_text().splitlines()):
        dialect, text = json.loads(line)
        events = tuple(event for event in _END.split(text.encode("latin-1")) if event)
        found.append(Stream(dialect, f"recorded {number}", events))
    return found
