"""`PIIDetector`: finds personal data and makes it unreadable, in the input and in the output.

Invariant: rules go first, so what they find reaches no model, this one's own included; on the output side rules alone
are at work, and no personal data they know is ever shown, however it was spread over deltas.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, get_args

from msgspec.structs import replace

from tenuto.builtin_processors.filtering import RuleFilter, Strategy, some_left
from tenuto.builtin_processors.judging import ErrorStrategy, Judge, Quotes, named, sure
from tenuto.builtin_processors.options import one_of, share
from tenuto.builtin_processors.patterns import PERSONAL
from tenuto.builtin_processors.redaction import Method, Redaction
from tenuto.builtin_processors.rules import RegexRule
from tenuto.builtin_processors.scan import Found
from tenuto.core.chunks import AnyChunk
from tenuto.core.errors import ConfigurationError
from tenuto.messages.stored import Message
from tenuto.messages.turns import ProviderOptions
from tenuto.processors import InputContext, OutputStreamContext, Processor, ToolResultChange, ToolResultContext

PIIType = Literal[
    "email", "phone", "credit-card", "ssn", "api-key", "ip-address", "name", "address", "date-of-birth", "url",
    "uuid", "crypto-wallet", "iban",
]  # fmt: skip
_OFF = {"url", "uuid"}
"""Known, but not looked for unless asked for: most links and ids are no personal data."""


class PIIDetector(Processor):
    """Masks, hashes, removes or names personal data; or blocks what has any.

        pii = PIIDetector(strategy="redact", redaction_method="placeholder")
        Agent(..., input_processors=[pii], output_processors=[pii])

    Without a model, rules find what has a form: mail addresses, numbers, keys. With one, names, addresses and whatever
    else is asked for are found in the call's own messages, too. In the stream rules alone are at work.

    Args:
        model: Finds what has no form; None = rules alone.
        detection_types: What is looked for; by default all that can be found but `url` and `uuid`.
        threshold: From which confidence on, 0 to 1, what the model names counts as found.
        strategy: `block` stops the run; `warn` logs; `filter` leaves the message out, and in the answer the match;
            `redact` makes it unreadable.
        redaction_method: `mask`: asterisks; `hash`: one mark for equal values; `remove`; `placeholder`: its kind.
        preserve_format: A mask keeps punctuation, and of numbers the last digits.
        hash_key: For `hash`: without it a value of which there are few can be found by trying.
        instructions: For the model, in place of tenuto's.
        include_detections: Whether log lines say what was done where; what was found is never logged.
        error_strategy: When the model cannot be asked: `warn` goes on with what rules found, `strict` stops the run.
        last_message_only: On the input side, look at the last message alone.
        tool_results: On the output side, also look at what tools return, before the model sees it.
        provider_options: Of the model's calls.
    """

    id = "pii-detector"
    name: str | None = "PII Detector"
    fail_closed = True

    def __init__(
        self,
        *,
        model: Any = None,
        detection_types: Sequence[str] | None = None,
        threshold: float = 0.6,
        strategy: Strategy = "redact",
        redaction_method: Method = "mask",
        preserve_format: bool = True,
        hash_key: str | bytes | None = None,
        instructions: str | None = None,
        include_detections: bool = False,
        error_strategy: ErrorStrategy = "warn",
        last_message_only: bool = False,
        tool_results: bool = False,
        provider_options: ProviderOptions | None = None,
    ) -> None:
        kinds = _kinds(detection_types, model)
        one_of("redaction_method", redaction_method, get_args(Method))
        one_of("error_strategy", error_strategy, get_args(ErrorStrategy))
        key = hash_key.encode() if isinstance(hash_key, str) else hash_key
        redaction = Redaction(redaction_method, preserve_format, key)

        def unreadable(found: Found) -> str:
            return redaction.of(found.rule.name, found.text, kept=found.rule.kept, label=found.rule.label)

        rules = tuple(rule for kind in kinds for rule in PERSONAL.get(kind, ()))
        strategy = one_of("strategy", strategy, get_args(Strategy))
        self._filter = RuleFilter("Personal data", rules, strategy, unreadable, include_detections)
        self._threshold = share("threshold", threshold)
        self._last_only = last_message_only
        self._tool_results = tool_results
        self._kinds = kinds
        said = instructions or (
            "You find personal data. You are given a message. List every piece of it that is one of these: "
            f"{named(kinds)}. Copy each exactly as it stands in the message, and say how sure you are, from 0 to 1. "
            "What has been made unreadable already is none."
        )
        self._judge = None if model is None else Judge(model, said, error_strategy, provider_options)

    async def process_input(self, context: InputContext) -> list[Message]:
        """See `Processor`."""
        last = len(context.messages) - 1
        passed: list[Message] = []
        for place, message in enumerate(context.messages):
            if self._last_only and place < last:
                passed.append(message)
                continue
            for each in self._filter.messages(context, [message]):
                passed += await self._asked(context, each)
        return some_left(context, passed)

    async def process_output_stream(self, context: OutputStreamContext) -> list[AnyChunk]:
        """See `Processor`."""
        return await self._filter.stream(context, context.part)

    def process_tool_result(self, context: ToolResultContext) -> ToolResultChange | None:
        """See `Processor`."""
        return {"result": self._filter.result(context, context.result)} if self._tool_results else None

    async def _asked(self, context: InputContext, message: Message) -> tuple[Message, ...]:
        """The message after the model has looked for what has no form."""
        if self._judge is None or not message.text.strip():
            return (message,)
        verdict = await self._judge.ask(context, Quotes, ("message", message.text))
        found = sure(verdict.found, self._threshold) if verdict is not None else ()
        rules = tuple(RegexRule(each.type, re.escape(each.value)) for each in found if each.type in self._kinds)
        return replace(self._filter, rules=rules).messages(context, [message]) if rules else (message,)


def _kinds(given: Sequence[str] | None, model: object) -> tuple[str, ...]:
    if given is None:
        known = get_args(PIIType) if model is not None else tuple(PERSONAL)
        return tuple(kind for kind in known if kind not in _OFF)
    unknown = [kind for kind in given if kind not in PERSONAL]
    if not given or (unknown and model is None):
        what = f"{unknown[0]!r} is found by a model alone; give model=" if unknown else "it is empty"
        message = f"detection_types={list(given)!r} cannot be looked for: {what}. Rules know: {', '.join(PERSONAL)}."
        raise ConfigurationError(message, id="PROCESSOR_OPTION_INVALID")
    return tuple(given)
