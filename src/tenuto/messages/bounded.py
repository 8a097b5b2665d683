"""The one cap on what a tool result may take of a prompt.

Invariant: the text never exceeds its limit, and where it was cut it says how much is missing. The value itself is
never cut: the stream, the result and the stored message hold it whole.
"""

from __future__ import annotations

from tenuto.core import codec
from tenuto.core.payloads import Json

MODEL_TEXT_LIMIT = 50_000
"""Characters of one tool result a model is given: about 12,000 tokens, so that a few fit beside the conversation."""


def model_text(value: Json, limit: int = MODEL_TEXT_LIMIT) -> str:
    """The text of a result for the model: a string as it is, anything else as compact JSON.

    A longer text is cut to `limit` characters, the last of which are a marker that says how many were left out.
    """
    text = value if isinstance(value, str) else codec.encode(value).decode()
    return bounded(valid_text(text).replace("\0", "\ufffd"), limit)


def bounded(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, with a marker in place of the rest."""
    if len(text) <= limit:
        return text
    kept = max(0, limit - len(_marker(len(text))))
    return text[:kept] + _marker(len(text) - kept)


def valid_text(text: str) -> str:
    """`text` that UTF-8 can hold: surrogate pairs joined, lone ones replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _marker(left_out: int) -> str:
    return f"\n[cut: {left_out} more characters were left out]"
