"""Checks request values against an agent's `request_context_schema`.

Invariant: the context itself is never changed; the validated view is a value of its own, for `ctx.values`.
"""

from __future__ import annotations

from typing import Any

from typing_extensions import is_typeddict

from tenuto.core.errors import ConfigurationError
from tenuto.core.request_context import RequestContext


def validated_values(schema: Any, context: RequestContext, given: object, agent_id: str) -> Any:
    """The view of `context` that `schema` makes; `given` itself when it is an instance of the schema.

    Raises:
        ConfigurationError: `AGENT_REQUEST_CONTEXT_VALIDATION_FAILED`, one line per issue.
    """
    if schema is None:
        return None
    if isinstance(schema, type) and not is_typeddict(schema) and isinstance(given, schema):
        return given
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(schema).validate_python(context.all)
    except ValidationError as error:
        lines = [f"- {'.'.join(map(str, issue['loc'])) or '(context)'}: {issue['msg']}" for issue in error.errors()]
        message = f"Agent {agent_id!r}: the request context does not fit its schema:\n" + "\n".join(lines)
        raise ConfigurationError(
            message, id="AGENT_REQUEST_CONTEXT_VALIDATION_FAILED", domain="AGENT", details={"agentId": agent_id}
        ) from error
