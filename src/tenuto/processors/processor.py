"""`Processor`: the hooks that stand around a run's messages, model calls, chunks, tool results and errors.

Invariant: a processor takes part in a phase if it has that phase's hook and stands in a list that is scanned for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from tenuto.core.chunks import AnyChunk
from tenuto.messages.input import Messages, SystemInput
from tenuto.messages.turns import Turn
from tenuto.processors import contexts as x
from tenuto.processors.ports import ModelResponse
from tenuto.processors.tripwire import Violation


class MessageChange(TypedDict, total=False):
    """What `process_input` may return: the input in another form, and other system messages before it."""

    messages: Messages
    system_messages: SystemInput


class StepChange(TypedDict, total=False):
    """What `process_input_step` may return; each key stands for this model call only."""

    messages: Messages
    system_messages: SystemInput
    model: Any
    tools: Any
    tool_choice: Any
    active_tools: Sequence[str]
    model_settings: Mapping[str, Any]
    provider_options: Mapping[str, Any]


class RequestChange(TypedDict, total=False):
    """What `process_llm_request` may return: another prompt, or the answer itself, and then no model is asked."""

    prompt: Sequence[Turn]
    response: ModelResponse


class ToolResultChange(TypedDict, total=False):
    """What `process_tool_result` may return."""

    result: Any


class APIErrorChange(TypedDict, total=False):
    """What `process_api_error` may return: whether the same model is asked again, and with which messages."""

    retry: bool
    messages: Messages


MessagesAnswer = Messages | MessageChange | None
StepAnswer = Messages | StepChange | None
StreamAnswer = AnyChunk | Sequence[AnyChunk] | None
APIErrorAnswer = bool | APIErrorChange | None


class Processor:
    """Base of all processors; a subclass has an `id` and the hooks it needs, each sync or async.

    The hooks here change nothing. An object of any other class with an `id` and some of the hooks will do as well.

    A hook raises nothing but through `context.abort(...)`. What else it raises fails the run; in
    `process_output_stream` it is logged, and the chunk passes as it came, unless the processor is `fail_closed`.

    Attributes:
        id: Names it. Two processors with one id in a run share their state.
        name: For people.
        description: For people.
        process_data_parts: `process_output_stream` gets `data-*` chunks, too.
        fail_closed: A `process_output_stream` that raises fails the run.
        on_violation: Told whenever the processor blocks something; what it raises is logged.
    """

    id: str = ""
    name: str | None = None
    description: str | None = None
    process_data_parts: bool = False
    fail_closed: bool = False
    on_violation: Callable[[Violation], object] | None = None

    def process_input(self, context: x.InputContext) -> MessagesAnswer | Awaitable[MessagesAnswer]:
        """Once, before the first model call and never on a resume: change the call's own messages.

        Returns:
            None to leave them; messages in any form, which take the place of all (a `role: system` among them becomes a
            system message); or `{"messages": ..., "system_messages": ...}`. What is returned is what is stored.
        """
        del context

    def process_input_step(self, context: x.InputStepContext) -> StepAnswer | Awaitable[StepAnswer]:
        """Before every model call, that of another model in a failed one's place included: change what it is made of.

        Returns:
            None; messages, in place of all; or a dict, see `StepChange`. It stands for this call only and is stored
            nowhere.
        """
        del context

    def process_llm_request(
        self, context: x.LLMRequestContext
    ) -> RequestChange | Awaitable[RequestChange | None] | None:
        """Before every model call, last: change the prompt as it is sent, or answer in the model's place.

        Returns:
            None; `{"prompt": turns}`; or `{"response": ModelResponse}`, and then no model is asked. It is stored
            nowhere.
        """
        del context

    def process_llm_response(self, context: x.LLMResponseContext) -> Awaitable[None] | None:
        """After a model call that was really made, with all of its chunks."""
        del context

    def process_output_stream(self, context: x.OutputStreamContext) -> StreamAnswer | Awaitable[StreamAnswer]:
        """For each chunk before anybody sees it: change it, drop it, or add others.

        Returns:
            The chunk to show, or several; None drops it. What is said, stored and shown is made of what is returned.
            What holds the stream together (starts, ends, the outcome of a call) can be changed, not dropped.
        """
        return context.part

    def process_output_step(self, context: x.OutputStepContext) -> MessagesAnswer | Awaitable[MessagesAnswer]:
        """After each model call and before any of its tools runs: change the answer, refuse it, or ask for another.

        Returns:
            None; or messages, of which the last assistant message holds the answer in its new form.
        """
        del context

    def process_tool_result(
        self, context: x.ToolResultContext
    ) -> ToolResultChange | Awaitable[ToolResultChange | None] | None:
        """After each call that succeeded, and before its result is seen or stored anywhere.

        Returns:
            None; or `{"result": value}`, which takes the place of the result everywhere.
        """
        del context

    def process_output_result(self, context: x.OutputResultContext) -> MessagesAnswer | Awaitable[MessagesAnswer]:
        """Once, when the run ends; not when it is suspended, nor when it was blocked, timed out or never began.

        Returns:
            None; or messages in place of those the run added.
        """
        del context

    def process_api_error(self, context: x.APIErrorContext) -> APIErrorAnswer | Awaitable[APIErrorAnswer]:
        """After a model call failed for good and before another model is asked.

        Returns:
            True or `{"retry": True}` to ask the same model once more, with `messages` in place of all if given.
        """
        del context


Hook = Literal[
    "process_input",
    "process_input_step",
    "process_llm_request",
    "process_llm_response",
    "process_output_stream",
    "process_output_step",
    "process_tool_result",
    "process_output_result",
    "process_api_error",
]
List = Literal["input", "output", "error"]

HOOKS: Mapping[List, tuple[Hook, ...]] = {
    "input": (
        "process_input",
        "process_input_step",
        "process_llm_request",
        "process_llm_response",
        "process_api_error",
    ),
    "output": (
        "process_output_stream",
        "process_output_step",
        "process_tool_result",
        "process_output_result",
        "process_api_error",
    ),
    "error": ("process_api_error",),
}
"""Which hooks of the processors of a list are ever called."""


def hook_of(processor: Any, name: Hook) -> Callable[[Any], Any] | None:
    """The processor's hook; None when it has none of its own."""
    hook = getattr(processor, name, None)
    if not callable(hook) or getattr(hook, "__func__", None) is getattr(Processor, name):
        return None
    return hook
