"""Where runs are kept: the `RunStore` port and its implementations."""

from tenuto.store.memory import InMemoryStore

__all__ = ["InMemoryStore"]
