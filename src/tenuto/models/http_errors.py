"""From a provider's failure to one typed error: HTTP answers, in-band error events, status, retry advice.

Invariant: a message is bounded, says what the provider said, and never holds a secret that was sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from tenuto.core.credentials import redact
from tenuto.core.errors import ModelError, ModelHTTPError
from tenuto.models.failure_kinds import FailureKind, kind_of

LIMIT = 600
_WORD = 200
_TAGS = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_STATUS_WORDS: tuple[tuple[str, int], ...] = (
    ("insufficient_quota", 429),
    ("rate_limit", 429),
    ("resource_exhausted", 429),
    ("too_many_requests", 429),
    ("overloaded", 503),
    ("unavailable", 503),
    ("capacity", 503),
    ("timeout", 504),
    ("deadline_exceeded", 504),
    ("context_length", 400),
    ("invalid_api_key", 401),
    ("authentication", 401),
    ("unauthorized", 401),
    ("unauthenticated", 401),
    ("permission", 403),
    ("forbidden", 403),
    ("not_found", 404),
    ("invalid_request", 400),
    ("invalid_argument", 400),
    ("bad_request", 400),
    ("badrequest", 400),
    ("server_error", 500),
    ("internal", 500),
    ("api_error", 500),
)
_OUT_OF_MONEY = ("insufficient_quota", "billing", "payment", "credit")


class ProviderError(msgspec.Struct, frozen=True):
    """What a provider said about a failure, whatever the shape it said it in; `retry_after` in seconds."""

    message: str
    code: str | None = None
    type: str | None = None
    retry_after: float | None = None


def without_secrets(error: ProviderError, secrets: Iterable[str]) -> ProviderError:
    """The same, without the secrets that went into the request; only then it may be cut to length."""
    known = tuple(secrets)
    code, kind = (None if text is None else bounded(redact(text, known), _WORD) for text in (error.code, error.type))
    return ProviderError(redact(error.message, known), code, kind, error.retry_after)


def bounded(text: str, limit: int = LIMIT) -> str:
    """`text` on one line, at most `limit` characters."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def read_error(value: Any) -> ProviderError | None:
    """The error in a decoded body or event, or None when it holds none.

    Source: OpenAI error object; the variants of vLLM, FastAPI, Mistral, Google (`google.rpc.Status`), OpenRouter.
    """
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return read_error(items[0]) if items else None
    if not isinstance(value, dict):
        return None
    record = cast("dict[str, Any]", value)
    inner = record.get("error")
    if isinstance(inner, dict):
        return _from_record(cast("dict[str, Any]", inner))
    if inner:
        return ProviderError(str(inner), _text(record.get("code")), _text(record.get("type")))
    if record.get("detail"):
        return ProviderError(_said(record["detail"]))
    failed = record.get("object") == "error" or record.get("type") == "error"
    if failed or ("message" in record and "choices" not in record):
        return _from_record(record)
    return None


def _from_record(record: dict[str, Any]) -> ProviderError:
    message = record.get("message") or record.get("detail") or "The provider gave no message."
    kind = record.get("type") or record.get("status")
    kind = None if kind == "error" else kind  # the name of the event, not of the error
    return ProviderError(_said(message), _text(record.get("code")), _text(kind), _retry_info(record.get("details")))


def _retry_info(details: Any) -> float | None:
    """Seconds of Google's `RetryInfo`, such as "34.4s".

    Source: google.rpc.RetryInfo and the JSON form of google.protobuf.Duration.
    """
    for detail in cast("list[Any]", details) if isinstance(details, list) else []:
        match detail:
            case {"retryDelay": str() as delay} if delay.endswith("s") and delay[:-1].replace(".", "", 1).isdecimal():
                return float(delay[:-1])
            case _:
                continue
    return None


def _said(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def status_of(error: ProviderError) -> int | None:
    """The HTTP status an in-band error stands for, or None when nothing says so."""
    if error.code is not None and error.code.isdecimal() and 400 <= int(error.code) <= 599:
        return int(error.code)
    words = f"{error.code or ''} {error.type or ''}".lower()
    return next((status for word, status in _STATUS_WORDS if word in words), None)


def is_retryable(status: int | None, error: ProviderError) -> bool:
    """Whether the same request may succeed later."""
    words = f"{error.code or ''} {error.type or ''}".lower()
    if any(word in words for word in _OUT_OF_MONEY):
        return False
    return status is not None and (status in {408, 409, 425, 429} or (status >= 500 and status != 501))


def in_band(
    provider: str, error: ProviderError, secrets: Iterable[str] = (), *, status: int | None = None
) -> ModelError:
    """The error for an error event inside a stream that began with 200; `status` when the format says which."""
    status = status or status_of(error)
    error = without_secrets(error, secrets)
    kind = kind_of(status, error.code, error.type, error.message)
    return ModelError(
        _with_remedy(f"{provider} failed in the middle of the answer: {bounded(error.message)}", kind),
        id=kind.id if kind else None,
        provider=provider,
        code=error.code,
        type=error.type,
        status=status,
        retryable=is_retryable(status, error),
        retry_after=error.retry_after,
    )


def broken_stream(provider: str, what: str) -> ModelError:
    """The error for a stream that lost a part of itself or had it twice: what came is not what was said."""
    return ModelError(
        f"{provider} broke the order of its stream: {what}. Parts of it were lost or came twice.",
        id="MODEL_STREAM_INVALID",
        provider=provider,
        retryable=True,
    )


def from_response(
    provider: str, status: int, headers: Mapping[str, str], body: bytes, secrets: Iterable[str] = ()
) -> ModelHTTPError:
    """The error for an HTTP error status; `headers` have lower-case names."""
    known = tuple(secrets)
    error = without_secrets(_read_body(body), known)
    wait = retry_after(headers)
    should = headers.get("x-should-retry")
    retryable = is_retryable(status, error) if should is None else should == "true"
    kind = kind_of(status, error.code, error.type, error.message)
    return ModelHTTPError(
        _with_remedy(f"{provider} answered {status}: {bounded(error.message)}", kind),
        id=kind.id if kind else None,
        provider=provider,
        code=error.code,
        type=error.type,
        status=status,
        retryable=retryable,
        request_id=redact(request_id(headers) or "", known) or None,
        retry_after=error.retry_after if wait is None else wait,
    )


def _with_remedy(fact: str, kind: FailureKind | None) -> str:
    if kind is None:
        return fact
    return f"{fact}{'' if fact.endswith(('.', '!', '?', '…')) else '.'} {kind.remedy}"


def request_id(headers: Mapping[str, str]) -> str | None:
    """The provider's id of a request."""
    names = ("x-request-id", "request-id", "x-amzn-requestid", "cf-ray")
    return next((headers[name] for name in names if name in headers), None)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait; a date counts from the answer's own `date`, so no clock of ours is involved."""
    from email.utils import parsedate_to_datetime

    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        given = headers.get("retry-after")
        if given is None:
            return None
        if given.strip().replace(".", "", 1).isdecimal():
            return float(given)
        until, now = parsedate_to_datetime(given), parsedate_to_datetime(headers["date"])
        return max(0.0, (until - now).total_seconds())
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _read_body(body: bytes) -> ProviderError:
    try:
        error = read_error(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        error = None
    if error is not None:
        return error
    text = body.decode("utf-8", "replace")
    if text.lstrip()[:1] == "<":
        import html

        text = html.unescape(_TAGS.sub(" ", text))
    return ProviderError(text if text.strip() else "no message")
