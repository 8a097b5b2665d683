"""The vendor's own request types as an oracle for every messages body that a test sends.

The types come from the `anthropic` package; unknown keys are refused at every depth.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from anthropic.types import message_create_params as plain
from anthropic.types.beta import message_create_params as beta
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, ValidationError

from tests.oracle import closed

SAMPLING = frozenset({"temperature", "top_k", "top_p"})
"""Older models take these; the package no longer names them, since the models of today do not."""


def assert_valid_messages_body(
    body: dict[str, Any], *, previews: bool = True, allow: frozenset[str] = frozenset()
) -> None:
    """Fail unless `body` is a messages request by anthropic's own types.

    Args:
        body: The parsed body.
        previews: With what is in preview, such as MCP servers and context management.
        allow: Other keys at the top.
    """
    known = {key: value for key, value in body.items() if key not in SAMPLING | allow}
    try:
        _validator(streaming=bool(body.get("stream")), previews=previews).validate_python(known, strict=True)
    except ValidationError as error:  # a hundred lines, one for each type a block might have been
        told = [f"{'.'.join(map(str, each['loc']))[:80]}: {each['msg']}" for each in error.errors()[:3]]
        raise AssertionError("\n".join(["anthropic's types refuse the body:", *told, str(body)])) from None


@lru_cache
def _validator(*, streaming: bool, previews: bool) -> SchemaValidator:
    params: Any = beta if previews else plain
    kind = params.MessageCreateParamsStreaming if streaming else params.MessageCreateParamsNonStreaming
    return SchemaValidator(closed(TypeAdapter(kind).core_schema))
