"""An embedder for tests: in this process, without a model, and one that can fail when a test says so.

Invariant: the vector of a text depends on its words alone.
"""

from collections.abc import Callable, Sequence

from tenuto.testing.provider.embeddings import word_vector

__all__ = ["ScriptedEmbedder"]


class ScriptedEmbedder:
    """Texts that share words are alike.

    Attributes:
        batches: The texts of each call of `embed`, in order.
    """

    def __init__(
        self,
        *,
        id: str = "test/words",
        dimensions: int = 64,
        max_batch: int = 16,
        max_characters: int = 1000,
        on_embed: Callable[[Sequence[str]], object] | None = None,
    ) -> None:
        """Make vectors of `dimensions` numbers.

        Args:
            id: Its name in the index.
            dimensions: Numbers of a vector.
            max_batch: Texts of a call, at most.
            max_characters: Of a text, at most.
            on_embed: Called with the texts first; it may raise, or return an awaitable to be awaited.
        """
        self.id: str = id
        self.dimensions: int | None = dimensions
        self.max_batch: int = max_batch
        self.max_characters: int = max_characters
        self.batches: list[tuple[str, ...]] = []
        self._on_embed = on_embed

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """See `Embedder.embed`.

        Raises:
            AssertionError: More or longer texts than it takes, or an empty one.
        """
        import inspect

        assert 0 < len(texts) <= self.max_batch, f"{len(texts)} texts in a batch of at most {self.max_batch}"
        for text in texts:
            assert 0 < len(text) <= self.max_characters, f"{len(text)} characters of at most {self.max_characters}"
        self.batches.append(tuple(texts))
        if self._on_embed is not None:
            waited = self._on_embed(texts)
            if inspect.isawaitable(waited):
                await waited
        assert self.dimensions is not None
        return [word_vector(text, self.dimensions) for text in texts]
