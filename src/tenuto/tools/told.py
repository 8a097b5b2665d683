"""Asks a tool's `to_model_output` what the model is told of a result.

Invariant: the result itself stays whole for the user; a function that fails tells the model nothing of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from tenuto.core.foreign import contained
from tenuto.core.payloads import Json
from tenuto.messages.told import NotTold, Told, read_told
from tenuto.tools.describe import error_text
from tenuto.tools.results import to_json

ToModelOutput = Callable[[Any], Any | Awaitable[Any]]
"""`to_model_output=` of a tool: gets the result as JSON; returns what the model is told: a plain value, or
`{"type": "text" | "json" | "content", "value": ...}`."""


class ToldInvalid(Exception):
    """The function raised, or returned what cannot be told; the text is for the model."""


async def ask_model_output(function: ToModelOutput, result: Json, limit: int) -> Told:
    """What the function makes of `result`.

    Raises:
        ToldInvalid: See there.
    """
    try:
        with contained():
            value = function(result)
            value = await value if inspect.isawaitable(value) else value
        return read_told(to_json(value), limit)
    except NotTold as error:
        raise ToldInvalid(str(error)) from error
    except Exception as error:
        raise ToldInvalid(error_text(error)) from error
