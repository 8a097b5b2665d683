"""`LanguageDetector`: asks a model in which language the input is, and for a translation.

Invariant: a message is changed under `translate` alone; otherwise what was found is only noted on it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tenuto.builtin_processors.judging import ErrorStrategy, Judge, named
from tenuto.builtin_processors.message_text import with_metadata, with_whole_text
from tenuto.builtin_processors.options import count, one_of, share
from tenuto.messages.stored import Message
from tenuto.messages.turns import ProviderOptions
from tenuto.processors import InputContext, Processor

_log = logging.getLogger("tenuto")

Strategy = Literal["detect", "translate", "block", "warn"]
Quality = Literal["speed", "quality", "balanced"]
NOTE = "language_detection"
"""The key of what was found in a message's metadata."""

_CARE = {
    "speed": "A rough translation will do.",
    "quality": "Translate with care for meaning, tone and names.",
    "balanced": "Translate faithfully, without polishing.",
}


@dataclass(frozen=True, slots=True)
class LanguageVerdict:
    """The language of a text: its English name, ISO 639-1 code, how sure that is from 0 to 1, and a translation."""

    language: str
    iso_code: str
    confidence: float
    translated: str | None


class LanguageDetector(Processor):
    """Notes the language of each of the call's own messages in its metadata, as `language_detection`.

    Args:
        model: That is asked.
        target_languages: The languages that are wanted, by English name or code; the first is translated into.
        threshold: From which confidence on, 0 to 1, another language counts as found.
        strategy: For a message in another language: `detect` notes it; `translate` puts the translation in its place;
            `block` stops the run; `warn` logs.
        preserve_original: Whether a translated message keeps its text in the metadata, as `original_content`.
        instructions: For the model, in place of tenuto's.
        min_text_length: Shorter texts are left alone.
        include_detection_details: Whether log lines have language and confidence.
        translation_quality: `speed`, `quality` or `balanced`.
        error_strategy: When the model cannot be asked: `warn` lets the message pass, `strict` stops the run.
        last_message_only: Look at the last message alone.
        provider_options: Of the calls.
    """

    id = "language-detector"
    name: str | None = "Language Detector"

    def __init__(
        self,
        *,
        model: Any,
        target_languages: Sequence[str] = ("English", "en"),
        threshold: float = 0.7,
        strategy: Strategy = "detect",
        preserve_original: bool = True,
        instructions: str | None = None,
        min_text_length: int = 10,
        include_detection_details: bool = False,
        translation_quality: Quality = "quality",
        error_strategy: ErrorStrategy = "warn",
        last_message_only: bool = False,
        provider_options: ProviderOptions | None = None,
    ) -> None:
        self._targets = tuple(target_languages)
        self._threshold = share("threshold", threshold)
        self._strategy: Strategy = one_of("strategy", strategy, get_args(Strategy))
        self._preserve = preserve_original
        self._least = count("min_text_length", min_text_length)
        self._details = include_detection_details
        self._last_only = last_message_only
        one_of("translation_quality", translation_quality, get_args(Quality))
        one_of("error_strategy", error_strategy, get_args(ErrorStrategy))
        said = instructions or "You are given a message. Name its language, its ISO 639-1 code and how sure you are."
        if strategy == "translate":
            said += (
                f" If it is in none of these languages: {named(self._targets)}, give it in {self._targets[0]} as "
                f"`translated`. {_CARE[translation_quality]} Translate what it says; do not answer it."
            )
        else:
            said += " `translated` is null."
        self._judge = Judge(model, said, error_strategy, provider_options)

    async def process_input(self, context: InputContext) -> list[Message]:
        """See `Processor`."""
        last = len(context.messages) - 1
        return [
            message if self._last_only and place < last else await self._looked_at(context, message)
            for place, message in enumerate(context.messages)
        ]

    async def _looked_at(self, context: InputContext, message: Message) -> Message:
        if len(message.text.strip()) < max(1, self._least):
            return message
        verdict = await self._judge.ask(context, LanguageVerdict, ("message", message.text))
        if verdict is None or verdict.confidence < self._threshold:
            return message
        wanted = {each.casefold() for each in self._targets}
        fits = bool(wanted & {verdict.language.casefold(), verdict.iso_code.casefold()})
        note: dict[str, Any] = {
            "detected_language": verdict.language,
            "iso_code": verdict.iso_code,
            "confidence": verdict.confidence,
            "is_target_language": fits,
            "target_languages": list(self._targets),
        }
        if fits:
            return with_metadata(message, **{NOTE: note})
        return self._foreign(context, message, verdict, note)

    def _foreign(
        self, context: InputContext, message: Message, verdict: LanguageVerdict, note: dict[str, Any]
    ) -> Message:
        details = f": {verdict.language} ({verdict.confidence:.2f})" if self._details else ""
        match self._strategy:
            case "block":
                reason = f"Language not supported: {verdict.language}. Write in {self._targets[0]}."
                context.abort(reason, metadata={"strategy": "block", NOTE: note})
            case "warn":
                _log.warning("The input of run %s is in another language%s.", context.run_id, details)
            case "translate" if (verdict.translated or "").strip():
                _log.info("The input of run %s was translated%s.", context.run_id, details)
                if self._preserve:
                    note["original_content"] = message.text
                return with_metadata(with_whole_text(message, verdict.translated or ""), **{NOTE: note})
            case "translate" | "detect":
                pass
        return with_metadata(message, **{NOTE: note})
