"""How the `runs` commands write: lines, times, JSON, exit codes.

Invariant: nothing that a model, a tool or a user wrote can control the terminal, in JSON neither.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, to_builtins
from rich.console import Console
from rich.text import Text

from tenuto.cli.screen import printable
from tenuto.core.payloads import wire_name
from tenuto.store.ports import RunStatus

STYLES: Mapping[RunStatus, str] = {
    "running": "cyan",
    "suspended": "yellow",
    "success": "green",
    "failed": "red",
    "canceled": "magenta",
    "interrupted": "red",
}

WAITS = 3
"""Exit code of a command whose run waits for a decision."""

_BREAKS = re.compile(r"[\t\n]")
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def exit_code(status: RunStatus) -> int:
    """0 for a run that succeeded, 3 for one that waits, 1 for any other end."""
    match status:
        case "success" | "running":
            return 0
        case "suspended":
            return WAITS
        case _:
            return 1


def line(*parts: str | tuple[str, str]) -> None:
    """Print one line on stdout, of plain parts and of `(part, style)`."""
    styled = [(part, "") if isinstance(part, str) else part for part in parts]
    text = Text.assemble(*((_BREAKS.sub(" ", printable(part)), style) for part, style in styled))
    text.rstrip()
    Console(highlight=False, soft_wrap=True).print(text)


def wire(row: Struct) -> dict[str, Any]:
    """A row of the store as plain values, its fields named as on the wire; what is inside a field keeps its names."""
    return {wire_name(name): to_builtins(getattr(row, name)) for name in row.__struct_fields__}


def as_json(value: Any) -> str:
    """JSON text in ASCII, so that no control character is in it."""
    return json.dumps(value, default=str, indent=2).replace("\x7f", "\\u007f")


def age(since: float | None, now: float) -> str:
    """How long ago, in one unit: `12 s`, `3 min`, `5 h`, `2 d`."""
    if since is None:
        return "-"
    seconds = max(0, int(now - since))
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return "0 s"


def moment(at: float | None, *, date: bool = False) -> str:
    """Local time, to the millisecond; blank when it is not known."""
    if at is None:
        return ""
    shown = datetime.fromtimestamp(at).astimezone()
    text = f"{shown:%H:%M:%S}.{shown.microsecond // 1000:03}"
    return f"{shown:%Y-%m-%d} {text}" if date else text
