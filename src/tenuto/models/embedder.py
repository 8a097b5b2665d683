"""The port every embedder fills: texts in, vectors out.

Invariant: one vector for each text, in their order, all of one length; vectors of one `id` may be compared with each
other, and with no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

Vector = Sequence[float]


@runtime_checkable
class Embedder(Protocol):
    """What turns texts into vectors of which those of like texts point the same way."""

    @property
    def id(self) -> str:
        """Names the model, such as `openai/text-embedding-3-small`; stored with each vector."""
        ...

    @property
    def dimensions(self) -> int | None:
        """Numbers of a vector; None while it is not known, before the first answer."""
        ...

    @property
    def max_batch(self) -> int:
        """Texts that `embed` takes at once, at most."""
        ...

    @property
    def max_characters(self) -> int:
        """Characters of one text, at most; a longer one is split by whoever has it."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """The vectors of `texts`, in their order. Cancelling it ends the work.

        Raises:
            ModelError: No vectors: the provider failed, or its answer is not what was asked for.
        """
        ...
