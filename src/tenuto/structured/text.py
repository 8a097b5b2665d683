"""Finds the JSON in what a model wrote: behind thoughts, inside a code fence, between sentences.

Invariant: text that is JSON is taken as it is; of several values the last whole one counts; half a value is none.

Source: the cleaning rules of Mastra's structured output (control token, fence, last balanced object, raw control
characters inside strings).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NoReturn

import msgspec

from tenuto.core.payloads import Json
from tenuto.tools.repair import NotJSON, read_json

__all__ = ["NotJSON", "begin", "find_json", "read_whole"]

_MESSAGE = "<|message|>"
_THOUGHT = re.compile(r"\s*<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_FENCE = re.compile(r"```(?:json5?|JSON)?[ \t]*\r?\n(.*?)\n?[ \t]*```", re.DOTALL)
_FENCE_START = re.compile(r"```(?:json5?|JSON)?[ \t]*\r?\n")
_START = re.compile(r"\{\s*[\"'}]|\[")
_OPENINGS = ("<think>", "<thinking>", "<thought>", "<reasoning>", "```json5\n", "```JSON\n")
_MAX_TRIES = 200


def find_json(text: str) -> Json:
    """The JSON value in `text`.

    Raises:
        NotJSON: There is none, or only the beginning of one.
    """
    for candidate in _candidates(text):
        try:
            return read_whole(candidate)
        except NotJSON:
            continue
    plain = _fenced(_unthought(text)).strip()
    if plain.startswith(("{", "[")):
        try:
            return _clean(read_json(plain))
        except NotJSON:
            pass
    return _last_value(plain)


def begin(text: str) -> str | None:
    """Where the JSON begins in a text that still grows: what there is of it; None while that cannot be said.

    Text that begins with anything else than JSON, a thought or a fence never shows a beginning: in it the last value
    counts, and which that is only the end tells.
    """
    rest = text.lstrip()
    if _MESSAGE in rest and not rest.startswith(("{", "[", '"')):
        rest = rest.rpartition(_MESSAGE)[2].lstrip()
    if _THOUGHT.match(rest):
        end = _THOUGHT_END.search(rest)
        rest = "" if end is None else rest[end.end() :].lstrip()
    if fence := _FENCE_START.match(rest):
        rest = rest[fence.end() :].partition("```")[0].lstrip()
    if not rest or any(opening.startswith(rest.lower()) for opening in _OPENINGS):
        return None
    return rest if rest[0] in '{["-0123456789tfn' else None


def _candidates(text: str) -> Iterable[str]:
    yield text
    behind = text.rpartition(_MESSAGE)[2]
    yield behind
    plain = _unthought(behind)
    yield plain
    yield _fenced(plain)


def _unthought(text: str) -> str:
    """Without the thought at its beginning, which may have been opened in the prompt already."""
    behind = text.rpartition(_MESSAGE)[2]
    if _THOUGHT.match(behind):
        end = _THOUGHT_END.search(behind)
        return "" if end is None else behind[end.end() :]
    ends = list(_THOUGHT_END.finditer(behind))
    return behind[ends[-1].end() :] if ends and not behind.lstrip().startswith(("{", "[", '"')) else behind


def _fenced(text: str) -> str:
    """The inside of the last code fence; the text itself when it has none, or has one inside its JSON."""
    if text.lstrip().startswith(("{", "[", '"')):
        return text
    found = _FENCE.findall(text)
    return found[-1] if found else text


def read_whole(text: str) -> Json:
    """A text that is JSON as a whole; raw control characters inside its strings are taken for escaped ones.

    Raises:
        NotJSON: It is none.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass
    try:
        return _clean(_DECODER.decode(text.strip()))
    except (ValueError, RecursionError):
        raise NotJSON("not valid JSON") from None


def _last_value(text: str) -> Json:
    """The last whole object (or list) among sentences."""
    found: list[Json] = []
    at = tries = 0
    while (start := _START.search(text, at)) is not None and tries < _MAX_TRIES:
        tries += 1
        try:
            value, at = _DECODER.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            if text[start.start()] == "{" and _is_open(text, start.start()):
                break  # it was cut off: nothing inside it may be taken for the whole
            at = start.start() + 1
            continue
        found.append(value)
    objects: list[Json] = [value for value in found if isinstance(value, dict)]
    if not found:
        raise NotJSON("there is no whole JSON value in it")
    return _clean((objects or found)[-1])


def _is_open(text: str, at: int) -> bool:
    depth, quoted, place = 0, False, at
    while place < len(text):
        letter = text[place]
        if quoted:
            if letter == "\\":
                place += 1
            quoted = letter != '"'
        elif letter == '"':
            quoted = True
        elif letter in "{[":
            depth += 1
        elif letter in "}]":
            depth -= 1
            if depth == 0:
                return False
        place += 1
    return True


def _clean(value: Json) -> Json:
    """What any JSON writer can write: no lone surrogate, nothing nested without end."""
    try:
        msgspec.json.encode(value)
    except (UnicodeEncodeError, RecursionError, ValueError) as error:
        raise NotJSON("it holds text or a depth that JSON cannot carry") from error
    return value


def _refuse(what: str) -> NoReturn:
    raise NotJSON(f"{what} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if number - number == 0 else _refuse(text)


_DECODER: Any = json.JSONDecoder(strict=False, parse_constant=_refuse, parse_float=_finite)
