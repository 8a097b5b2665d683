"""Turns an exception into what the log may hold: its identity, never a traceback."""

from __future__ import annotations

from tenuto.core.errors import ModelError, TenutoError
from tenuto.core.payloads import ErrorInfo

MESSAGE_LIMIT = 2_000
"""Characters of an error's message that are kept."""


def error_info(error: BaseException) -> ErrorInfo:
    """The loggable form of `error`."""
    message = str(error)[:MESSAGE_LIMIT]
    name = type(error).__name__
    if not isinstance(error, TenutoError):
        return ErrorInfo(name, message)
    details = error.details or None
    if isinstance(error, ModelError):
        return ErrorInfo(
            name, message, error.id, error.category, error.code, error.type, error.status, error.retryable, details
        )
    return ErrorInfo(name, message, error.id, error.category, details=details)
