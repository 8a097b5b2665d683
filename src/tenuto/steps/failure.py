"""An exception as the log may hold it (its identity, never a traceback), and back."""

from __future__ import annotations

from tenuto.core.errors import Issue, ModelError, OutputInvalid, TenutoError
from tenuto.core.foreign import message_of
from tenuto.core.payloads import ErrorInfo, Json
from tenuto.messages.bounded import bounded, valid_text

MESSAGE_LIMIT = 2_000
"""Characters of an error's message that are kept."""

ANSWER_LIMIT = 64_000
"""Characters of an answer that does not fit which are kept with its error."""


def error_info(error: BaseException) -> ErrorInfo:
    """The loggable form of `error`."""
    message = valid_text(message_of(error)[:MESSAGE_LIMIT])
    name = type(error).__name__
    if not isinstance(error, TenutoError):
        return ErrorInfo(name, message)
    details = error.details or None
    if isinstance(error, OutputInvalid):
        return ErrorInfo(name, message, error.id, error.category, details={**error.details, **_output(error)})
    if isinstance(error, ModelError):
        return ErrorInfo(
            name, message, error.id, error.category, error.code, error.type, error.status, error.retryable, details
        )
    return ErrorInfo(name, message, error.id, error.category, details=details)


def error_of(info: ErrorInfo) -> TenutoError:
    """An exception for a logged error: of the same id, not of the same class, for nothing is imported from data."""
    details = dict(info.details or {})
    if "issues" in details:
        return _output_invalid(info, details)
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


def _output(error: OutputInvalid) -> dict[str, Json]:
    kept = len(error.text) <= ANSWER_LIMIT
    return {
        "issues": [{"path": list(issue.path), "message": issue.message} for issue in error.issues],
        "text": error.text if kept else bounded(valid_text(error.text), ANSWER_LIMIT),
        "parsed": error.value if kept else None,
    }


def _output_invalid(info: ErrorInfo, details: dict[str, Json]) -> OutputInvalid:
    issues = [Issue(tuple(each["path"]), each["message"]) for each in details.pop("issues")]
    text, value = details.pop("text", ""), details.pop("parsed", None)
    return OutputInvalid(info.message, id=info.id, details=details, text=text, value=value, issues=issues)
