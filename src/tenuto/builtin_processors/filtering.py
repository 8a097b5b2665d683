"""What the processors have in common that act on what rules find: in the input, the stream and tools' results.

Invariant: what was found is never told, only that it was, by the name of its rule; whoever blocks, blocks before any
of it was shown.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from tenuto.builtin_processors.message_text import with_strings, with_text
from tenuto.builtin_processors.rules import RegexRule
from tenuto.builtin_processors.scan import Found, Replace, Scan, replaced
from tenuto.builtin_processors.text_parts import kept
from tenuto.core.chunks import AnyChunk
from tenuto.core.payloads import Json
from tenuto.messages.stored import Message
from tenuto.processors import HookContext, InputContext

_log = logging.getLogger("tenuto")

Strategy = Literal["block", "warn", "filter", "redact"]


def some_left(context: InputContext, passed: list[Message]) -> list[Message]:
    """The messages that were not left out.

    Raises:
        Tripwire: All of them were: there is nothing to answer.
    """
    if context.messages and not passed:
        context.abort(f"Nothing of the input is left: processor {context.processor_id!r} left all of it out.")
    return passed


class RuleFilter(Struct, frozen=True):
    """Rules, and what happens to what they find.

    Attributes:
        what: What that is, for people.
        replace: For `redact`; what `filter` finds in a stream or a result is left out.
        details: Whether warnings say where something was found.
    """

    what: str
    rules: tuple[RegexRule, ...]
    strategy: Strategy
    replace: Replace
    details: bool = False

    def messages(self, context: HookContext, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The messages as they may go on."""
        passed: list[Message] = []
        for message in messages:
            found: list[Found] = []
            changed = with_text(message, lambda text, found=found: self._pass(context, text, "input", found))
            if not (found and self.strategy == "filter"):
                passed.append(changed)
        return tuple(passed)

    def result(self, context: HookContext, result: Json) -> Json:
        """A tool's result as it may go on."""
        return with_strings(result, lambda text: self._pass(context, text, "tool result", []))

    async def stream(self, context: HookContext, chunk: AnyChunk) -> list[AnyChunk]:
        """A chunk as it may be shown."""

        def make() -> _Watched:
            return _Watched(self.rules, self._replacing, lambda found: self._meet(context, found, "output"))

        return await kept(context.state, self, make).take(chunk)

    def _pass(self, context: HookContext, text: str, where: str, found: list[Found]) -> str:
        shown, new = replaced(text, self.rules, self._replacing)
        self._meet(context, new, where)
        found += new
        return shown

    def _replacing(self, found: Found) -> str:
        match self.strategy:
            case "redact":
                return self.replace(found)
            case "filter":
                return ""
            case "warn" | "block":
                return found.text

    def _meet(self, context: HookContext, found: Sequence[Found], where: str) -> None:
        if not found:
            return
        counts = Counter(each.rule.name for each in found)
        names = ", ".join(counts)
        match self.strategy:
            case "block":
                detections = [{"type": each.rule.name, "index": each.index} for each in found]
                context.abort(
                    f"{self.what} found in the {where}: {names}.",
                    metadata={"strategy": "block", "detections": detections},
                )
            case "warn":
                places = f" at {', '.join(str(each.index) for each in found)}" if self.details else ""
                _log.warning(
                    "Processor %r found %s in the %s of run %s: %s%s.",
                    context.processor_id, self.what, where, context.run_id, names, places,
                )  # fmt: skip
            case "filter" | "redact":
                if self.details:
                    _log.info("Processor %r removed %s from the %s of run %s: %s.",
                              context.processor_id, self.what, where, context.run_id, names)  # fmt: skip


class _Watched:
    """A scan that tells of what it finds before it shows what came before that."""

    def __init__(self, rules: Sequence[RegexRule], replace: Replace, meet: Callable[[Sequence[Found]], None]) -> None:
        self._scan = Scan(rules, replace)
        self._meet = meet
        self._told = 0

    def feed(self, text: str) -> str:
        return self._tell(self._scan.feed(text))

    def close(self) -> str:
        return self._tell(self._scan.close())

    def _tell(self, shown: str) -> str:
        found = self._scan.found
        if len(found) > self._told:
            new, self._told = found[self._told :], len(found)
            self._meet(new)
        return shown
