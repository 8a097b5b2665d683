"""All errors tenuto raises, in one place to import from."""

from tenuto.core.errors import (
    ConfigurationError,
    ModelError,
    ModelHTTPError,
    ModelTimeout,
    OutputInvalid,
    RunError,
    StaleLease,
    StoreError,
    TenutoError,
    ToolError,
)

__all__ = [
    "ConfigurationError",
    "ModelError",
    "ModelHTTPError",
    "ModelTimeout",
    "OutputInvalid",
    "RunError",
    "StaleLease",
    "StoreError",
    "TenutoError",
    "ToolError",
]
