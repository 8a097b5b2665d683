"""An exception as the log may hold it (its identity, never a traceback), and back."""

from __future__ import annotations

from tenuto.core.errors import ModelError, TenutoError
from tenuto.core.foreign import message_of
from tenuto.core.payloads import ErrorInfo
from tenuto.messages.bounded import valid_text

MESSAGE_LIMIT = 2_000
"""Characters of an error's message that are kept."""


def error_info(error: BaseException) -> ErrorInfo:
    """The loggable form of `error`."""
    message = valid_text(message_of(error)[:MESSAGE_LIMIT])
    name = type(error).__name__
    if not isinstance(error, TenutoError):
        return ErrorInfo(name, message)
    details = error.details or None
    if isinstance(error, ModelError):
        return ErrorInfo(
            name, message, error.id, error.category, error.code, error.type, error.status, error.retryable, details
        )
    return ErrorInfo(name, message, error.id, error.category, details=details)


def error_of(info: ErrorInfo) -> TenutoError:
    """An exception for a logged error: of the same id, not of the same class, for nothing is imported from data."""
    details = dict(info.details or {})
    if info.status is None and info.code is None and info.retryable is None:
        return TenutoError(info.message, id=info.id or info.name, details=details)
    return ModelError(
        info.message,
        id=info.id,
        code=info.code,
        type=info.type,
        status=info.status,
        retryable=bool(info.retryable),
        details=details,
    )
