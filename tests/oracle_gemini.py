"""Google's own request types as an oracle for every body that a test sends to a Gemini model.

The types come from the `google-genai` package; they refuse unknown keys at every depth.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from google.genai import types
from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.alias_generators import to_camel


class _Generation(types.GenerationConfig):
    """The package builds this object by hand, with one field more than its type has."""

    image_config: types.ImageConfig | None = None


class _Body(BaseModel):
    """The body that the package's converters write for `streamGenerateContent`."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")

    contents: list[types.Content]
    system_instruction: types.Content | None = None
    generation_config: _Generation | None = None
    tools: list[types.Tool] | None = None
    tool_config: types.ToolConfig | None = None
    safety_settings: list[types.SafetySetting] | None = None
    cached_content: str | None = None
    labels: dict[str, str] | None = None
    service_tier: types.ServiceTier | None = None


@lru_cache
def _adapter() -> TypeAdapter[_Body]:
    return TypeAdapter(_Body)


def assert_valid_gemini_body(body: dict[str, Any], *, allow: frozenset[str] = frozenset()) -> None:
    """Fail unless `body` is a Gemini request by Google's own types.

    Args:
        body: The parsed body.
        allow: Keys ignored at the top.
    """
    known = {key: value for key, value in body.items() if key not in allow}
    _adapter().validate_json(json.dumps(known))
