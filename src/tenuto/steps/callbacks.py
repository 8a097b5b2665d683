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


async def resolve(value: Any, argument: object, app: object = None) -> Any:
    """`value` itself, or what it returns for `argument` when it is a function.

    It may take nothing, and it may declare a parameter `app`, which gets the agent's app, or None.
    """
    if not callable(value):
        return value
    with contained():
        positional, keywords = _arguments(value, argument, app)
        result = value(*positional, **keywords)
        return await result if inspect.isawaitable(result) else result


def _arguments(function: Callable[..., Any], argument: object, app: object) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return (argument,), {}
    wants = parameters.get("app")
    named = wants is not None and wants.kind in {wants.POSITIONAL_OR_KEYWORD, wants.KEYWORD_ONLY}
    places = [
        each
        for each in parameters.values()
        if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.VAR_POSITIONAL}
        and not (named and each.name == "app")
    ]
    return ((argument,) if places else ()), ({"app": app} if named else {})
