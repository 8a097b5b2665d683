"""For providers that refuse a prompt that ends with the assistant's own words: a short user turn behind them.

Invariant: the turn is sent, not stored; one is added where there is none, and never two.
"""

from __future__ import annotations

import re

from tenuto.messages.tags import tagged
from tenuto.messages.turns import AssistantTurn, Text, UserTurn
from tenuto.processors import APIErrorChange, APIErrorContext, LLMRequestContext, Processor, RequestChange

_GO_ON = UserTurn((Text(tagged("system-reminder", "continue")),))
_REFUSED = re.compile(r"assistant message prefill|must end with a user message", re.IGNORECASE)


class TrailingAssistantGuard(Processor):
    """Lets no prompt end with the assistant's words; for providers that would take them as the answer's beginning."""

    id = "trailing-assistant-guard"
    name: str | None = "Trailing Assistant Guard"

    def process_llm_request(self, context: LLMRequestContext) -> RequestChange | None:
        """See `Processor`."""
        return _ended(context)


class PrefillErrorHandler(Processor):
    """Asks again, once for each step, when a model refuses a prompt because it ends with the assistant's words.

    It belongs into `input_processors=`: it listens for the refusal, and from then on ends prompts differently.
    """

    id = "prefill-error-handler"
    name: str | None = "Prefill Error Handler"

    def process_api_error(self, context: APIErrorContext) -> APIErrorChange | None:
        """See `Processor`."""
        if context.state.get("refused") == context.step_number or not _REFUSED.search(str(context.error)):
            return None
        context.state["refused"] = context.step_number
        return {"retry": True}

    def process_llm_request(self, context: LLMRequestContext) -> RequestChange | None:
        """See `Processor`."""
        return _ended(context) if "refused" in context.state else None


def _ended(context: LLMRequestContext) -> RequestChange | None:
    if not context.prompt or not isinstance(context.prompt[-1], AssistantTurn):
        return None
    return {"prompt": [*context.prompt, _GO_ON]}
