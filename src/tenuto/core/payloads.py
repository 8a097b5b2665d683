"""What a chunk carries: one frozen struct per payload, with the wire's field names.

A model's stream is made of the same structs (see `models.ports`): a dialect builds a payload once, the loop wraps it
in a chunk and writes it to the log.

Source: chunk catalogue of the Mastra agent stream (names and fields; camelCase on the wire, absent = not sent).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from msgspec import Struct, field

Json = Any
ProviderMetadata = Mapping[str, Any]
FinishReason = Literal[
    "stop", "length", "content-filter", "tool-calls", "error", "other",
    "suspended", "tripwire", "retry", "abort", "aborted",
]  # fmt: skip


@cache
def wire_name(name: str) -> str:
    """`tool_call_id` -> `toolCallId`, `from_` -> `from`."""
    head, *rest = name.rstrip("_").split("_")
    return head + "".join(word.capitalize() for word in rest)


class Payload(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """Base of all payloads."""


class Usage(Payload, frozen=True):
    """Tokens of one model call, or the sum over a run. Counts; None where the provider said nothing.

    Attributes:
        input_tokens: All of the input, what was read from or written to a cache included.
        output_tokens: All of the output, reasoning included.
        cache_creation_input_tokens: Written to a cache; `_5m` and `_1h` are its parts by how long they are kept.
        cost: US dollars; None when the price of any tokens in it is not known.
    """

    # A factory, because a plain default is left out of the wire form and clients add these up.
    input_tokens: int = field(default_factory=int)
    output_tokens: int = field(default_factory=int)
    total_tokens: int = field(default_factory=int)
    reasoning_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    raw: Json = None
    cost: float | None = None
    cache_creation_input_tokens_5m: int | None = None
    cache_creation_input_tokens_1h: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """The sum; `raw` is the later one's."""
        if self is NOTHING_USED:
            return other
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.total_tokens + other.total_tokens,
            _sum(self.reasoning_tokens, other.reasoning_tokens),
            _sum(self.cached_input_tokens, other.cached_input_tokens),
            _sum(self.cache_creation_input_tokens, other.cache_creation_input_tokens),
            other.raw,
            _cost(self, other),
            _sum(self.cache_creation_input_tokens_5m, other.cache_creation_input_tokens_5m),
            _sum(self.cache_creation_input_tokens_1h, other.cache_creation_input_tokens_1h),
        )


NOTHING_USED = Usage()
"""What is added to; itself, it adds nothing."""


def _cost(a: Usage, b: Usage) -> float | None:
    """The sum, unless tokens of either have no known price."""
    if (a.cost is None and a.total_tokens) or (b.cost is None and b.total_tokens):
        return None
    return None if a.cost is b.cost is None else round((a.cost or 0.0) + (b.cost or 0.0), 12)


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


class StartPayload(Payload, frozen=True):
    """`id` is the agent's."""

    id: str
    message_id: str


class StepStartPayload(Payload, frozen=True):
    """`started_at` in ms since the epoch, just before the provider is called.

    `request` is empty: the body holds the whole history, and a log grows by what is new; see `result.request.body`.
    """

    message_id: str
    request: Json
    warnings: tuple[Json, ...]
    started_at: int | None = None


class ResponseMetadataPayload(Payload, frozen=True):
    """`timestamp` in ms since the epoch, as the provider gives it; `headers` lower-cased."""

    id: str | None = None
    timestamp: int | None = None
    model_id: str | None = None
    headers: Mapping[str, str] | None = None


class TextStartPayload(Payload, frozen=True, gc=False):
    """Opens the text part `id`."""

    id: str
    provider_metadata: ProviderMetadata | None = None


class TextDeltaPayload(Payload, frozen=True, gc=False):
    """More text of the part `id`."""

    id: str
    text: str
    provider_metadata: ProviderMetadata | None = None


class TextEndPayload(Payload, frozen=True, gc=False):
    """Closes the text part `id`."""

    id: str
    provider_metadata: ProviderMetadata | None = None


class ReasoningStartPayload(Payload, frozen=True, gc=False):
    """Opens the reasoning part `id`."""

    id: str
    signature: str | None = None
    provider_metadata: ProviderMetadata | None = None


class ReasoningDeltaPayload(Payload, frozen=True, gc=False):
    """More reasoning of the part `id`."""

    id: str
    text: str
    provider_metadata: ProviderMetadata | None = None


class ReasoningEndPayload(Payload, frozen=True, gc=False):
    """Closes the reasoning part `id`."""

    id: str
    signature: str | None = None
    provider_metadata: ProviderMetadata | None = None


class ReasoningSignaturePayload(Payload, frozen=True):
    """The provider's signature over the reasoning part `id`, to be sent back unchanged."""

    id: str
    signature: str
    provider_metadata: ProviderMetadata | None = None


class RedactedReasoningPayload(Payload, frozen=True):
    """Encrypted reasoning, to be sent back unchanged."""

    id: str
    data: str
    provider_metadata: ProviderMetadata | None = None


class SourcePayload(Payload, frozen=True):
    """A document or page the provider used."""

    id: str
    source_type: Literal["url", "document"]
    title: str
    url: str | None = None
    mime_type: str | None = None
    filename: str | None = None
    provider_metadata: ProviderMetadata | None = None


class FilePayload(Payload, frozen=True):
    """A file the model made; `data` is a URL or base64 text, `base64` is set in the latter case."""

    data: str
    mime_type: str
    base64: str | None = None
    filename: str | None = None
    provider_metadata: ProviderMetadata | None = None


class CustomPayload(Payload, frozen=True):
    """A part only this provider knows; `kind` is `provider.type`."""

    kind: str
    provider_metadata: ProviderMetadata | None = None


class ToolInputStartPayload(Payload, frozen=True, gc=False):
    """The model begins to write the arguments of a call."""

    tool_call_id: str
    tool_name: str
    title: str | None = None
    provider_executed: bool | None = None
    dynamic: bool | None = None
    provider_metadata: ProviderMetadata | None = None


class ToolInputDeltaPayload(Payload, frozen=True, gc=False):
    """More of a call's arguments, as JSON text."""

    tool_call_id: str
    args_text_delta: str
    tool_name: str | None = None
    provider_metadata: ProviderMetadata | None = None


class ToolInputEndPayload(Payload, frozen=True, gc=False):
    """The arguments of a call are complete."""

    tool_call_id: str
    provider_metadata: ProviderMetadata | None = None


class ToolCallPayload(Payload, frozen=True):
    """A complete call; `args` is None when its text was not JSON, and then `raw_args` holds the text."""

    tool_call_id: str
    tool_name: str
    args: Json = None
    title: str | None = None
    provider_executed: bool | None = None
    dynamic: bool | None = None
    output: Json = None
    provider_metadata: ProviderMetadata | None = None
    raw_args: str | None = None


class ToolOutputPayload(Payload, frozen=True):
    """Something a tool wrote while it ran.

    Attributes:
        index: Of a chunk of a sub-agent's run: its place in the log of that run, by which `attempt-restarted` in it
            says what to forget.
    """

    output: Json
    tool_call_id: str
    tool_name: str
    index: int | None = None


class ToolResultPayload(Payload, frozen=True):
    """What a tool returned, as JSON; for a failed call (`is_error`) the text the model was given."""

    tool_call_id: str
    tool_name: str
    result: Json
    args: Json = None
    is_error: bool | None = None
    provider_executed: bool | None = None
    dynamic: bool | None = None
    provider_metadata: ProviderMetadata | None = None


class ErrorInfo(Payload, frozen=True):
    """An error in a form the log can hold: no traceback, no secret."""

    name: str
    message: str
    id: str | None = None
    category: str | None = None
    code: str | None = None
    type: str | None = None
    status: int | None = None
    retryable: bool | None = None
    details: Mapping[str, Json] | None = None


class ToolErrorPayload(Payload, frozen=True):
    """Why a call failed."""

    tool_call_id: str
    tool_name: str
    error: ErrorInfo
    args: Json = None
    provider_executed: bool | None = None
    provider_metadata: ProviderMetadata | None = None


class ToolCallApprovalPayload(Payload, frozen=True):
    """A call waits for a decision; `resume_schema` is JSON text."""

    tool_call_id: str
    tool_name: str
    args: Json
    resume_schema: str


class ToolCallSuspendedPayload(Payload, frozen=True):
    """A call suspended itself; `resume_schema` is JSON text."""

    tool_call_id: str
    tool_name: str
    args: Json
    suspend_payload: Json
    resume_schema: str | None = None


class ApprovalInfo(Payload, frozen=True):
    """The decision on a call."""

    id: str
    approved: bool
    reason: str | None = None


class ToolOutputDeniedPayload(Payload, frozen=True):
    """A call was declined and did not run."""

    tool_call_id: str
    tool_name: str
    approval: ApprovalInfo
    args: Json = None


class StepOutcome(Payload, frozen=True):
    """How a step (or, in `finish`, the run) ended; with `retry`, the answer was not accepted for `retry_reason`."""

    reason: FinishReason
    is_continued: bool
    warnings: tuple[Json, ...]
    raw_reason: str | None = None
    retry_reason: str | None = None


class StepOutput(Payload, frozen=True):
    """What a step (or, in `finish`, the run) produced; only new data, so that a log grows by what is new."""

    text: str
    tool_calls: tuple[ToolCallPayload, ...]
    usage: Usage


class StepMetadata(Payload, frozen=True):
    """About the provider's answer; `timestamp` in ms since the epoch."""

    id: str | None = None
    timestamp: int | None = None
    model_id: str | None = None
    headers: Mapping[str, str] | None = None
    provider_metadata: ProviderMetadata | None = None


class StepFinishPayload(Payload, frozen=True):
    """The end of a step, after its tools."""

    message_id: str
    step_result: StepOutcome
    output: StepOutput
    metadata: StepMetadata


class FinishPayload(Payload, frozen=True):
    """The end of a run; `output.usage` is the sum over its steps."""

    message_id: str
    step_result: StepOutcome
    output: StepOutput
    metadata: StepMetadata


class ScorerVerdict(Payload, frozen=True):
    """What one scorer said of whether a task is complete; `duration` in ms.

    Attributes:
        errored: It raised, or was not done when the time was over; it counts as not passed.
    """

    score: float
    passed: bool
    scorer_id: str
    scorer_name: str
    duration: float
    reason: str | None = None
    errored: bool | None = None


class IsTaskCompletePayload(Payload, frozen=True):
    """What the scorers of `is_task_complete` said of a step; `iteration` from 1, `duration` in ms."""

    iteration: int
    passed: bool
    results: tuple[ScorerVerdict, ...]
    duration: float
    timed_out: bool
    max_iteration_reached: bool
    suppress_feedback: bool
    reason: str | None = None


class TripwirePayload(Payload, frozen=True):
    """A processor blocked the run."""

    reason: str
    retry: bool | None = None
    metadata: Json = None
    processor_id: str | None = None


class ErrorPayload(Payload, frozen=True):
    """The failure that ends a run."""

    error: ErrorInfo


class AbortPayload(Payload, frozen=True):
    """The run was aborted."""


class AttemptRestartedPayload(Payload, frozen=True):
    """A model call is made again; forget the events from `discard_from` (an index of the log) on."""

    step: int
    attempt: int
    discard_from: int


class GapPayload(Payload, frozen=True):
    """A viewer asked for events from `requested` on; those before `first` are no longer kept."""

    requested: int
    first: int
