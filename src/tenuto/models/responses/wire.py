"""What is read of a responses stream: only the fields used; everything else is skipped undecoded.

Invariant: every field may be missing or null, and an item may be of a kind nobody knows yet.

Source: OpenAI API reference, "Responses", streaming events and the response object.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Raw, Struct

_NOTHING = Raw(b"null")


class Event(Struct, gc=False):
    """One event, on the hot path; which fields it has follows from `type`."""

    type: str = ""
    sequence_number: Any = None
    delta: Any = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    logprobs: Any = None
    item: Any = None
    part: Any = None
    annotation: Any = None
    response: Raw = _NOTHING
    error: Any = None


class Incomplete(Struct):
    """Why an answer is not whole."""

    reason: str | None = None


class ResponseObject(Struct):
    """The response itself, as the first and last events and a whole body hold it."""

    id: str | None = None
    model: str | None = None
    created_at: float | None = None
    status: str | None = None
    error: Any = None
    incomplete_details: Incomplete | None = None
    output: list[Raw] | None = None
    service_tier: str | None = None
    usage: Any = None


Count = Annotated[int, Meta(ge=0)]
"""A number of tokens; a negative one is no count."""


class InputDetails(Struct):
    """Where the input came from."""

    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None


class OutputDetails(Struct):
    """What the output was."""

    reasoning_tokens: Count | None = None


class WireUsage(Struct):
    """Token counts."""

    input_tokens: Count | None = None
    output_tokens: Count | None = None
    total_tokens: Count | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None
