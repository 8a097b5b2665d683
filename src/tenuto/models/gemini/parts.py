"""What of a Gemini part is kept with ours, so that the part can be written again as it came.

Invariant: what is kept stands under the key `google` of `provider_metadata`, whatever name the provider goes by, so
a conversation may move between `google/`, `gemini/` and Vertex; metadata of other vendors is never sent.

Source: Gemini API guide "Thought signatures"; names of the AI SDK's Google provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KEY = "google"
KEYS = ("google", "googleVertex", "vertex")
"""Where options and metadata of Google's are found: the first that is there wins."""

CODE, CODE_RESULT = "executableCode", "codeExecutionResult"
TOOL_CALL, TOOL_RESPONSE = "toolCall", "toolResponse"
OPAQUE = "google.part"
"""The kind of a part that we know nothing about; it is kept whole."""

UNLABELLED = "order"
"""Begins the ids that we gave to calls without one; such calls go back without an id, paired with results by order."""


def kept(metadata: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What is there of Google's, or nothing."""
    if not metadata:
        return {}
    found = next((metadata[key] for key in KEYS if isinstance(metadata.get(key), Mapping)), None)
    return found or {}


def keeping(signature: str | None, **more: Any) -> dict[str, Any] | None:
    """The metadata of a part with this signature; None when there is nothing to keep."""
    found = {"thoughtSignature": signature, **more} if signature else more
    return {KEY: found} if found else None


def sealed(part: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The part with the signature and the mark of a thought that it came with."""
    if own.get("thought") is True:
        part["thought"] = True
    if (signature := own.get("thoughtSignature")) is not None:
        part["thoughtSignature"] = signature
    return part
