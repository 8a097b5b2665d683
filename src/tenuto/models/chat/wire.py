"""What is read of a chat completions stream: only the fields used; everything else is skipped undecoded.

Invariant: every field may be missing or null, as providers differ in all but the deltas.

Source: OpenAI chat completion chunk object; `reasoning_content` (DeepSeek, vLLM), `reasoning` and `images`
(OpenRouter, Groq), `citations` (Perplexity, xAI), `x_groq`, `extra_content` (Gemini's compatible endpoint).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, field


class FunctionDelta(Struct, gc=False):
    """A piece of a call; some servers send the arguments as an object."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallDelta(Struct, gc=False):
    """A piece of one call."""

    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None
    extra_content: Any = None


class Delta(Struct, gc=False):
    """What an event adds; also the message of an answer that was not streamed."""

    content: str | list[Any] | None = None
    tool_calls: list[CallDelta] | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    refusal: str | None = None
    function_call: FunctionDelta | None = None
    annotations: list[Any] | None = None
    images: list[Any] | None = None


NO_DELTA = Delta()


class Logprobs(Struct, gc=False):
    """Of the tokens of an event."""

    content: list[Any] | None = None


class XGroq(Struct, gc=False):
    """Groq's own place for usage."""

    usage: Any = None


class Choice(Struct, gc=False):
    """One alternative; only the first is read."""

    delta: Delta | None = None
    finish_reason: str | None = None
    index: int | None = 0
    logprobs: Logprobs | None = None
    message: Delta | None = None
    error: Any = None


class ChatChunk(Struct, gc=False):
    """One event, on the hot path."""

    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    citations: list[Any] | None = None
    x_groq: XGroq | None = None


class Head(Struct, gc=False):
    """What names the response; read from the first event that has it."""

    id: str | None = None
    model: str | None = None
    created: float | None = None


Count = Annotated[int, Meta(ge=0)]
"""A number of tokens; a negative one is no count, and could hide what other steps have used."""


class PromptDetails(Struct):
    """Where the input came from."""

    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None


class CompletionDetails(Struct):
    """What the output was."""

    reasoning_tokens: Count | None = None


class WireUsage(Struct):
    """Token counts; `prompt_cache_hit_tokens` is DeepSeek's."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    total_tokens: Count | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    prompt_cache_hit_tokens: Count | None = None


class FunctionOut(Struct):
    """A call as it is sent."""

    name: str
    arguments: str


class CallOut(Struct, omit_defaults=True):
    """A call as it is sent, with what its provider wants back."""

    id: str
    function: FunctionOut
    extra_content: Any = None
    type: str = field(default_factory=lambda: "function")


class AssistantOut(Struct, omit_defaults=True):
    """An assistant message as it is sent."""

    content: str | None
    tool_calls: list[CallOut] | None = None
    reasoning_content: str | None = None
    role: str = field(default_factory=lambda: "assistant")


class MessageOut(Struct, omit_defaults=True):
    """Any other message as it is sent."""

    role: str
    content: str | Sequence[Mapping[str, Any]]
    tool_call_id: str | None = None
