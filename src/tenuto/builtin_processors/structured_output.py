"""`StructuredOutputProcessor`: has a model turn the finished answer into data, for who wants it beside the answer.

Invariant: the one way to ask for data is that of `structured`; what is added here is where the object goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any

from tenuto.builtin_processors.message_text import with_metadata
from tenuto.core.errors import ConfigurationError, TenutoError
from tenuto.core.payloads import Json
from tenuto.messages.stored import Message
from tenuto.messages.turns import ProviderOptions
from tenuto.models.resolve import resolve_model
from tenuto.processors import OutputResultContext, Processor
from tenuto.structured.ask import AskFailed, AskStopped, Question
from tenuto.structured.output import ABSENT, ErrorStrategy, StructuredOutput
from tenuto.structured.report import INSTRUCTIONS, Worked, report

if TYPE_CHECKING:
    from pydantic import TypeAdapter

NOTE = "structuredOutput"
"""The key of the object in the metadata of the message it was made of."""


class StructuredOutputProcessor(Processor):
    """Puts the answer as data beside the answer.

    The object is in the metadata of the answer's message, as `structuredOutput`, and in the stream as a chunk
    `data-structured-output`.

    To get it as `result.object`, with partial objects while it grows, give the run
    `structured_output=StructuredOutput(schema, model=...)` instead; both ask in the same way.

    Args:
        schema: As for `StructuredOutput`.
        model: That writes the data.
        error_strategy: When the answer cannot be turned into data: `strict` blocks the run's result; `warn` logs;
            `fallback` takes `fallback_value`.
        fallback_value: For `fallback`.
        instructions: For the model, in place of tenuto's.
        provider_options: Of its calls.
    """

    id = "structured-output"
    name: str | None = "Structured Output"

    def __init__(
        self,
        schema: type[Any] | TypeAdapter[Any] | UnionType | Mapping[str, Any],
        *,
        model: Any,
        error_strategy: ErrorStrategy = "strict",
        fallback_value: Any = ABSENT,
        instructions: str | None = None,
        provider_options: ProviderOptions | None = None,
    ) -> None:
        if model is None:
            message = "StructuredOutputProcessor needs model=; without another model give the run structured_output=."
            raise ConfigurationError(message, id="PROCESSOR_OPTION_INVALID")
        self._output = StructuredOutput[Any](
            schema,
            error_strategy=error_strategy,
            fallback_value=fallback_value,
            instructions=instructions,
            provider_options=provider_options,
        )
        self._model = model

    async def process_output_result(self, context: OutputResultContext) -> list[Message] | None:
        """See `Processor`."""
        place = max((at for at, each in enumerate(context.messages) if each.role == "assistant"), default=None)
        if place is None or not context.result.text.strip() or context.result.finish_reason not in {"stop", "other"}:
            return None
        value = await self._value(context)
        if value is ABSENT:
            return None
        await context.writer.custom({"type": "data-structured-output", "data": value})
        messages = list(context.messages)
        messages[place] = with_metadata(messages[place], **{NOTE: value})
        return messages

    async def _value(self, context: OutputResultContext) -> Json:
        question = Question(
            resolve_model(self._model),
            self._output,
            report([Worked(context.result.text)]),
            self._output.instructions or INSTRUCTIONS,
            provider_options=self._output.provider_options,
            abort=context.abort_signal,
        )
        try:
            return (await question.answer()).value
        except AskStopped:
            return ABSENT
        except AskFailed as failed:
            return self._without(context, failed.error)

    def _without(self, context: OutputResultContext, error: TenutoError) -> Json:
        strategy = self._output.error_strategy
        if strategy == "fallback":
            return self._output.fallback
        if strategy == "strict":
            context.abort(f"The answer cannot be turned into data: {error}", metadata={"error": error.id})
        self._output.logger.warning("Run %s has no structured output: %s", context.run_id, error)
        return ABSENT
