"""An exception as a line for the model: what happened, without where in this machine.

Invariant: the text is bounded, has no traceback, and names no file path that the model did not send itself.
"""

from __future__ import annotations

import re
from typing import cast

import msgspec

from tenuto.core.foreign import message_of
from tenuto.core.payloads import Json
from tenuto.messages.bounded import bounded, model_text
from tenuto.tools.outcome import ToolFailed

MAX_ERROR_CHARS = 2_000
_MAX_MEMBERS = 5
_PATH = re.compile(r"(?<![\w/:.~<-])(?:~?(?:/[\w.@+-]+){2,}/?|[A-Za-z]:\\[\w.\\@+ -]+|\\\\[\w.\\@+ -]+)")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):.*", re.DOTALL)


def error_text(error: BaseException, given: Json = None) -> str:
    """The text of `error` for the model.

    Args:
        error: What the tool raised. The message of `ToolFailed` was written for the model and stays as it is.
        given: The arguments of the call; a path in them may be named.
    """
    if isinstance(error, ToolFailed):
        return model_text(_message(error) or "The tool failed.", MAX_ERROR_CHARS)
    return model_text(_without_paths(_line(error), given), MAX_ERROR_CHARS)


def _line(error: BaseException) -> str:
    message = _TRACEBACK.sub("[traceback left out]", bounded(_message(error), 4 * MAX_ERROR_CHARS))
    line = f"{type(error).__name__}: {message}" if message else type(error).__name__
    if not isinstance(error, BaseExceptionGroup):
        return line
    group = cast("BaseExceptionGroup[BaseException]", error)
    members = [bounded(_line(each), MAX_ERROR_CHARS // _MAX_MEMBERS) for each in group.exceptions[:_MAX_MEMBERS]]
    return f"{line}: {'; '.join(members)}"


def _message(error: BaseException) -> str:
    return message_of(error).strip()


def _without_paths(text: str, given: Json) -> str:
    sent = given if isinstance(given, str) else msgspec.json.encode(given, enc_hook=repr).decode() if given else ""
    return _PATH.sub(lambda found: found[0] if found[0] in sent else "[path]", text)
