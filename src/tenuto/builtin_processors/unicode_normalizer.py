"""`UnicodeNormalizer`: the same text in the same characters, however it was typed.

Invariant: normalising twice changes nothing more, and what a reader sees stays: letters, emojis, line breaks.

Source: Unicode Standard Annex #15 (normalisation forms), #9 and Technical Standard #39 (invisible characters).
"""

from __future__ import annotations

import re
import unicodedata

from tenuto.builtin_processors.message_text import with_text
from tenuto.messages.bounded import valid_text
from tenuto.messages.stored import Message
from tenuto.processors import InputContext, Processor

_LINE_END = re.compile(r"\r\n?|[\u2028\u2029\u0085]")
_SPACES = re.compile(r"[^\S\n]+")
_AROUND_LINES = re.compile(r" ?\n ?")
_EMPTY_LINES = re.compile(r"\n{3,}")
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_PICTOGRAMS = re.compile("[\u200d\ufe00-\ufe0f\u20e3\u2600-\u27bf\U0001f000-\U0001faff]+")


def normalized(
    text: str,
    *,
    strip_control_chars: bool = False,
    preserve_emojis: bool = True,
    collapse_whitespace: bool = True,
    trim: bool = True,
) -> str:
    """The text as `UnicodeNormalizer` leaves it; see there."""
    text = _LINE_END.sub("\n", valid_text(text))
    if strip_control_chars:
        text = _CONTROLS.sub("", text)
    if not preserve_emojis:
        text = _PICTOGRAMS.sub("", text)
    if collapse_whitespace:
        text = _EMPTY_LINES.sub("\n\n", _AROUND_LINES.sub("\n", _SPACES.sub(" ", text)))
    text = unicodedata.normalize("NFC", text)
    return text.strip() if trim else text


class UnicodeNormalizer(Processor):
    """Brings the text of the call's own messages into Unicode's composed form (NFC), with one kind of line end.

    Args:
        strip_control_chars: Take out control characters (tabs and line breaks apart) and such as no reader sees:
            zero-width spaces, marks of writing direction, tags.
        preserve_emojis: False takes emojis and pictograms out.
        collapse_whitespace: One space for several, one empty line for several.
        trim: No white space at either end.
    """

    id = "unicode-normalizer"
    name: str | None = "Unicode Normalizer"

    def __init__(
        self,
        *,
        strip_control_chars: bool = False,
        preserve_emojis: bool = True,
        collapse_whitespace: bool = True,
        trim: bool = True,
    ) -> None:
        self._strip = strip_control_chars
        self._emojis = preserve_emojis
        self._collapse = collapse_whitespace
        self._trim = trim

    def process_input(self, context: InputContext) -> list[Message]:
        """See `Processor`."""
        return [with_text(message, self._normalized) for message in context.messages]

    def _normalized(self, text: str) -> str:
        return normalized(
            text,
            strip_control_chars=self._strip,
            preserve_emojis=self._emojis,
            collapse_whitespace=self._collapse,
            trim=self._trim,
        )
