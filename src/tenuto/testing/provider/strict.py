"""What real providers refuse, as rules that every dialect shares.

Invariant: a request that passes pairs each call with exactly one result, in place, under ids used once.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

import msgspec

from tenuto.testing.provider.http1 import Request

__all__ = [
    "Calls",
    "Other",
    "Reason",
    "Refused",
    "Result",
    "Rules",
    "Turn",
    "check_arguments",
    "check_bearer",
    "check_name",
    "check_pairs",
    "check_schema",
    "check_strict_schema",
    "parse_body",
    "require",
]

Reason = Literal[
    "invalid_api_key",
    "request_too_large",
    "bad_content_type",
    "bad_utf8",
    "bad_json",
    "unknown_key",
    "bad_parameter",
    "missing_model",
    "model_not_found",
    "missing_messages",
    "empty_messages",
    "bad_message",
    "bad_role",
    "bad_content",
    "empty_assistant",
    "empty_tool_calls",
    "bad_tool_call",
    "bad_arguments",
    "empty_id",
    "duplicate_id",
    "orphan_result",
    "duplicate_result",
    "unanswered_call",
    "system_not_first",
    "missing_reasoning",
    "empty_tools",
    "bad_tool",
    "bad_name",
    "duplicate_tool",
    "bad_schema",
    "bad_strict_schema",
    "bad_tool_choice",
    "tool_choice_without_tools",
    "unknown_tool_choice",
    "bad_response_format",
    "stream_options_without_stream",
    "bad_order",
    "missing_signature",
    "exclusive_parameters",
    "empty_input",
    "item_not_found",
    "altered_item",
    "reasoning_alone",
    "bad_id",
    "unsupported_parameter",
    "json_not_mentioned",
    "previous_response_not_found",
    "missing_version",
    "first_not_user",
    "blank_text",
    "bad_thinking",
    "altered_block",
    "bad_last_block",
    "result_not_first",
    "too_many_marks",
    "prefill",
]
"""Why a request was refused: the `code` of the error body."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Refused(Exception):
    """The request is not one that a real provider would accept.

    Attributes:
        reason: Names the rule.
        message: Says what is wrong.
        param: Where, such as `messages[2].tool_calls[0].id`.
        status: HTTP status of the answer.
        request: The request; set when the provider records the refusal.
    """

    def __init__(self, reason: Reason, message: str, param: str | None = None, *, status: int = 400) -> None:
        """Refuse for `reason`."""
        super().__init__(f"{reason}: {message}" + (f" ({param})" if param else ""))
        self.reason: Reason = reason
        self.message = message
        self.param = param
        self.status = status
        self.request: Request | None = None


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """How strict a provider is; see `FakeProvider` for the fields."""

    strict: bool = True
    allow_extra: frozenset[str] = frozenset()
    models: frozenset[str] | None = None
    system_first: bool = False
    require_reasoning_echo: bool = False
    api_key: str | None = None
    max_body: int | None = None


def require(ok: object, reason: Reason, message: str, param: str | None = None) -> None:
    """Refuse unless `ok` is true.

    Raises:
        Refused: It is not.
    """
    if not ok:
        raise Refused(reason, message, param)


def check_bearer(headers: Mapping[str, str], rules: Rules) -> None:
    """Refuse a wrong or missing bearer key with 401."""
    if rules.api_key is not None and headers.get("authorization") != f"Bearer {rules.api_key}":
        message = "Incorrect API key provided."
        raise Refused("invalid_api_key", message, status=401)


def check_size(request: Request, rules: Rules) -> None:
    """Refuse a body over the limit with 413."""
    if rules.max_body is not None and len(request.raw) > rules.max_body:
        message = f"The body has {len(request.raw)} bytes; the limit is {rules.max_body}."
        raise Refused("request_too_large", message, status=413)


def parse_body(request: Request) -> dict[str, Any]:
    """Read the body as a JSON object, as strictly as JSON is defined (no NaN, no broken UTF-8)."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    require(kind == "application/json", "bad_content_type", f"content-type is {kind!r}, not application/json")
    try:
        request.raw.decode()
        body = request.body
    except UnicodeDecodeError as error:
        raise Refused("bad_utf8", f"The body is not UTF-8: {error}") from None
    except msgspec.DecodeError as error:
        raise Refused("bad_json", f"The body is not JSON: {error}") from None
    require(isinstance(body, dict), "bad_json", "The body is not a JSON object.")
    return cast("dict[str, Any]", body)


class Calls(msgspec.Struct, frozen=True):
    """An assistant turn with these call ids."""

    param: str
    ids: tuple[str, ...]


class Result(msgspec.Struct, frozen=True):
    """The result of one call."""

    param: str
    id: str


class Other(msgspec.Struct, frozen=True):
    """Any other turn."""

    param: str


Turn = Calls | Result | Other


def check_pairs(turns: Iterable[Turn]) -> None:
    """Refuse a history whose calls and results do not pair.

    Raises:
        Refused: `empty_id`, `duplicate_id`, `unanswered_call`, `orphan_result` or `duplicate_result`.
    """
    seen: set[str] = set()
    waiting: dict[str, str] = {}
    for turn in turns:
        if isinstance(turn, Result):
            _settle(turn, waiting, seen)
            continue
        _check_answered(waiting)
        if isinstance(turn, Calls):
            waiting = dict.fromkeys(_fresh(turn, seen), turn.param)
    _check_answered(waiting)


def _fresh(turn: Calls, seen: set[str]) -> tuple[str, ...]:
    for position, call_id in enumerate(turn.ids):
        param = f"{turn.param}[{position}].id"
        require(call_id, "empty_id", "A call id is empty.", param)
        require(call_id not in seen, "duplicate_id", f"The call id {call_id!r} is used twice.", param)
        seen.add(call_id)
    return turn.ids


def _settle(turn: Result, waiting: dict[str, str], seen: set[str]) -> None:
    require(turn.id, "empty_id", "A result names no call.", turn.param)
    if waiting.pop(turn.id, None) is None:
        reason: Reason = "duplicate_result" if turn.id in seen else "orphan_result"
        raise Refused(reason, f"No open call before this result has the id {turn.id!r}.", turn.param)


def _check_answered(waiting: Mapping[str, str]) -> None:
    for call_id, param in waiting.items():
        raise Refused("unanswered_call", f"The call {call_id!r} has no result directly after it.", param)


def check_name(name: object, param: str) -> str:
    """Refuse a tool name that providers refuse; return it."""
    ok = isinstance(name, str) and _NAME.fullmatch(name)
    require(ok, "bad_name", f"{name!r} does not match ^[a-zA-Z0-9_-]{{1,64}}$.", param)
    return cast("str", name)


def check_arguments(arguments: object, param: str) -> None:
    """Refuse call arguments that are not the text of a JSON object."""
    require(isinstance(arguments, str), "bad_arguments", "Arguments must be text.", param)
    try:
        parsed: object = msgspec.json.decode(cast("str", arguments))
    except msgspec.DecodeError:
        parsed = None
    require(isinstance(parsed, dict), "bad_arguments", f"Not a JSON object: {str(arguments)[:80]!r}", param)


def check_schema(schema: object, param: str) -> None:
    """Refuse tool parameters that are not a JSON Schema of type object."""
    require(isinstance(schema, dict), "bad_schema", "The schema must be an object.", param)
    found = cast("dict[str, Any]", schema)
    require(found.get("type") == "object", "bad_schema", "The schema's type must be 'object'.", param)
    require(isinstance(found.get("properties", {}), dict), "bad_schema", "`properties` must be an object.", param)
    require(isinstance(found.get("required", []), list), "bad_schema", "`required` must be a list.", param)


def check_strict_schema(schema: object, param: str) -> None:
    """Refuse a schema that strict mode refuses: every object closed, every property required."""
    if isinstance(schema, list):
        for position, item in enumerate(cast("list[object]", schema)):
            check_strict_schema(item, f"{param}[{position}]")
    if not isinstance(schema, dict):
        return
    found = cast("dict[str, Any]", schema)
    if found.get("type") == "object":
        _check_closed(found, param)
    for key in ("items", "anyOf", "additionalProperties"):
        check_strict_schema(found.get(key), f"{param}.{key}")
    for key in ("properties", "$defs", "definitions"):
        for name, item in cast("dict[str, Any]", found.get(key) or {}).items():
            check_strict_schema(item, f"{param}.{key}.{name}")


def _check_closed(schema: Mapping[str, Any], param: str) -> None:
    closed = schema.get("additionalProperties") is False
    require(closed, "bad_strict_schema", "'additionalProperties' must be false.", param)
    every = set(schema.get("properties") or ()) == set(schema.get("required") or ())
    require(every, "bad_strict_schema", "'required' must name every property.", param)
