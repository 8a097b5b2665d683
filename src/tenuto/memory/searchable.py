"""Whether a memory can search at all: what semantic recall needs, and who is told what is missing.

Invariant: it is known before a run is begun, when the memory is made or a call is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenuto.core.errors import ConfigurationError
from tenuto.memory.config import MemoryConfig

if TYPE_CHECKING:
    from tenuto.memory.semantic import SemanticRecaller
    from tenuto.store.vectors import VectorStore


def make_recaller(embedder: object, vector: VectorStore | None) -> SemanticRecaller | None:
    """What searches for a memory with this `embedder`; None: it has none.

    Raises:
        ConfigurationError: `SEMANTIC_RECALL_MISSING_EMBEDDER`, `SEMANTIC_RECALL_MISSING_VECTOR_ADAPTER`; there is no
            such embedder.
        TypeError: It is none.
    """
    if embedder is None and vector is None:
        return None
    if embedder is None:
        raise missing_embedder()
    from tenuto.memory.semantic import SemanticRecaller

    return SemanticRecaller(embedder, vector)


def check_searchable(config: MemoryConfig, recaller: SemanticRecaller | None, store: object) -> None:
    """Refuse a semantic recall that nothing can be found with; `store` None: it is not known yet.

    Raises:
        ConfigurationError: `SEMANTIC_RECALL_MISSING_EMBEDDER`, `SEMANTIC_RECALL_MISSING_STORAGE_ADAPTER`,
            `SEMANTIC_RECALL_MISSING_VECTOR_ADAPTER`.
    """
    if config.semantic_recall is None:
        return
    if recaller is None:
        raise missing_embedder()
    if store is None:
        return
    if not _has(store, "thread", "threads", "messages", "find_messages"):
        message = (
            f"Semantic recall needs a store that keeps messages, and {type(store).__name__} keeps none; give the app "
            "or the agent one of tenuto.store."
        )
        raise ConfigurationError(message, id="SEMANTIC_RECALL_MISSING_STORAGE_ADAPTER", domain="MEMORY")
    if recaller.vector is None and not keeps_vectors(store):
        raise missing_vectors(store)


def keeps_vectors(store: object) -> bool:
    """Whether an object is a `VectorStore`."""
    return _has(store, "index", "unindex", "vectors")


def _has(store: object, *names: str) -> bool:
    return all(callable(getattr(store, name, None)) for name in names)


def missing_vectors(given: object) -> ConfigurationError:
    """`SEMANTIC_RECALL_MISSING_VECTOR_ADAPTER`."""
    message = (
        f"Semantic recall needs a place for vectors, and {type(given).__name__} keeps none: leave out vector=, "
        "then the store keeps them with the messages, or give an object with index(), unindex() and vectors()."
    )
    return ConfigurationError(message, id="SEMANTIC_RECALL_MISSING_VECTOR_ADAPTER", domain="MEMORY")


def missing_embedder() -> ConfigurationError:
    """`SEMANTIC_RECALL_MISSING_EMBEDDER`."""
    message = (
        "semantic_recall needs an embedder: Memory(embedder='openai/text-embedding-3-small', semantic_recall=True), or "
        "embedder='local/minilm', which needs no key."
    )
    return ConfigurationError(message, id="SEMANTIC_RECALL_MISSING_EMBEDDER", domain="MEMORY")
