"""The native library: the narrow part of xllamacpp that is used, and its import with everything that can go wrong.

Invariant: it is imported in one place, with the OpenMP setting that keeps a busy machine usable, and only when a
generation needs it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol, cast

from tenuto.core.errors import ConfigurationError

INSTALL = "pip install 'tenuto[local]'"


class _Threads(Protocol):
    n_threads: int


class _Model(Protocol):
    path: str


class Params(Protocol):
    """What is set of `CommonParams`."""

    model: _Model
    cpuparams: _Threads
    cpuparams_batch: _Threads
    n_ctx: int
    n_batch: int
    n_ubatch: int
    embedding: bool
    n_parallel: int
    verbosity: int
    warmup: bool
    use_jinja: bool
    port: int
    api_keys: list[str]


class Server(Protocol):
    """What is used of `Server`: it holds the model, and listens on a loopback port of its own."""

    @property
    def listening_address(self) -> str:
        """`http://127.0.0.1:port`."""
        ...

    def handle_completions(self, body: Mapping[str, Any], on_chunk: Callable[[Mapping[str, Any]], bool]) -> object:
        """Generate; calls back for each token and stops when that returns True. Blocks, without the GIL."""
        ...

    def handle_embeddings(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make the vectors of the texts `input`. Blocks, without the GIL."""
        ...


class Backend(Protocol):
    """What is used of the module."""

    @property
    def CommonParams(self) -> Callable[[], Params]:  # noqa: N802 - the library's name
        """Default parameters."""
        ...

    @property
    def Server(self) -> Callable[[Params], Server]:  # noqa: N802 - the library's name
        """Load a model. Blocks for 0.5-1 s and holds the GIL."""
        ...

    def json_schema_to_grammar(self, schema: Mapping[str, Any]) -> str:
        """A grammar for the sampler."""
        ...


_IMPORT = threading.Lock()


def installed() -> bool:
    """Whether the extra `local` is installed; nothing is imported."""
    return find_spec("xllamacpp") is not None


def require_installed() -> None:
    """Refuse early when the extra is missing.

    Raises:
        ConfigurationError: It is.
    """
    if not installed():
        raise _missing()


def load_backend() -> Backend:
    """Import the library.

    Raises:
        ConfigurationError: The extra or the system library it needs is missing.
    """
    try:
        with _IMPORT, _passive_waiting():
            return cast("Backend", import_module("xllamacpp"))
    except ModuleNotFoundError as error:
        raise _missing() from error
    except ImportError as error:
        raise _unloadable(error) from error


@contextmanager
def _passive_waiting() -> Generator[None]:
    """Let OpenMP's threads sleep while they wait: spinning costs 5-7x the time when the processors are busy.

    libgomp reads the variable once, while it is loaded; afterwards the environment is as it was.
    """
    if "OMP_WAIT_POLICY" in os.environ:
        yield
        return
    os.environ["OMP_WAIT_POLICY"] = "passive"
    try:
        yield
    finally:
        os.environ.pop("OMP_WAIT_POLICY", None)


def _missing() -> ConfigurationError:
    return ConfigurationError(
        f"Local models need the engine xllamacpp, which is not installed; run: {INSTALL}",
        id="LOCAL_ENGINE_MISSING",
    )


def _unloadable(error: ImportError) -> ConfigurationError:
    if "libgomp" in str(error):
        remedy = "it needs the system library libgomp1; on Debian and Ubuntu: apt install libgomp1, on Fedora: libgomp"
    else:
        remedy = f"reinstall it: {INSTALL}"
    return ConfigurationError(
        f"The local engine xllamacpp is installed but cannot be loaded ({error}); {remedy}.",
        id="LOCAL_ENGINE_UNLOADABLE",
    )
