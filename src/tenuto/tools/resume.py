"""What somebody answers a pending call with: a decision on its approval, or the data it is suspended for.

Invariant: an answer that does not fit is refused before anything is stored, and the call waits on. A decision without
a boolean `approved` decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

from msgspec import Struct

from tenuto.core.errors import RunError
from tenuto.core.payloads import Json
from tenuto.tools.shape import Misfit, fit

if TYPE_CHECKING:
    from tenuto.tools.tool import Tool

INVALID_DATA = "AGENT_RESUME_INVALID_DATA"

APPROVAL_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}
"""What a decision on a call that waits for approval looks like."""

DEFAULT_DECLINE = "Tool call was not approved by the user"
"""What the model is told when a call is declined without a reason."""


class Approved(Struct, frozen=True):
    """The call may run.

    Attributes:
        reason: As given, else None.
        extra: What else the decision held: the tool's `ctx.resume_data`; None when it held nothing more.
    """

    approved: ClassVar[bool] = True

    reason: str | None = None
    extra: Mapping[str, Json] | None = None


class Declined(Struct, frozen=True):
    """The call does not run; the model is told `reason`."""

    approved: ClassVar[bool] = False

    reason: str = DEFAULT_DECLINE


def read_resume(tool: Tool[Any, ..., Any], data: Any, schema: Json = None) -> Any:
    """`data` as the tool's body gets them in `ctx.resume_data`.

    Call it when the data arrive (and store them as they came), and again when the body is entered with them.

    Args:
        tool: The tool whose call is suspended.
        data: JSON, or what `to_json` makes JSON of.
        schema: The JSON Schema the call was suspended with (`Suspended.resume_schema`). If it is the tool's own, or
            None, the data become a value of the tool's `resume_schema`; else they are checked and stay JSON.

    Raises:
        RunError: `AGENT_RESUME_INVALID_DATA`: they do not fit.
        ConfigurationError: The tool's `resume_schema` has no JSON Schema.
    """
    shape = tool.resume_shape
    try:
        if shape is not None and (schema is None or schema == shape.json_schema):
            return shape.load(fit(None, data))
        return fit(schema, data)
    except Misfit as error:
        message = f"The data to resume tool {tool.id!r} with do not fit what it waits for; it stays suspended.\n{error}"
        raise invalid_data(message) from error


def read_decision(resume_data: Any) -> Approved | Declined:
    """What a decision says: `{"approved": bool, "reason": str}` and whatever else is for the tool.

    A reason may also come as `{"declineContext": {"reason": str}}`.

    Raises:
        RunError: `AGENT_RESUME_INVALID_DATA`: it has no boolean `approved`, or a reason that is no text; the call
            still waits.
    """
    try:
        given: dict[str, Json] = fit(APPROVAL_SCHEMA, _without_null(fit(None, resume_data)))
    except Misfit as error:
        message = f"The call waits for approval and takes {{'approved': True}} or {{'approved': False}}.\n{error}"
        raise invalid_data(message) from error
    reason: str | None = given.get("reason")
    if not given["approved"]:
        return Declined(reason or _nested_reason(given) or DEFAULT_DECLINE)
    extra = {name: value for name, value in given.items() if name not in APPROVAL_SCHEMA["properties"]}
    return Approved(reason, extra or None)


def invalid_data(message: str) -> RunError:
    """The refusal of what a resume call brought."""
    return RunError(message, id=INVALID_DATA, domain="AGENT", category="USER")


def _without_null(given: Json) -> Json:
    """A reason of null is none."""
    if not isinstance(given, dict):
        return given
    entries = cast("dict[str, Json]", given)
    return {name: value for name, value in entries.items() if name != "reason" or value is not None}


def _nested_reason(given: Mapping[str, Json]) -> str | None:
    context = given.get("declineContext")
    reason = cast("dict[str, Json]", context).get("reason") if isinstance(context, dict) else None
    return reason if isinstance(reason, str) else None
