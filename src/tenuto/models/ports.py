"""The port every model fills: a request in, batches of parts out.

Invariant: a stream of parts ends with exactly one `Finish`, or it raises a `ModelError`; a stream that is cut off
before the provider's own success marker raises. Parts keep the provider's order; each text, reasoning or tool-input
id is opened, then filled, then closed, once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from tenuto.core.abort import AbortSignal
from tenuto.core.payloads import (
    CustomPayload,
    FilePayload,
    Json,
    ReasoningDeltaPayload,
    ReasoningEndPayload,
    ReasoningSignaturePayload,
    ReasoningStartPayload,
    RedactedReasoningPayload,
    ResponseMetadataPayload,
    SourcePayload,
    TextDeltaPayload,
    TextEndPayload,
    TextStartPayload,
    ToolCallPayload,
    ToolInputDeltaPayload,
    ToolInputEndPayload,
    ToolInputStartPayload,
    ToolResultPayload,
    Usage,
)
from tenuto.messages.turns import Prompt, ProviderOptions

ProviderReason = Literal["stop", "length", "content-filter", "tool-calls", "error", "other"]


class RequestStart(Struct, frozen=True):
    """First part of a stream: what was sent (`body`, without headers) and what the dialect could not honour."""

    body: Json
    warnings: tuple[Json, ...] = ()


class Finish(Struct, frozen=True):
    """Last part of a stream: the provider said so itself.

    Attributes:
        reason: Normalised; `other` for anything unknown.
        raw_reason: The provider's own word.
        usage: Of this call: the last value per field, never a sum over deltas.
    """

    reason: ProviderReason
    usage: Usage
    raw_reason: str | None = None
    provider_metadata: Mapping[str, Any] | None = None


class RawEvent(Struct, frozen=True, gc=False):
    """One event as the provider sent it, decoded; only when the request asks for it."""

    value: Json


Part = (
    RequestStart
    | RawEvent
    | ResponseMetadataPayload
    | TextStartPayload
    | TextDeltaPayload
    | TextEndPayload
    | ReasoningStartPayload
    | ReasoningDeltaPayload
    | ReasoningEndPayload
    | ReasoningSignaturePayload
    | RedactedReasoningPayload
    | SourcePayload
    | FilePayload
    | CustomPayload
    | ToolInputStartPayload
    | ToolInputDeltaPayload
    | ToolInputEndPayload
    | ToolCallPayload
    | ToolResultPayload
    | Finish
)
"""`ToolCallPayload` and `ToolResultPayload` with `provider_executed`: a tool that the provider ran itself."""


class ToolSpec(Struct, frozen=True):
    """A tool as a model sees it; `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool | None = None
    provider_options: ProviderOptions | None = None


class ProviderTool(Struct, frozen=True):
    """A tool that the provider defines; a dialect that does not know it leaves it out with a warning.

    Attributes:
        id: `provider.type`, such as `openai.web_search` or `anthropic.web_search_20250305`.
        name: The name the model calls it by.
        args: The provider's own settings of it.
    """

    id: str
    name: str
    args: Mapping[str, Any] = {}


class ResponseFormat(Struct, frozen=True, kw_only=True):
    """The answer must be JSON; of this schema, when there is one."""

    schema: Mapping[str, Any] | None = None
    name: str = "response"
    description: str | None = None
    strict: bool | None = None


StructuredSupport = Literal["native", "native-alone", "tool", "prompt"]
"""How a model can be asked for data: by `response_format`, beside tools or only without them; by the arguments of a
tool that it is made to call; or in the prompt alone."""


class NamedTool(Struct, frozen=True):
    """Force this tool."""

    tool_name: str


ToolChoice = Literal["auto", "none", "required"] | NamedTool


class ModelSettings(Struct, frozen=True, kw_only=True):
    """Sampling and limits; None = the provider's default. `headers` go on the HTTP request."""

    temperature: float | None = None
    max_output_tokens: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop_sequences: tuple[str, ...] | None = None
    seed: int | None = None
    reasoning: str | None = None
    headers: Mapping[str, str] | None = None

    def __repr__(self) -> str:
        """What is set, and of the headers the names alone."""
        given = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        if self.headers:
            given["headers"] = sorted(self.headers)
        return f"ModelSettings({', '.join(f'{name}={value!r}' for name, value in given.items())})"


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One model call.

    Attributes:
        prompt: System turns and history; its caches make a long history cheap to send again.
        tools: In the order they are offered; the same tuple object on every step unless the tools changed.
        response_format: None = free text.
        include_raw: Yield each event also as a `RawEvent`, before the parts made of it.
        abort: The model stops reading when it fires; the loop also cancels the task.
        shown: Ids of calls that viewers of the run have seen and that are not in the prompt: an answer must not use
            them again.
        answer: Tells this answer from the run's others, where the length of the prompt does not.
    """

    prompt: Prompt
    tools: tuple[ToolSpec, ...] = ()
    provider_tools: tuple[ProviderTool, ...] = ()
    tool_choice: ToolChoice = "auto"
    settings: ModelSettings = ModelSettings()
    provider_options: ProviderOptions | None = None
    response_format: ResponseFormat | None = None
    include_raw: bool = False
    abort: AbortSignal | None = None
    answer: str | None = None
    shown: frozenset[str] = frozenset()

    def used(self, ids: AbstractSet[str]) -> AbstractSet[str]:
        """The call ids that an answer must not use: those of the prompt, `ids`, and those that were shown."""
        return ids | self.shown if self.shown else ids

    @property
    def scope(self) -> str:
        """What the ids of an answer's parts begin with, so that no other answer of the run has the same."""
        return str(len(self.prompt.turns)) if self.answer is None else self.answer


@runtime_checkable
class LanguageModel(Protocol):
    """Anything that streams an answer; pass your own as `model=`.

    It may have an attribute `structured`, a `StructuredSupport`: how it takes `structured_output=`. Without it the
    schema is put into the prompt.
    """

    @property
    def provider(self) -> str:
        """The provider's name, the part before the slash in `provider/model`."""
        ...

    @property
    def model_id(self) -> str:
        """The model's name at that provider."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[Part]]:
        """Stream the answer, a batch of parts for each read of the transport.

        Closing the iterator early releases the connection.

        Raises:
            ModelError: The call failed, at once or in the middle.
        """
        ...
