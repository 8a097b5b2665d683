"""One process at a time: a lock on a file, which the system drops when its holder dies.

Invariant: whoever waits gets the lock only after the holder let go or ended.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


@contextmanager
def exclusive(path: Path) -> Generator[None]:
    """Hold the lock `path` for the block, waiting for it. The file stays: to remove it would race."""
    with path.open("a+b") as file:
        _lock(file.fileno())
        yield
