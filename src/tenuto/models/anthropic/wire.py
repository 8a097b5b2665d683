"""What is read of a messages stream: only the fields used; everything else is skipped undecoded.

Invariant: every field may be missing or null, so an event of a kind nobody knows yet decodes too.

Source: Anthropic API reference, "Streaming messages" and "Create a message".
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct


class Delta(Struct, gc=False):
    """What an event adds to a block, or to the message at its end."""

    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: Any = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: Any = None
    container: Any = None


class Event(Struct, gc=False):
    """One event, on the hot path."""

    type: str = ""
    index: int | None = None
    delta: Delta | None = None
    content_block: dict[str, Any] | None = None
    message: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    context_management: Any = None


class Message(Struct, gc=False):
    """A message: at the start of a stream, or an answer that was not streamed."""

    id: str | None = None
    model: str | None = None
    content: list[dict[str, Any]] | None = None
    usage: dict[str, Any] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: Any = None
    container: Any = None
    context_management: Any = None


class Whole(Message, gc=False):
    """The body of an answer that was not streamed; `error` when it is none."""

    type: str = ""
    error: Any = None


Count = Annotated[int, Meta(ge=0)]
"""A number of tokens; a negative one is no count."""


class CacheCreation(Struct):
    """What was written to the cache, by how long it is kept."""

    ephemeral_5m_input_tokens: Count | None = None
    ephemeral_1h_input_tokens: Count | None = None


class OutputDetails(Struct):
    """What the output was."""

    thinking_tokens: Count | None = None


class WireUsage(Struct):
    """Token counts; `input_tokens` is what was neither read from nor written to the cache."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_creation: CacheCreation | None = None
    output_tokens_details: OutputDetails | None = None
