"""The dialects that are built, and how the format of each is made.

Invariant: a dialect's package is loaded when a model that speaks it is first resolved, and no other's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tenuto.models.catalogue import Dialect, ModelInfo, Quirks
from tenuto.models.wire_format import WireFormat

MakeFormat = Callable[[str, str, Quirks, ModelInfo | None], WireFormat]
"""Of a provider's name, the model's id, the quirks of chat completions, and what the catalogue says of the model."""


def _chat(provider: str, _model_id: str, quirks: Quirks, _info: ModelInfo | None) -> WireFormat:
    from tenuto.models.chat import ChatFormat

    return ChatFormat(provider, quirks)


def _responses(provider: str, _model_id: str, _quirks: Quirks, _info: ModelInfo | None) -> WireFormat:
    from tenuto.models.responses import ResponsesFormat

    return ResponsesFormat(provider)


def _anthropic(provider: str, model_id: str, _quirks: Quirks, info: ModelInfo | None) -> WireFormat:
    from tenuto.models.anthropic import AnthropicFormat

    return AnthropicFormat(provider, model_id, max_output=info.max_output if info else None)


def _google(provider: str, _model_id: str, _quirks: Quirks, _info: ModelInfo | None) -> WireFormat:
    from tenuto.models.gemini import GeminiFormat

    return GeminiFormat(provider)


FORMATS: Mapping[Dialect, MakeFormat] = {
    "chat": _chat,
    "responses": _responses,
    "anthropic": _anthropic,
    "google": _google,
}
"""By dialect, what makes its format."""
