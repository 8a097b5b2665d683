"""Calls what a user gave, in one way everywhere: one argument, sync or async, and its failure is only logged."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

from tenuto.core.foreign import contained

log: logging.Logger = logging.getLogger("tenuto")


async def call_back(callback: Callable[[Any], Any] | None, event: object, name: str) -> Any:
    """Call `callback(event)` and await what it returns; None when there is none or when it fails.

    One that is still going on when the grace after an abort is over is cancelled, and so is this.
    """
    if callback is None:
        return None
    try:
        with contained():
            result = callback(event)
            return await result if inspect.isawaitable(result) else result
    except asyncio.CancelledError:
        log.warning("The callback %s was still going on when its run had to end; it was cancelled.", name)
        raise
    except Exception:
        log.exception("The callback %s failed; the run goes on.", name)
        return None


async def resolve(value: Any, argument: object) -> Any:
    """`value` itself, or what it returns for `argument` when it is a function (which may take nothing)."""
    if not callable(value):
        return value
    with contained():
        result = value(argument) if _takes_one(value) else value()
        return await result if inspect.isawaitable(result) else result


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(
        each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.VAR_POSITIONAL} for each in parameters
    )
