"""From what a model sent to what a function is called with, or to an answer that tells the model what to correct.

Invariant: nothing is guessed. Beyond Pydantic's lax reading (`"3"` for an int) only two things are mended, and only
when the arguments do not fit as they are: null for an argument that may be left out but not be null, and a JSON text
where a list or an object is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from tenuto.core.errors import ToolError
from tenuto.core.foreign import message_of
from tenuto.core.payloads import Json
from tenuto.messages.bounded import bounded, valid_text
from tenuto.tools.outcome import Failed
from tenuto.tools.repair import NotJSON, read_arguments, read_json
from tenuto.tools.results import to_json
from tenuto.tools.schema import ArgumentSchema, Bound

if TYPE_CHECKING:
    from pydantic import ValidationError

_ROUNDS = 3  # a mended text may show nested texts and nulls
_MAX_ISSUES = 10
_MAX_REASON = 200
_MAX_DUMP = 200

Location = tuple[int | str, ...]
Issue = tuple[Location, str]


def bind_arguments(tool: str, schema: ArgumentSchema, args: Json) -> Bound | Failed:
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
        return _validated(schema, given)
    except Exception as error:  # noqa: BLE001 - a validator of the user's own may raise anything; the body has not run
        return _refused(tool, given, _issues(error), error)


def repair_arguments(text: str) -> Json:
    """The arguments object that `text` was meant to be, mended but not validated; None when it cannot be mended."""
    try:
        return read_arguments(text)
    except NotJSON:
        return None


def _validated(schema: ArgumentSchema, given: dict[str, Any]) -> Bound:
    from pydantic import ValidationError

    for _ in range(_ROUNDS):
        try:
            return schema.validate(_encoded(given))
        except ValidationError as error:
            mended = _mended(given, _locations(error))
            if mended is None:
                raise
            given = mended
    return schema.validate(_encoded(given))


def _encoded(given: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(given)
    except (TypeError, ValueError, RecursionError):
        return msgspec.json.encode(to_json(given))


def _mended(given: dict[str, Any], places: Iterable[Location]) -> dict[str, Any] | None:
    """A copy with the values at `places` mended; None when there was nothing to mend."""
    copy = msgspec.json.decode(_encoded(given))
    changed = False
    for place in places:
        changed = _mend(copy, place) or changed
    return copy if changed else None


def _mend(root: Any, place: Location) -> bool:
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


def _locations(error: ValidationError) -> list[Location]:
    return [issue["loc"] for issue in error.errors(include_url=False, include_context=False, include_input=False)]


def _issues(error: Exception) -> list[Issue]:
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_context=False, include_input=False)
        return [(issue["loc"], bounded(issue["msg"], _MAX_REASON)) for issue in found]
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
    lines = [f"- {'.'.join(map(str, place)) or 'arguments'}: {reason}" for place, reason in issues[:_MAX_ISSUES]]
    if len(issues) > _MAX_ISSUES:
        lines.append(f"- and {len(issues) - _MAX_ISSUES} more")
    dump = bounded(_encoded(dict(given)).decode(), _MAX_DUMP)
    message = "\n".join(
        (
            f"Tool {tool!r} was not called: its arguments do not fit its schema.",
            *(bounded(valid_text(line), 2 * _MAX_REASON) for line in lines),
            f"Given: {dump}",
            "Call it again with corrected arguments.",
        )
    )
    return _failed(message, _error_tree(issues[:_MAX_ISSUES]), "TOOL_ARGUMENTS_INVALID", cause)


def _failed(message: str, errors: Json, id: str, cause: Exception) -> Failed:
    error = ToolError(message, id=id, category="THIRD_PARTY")
    error.__cause__ = cause
    return Failed(error, message, {"error": True, "message": message, "validationErrors": errors})


def _error_tree(issues: Iterable[Issue]) -> Json:
    """`{errors, fields: {name: {errors, fields}}}`, nested as the arguments are."""
    root: dict[str, Any] = {"errors": [], "fields": {}}
    for place, reason in issues:
        node = root
        for step in place:
            node = node["fields"].setdefault(valid_text(str(step)), {"errors": [], "fields": {}})
        node["errors"].append(valid_text(reason))
    return root
