"""Failpoints: places in the source where a test may stop the world.

Invariant: without an installed hook `hit` does nothing. The names in the source are the list that crash tests walk.
"""

from __future__ import annotations

from collections.abc import Callable

_hook: Callable[[str], None] | None = None


def hit(name: str) -> None:
    """Pass the failpoint `name`."""
    hook = _hook  # once: another thread may remove it in between
    if hook is not None:
        hook(name)


def install(hook: Callable[[str], None] | None) -> None:
    """Set (or, with None, remove) the hook that every later `hit` calls; for tests only."""
    global _hook  # noqa: PLW0603 - one process, one hook
    _hook = hook
