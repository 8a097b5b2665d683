"""Living on in a fork of a process that had loaded the native library.

Invariant: nothing native of the parent is ever freed in the child: both freeing it and the library's own exit handlers
wait for threads that did not come along, or end the process by a signal.
"""

from __future__ import annotations

import ctypes


def keep_for_ever(native: object) -> None:
    """Never let `native` be freed; the system takes its memory back when the process ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(native))


def skip_native_exit() -> bool:
    """End this process without the library's exit handlers, once Python's own are done; its exit code stays.

    Returns:
        False where the C library cannot do that (it needs `on_exit`, which glibc has): then the child must not load
        the library, or it could never end.
    """
    try:
        libc = ctypes.CDLL(None)
        return libc.on_exit(libc._exit, None) == 0  # noqa: SLF001 - a C function; handlers run last in, first out
    except (AttributeError, OSError, TypeError):
        return False
