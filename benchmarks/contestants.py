"""Who takes part, and the environment each of them runs in.

Invariant: a peer has an environment of its own with pinned packages, made when it is first needed and kept under
`.cache/`; one that cannot be made is reported, with the reason, and never passed over in silence.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from benchmarks.rows import AGNO, DIALECTS, DURABLE, FLOOR, OPENAI, PROCESSED, TENUTO

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache" / "benchmarks"


class Missing(Exception):
    """A contestant that cannot take part; the text says why."""


@dataclass(frozen=True)
class Contestant:
    """A program that answers as `peers.scenarios` asks.

    Attributes:
        script: In `peers/`.
        imports: What a user of it imports.
        requirements: Pins of its environment, in `peers/`; None: it runs where this runs.
        dialect: The wire format it speaks, for a script that knows several.
    """

    script: str
    imports: str
    requirements: str | None = None
    dialect: str | None = None

    def command(self, scenario: str, base_url: str) -> list[str]:
        """The arguments of its interpreter that measure a scenario."""
        spoken = [] if self.dialect is None else ["--dialect", self.dialect]
        return [str(HERE / "peers" / self.script), scenario, base_url, *spoken]

    def python(self) -> Path:
        """The interpreter of its environment, which is made first when there is none.

        Raises:
            Missing: It could not be made.
        """
        return Path(sys.executable) if self.requirements is None else interpreter(HERE / "peers" / self.requirements)


def interpreter(pins: Path) -> Path:
    """The interpreter of the environment that `pins` describes, which is made first when there is none.

    Raises:
        Missing: It could not be made.
    """
    mark = sha256(pins.read_bytes() + sys.version.encode()).hexdigest()[:12]
    place = CACHE / f"{pins.stem}-{mark}"
    if not (place / "complete").exists():
        _make(place, pins)
    return place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


CONTESTANTS: Mapping[str, Contestant] = {
    TENUTO: Contestant("with_tenuto.py", "from tenuto import Agent, tool"),
    DURABLE: Contestant("with_durable.py", "from tenuto import Agent, Tenuto"),
    PROCESSED: Contestant("with_processed.py", "from tenuto import Agent"),
    FLOOR: Contestant("by_hand.py", "import asyncio, msgspec"),
    OPENAI: Contestant("with_openai.py", "from openai import AsyncOpenAI", "openai.txt"),
    AGNO: Contestant("with_agno.py", "from agno.agent import Agent", "agno.txt"),
    **{name: Contestant("with_tenuto.py", "from tenuto import Agent, tool", dialect=name) for name in DIALECTS},
}


def environment() -> dict[str, str]:
    """The variables of a measured process: bytecode may be written, no proxy, no telemetry."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and name not in {"PYTHONDONTWRITEBYTECODE", "PYTHONPATH"}
    }
    return kept | {"AGNO_TELEMETRY": "false", "DO_NOT_TRACK": "1", "PYTHONHASHSEED": "0"}


def pinned(name: str) -> str:
    """The version of a peer that its requirements pin."""
    pins = CONTESTANTS[name].requirements
    lines = [] if pins is None else (HERE / "peers" / pins).read_text(encoding="utf-8").splitlines()
    return next((line.split("==")[1].split()[0] for line in lines if line.startswith(f"{name}==")), "unknown")


def _make(place: Path, pins: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    uv = [sys.executable, "-m", "uv"]
    _do([*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(place)])
    _do([*uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(place), "-r", str(pins)])
    (place / "complete").touch()


def _do(command: list[str]) -> None:
    done = subprocess.run(command, env=_install_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["no message"]
        raise Missing(f"its environment could not be made: {said[-1]}")


def _install_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
