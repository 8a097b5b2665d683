"""Where runs are kept: the `RunStore` port and its implementations."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenuto.store.memory import InMemoryStore
    from tenuto.store.sqlite import SQLiteStore
else:
    from tenuto.core.later import later

    __getattr__ = later(globals(), {"InMemoryStore": "tenuto.store.memory", "SQLiteStore": "tenuto.store.sqlite"})

__all__ = ["InMemoryStore", "SQLiteStore"]
