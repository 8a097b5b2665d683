"""How a request that cannot be sent as asked is told: a warning of the step, or an error before anything is sent.

Invariant: what was left out is always named; an error says what to change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenuto.core.errors import ModelError

Warnings = list[Mapping[str, Any]]


def left_out(setting: str, details: str) -> Mapping[str, Any]:
    """A setting that the model does not take, or not in this form."""
    return {"type": "unsupported-setting", "setting": setting, "details": details}


def no_tool(name: str, details: str) -> Mapping[str, Any]:
    """A tool that is not offered to the model."""
    return {"type": "unsupported-tool", "tool": name, "details": details}


def changed(message: str) -> Mapping[str, Any]:
    """Something else that is not as asked."""
    return {"type": "other", "message": message}


def refused(provider: str, message: str) -> ModelError:
    """A request that the provider would refuse, and that cannot be made to fit."""
    return ModelError(message, id="MODEL_REQUEST_INVALID", provider=provider, category="USER", retryable=False)
