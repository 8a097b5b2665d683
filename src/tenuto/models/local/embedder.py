"""`local_embedder`: vectors from a model file on this computer.

Invariant: weights and engine are touched by the first `embed()`, never earlier, and never on the event loop. A text
that the model cannot take in one piece is taken in two, so nothing of it is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from math import hypot
from operator import add
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from tenuto.core.errors import ModelError
from tenuto.models.embedder import Vector
from tenuto.models.local.backend import require_installed
from tenuto.models.local.engine import Embedding, Engine, engine_for
from tenuto.models.local.known import KNOWN, known, own_file
from tenuto.models.local.mailbox import Mailbox
from tenuto.models.local.minilm import DIMENSIONS
from tenuto.models.local.weights import pull

CONTEXT = 512
"""Tokens of one text: what all-MiniLM-L6-v2 was made for."""

_TOO_LONG = "too large to process"


class _Item(Struct, frozen=True):
    embedding: tuple[float, ...]


class _Fault(Struct, frozen=True):
    message: str = ""


class _Answer(Struct, frozen=True):
    """What the engine says of one text."""

    data: tuple[_Item, ...] = ()
    error: _Fault | None = None


def local_embedder(name: str) -> LocalEmbedder:
    """An embedder that runs in this process. Nothing is fetched or loaded before its first `embed()`.

    Args:
        name: A known model (`minilm`), fetched and verified at its first use, or the path of a GGUF file.

    Raises:
        ConfigurationError: The extra `local` is missing, or the name is neither a known embedder nor a GGUF file.
    """
    require_installed()
    if name in KNOWN:
        known(name, "embed")
        return LocalEmbedder(name, lambda: pull(name), DIMENSIONS)
    path = own_file(name, "embed")
    return LocalEmbedder(path.name, lambda: path, None)


class LocalEmbedder:
    """An `Embedder` on the engine of the local models."""

    def __init__(
        self,
        name: str,
        locate: Callable[[], Path],
        dimensions: int | None,
        *,
        engines: Callable[[Path], Engine] = lambda path: engine_for(path, CONTEXT, embeds=True),
    ) -> None:
        """See `local_embedder`.

        Args:
            name: After `local/`.
            locate: Returns the model file; it may fetch it, and is called in a worker thread, once.
            dimensions: Of its vectors, when they are known.
            engines: Where engines come from.
        """
        self._name = name
        self._locate = locate
        self._dimensions = dimensions
        self._engines = engines
        self._path: Path | None = None

    def __repr__(self) -> str:
        return f"<LocalEmbedder {self._name}>"

    @property
    def id(self) -> str:
        """See `Embedder.id`."""
        return f"local/{self._name}"

    @property
    def dimensions(self) -> int | None:
        """See `Embedder.dimensions`."""
        return self._dimensions

    @property
    def max_batch(self) -> int:
        """See `Embedder.max_batch`."""
        return 32

    @property
    def max_characters(self) -> int:
        """See `Embedder.max_characters`: about half of what it takes of English, so that a passage is one thought."""
        return 1000

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """See `Embedder.embed`.

        Raises:
            ConfigurationError: The engine or the model file cannot be used.
            ModelError: The weights cannot be fetched, or the engine failed.
        """
        if self._path is None:
            self._path = await asyncio.to_thread(self._locate)
        engine = self._engines(self._path)
        return await self._vectors(engine, texts)

    async def _vectors(self, engine: Engine, texts: Sequence[str]) -> list[Vector]:
        answers = await _ask(engine, texts)
        vectors = [await self._vector(engine, *pair) for pair in zip(texts, answers, strict=True)]
        self._dimensions = len(vectors[0]) if vectors else self._dimensions
        return vectors

    async def _vector(self, engine: Engine, text: str, answer: _Answer) -> Vector:
        if answer.data:
            return answer.data[0].embedding
        said = answer.error.message if answer.error else "nothing"
        if _TOO_LONG not in said or len(text) < 2:
            raise ModelError(
                f"The local engine made no vector with {engine.path.name}: {said}",
                id="LOCAL_ENGINE_FAILED",
                provider="local",
            )
        return _middle(*await self._vectors(engine, _halves(text)))


async def _ask(engine: Engine, texts: Sequence[str]) -> list[_Answer]:
    """What the engine says of each text."""
    mailbox = Mailbox()
    said: list[Mapping[str, Any]] = []
    try:
        engine.submit(Embedding(texts), mailbox)
        while len(said) < len(texts):
            new = await mailbox.take()
            if mailbox.ended and not new:
                raise mailbox.error or _closed(engine)
            said += new
        return [convert(each, _Answer) for each in said]
    finally:
        mailbox.cancelled = True


def _closed(engine: Engine) -> ModelError:
    return ModelError(
        f"The local engine was closed before it was done with {engine.path.name}.",
        id="LOCAL_ENGINE_CLOSED",
        provider="local",
        retryable=True,
    )


def _halves(text: str) -> tuple[str, str]:
    """`text` in two, at a space if there is one near its middle."""
    middle = len(text) // 2
    at = text.find(" ", middle, middle + 40)
    cut = middle if at < 0 else at
    return text[:cut], text[cut:]


def _middle(one: Vector, other: Vector) -> Vector:
    """The direction between two vectors of length one."""
    total = [*map(add, one, other)]
    length = hypot(*total) or 1.0
    return tuple(number / length for number in total)
