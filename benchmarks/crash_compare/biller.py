"""The effect that all contestants share: a line in a file, and one death right behind the second.

Invariant: the file is written and synced before anything else happens, by the tool's body alone; it is the only record
that the comparison reads.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

LEDGER = Path(os.environ["LEDGER"])


def charge_effect(n: int) -> str:
    """Take the effect `n`; the first time that `n` is 2, die before anybody hears of it."""
    _append(LEDGER, str(n))
    died = LEDGER.with_suffix(".died")
    if n == 2 and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return f"charged {n}"


def model_called() -> None:
    """Count a model call."""
    _append(LEDGER.with_suffix(".model"), "x")


def _append(file: Path, line: str) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.write(f"{line}\n")
        out.flush()
        os.fsync(out.fileno())
