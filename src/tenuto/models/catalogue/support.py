"""Leaving out what a model is known to refuse.

Invariant: a setting is left out only when the catalogue says no, never because it says nothing; each one that is left
out is a warning of the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tenuto.core.payloads import wire_name
from tenuto.models.catalogue.facts import ModelInfo
from tenuto.models.ports import ModelSettings

Warnings = tuple[Mapping[str, Any], ...]

_SAMPLING = ("temperature", "top_p", "top_k")


def heed(settings: ModelSettings, info: ModelInfo | None) -> tuple[ModelSettings, Warnings]:
    """The settings that the model takes, and a warning for each that it does not."""
    if info is None or info.temperature:
        return settings, ()
    refused = [name for name in _SAMPLING if getattr(settings, name) is not None]
    if not refused:
        return settings, ()
    kept = replace(settings, **dict.fromkeys(refused))
    return kept, tuple(_warning(name, info) for name in refused)


def _warning(name: str, info: ModelInfo) -> Mapping[str, Any]:
    details = f"{info.id} takes no {name}; it was left out."
    return {"type": "unsupported-setting", "setting": wire_name(name), "details": details}
