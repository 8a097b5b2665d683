"""What a reader has to know of the machine to judge a table."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version

from benchmarks.contestants import pinned
from benchmarks.rows import AGNO, OPENAI


def load() -> float:
    """Processes that wanted a core, on average over the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def facts(loads: list[float], repetitions: int) -> list[str]:
    """One sentence each.

    Args:
        loads: As `load()` gave them during the run.
        repetitions: Of each row.
    """
    ours = ", ".join(f"{name} {version(name)}" for name in ("aiohttp", "msgspec"))
    peers = ", ".join(f"{name} {pinned(name)}" for name in (OPENAI, AGNO))
    return [
        f"{datetime.now(UTC):%Y-%m-%d}, {repetitions} repetitions",
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {min(loads):.1f} to {max(loads):.1f}",
        f"Python {platform.python_version()}; tenuto {version('tenuto')} with {ours}; {peers}",
    ]
