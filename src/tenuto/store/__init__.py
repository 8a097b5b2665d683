"""Where runs are kept: the `RunStore` port and its implementations."""

from typing import TYPE_CHECKING

from tenuto.store.memory import InMemoryStore

if TYPE_CHECKING:
    from tenuto.store.sqlite import SQLiteStore

__all__ = ["InMemoryStore", "SQLiteStore"]


def __getattr__(name: str) -> object:
    """Load `SQLiteStore` when it is first asked for: who does not use it does not pay for `sqlite3`."""
    if name == "SQLiteStore":
        from tenuto.store.sqlite import SQLiteStore

        globals()[name] = SQLiteStore
        return SQLiteStore
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
