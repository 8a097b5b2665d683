"""The vendor's own request types as an oracle for every body that a test sends.

The types come from the `openai` package; unknown keys are refused at every depth.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from openai.types import embedding_create_params
from openai.types.chat import completion_create_params as params
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator


def assert_valid_chat_body(body: dict[str, Any], *, allow: frozenset[str] = frozenset()) -> None:
    """Fail unless `body` is a chat completions request by openai's own types.

    Args:
        body: The parsed body.
        allow: Keys of other vendors, ignored at the top and in messages (such as `reasoning_content`).
    """
    known = _without(body, allow)
    if isinstance(known.get("messages"), list):
        known["messages"] = [_without(message, allow) for message in known["messages"]]
    _validator(streaming=bool(body.get("stream"))).validate_python(known, strict=True)


def assert_valid_embeddings_body(body: dict[str, Any], *, allow: frozenset[str] = frozenset()) -> None:
    """Fail unless `body` is an embeddings request by openai's own types."""
    _embeddings_validator().validate_python(_without(body, allow), strict=True)


@lru_cache
def _embeddings_validator() -> SchemaValidator:
    return SchemaValidator(closed(TypeAdapter(embedding_create_params.EmbeddingCreateParams).core_schema))


def _without(mapping: dict[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in keys}


@lru_cache
def _validator(*, streaming: bool) -> SchemaValidator:
    kind = params.CompletionCreateParamsStreaming if streaming else params.CompletionCreateParamsNonStreaming
    return SchemaValidator(closed(TypeAdapter(kind).core_schema))


def closed(schema: Any) -> Any:
    """Rebuild a core schema with closed objects, and lists where the types say Iterable (those validate lazily).

    A response model of the package that is also taken in a request is taken as an instance only: it is open.
    """
    if isinstance(schema, list | tuple):
        return type(schema)(closed(each) for each in schema)
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "model":
        kept = {"type": "is-instance", "cls": schema["cls"]}
        return kept | {key: schema[key] for key in ("ref",) if key in schema}
    rebuilt = {key: item if key == "metadata" else closed(item) for key, item in schema.items()}
    if rebuilt.get("type") == "typed-dict" and "extras_schema" not in rebuilt:
        rebuilt["extra_behavior"] = "forbid"
    if rebuilt.get("type") == "generator":
        rebuilt["type"] = "list"
    return rebuilt
