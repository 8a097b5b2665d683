"""What is read of a Gemini stream: only the fields used; everything else is skipped undecoded.

Invariant: every field may be missing or null. What is only kept, such as usage and grounding, stays undecoded until
the answer ends, for it comes again with each event and only the last one counts.

Source: Gemini API reference, "GenerateContentResponse"; `partialArgs` and `createTime` of Vertex AI.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Raw, Struct

from tenuto.core.payloads import wire_name

NOTHING = Raw()
"""Of a kept field that is missing."""


class FunctionCall(Struct, gc=False, rename=wire_name):
    """A call, whole; or the beginning or a piece of one (`will_continue`, `partial_args`)."""

    id: str | None = None
    name: str | None = None
    args: Raw = NOTHING
    partial_args: list[Any] | None = None
    will_continue: bool | None = None


class Blob(Struct, gc=False, rename=wire_name):
    """A file; `data` is base64 text."""

    mime_type: str | None = None
    data: str | None = None


class FileData(Struct, gc=False, rename=wire_name):
    """A file that is elsewhere."""

    file_uri: str | None = None
    mime_type: str | None = None


class PartIn(Struct, gc=False, rename=wire_name):
    """One piece of the answer; exactly one of its kinds is set."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    executable_code: dict[str, Any] | None = None
    code_execution_result: dict[str, Any] | None = None
    tool_call: dict[str, Any] | None = None
    tool_response: dict[str, Any] | None = None


class ContentIn(Struct, gc=False):
    """The pieces of one event."""

    parts: list[PartIn] | None = None


class Candidate(Struct, gc=False, rename=wire_name):
    """One alternative; only the first is read."""

    content: ContentIn | None = None
    finish_reason: str | None = None
    index: int | None = 0
    grounding_metadata: Raw = NOTHING
    url_context_metadata: Raw = NOTHING
    safety_ratings: Raw = NOTHING
    citation_metadata: Raw = NOTHING
    finish_message: Raw = NOTHING
    logprobs_result: Raw = NOTHING
    avg_logprobs: Raw = NOTHING


class Event(Struct, gc=False, rename=wire_name):
    """One event, on the hot path."""

    candidates: list[Candidate] | None = None
    usage_metadata: Raw = NOTHING
    prompt_feedback: Raw = NOTHING
    response_id: str | None = None
    model_version: str | None = None
    error: Any = None


class PromptFeedback(Struct, rename=wire_name):
    """Why there is no answer."""

    block_reason: str | None = None


Count = Annotated[int, Meta(ge=0)]


class UsageMetadata(Struct, rename=wire_name):
    """Token counts: the prompt's hold the cached ones, the candidates' do not hold the thoughts."""

    prompt_token_count: Count | None = None
    candidates_token_count: Count | None = None
    total_token_count: Count | None = None
    thoughts_token_count: Count | None = None
    cached_content_token_count: Count | None = None
    tool_use_prompt_token_count: Count | None = None


class Place(Struct, rename=wire_name):
    """A page, a picture's page, a place on a map or a stored document; each has some of these."""

    uri: str | None = None
    source_uri: str | None = None
    title: str | None = None
    file_search_store: str | None = None


class GroundingChunk(Struct, rename=wire_name):
    """One source."""

    web: Place | None = None
    image: Place | None = None
    maps: Place | None = None
    retrieved_context: Place | None = None


class Grounding(Struct, rename=wire_name):
    """What an answer rests on; only the sources are read, the rest is kept as it is."""

    grounding_chunks: list[GroundingChunk] | None = None
