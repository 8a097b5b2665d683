"""Every error tenuto raises, by who is at fault; each states the fact, the value and the remedy.

Invariant: wrapping keeps the original exception as `__cause__`, and `details` holds JSON scalars only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from msgspec import Struct

Category = Literal["USER", "SYSTEM", "THIRD_PARTY"]
Scalar = str | int | float | bool | None


class TenutoError(Exception):
    """The root of all errors of this library.

    Attributes:
        id: A stable constant to match on, such as `AGENT_CONSTRUCTOR_MODEL_REQUIRED`.
        domain: Where it arose: `AGENT`, `LLM`, `TOOL`, `STORAGE`, `RUN`.
        category: `USER` (a caller's mistake), `SYSTEM` (ours), `THIRD_PARTY` (a provider's).
        details: JSON scalars that belong to the fact; never a secret.
        result: The full output of the run that ended with this error, else None.
    """

    default_id: ClassVar[str] = "TENUTO_ERROR"
    default_domain: ClassVar[str] = "TENUTO"
    default_category: ClassVar[Category] = "SYSTEM"

    def __init__(
        self,
        message: str,
        *,
        id: str | None = None,
        domain: str | None = None,
        category: Category | None = None,
        details: Mapping[str, Scalar] | None = None,
    ) -> None:
        super().__init__(message)
        self.id: str = id or self.default_id
        self.domain: str = domain or self.default_domain
        self.category: Category = category or self.default_category
        self.details: dict[str, Scalar] = dict(details or {})
        self.result: Any = None

    @property
    def error(self) -> TenutoError:
        """The error itself, so that `on_error` callbacks can read `event.error`."""
        return self

    @property
    def message(self) -> str:
        """The text of the error."""
        return str(self)


class ConfigurationError(TenutoError):
    """The definition of an agent, a tool or an app cannot work; nothing was started."""

    default_id = "CONFIGURATION_INVALID"
    default_category: ClassVar[Category] = "USER"


class RunError(TenutoError):
    """A run could not start, go on or be found."""

    default_id = "RUN_FAILED"
    default_domain = "RUN"


class ToolError(TenutoError):
    """A tool call failed; the model is told, the run goes on."""

    default_id = "TOOL_EXECUTION_FAILED"
    default_domain = "TOOL"


class Issue(Struct, frozen=True):
    """One thing that is wrong with a value.

    Attributes:
        path: Names and indexes from the top of the value; empty for the value as a whole.
        message: What is wrong there.
    """

    path: tuple[str | int, ...]
    message: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.path)) or '$'}: {self.message}"


class OutputInvalid(TenutoError):
    """The structured output asked for is not there or does not fit its schema.

    Attributes:
        text: What the model wrote.
        value: The JSON value found in it, None when there is none.
        issues: Everything that does not fit.
    """

    default_id = "STRUCTURED_OUTPUT_INVALID"
    default_domain = "AGENT"
    default_category: ClassVar[Category] = "THIRD_PARTY"

    def __init__(
        self,
        message: str,
        *,
        id: str | None = None,
        category: Category | None = None,
        details: Mapping[str, Scalar] | None = None,
        text: str = "",
        value: Any = None,
        issues: Sequence[Issue] = (),
    ) -> None:
        super().__init__(message, id=id, category=category, details=details)
        self.text: str = text
        self.value: Any = value
        self.issues: tuple[Issue, ...] = tuple(issues)


class StoreError(TenutoError):
    """The run store refused or failed; what was not answered may or may not be stored."""

    default_id = "STORE_FAILED"
    default_domain = "STORAGE"


class StaleLease(StoreError):
    """Another owner holds the scope under a higher epoch; this write changed nothing."""

    default_id = "STORE_STALE_LEASE"


class ModelError(TenutoError):
    """A model call failed.

    Attributes:
        provider: The provider's name as in `provider/model`.
        code: The provider's own error code, as text.
        type: The provider's own error type.
        status: The HTTP status, or the status an in-band error event stands for; None when there is none.
        retryable: Whether the same request may succeed later.
        request_id: The provider's id of the request, to quote to its support.
        retry_after: Seconds the provider asked to wait, else None.
    """

    default_id = "AGENT_STREAM_ERROR"
    default_domain = "LLM"
    default_category: ClassVar[Category] = "THIRD_PARTY"

    def __init__(
        self,
        message: str,
        *,
        id: str | None = None,
        provider: str | None = None,
        code: str | None = None,
        type: str | None = None,
        status: int | None = None,
        retryable: bool = False,
        request_id: str | None = None,
        retry_after: float | None = None,
        category: Category | None = None,
        details: Mapping[str, Scalar] | None = None,
    ) -> None:
        super().__init__(message, id=id, category=category, details=details)
        self.provider: str | None = provider
        self.code: str | None = code
        self.type: str | None = type
        self.status: int | None = status
        self.retryable: bool = retryable
        self.request_id: str | None = request_id
        self.retry_after: float | None = retry_after


class ModelHTTPError(ModelError):
    """The provider answered the request with an HTTP error status."""

    default_id = "MODEL_HTTP_ERROR"


Limit = Literal["total", "step", "first_chunk"]


class ModelTimeout(ModelError):
    """A time limit of `model_settings["timeout"]` has passed.

    Attributes:
        timeout_type: `total` (the run), `step` (a model call) or `first_chunk` (until its first content).
        timeout_ms: The limit in milliseconds.
    """

    default_id = "MODEL_TIMEOUT"

    def __init__(
        self,
        message: str,
        *,
        id: str | None = None,
        provider: str | None = None,
        details: Mapping[str, Scalar] | None = None,
        timeout_type: Limit = "total",
        timeout_ms: float = 0,
    ) -> None:
        super().__init__(message, id=id, provider=provider, details=details)
        self.timeout_type: Limit = timeout_type
        self.timeout_ms: float = timeout_ms
