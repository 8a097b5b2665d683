"""`ask`: one question to one model, answered with data; not an agent.

Invariant: one request, no history, no tools of the caller's; what comes back fits the schema or is an error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Generic, cast

from msgspec import Struct
from typing_extensions import TypeVar

from tenuto.core import payloads as p
from tenuto.core.abort import AbortSignal
from tenuto.core.errors import ModelError, OutputInvalid, StoreError
from tenuto.core.foreign import message_of
from tenuto.core.payloads import Json, Usage
from tenuto.messages.turns import Prompt, ProviderOptions, SystemTurn, Text, UserTurn
from tenuto.models.catalogue import info_of, priced
from tenuto.models.ports import Finish, LanguageModel, ModelRequest, ModelSettings, Part
from tenuto.models.resolve import resolve_model
from tenuto.structured.modes import Fitting
from tenuto.structured.output import StructuredOutput, read_output
from tenuto.structured.reading import Said, read_answer, refusal_of
from tenuto.structured.stream import AnswerStream

T = TypeVar("T", default=Any)

OnPartial = Callable[[Json], Awaitable[None]]


class Asked(Struct, Generic[T], frozen=True):
    """The answer.

    Attributes:
        object: Of the schema's type; the text, when text was asked for.
        value: The same as JSON.
    """

    object: T
    value: Json
    usage: Usage


class AskFailed(Exception):
    """There is no answer; `error` says why, `usage` what it took."""

    def __init__(self, error: OutputInvalid | ModelError, usage: Usage) -> None:
        super().__init__(str(error))
        self.error: OutputInvalid | ModelError = error
        self.usage: Usage = usage


class AskStopped(Exception):
    """The question was aborted."""


async def ask(
    model: object,
    schema: object,
    prompt: str,
    *,
    instructions: str | None = None,
    settings: ModelSettings | None = None,
    provider_options: ProviderOptions | None = None,
    abort: AbortSignal | None = None,
) -> Any:
    """Ask `model` one question.

    Args:
        model: A `provider/model` name, a record or a model.
        schema: What the answer must be, as for `structured_output=`; `str` asks for plain text.
        prompt: The question.
        instructions: The system message.
        settings: Of the call.
        provider_options: Of the call.
        abort: Ends the call.

    Returns:
        The object, or the text.

    Raises:
        ModelError: The call failed.
        OutputInvalid: The answer does not fit.
    """
    output = None if schema is str else read_output(schema)
    question = Question(resolve_model(model), output, prompt, instructions, settings, provider_options, abort)
    try:
        return (await question.answer()).object
    except AskFailed as failed:
        raise failed.error from failed.error.__cause__
    except AskStopped:
        message = f"The question to {question.name} was aborted."
        raise ModelError(message, id="MODEL_CALL_ABORTED", provider=question.model.provider, category="USER") from None


class Question(Struct, frozen=True):
    """A question to a model; see `ask`."""

    model: LanguageModel
    output: StructuredOutput[Any] | None
    prompt: str
    instructions: str | None = None
    settings: ModelSettings | None = None
    provider_options: ProviderOptions | None = None
    abort: AbortSignal | None = None

    @property
    def name(self) -> str:
        """The model as `provider/model`."""
        return f"{self.model.provider}/{self.model.model_id}"

    async def answer(self, on_partial: OnPartial | None = None) -> Asked[Any]:
        """Ask, and read the answer; `on_partial` gets it while it grows.

        Raises:
            AskFailed: There is none.
            AskStopped: It was aborted.
            StoreError: Of `on_partial`.
        """
        heard = _Heard(self)
        try:
            await heard.listen(on_partial)
            return heard.read()
        except (ModelError, OutputInvalid) as error:
            raise AskFailed(error, heard.usage) from error
        except (StoreError, AskStopped):
            raise
        except Exception as error:
            wrapped = ModelError(f"{self.name} raised {type(error).__name__}: {message_of(error)}")
            wrapped.__cause__ = error
            raise AskFailed(wrapped, heard.usage) from error

    def request(self) -> ModelRequest:
        """The request, before it asks for data."""
        system = () if self.instructions is None else (SystemTurn(self.instructions),)
        return ModelRequest(
            prompt=Prompt(system, [UserTurn((Text(self.prompt),))]),
            settings=self.settings or ModelSettings(),
            provider_options=self.provider_options,
            abort=self.abort,
        )


class _Heard:
    """What a model has said to a question."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._texts: dict[str, list[str]] = {}
        self._finish: Finish | None = None

    @property
    def usage(self) -> Usage:
        return Usage() if self._finish is None else priced(self._finish.usage, info_of(self._question.model))

    async def listen(self, on_partial: OnPartial | None) -> None:
        question = self._question
        request, output = question.request(), question.output
        stream: AnswerStream | None = None
        if output is not None:
            fitted = Fitting(output, instructed=question.instructions is not None).fit(request, question.model)
            request, stream = fitted.request, AnswerStream(output, fitted)
        batches = cast("AsyncGenerator[Sequence[Part], None]", question.model.stream(request))
        async with aclosing(batches):
            async for batch in batches:
                taken = batch if stream is None else stream.take(batch)
                self._take(taken)
                if stream is not None and on_partial is not None:
                    for value in stream.partials(taken):
                        await on_partial(value)
                if question.abort is not None and question.abort.aborted:
                    raise AskStopped

    def _take(self, batch: Sequence[Part]) -> None:
        for part in batch:
            if isinstance(part, p.TextDeltaPayload):
                self._texts.setdefault(part.id, []).append(part.text)
            elif isinstance(part, Finish):
                self._finish = part

    def read(self) -> Asked[Any]:
        question, finish = self._question, self._finish
        name = question.name
        if finish is None or finish.reason == "error":
            message = f"{name} ended its answer without saying that it is complete."
            raise ModelError(message, id="MODEL_STREAM_CUT", provider=question.model.provider, retryable=True)
        texts = tuple("".join(pieces) for pieces in self._texts.values())
        if question.output is None:
            text = "".join(texts)
            return Asked(text, text, self.usage)
        said = Said(texts, finish.reason, name, finish.raw_reason, refusal_of(finish.provider_metadata))
        given = read_answer(question.output, said)
        return Asked(given.object, given.value, self.usage)
