"""SQL from files: the named statements of a store, and the single statements of a script."""

from __future__ import annotations

from pathlib import Path

DIRECTORY = Path(__file__).parent / "sql"


def named(path: Path) -> dict[str, str]:
    """The statements of a file; each follows a line `-- name: its_name`."""
    found: dict[str, str] = {}
    for part in path.read_text(encoding="utf-8").split("-- name: ")[1:]:
        name, _, statement = part.partition("\n")
        found[name.strip()] = statement.partition(";")[0].strip()
    return found
