"""Which runs are driven around the code that runs: so that nobody waits for a thread that waits for him.

Invariant: it only ever refuses what could not end: a tool, a callback or a processor of a run that holds a thread, and
everything it starts, is inside that run for as long as it is driven.
"""

from __future__ import annotations

from contextvars import ContextVar, Token

from tenuto.core.errors import RunError
from tenuto.store.ports import Scope


class Holding:
    """A run that is driven, and what it writes to; `above` is the one whose code started it."""

    __slots__ = ("above", "active", "scope")

    def __init__(self, scope: Scope, above: Holding | None) -> None:
        self.scope: Scope = scope
        self.above: Holding | None = above
        self.active: bool = True


class Around:
    """The runs around the current code, the innermost first."""

    def __init__(self) -> None:
        self._innermost: ContextVar[Holding | None] = ContextVar("tenuto run around", default=None)

    def enter(self, scope: Scope) -> Holding:
        """What the current task does from now on belongs to a run that writes to `scope`."""
        holding = Holding(scope, self._active())
        self._innermost.set(holding)
        return holding

    def leave(self) -> Token[Holding | None]:
        """What the current task does from now on belongs to no run."""
        return self._innermost.set(None)

    def nested(self) -> bool:
        """Whether there is one."""
        return self._active() is not None

    def holds(self, scope: Scope) -> bool:
        """Whether one of them holds `scope`."""
        run = self._active()
        while run is not None:
            if run.active and run.scope == scope:
                return True
            run = run.above
        return False

    def _active(self) -> Holding | None:
        run = self._innermost.get()
        while run is not None and not run.active:
            run = run.above
        return run


around: Around = Around()
"""Of this code."""


def check_free_for_me(scope: Scope) -> None:
    """See that no run around this code holds `scope`.

    Raises:
        RunError: `THREAD_HELD_BY_ANCESTOR`.
    """
    if around.holds(scope):
        message = (
            f"Thread {scope.id!r} is held by the run that this code is called by, which would wait for itself. "
            "Use another thread, read_only, or no memory here; or start it when that run has ended."
        )
        raise RunError(message, id="THREAD_HELD_BY_ANCESTOR", category="USER")
