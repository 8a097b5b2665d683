"""The dialects that are built, and how the format of each is made.

Invariant: a dialect's package is loaded when a model that speaks it is first resolved, and no other's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tenuto.models.catalogue import Dialect, Quirks
from tenuto.models.wire_format import WireFormat


def _chat(provider: str, quirks: Quirks) -> WireFormat:
    from tenuto.models.chat import ChatFormat

    return ChatFormat(provider, quirks)


def _responses(provider: str, quirks: Quirks) -> WireFormat:  # noqa: ARG001 - quirks are those of chat completions
    from tenuto.models.responses import ResponsesFormat

    return ResponsesFormat(provider)


def _google(provider: str, quirks: Quirks) -> WireFormat:  # noqa: ARG001 - quirks are those of chat completions
    from tenuto.models.gemini import GeminiFormat

    return GeminiFormat(provider)


FORMATS: Mapping[Dialect, Callable[[str, Quirks], WireFormat]] = {
    "chat": _chat,
    "responses": _responses,
    "google": _google,
}
"""By dialect: from a provider's name and the quirks of its chat completions to its format."""
