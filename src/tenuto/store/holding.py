"""Which threads are held around the code that runs: so that nobody waits for a thread that waits for him.

Invariant: it only ever refuses what could not end: a tool, a callback or a processor of a run that holds a thread, and
everything it starts, is inside that run for as long as it holds the thread.
"""

from __future__ import annotations

from contextvars import ContextVar

from tenuto.core.errors import RunError
from tenuto.store.ports import Scope


class Holding:
    """A run that is driven.

    Attributes:
        scope: The thread it writes to; None when it holds none.
    """

    __slots__ = ("above", "scope")

    def __init__(self, scope: Scope | None, above: Holding | None) -> None:
        self.scope: Scope | None = scope
        self.above: Holding | None = above

    def let_go(self) -> None:
        """It holds nothing any more."""
        self.scope = None


around: ContextVar[Holding | None] = ContextVar("tenuto run around", default=None)
"""The innermost run that the current code is called by."""


def check_free_for_me(scope: Scope) -> None:
    """See that no run around this code holds `scope`.

    Raises:
        RunError: `THREAD_HELD_BY_ANCESTOR`.
    """
    run = around.get()
    while run is not None:
        if run.scope == scope:
            message = (
                f"Thread {scope.id!r} is held by the run that this code is called by, which would wait for itself. "
                "Use another thread, read_only, or no memory here; or start it when that run has ended."
            )
            raise RunError(message, id="THREAD_HELD_BY_ANCESTOR", category="USER")
        run = run.above
