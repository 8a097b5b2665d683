"""The vendor's own request types as an oracle for every responses body that a test sends.

The types come from the `openai` package; unknown keys are refused at every depth.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from openai.types.responses import response_create_params as params
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator

from tests.oracle import _without, closed


def assert_valid_responses_body(body: dict[str, Any], *, allow: frozenset[str] = frozenset()) -> None:
    """Fail unless `body` is a responses request by openai's own types.

    Args:
        body: The parsed body.
        allow: Keys of other vendors, ignored at the top and in items.
    """
    known = _without(body, allow)
    if isinstance(known.get("input"), list):
        known["input"] = [_without(item, allow) for item in known["input"]]
    _validator(streaming=bool(body.get("stream"))).validate_python(known, strict=True)


@lru_cache
def _validator(*, streaming: bool) -> SchemaValidator:
    kind = params.ResponseCreateParamsStreaming if streaming else params.ResponseCreateParamsNonStreaming
    return SchemaValidator(closed(TypeAdapter(kind).core_schema))
