"""The one cap on what a tool result may take of a prompt.

Invariant: the text never exceeds its limit by more than the marker, and the marker says what is missing. The value
itself is never cut: the stream, the result and the stored message hold it whole.
"""

from __future__ import annotations

from tenuto.core import codec
from tenuto.core.payloads import Json

MODEL_TEXT_LIMIT = 50_000
"""Characters of one tool result a model is given: about 12,000 tokens, so that a few fit beside the conversation."""


def model_text(value: Json, limit: int = MODEL_TEXT_LIMIT) -> str:
    """What the model reads of a tool's JSON `value`: strings as they are, anything else as compact JSON.

    Args:
        value: JSON values only.
        limit: Characters to keep; the start is kept.
    """
    text = value if isinstance(value, str) else codec.encode(value).decode()
    if len(text) <= limit:
        return text
    left_out = len(text) - limit
    return f"{text[:limit]}\n[truncated: {left_out} of {len(text)} characters left out of this tool result]"
