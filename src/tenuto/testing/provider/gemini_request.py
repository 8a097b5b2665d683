"""Refuses the Gemini requests that the real provider refuses: contents and their order.

Invariant: a body that passes holds only documented keys (and those explicitly allowed); each call in it is answered
in the content after it; a signature that was given to a call is still on it.

Source: Gemini API reference, "Content", "Part"; guides "Function calling" and "Thought signatures".
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import msgspec

from tenuto.testing.provider.gemini_settings import NAME, check_settings
from tenuto.testing.provider.strict import Refused, Rules, require

__all__ = ["check_request"]

Json = dict[str, Any]
_SKIPPED = "skip_thought_signature_validator"


class _Closed(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A record with documented keys only."""


class _Blob(_Closed):
    mime_type: str
    data: str


class _FileData(_Closed):
    file_uri: str
    mime_type: str | None = None


class _Call(_Closed):
    name: str
    args: Json = {}
    id: str | None = None


class _Response(_Closed):
    name: str
    response: Json
    id: str | None = None
    parts: list[Json] | None = None
    will_continue: bool | None = None
    scheduling: str | None = None


class _Code(_Closed):
    language: str
    code: str
    id: str | None = None


class _CodeResult(_Closed):
    outcome: Literal["OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"]
    output: str | None = None
    id: str | None = None


class _ServerCall(_Closed):
    id: str
    tool_type: str
    args: Json | None = None


class _ServerResponse(_Closed):
    id: str
    tool_type: str
    response: Json | None = None


class _Part(_Closed):
    text: str | None = None
    inline_data: _Blob | None = None
    file_data: _FileData | None = None
    function_call: _Call | None = None
    function_response: _Response | None = None
    executable_code: _Code | None = None
    code_execution_result: _CodeResult | None = None
    tool_call: _ServerCall | None = None
    tool_response: _ServerResponse | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    video_metadata: Json | None = None
    media_resolution: Json | None = None
    part_metadata: Json | None = None

    @property
    def kinds(self) -> list[object]:
        """What it holds; one thing, when it is valid."""
        return [getattr(self, name) for name in self.__struct_fields__[:9] if getattr(self, name) is not None]


class _Content(_Closed):
    role: Literal["user", "model"]
    parts: list[_Part]

    def calls(self) -> list[_Call]:
        """The calls to answer."""
        return [part.function_call for part in self.parts if part.function_call is not None]

    def responses(self) -> list[_Response]:
        """The answers."""
        return [part.function_response for part in self.parts if part.function_response is not None]


def check_request(body: Json, rules: Rules, signatures: Mapping[str, str]) -> None:
    """Check a whole body.

    Args:
        body: The parsed body.
        rules: How strict to be.
        signatures: The signature given to each call, by its name and arguments.

    Raises:
        Refused: The first rule that the body breaks.
    """
    check_settings(body, rules)
    require("contents" in body, "missing_messages", "contents is not specified", "contents")
    contents = [_content(each, f"contents[{place}]") for place, each in enumerate(body["contents"])]
    require(contents, "empty_messages", "contents is not specified", "contents")
    _check_order(contents)
    _check_pairs(contents)
    _check_signatures(contents, signatures)


def _content(found: object, param: str) -> _Content:
    try:
        content = msgspec.convert(found, _Content)
    except msgspec.ValidationError as error:
        reason = "unknown_key" if "unknown field" in str(error) else "bad_content"
        raise Refused(reason, f"Invalid JSON payload received. {error}", param) from None
    require(content.parts, "bad_content", "Content must have at least one part.", f"{param}.parts")
    for place, part in enumerate(content.parts):
        _check_part(part, content.role, f"{param}.parts[{place}]")
    return content


def _check_part(part: _Part, role: str, param: str) -> None:
    require(len(part.kinds) == 1, "bad_content", "A part must have exactly one initialized field.", param)
    spoken = part.text != "" or part.thought_signature is not None
    require(spoken, "bad_content", "The text of a part must not be empty.", param)
    if role == "user":
        own = (part.function_call, part.executable_code, part.code_execution_result, part.tool_call, part.thought)
        require(not any(own), "bad_content", "The model's parts must not be in a user's content.", param)
    else:
        require(part.function_response is None, "bad_content", "A function response is the user's.", param)
    for named in (part.function_call, part.function_response):
        require(named is None or NAME.fullmatch(named.name), "bad_name", "Invalid function name.", param)


def _check_order(contents: Sequence[_Content]) -> None:
    last = contents[-1].role == "user"
    require(last, "bad_order", "A request must end with a user turn or a function response.", "contents")
    require(contents[0].role == "user", "bad_order", "A conversation begins with a user turn.", "contents[0]")
    for place, (one, next_) in enumerate(pairwise(contents), 1):
        require(one.role != next_.role, "bad_order", "User and model must take turns.", f"contents[{place}]")


def _check_pairs(contents: Sequence[_Content]) -> None:
    waiting: list[_Call] = []
    for place, content in enumerate(contents):
        found = content.responses()
        param = f"contents[{place}]"
        if content.role == "user":
            message = "The number of function response parts must equal that of the function call parts."
            require(len(found) <= len(waiting), "orphan_result", message, param)
            require(len(found) == len(waiting), "unanswered_call", message, param)
            for call, answer in _paired(waiting, found, param):
                same = call.name == answer.name and call.id == answer.id
                require(same, "orphan_result", f"{answer.name} answers no call before it.", param)
        waiting = content.calls()


def _paired(calls: list[_Call], answers: list[_Response], param: str) -> list[tuple[_Call, _Response]]:
    """By id where there is one, else by order."""
    ids = [call.id for call in calls if call.id is not None]
    require(len(ids) == len(set(ids)), "duplicate_id", "A call id is used twice.", param)
    known = {call.id: call for call in calls if call.id is not None}
    return [(known.get(answer.id or "", call), answer) for call, answer in zip(calls, answers, strict=True)]


def _check_signatures(contents: Sequence[_Content], signatures: Mapping[str, str]) -> None:
    """Those of the current turn, which begins after the last content in which a user says something himself."""
    begins = max(
        (place for place, each in enumerate(contents) if each.role == "user" and not each.responses()), default=0
    )
    for place, content in enumerate(contents[begins:], begins):
        for part in content.parts:
            call = part.function_call
            if call is None:
                continue
            key = msgspec.json.encode({"name": call.name, "args": call.args}, order="deterministic").decode()
            given = signatures.get(key)
            kept = part.thought_signature in {given, _SKIPPED} if content.calls()[0] is call and given else True
            message = "Function call is missing a thought_signature in functionCall parts."
            require(kept, "missing_signature", message, f"contents[{place}]")
