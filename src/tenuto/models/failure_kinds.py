"""What kind of failure a provider reports, whatever its dialect: one table from its words to an id and a remedy.

Invariant: the first line of the table that fits decides, so what is more particular stands higher; a failure that fits
none keeps the general id. Nothing here decides whether a request is worth repeating.
"""

from __future__ import annotations

import re

from msgspec import Struct

_REFUSED = frozenset({400, 413, 422})


class FailureKind(Struct, frozen=True, kw_only=True):
    """A line of the table.

    Attributes:
        id: Of the error.
        remedy: What to do, for the end of its message.
        statuses: HTTP statuses that mean it by themselves.
        words: What means it in the provider's code or type.
        phrases: What means it in the message of a refused request (400, 413, 422, or an error without a status).
    """

    id: str
    remedy: str
    statuses: frozenset[int] = frozenset()
    words: re.Pattern[str] | None = None
    phrases: re.Pattern[str] | None = None

    def fits(self, status: int | None, label: str, message: str) -> bool:
        """Whether a failure with this `status`, code and type (`label`) and `message` is of this kind."""
        if self.words is not None and self.words.search(label):
            return True
        refused = status is None or status in _REFUSED
        if refused and self.phrases is not None and self.phrases.search(message):
            return True
        return status in self.statuses


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


KINDS: tuple[FailureKind, ...] = (
    FailureKind(
        id="MODEL_QUOTA_EXHAUSTED",
        remedy="Waiting does not help: look at the plan and the billing of the account.",
        statuses=frozenset({402}),
        words=_any("insufficient_quota", "billing", "payment_required", "insufficient_credits"),
        phrases=_any("credit balance", "insufficient (credit|balance|fund)", "enable billing"),
    ),
    FailureKind(
        id="MODEL_CONTENT_FILTERED",
        remedy="The same messages will be refused again: change them, or ask another model.",
        words=_any("content_?filter", "content_policy", "moderation", "data_inspection", "responsibleai"),
        phrases=_any("content (management )?polic", "content filter", "flagged by", "usage polic"),
    ),
    FailureKind(
        id="MODEL_CONTEXT_EXCEEDED",
        remedy="Send fewer or shorter messages, or ask a model with a larger context.",
        statuses=frozenset({413}),
        words=_any("context_length", "context_window", "exceed_context", "request_too_large"),
        phrases=_any(
            "context (length|window|size)", "(prompt|input) is too long", "input token count", "maximum number of token"
        ),
    ),
    FailureKind(
        id="MODEL_SCHEMA_REFUSED",
        remedy="Make the schema plainer: that of the tool it names, or of structured_output.",
        words=_any("invalid_json_schema", "invalid_function_parameters"),
        phrases=_any("schema", "function_declarations", r"function\.parameters"),
    ),
    FailureKind(
        id="MODEL_AUTHENTICATION_FAILED",
        remedy="Check the key: whether it is the right one, still valid, and allowed to use this model.",
        statuses=frozenset({401, 403}),
        words=_any("invalid_api_key", "api_key_invalid", "authentication", "unauthenticated", "permission"),
        phrases=_any("api key (not valid|is invalid|expired)", "(invalid|incorrect) api key"),
    ),
    FailureKind(
        id="MODEL_NOT_FOUND",
        remedy="Check the model's name and the base URL; `tenuto models` lists what is known.",
        statuses=frozenset({404}),
        words=_any("model_not_found", "not_found_error"),
    ),
    FailureKind(
        id="MODEL_RATE_LIMITED",
        remedy="Wait, or let the call do so with max_retries=; a list of models goes to the next one.",
        statuses=frozenset({429}),
        words=_any("rate_limit", "too_many_requests", "resource_exhausted"),
    ),
    FailureKind(
        id="MODEL_OVERLOADED",
        remedy="Try later, or let the call do so with max_retries=; a list of models goes to the next one.",
        statuses=frozenset({503, 529}),
        words=_any("overloaded", "unavailable", "capacity"),
    ),
)


def kind_of(status: int | None, code: str | None, type_: str | None, message: str) -> FailureKind | None:
    """The kind of a failure, None when the table has none for it."""
    label = f"{code or ''} {type_ or ''}"
    return next((kind for kind in KINDS if kind.fits(status, label, message)), None)
