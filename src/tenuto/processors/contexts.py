"""What each hook gets: one struct, with what all of them have and what is the hook's own.

Invariant: a context is a value but for `state`, which all hooks of one processor id in one run share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from msgspec import Struct, field

from tenuto.core.abort import AbortSignal
from tenuto.core.chunks import AnyChunk
from tenuto.core.clock import Clock, SystemClock
from tenuto.core.errors import TenutoError
from tenuto.core.payloads import FinishReason, Json, ToolCallPayload, Usage
from tenuto.core.request_context import RequestContext
from tenuto.messages.stored import Message
from tenuto.messages.turns import ProviderOptions, SystemTurn, Turn
from tenuto.models.ports import LanguageModel, ModelRequest, ToolChoice
from tenuto.processors.ports import MemoryWriter, ModelResponse, ResultSoFar, Step, Writer
from tenuto.processors.tripwire import Tripwire


class Surroundings(Struct, eq=False, kw_only=True):
    """What all hooks of one processor have in one run; a test of a hook makes one with what it needs.

    Attributes:
        processor_id: Of the processor.
        retry_count: How often the answer at hand has been asked for again at a processor's word.
        state: The processor's own, by its id. What JSON can hold of it is there again after a suspension or a crash.
        writer: Shows data in the stream.
        app: The agent's, or None.
        clock: The run's.
    """

    processor_id: str = ""
    run_id: str = ""
    agent_id: str = ""
    agent_name: str = ""
    thread_id: str | None = None
    resource_id: str | None = None
    retry_count: int = 0
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    request_context: RequestContext = field(default_factory=RequestContext)
    abort_signal: AbortSignal = field(default_factory=AbortSignal)
    writer: Writer = field(default_factory=MemoryWriter)
    app: Any = None
    clock: Clock = field(default_factory=SystemClock)


class HookContext(Struct, frozen=True):
    """What every hook has; `shared` is the same for all hooks of a processor in a run."""

    shared: Surroundings

    def abort(self, reason: str | None = None, *, retry: bool = False, metadata: Any = None) -> NoReturn:
        """Block; never returns.

        Args:
            reason: For people, and with `retry` for the model; by default it names the processor.
            retry: Ask the model for another answer, if `max_processor_retries` allows one more and there is an answer
                to be made again; else the run ends.
            metadata: What else is to be known; shown as JSON, and given to `on_violation` as `detail`.

        Raises:
            Tripwire: Always.
        """
        name = self.shared.processor_id
        said = reason or f"Processor {name!r} blocked this."
        raise Tripwire(said, retry=retry, metadata=metadata, processor_id=name)

    @property
    def processor_id(self) -> str:
        """The processor's id."""
        return self.shared.processor_id

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.shared.run_id

    @property
    def agent_id(self) -> str:
        """The agent's id."""
        return self.shared.agent_id

    @property
    def agent_name(self) -> str:
        """The agent's name."""
        return self.shared.agent_name

    @property
    def thread_id(self) -> str | None:
        """The run's thread, if it has one."""
        return self.shared.thread_id

    @property
    def resource_id(self) -> str | None:
        """The thread's resource."""
        return self.shared.resource_id

    @property
    def retry_count(self) -> int:
        """How often the answer at hand has been asked for again at a processor's word."""
        return self.shared.retry_count

    @property
    def state(self) -> dict[str, Any]:
        """See `Surroundings.state`."""
        return self.shared.state

    @property
    def request_context(self) -> RequestContext:
        """The run's request values."""
        return self.shared.request_context

    @property
    def abort_signal(self) -> AbortSignal:
        """Tells when the run is to stop."""
        return self.shared.abort_signal

    @property
    def writer(self) -> Writer:
        """Shows data of the processor's own in the stream."""
        return self.shared.writer

    @property
    def app(self) -> Any:
        """The agent's app, or None."""
        return self.shared.app

    @property
    def clock(self) -> Clock:
        """The run's clock: what waits, waits by it."""
        return self.shared.clock


class InputContext(HookContext, frozen=True):
    """For `process_input`.

    Attributes:
        messages: The call's own; neither `context` nor what was recalled.
        system_messages: What is sent before them.
    """

    messages: tuple[Message, ...] = ()
    system_messages: tuple[SystemTurn, ...] = ()


class InputStepContext(HookContext, frozen=True, kw_only=True):
    """For `process_input_step`: what the next model call is made of, after the processors before this one.

    Attributes:
        step_number: From 0.
        steps: The completed ones.
        messages: Every message of the run so far that is not a system message.
        system_messages: What is sent before them.
        model: That is asked.
        tools: All of the run, by name; `active_tools` the names offered, None = all.
        model_settings: Without what is not set.
        message_id: Of the answer in progress.
    """

    step_number: int = 0
    steps: Sequence[Step] = ()
    messages: tuple[Message, ...] = ()
    system_messages: tuple[SystemTurn, ...] = ()
    model: LanguageModel | None = None
    tools: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tool_choice: ToolChoice = "auto"
    active_tools: tuple[str, ...] | None = None
    model_settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    provider_options: ProviderOptions | None = None
    message_id: str = ""


class LLMRequestContext(HookContext, frozen=True, kw_only=True):
    """For `process_llm_request`.

    Attributes:
        prompt: What the model is sent: system turns first.
        tools: Names of the tools offered.
        request: The call as it would be made, before anything is put into it that asks for data.
        schema: JSON Schema of the data that is asked for, if any.
    """

    prompt: tuple[Turn, ...] = ()
    model: LanguageModel | None = None
    step_number: int = 0
    steps: Sequence[Step] = ()
    tools: tuple[str, ...] = ()
    request: ModelRequest | None = None
    schema: Json = None


class LLMResponseContext(HookContext, frozen=True, kw_only=True):
    """For `process_llm_response`: what a model that was really asked has answered.

    Attributes:
        response: Before any processor changed it.
        prompt: What it was sent.
    """

    response: ModelResponse
    prompt: tuple[Turn, ...] = ()
    model: LanguageModel | None = None
    step_number: int = 0
    steps: Sequence[Step] = ()

    @property
    def chunks(self) -> tuple[AnyChunk, ...]:
        """Those of the response."""
        return self.response.chunks


class OutputStreamContext(HookContext, frozen=True):
    """For `process_output_stream`.

    Attributes:
        part: The chunk, after the processors before this one.
        stream_parts: Those this hook has been given in this step, this one last.
    """

    part: AnyChunk
    stream_parts: Sequence[AnyChunk] = ()


class OutputStepContext(HookContext, frozen=True, kw_only=True):
    """For `process_output_step`: a model has answered, and none of its calls was begun.

    Attributes:
        messages: Every message of the run so far that is not a system message; the last one holds this answer.
        text: Of this step.
        tool_calls: Of this step, those that a provider runs itself included.
    """

    step_number: int = 0
    steps: Sequence[Step] = ()
    messages: tuple[Message, ...] = ()
    system_messages: tuple[SystemTurn, ...] = ()
    text: str = ""
    tool_calls: tuple[ToolCallPayload, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: Usage = field(default_factory=Usage)
    provider_metadata: Mapping[str, Any] | None = None


class ToolResultContext(HookContext, frozen=True, kw_only=True):
    """For `process_tool_result`: a call has succeeded, and nobody has seen its result.

    Attributes:
        result: As the tool returned it, as JSON, after the processors before this one.
        provider_executed: The provider ran the tool itself.
    """

    tool_call_id: str
    tool_name: str
    args: Json = None
    result: Json = None
    provider_executed: bool = False
    step_number: int = 0
    steps: Sequence[Step] = ()
    messages: tuple[Message, ...] = ()
    system_messages: tuple[SystemTurn, ...] = ()


class OutputResultContext(HookContext, frozen=True, kw_only=True):
    """For `process_output_result`: the run ends.

    Attributes:
        messages: What the run added: its answer, and what it was told on the way.
        result: What it comes to.
    """

    messages: tuple[Message, ...] = ()
    result: ResultSoFar


class APIErrorContext(HookContext, frozen=True, kw_only=True):
    """For `process_api_error`: a model call has failed, and its retries are used up.

    Attributes:
        error: Why.
        messages: Every message that the call was made of but the system messages.
        model: That failed.
    """

    error: TenutoError
    messages: tuple[Message, ...] = ()
    model: LanguageModel | None = None
    step_number: int = 0
    steps: Sequence[Step] = ()
    message_id: str = ""
