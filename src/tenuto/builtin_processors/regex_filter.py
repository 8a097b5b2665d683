"""`RegexFilterProcessor`: blocks, redacts or reports what regular expressions find.

Invariant: no model is asked, and a match that is spread over any number of deltas is never shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from tenuto.builtin_processors.filtering import RuleFilter
from tenuto.builtin_processors.options import one_of
from tenuto.builtin_processors.patterns import PRESETS
from tenuto.builtin_processors.rules import RegexRule, read_rule
from tenuto.core.chunks import AnyChunk
from tenuto.core.errors import ConfigurationError
from tenuto.messages.stored import Message
from tenuto.processors import InputContext, OutputStreamContext, Processor, ToolResultChange, ToolResultContext

Preset = Literal["pii", "secrets", "urls"]
Strategy = Literal["block", "redact", "warn"]
Phase = Literal["input", "output", "all"]


class RegexFilterProcessor(Processor):
    """Acts on what rules find, in the input and in the output.

        Agent(..., output_processors=[RegexFilterProcessor(presets=["secrets"], strategy="redact")])

    Args:
        rules: Your own, as `RegexRule` or dicts of its fields. One without `characters` holds a text back until it is
            whole; see there.
        presets: `pii` (mail addresses, phone, social security and card numbers), `secrets` (keys of well-known
            services, bearer tokens, private keys, what follows `password=` and the like), `urls`.
        strategy: `block` stops the run; `redact` puts the rule's replacement in place of a match; `warn` logs.
        phase: Which side is looked at: the call's own messages, the model's text and reasoning, or both.
        tool_results: On the output side, also look at what tools return, before the model sees it.
    """

    id = "regex-filter"
    name: str | None = "Regex Filter"
    fail_closed = True

    def __init__(
        self,
        *,
        rules: Iterable[RegexRule | Mapping[str, Any]] = (),
        presets: Iterable[Preset] = (),
        strategy: Strategy = "block",
        phase: Phase = "all",
        tool_results: bool = False,
    ) -> None:
        found = [rule for preset in presets for rule in PRESETS[one_of("presets", preset, tuple(PRESETS))]]
        found += [read_rule(rule) for rule in rules]
        if not found:
            message = "RegexFilterProcessor has nothing to look for: give presets= or rules=."
            raise ConfigurationError(message, id="PROCESSOR_RULE_INVALID")
        self._phase = one_of("phase", phase, get_args(Phase))
        self._tool_results = tool_results
        self._filter = RuleFilter(
            "Content", tuple(found), one_of("strategy", strategy, get_args(Strategy)), lambda each: each.rule.label
        )

    def process_input(self, context: InputContext) -> list[Message] | None:
        """See `Processor`."""
        return None if self._phase == "output" else list(self._filter.messages(context, context.messages))

    async def process_output_stream(self, context: OutputStreamContext) -> list[AnyChunk]:
        """See `Processor`."""
        return [context.part] if self._phase == "input" else await self._filter.stream(context, context.part)

    def process_tool_result(self, context: ToolResultContext) -> ToolResultChange | None:
        """See `Processor`."""
        if self._phase == "input" or not self._tool_results:
            return None
        return {"result": self._filter.result(context, context.result)}
