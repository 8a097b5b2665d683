"""Which code runs when something callable is called.

Invariant: nothing is called to find out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, cast


def body_of(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function whose code runs: inside partials, methods and objects with `__call__`."""
    while isinstance(fn, partial):
        fn = cast("partial[Any]", fn).func
    if inspect.isroutine(fn):
        return fn
    return type(fn).__call__


def is_async(fn: Callable[..., Any]) -> bool:
    """Whether `fn` is a coroutine function, also below decorators that say what they wrap."""
    body = body_of(fn)
    return inspect.iscoroutinefunction(body) or inspect.iscoroutinefunction(inspect.unwrap(body))
