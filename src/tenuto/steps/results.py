"""What a step leaves behind: for `result.steps`, `stop_when` and `on_step_finish`.

Invariant: values only, complete when they are made; what a callback keeps never changes under it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tenuto.core import codec
from tenuto.core.abort import AbortSignal
from tenuto.core.chunks import File, ReasoningDelta, Source, ToolCall, ToolResult
from tenuto.core.payloads import FinishReason, Json, TripwirePayload, Usage, wire_name
from tenuto.core.request_context import RequestContext
from tenuto.messages.stored import Message
from tenuto.messages.turns import ProviderOptions, SystemTurn
from tenuto.models.ports import LanguageModel, ToolChoice


class RequestInfo(Struct, frozen=True, rename=wire_name):
    """What was sent to the provider. A long run keeps the bodies of its last steps only."""

    sent: Json = None

    @property
    def body(self) -> Json:
        """The body as plain values, without headers; None when the model sent none or it was not kept."""
        return None if self.sent is None else msgspec.json.decode(codec.encode(self.sent))

    @property
    def size(self) -> int:
        """Bytes of the body, if it is kept encoded."""
        return memoryview(self.sent).nbytes if isinstance(self.sent, msgspec.Raw) else 0


class ResponseInfo(Struct, frozen=True, rename=wire_name):
    """About the provider's answer; `timestamp` in ms since the epoch; `headers` lower-cased."""

    id: str | None = None
    timestamp: int | None = None
    model_id: str | None = None
    headers: Mapping[str, str] | None = None


class StepResult(Struct, frozen=True, rename=wire_name):
    """One model call and the tools it called.

    Attributes:
        tool_results: One per answered call, in call order; failed ones have `payload.is_error` and the text the model
            was given.
        model: As `provider/model`.
        tripwire: Why a processor did not accept the answer, which is empty then.
    """

    step_type: Literal["initial", "tool-result"]
    text: str
    reasoning: tuple[ReasoningDelta, ...]
    tool_calls: tuple[ToolCall, ...]
    tool_results: tuple[ToolResult, ...]
    sources: tuple[Source, ...]
    files: tuple[File, ...]
    finish_reason: FinishReason
    usage: Usage
    warnings: tuple[Json, ...]
    request: RequestInfo
    response: ResponseInfo
    provider_metadata: Mapping[str, Any] | None
    model: str
    run_id: str
    raw_finish_reason: str | None = None
    tripwire: TripwirePayload | None = None

    @property
    def reasoning_text(self) -> str | None:
        """All reasoning of the step, joined; None when there was none."""
        return "".join(chunk.payload.text for chunk in self.reasoning) or None


class StopContext(Struct, frozen=True):
    """What a `stop_when` condition gets."""

    steps: tuple[StepResult, ...]


class StepContext(Struct, frozen=True, kw_only=True):
    """What `prepare_step` gets, before each model call.

    Attributes:
        step_number: From 0.
        steps: The completed ones.
        messages: Every message of the run so far that is not a system message.
        system_messages: What is sent before them.
        model: That would be asked first.
        tools: All of the run, by name; `active_tools` the names offered, None = all.
        model_settings: Those of the call, without what is not set.
    """

    step_number: int
    steps: tuple[StepResult, ...]
    messages: tuple[Message, ...]
    system_messages: tuple[SystemTurn, ...]
    model: LanguageModel
    tools: Mapping[str, Any]
    tool_choice: ToolChoice
    active_tools: tuple[str, ...] | None
    model_settings: Mapping[str, Any]
    provider_options: ProviderOptions | None
    request_context: RequestContext
    abort_signal: AbortSignal
    run_id: str
    message_id: str


class IterationCall(Struct, frozen=True):
    """A tool call of a step."""

    id: str
    name: str
    args: Json


class IterationResult(Struct, frozen=True):
    """The answer to a call: `result`, or the text of its `error` as the model was told it."""

    id: str
    name: str
    result: Json
    error: str | None = None


class IterationContext(Struct, frozen=True, kw_only=True):
    """What `on_iteration_complete` gets.

    Attributes:
        iteration: From 1.
        max_iterations: The step limit.
        is_final: Whether the run ends with this step, unless the callback says otherwise.
        messages: Every message of the run so far that is not a system message.
    """

    iteration: int
    max_iterations: int
    text: str
    tool_calls: tuple[IterationCall, ...]
    tool_results: tuple[IterationResult, ...]
    is_final: bool
    finish_reason: FinishReason
    run_id: str
    agent_id: str
    agent_name: str
    messages: tuple[Message, ...]
    thread_id: str | None = None
    resource_id: str | None = None

    @property
    def message_list(self) -> tuple[Message, ...]:
        """The same as `messages`."""
        return self.messages


class AbortEvent(Struct, frozen=True):
    """What `on_abort` gets: the completed steps, and the text of the one that was cut short."""

    steps: tuple[StepResult, ...]
    text: str


class PendingCall(Struct, frozen=True, rename=wire_name, omit_defaults=True):
    """A call that waits for a decision; `id` is the `tool_call_id` of every decision.

    Attributes:
        kind: `approval` (the tool has not run) or `suspension` (it asked for something with `suspend_payload`).
        resume_schema: JSON text of the schema of the answer; None when anything fits.
    """

    id: str
    tool_name: str
    args: Json
    kind: Literal["approval", "suspension"]
    suspend_payload: Json = None
    resume_schema: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The payload of the chunk that announced it."""
        shown: dict[str, Any] = {"toolCallId": self.id, "toolName": self.tool_name, "args": self.args}
        if self.kind == "suspension":
            shown["suspendPayload"] = self.suspend_payload
        return {**shown, "resumeSchema": self.resume_schema}
