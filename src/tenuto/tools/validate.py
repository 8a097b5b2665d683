"""From what a model sent to what a function is called with, or to an answer that tells the model what to correct.

Invariant: nothing is guessed. Beyond Pydantic's lax reading (`"3"` for an int) only two things are mended, and only
when the arguments do not fit as they are: null for an argument that may be left out but not be null, and a JSON text
where a list or an object is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from tenuto.core.credentials import is_credential
from tenuto.core.errors import Category, ToolError
from tenuto.core.foreign import contained, message_of
from tenuto.core.payloads import Json
from tenuto.messages.bounded import bounded, valid_text
from tenuto.tools.outcome import FIND_OUT, Failed, UnknownOutcome
from tenuto.tools.repair import NotJSON, read_arguments, read_json
from tenuto.tools.results import to_json
from tenuto.tools.schema import Bound, InputSchema
from tenuto.tools.shape import Issue, Misfit, Place

if TYPE_CHECKING:
    from tenuto.tools.tool import Tool

_ROUNDS = 3  # a mended text may show nested texts and nulls
_MAX_ISSUES = 10
_MAX_REASON = 200
_MAX_DUMP = 200


def bind_arguments(tool: str, schema: InputSchema, args: Json) -> Bound | Failed:
    """The arguments for the function, or the refusal that the model reads.

    Args:
        tool: The name the model used.
        schema: The tool's.
        args: What the model sent, as a JSON value or as text.
    """
    try:
        given = read_arguments(args)
    except NotJSON as error:
        return _not_json(tool, args, error)
    try:
        with contained():
            return _validated(schema, given)
    except Exception as error:  # noqa: BLE001 - a validator of the user's own may raise anything; the body has not run
        return _refused(tool, given, issues_in(error), error)


def repair_arguments(text: str) -> Json:
    """The arguments object that `text` was meant to be, mended but not validated; None when it cannot be mended."""
    try:
        return read_arguments(text)
    except NotJSON:
        return None


def _validated(schema: InputSchema, given: dict[str, Any]) -> Bound:
    from pydantic import ValidationError

    for _ in range(_ROUNDS):
        try:
            return schema.validate(_encoded(given))
        except (ValidationError, Misfit) as error:
            mended = _mended(given, [place for place, _ in issues_in(error)])
            if mended is None:
                raise
            given = mended
    return schema.validate(_encoded(given))


def _encoded(given: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(given)
    except (TypeError, ValueError, RecursionError):
        return msgspec.json.encode(to_json(given))


def _mended(given: dict[str, Any], places: Iterable[Place]) -> dict[str, Any] | None:
    """A copy with the values at `places` mended; None when there was nothing to mend."""
    copy = msgspec.json.decode(_encoded(given))
    changed = False
    for place in places:
        changed = _mend(copy, place) or changed
    return copy if changed else None


def _mend(root: Any, place: Place) -> bool:
    """Mend the value at `place`; names of union members in it are no part of the path and end the way."""
    parent: Any = None
    key: int | str = ""
    value = root
    for step in place:
        if not _has(value, step):
            break
        parent, key, value = value, step, value[step]
    if isinstance(value, str) and parent is not None:
        return _parse_text(parent, key, value)
    if value is None and isinstance(parent, dict):
        del parent[key]
        return True
    return False


def _has(container: Any, step: int | str) -> bool:
    if isinstance(container, dict):
        return step in container
    return isinstance(container, list) and isinstance(step, int) and step < len(cast("list[Any]", container))


def _parse_text(parent: Any, key: int | str, text: str) -> bool:
    if not text.lstrip().startswith(("[", "{")):
        return False
    try:
        parent[key] = read_json(text)
    except NotJSON:
        return False
    return True


def issues_in(error: Exception) -> list[Issue]:
    """What a failed validation says, each reason with its place."""
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_context=False, include_input=False)
        return [(issue["loc"], bounded(issue["msg"], _MAX_REASON)) for issue in found]
    if isinstance(error, Misfit) and error.issues:
        return [(place, bounded(reason, _MAX_REASON)) for place, reason in error.issues]
    return [((), bounded(f"{type(error).__name__}: {message_of(error)}", _MAX_REASON))]


def _not_json(tool: str, given: Json, cause: NotJSON) -> Failed:
    text = given if isinstance(given, str) else str(given)
    message = (
        f"Tool {tool!r} was not called: its arguments are not valid JSON ({cause}).\n"
        f"Given: {bounded(valid_text(text), _MAX_DUMP)}\n"
        "Call it again with one complete JSON object as arguments."
    )
    return _failed(message, {"errors": ["not valid JSON"], "fields": {}}, "TOOL_ARGUMENTS_NOT_JSON", cause)


def _refused(tool: str, given: Mapping[str, Any], issues: Sequence[Issue], cause: Exception) -> Failed:
    message = "\n".join(
        (
            f"Tool {tool!r} was not called: its arguments do not fit its schema.",
            *reasons_of(issues, "arguments"),
            f"Given: {bounded(_encoded(dict(given)).decode(), _MAX_DUMP)}",
            "Call it again with corrected arguments.",
        )
    )
    return _failed(message, error_tree(issues), "TOOL_ARGUMENTS_INVALID", cause)


def reasons_of(issues: Sequence[Issue], whole: str) -> list[str]:
    """A line for each of the first issues; `whole` names the place that has no name."""
    lines = [f"- {'.'.join(map(str, place)) or whole}: {reason}" for place, reason in issues[:_MAX_ISSUES]]
    if len(issues) > _MAX_ISSUES:
        lines.append(f"- and {len(issues) - _MAX_ISSUES} more")
    return [bounded(valid_text(line), 2 * _MAX_REASON) for line in lines]


def refused_values(tool: Tool[Any, ..., Any], misfit: Misfit) -> Failed:
    """The refusal of a call whose request has values that the tool's `request_context_schema` does not take.

    Of a value whose name looks like a secret's, the reason is left out: it may quote the value.
    """
    issues = [
        (place, "does not fit" if any(is_credential(str(step)) for step in place) else reason)
        for place, reason in misfit.issues
    ]
    lines = reasons_of(issues, "request context")
    message = "\n".join((f"Tool {tool.id!r} was not called: the request's values do not fit its schema.", *lines))
    return _failed(message, error_tree(issues), "TOOL_REQUEST_CONTEXT_INVALID", misfit, category="USER")


def refused_output(tool: Tool[Any, ..., Any], misfit: Misfit) -> Failed | UnknownOutcome:
    """The outcome of a call that returned what its `output_schema` does not take; what it did is done."""
    lines = reasons_of(misfit.issues, "result") or [str(misfit)]
    message = "\n".join((f"Tool {tool.id!r} ran, but its result does not fit its output_schema.", *lines))
    failed = _failed(message, error_tree(misfit.issues), "TOOL_OUTPUT_INVALID", misfit, category="USER")
    if tool.effects == "none":
        return failed
    return UnknownOutcome(failed.error, f"{message}\n{FIND_OUT}", failed.result)


def _failed(message: str, errors: Json, id: str, cause: Exception, *, category: Category = "THIRD_PARTY") -> Failed:
    error = ToolError(message, id=id, category=category)
    error.__cause__ = cause
    return Failed(error, message, {"error": True, "message": message, "validationErrors": errors})


def error_tree(issues: Sequence[Issue]) -> Json:
    """`{errors, fields: {name: {errors, fields}}}`, nested as the arguments are."""
    root: dict[str, Any] = {"errors": [], "fields": {}}
    for place, reason in issues[:_MAX_ISSUES]:
        node = root
        for step in place:
            node = node["fields"].setdefault(valid_text(str(step)), {"errors": [], "fields": {}})
        node["errors"].append(valid_text(reason))
    return root
