"""Reading arguments a model wrote almost as JSON: quotes, commas and control tokens are mended, values never guessed.

Invariant: valid JSON is read as it is; a text that was cut off is not repaired.

Source: Mastra's tool-call argument repair (control tokens, missing and single quotes, unquoted keys, trailing commas,
bare dates), as one tolerant reader instead of text substitutions, so that nothing inside a string changes.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any, NoReturn, cast

import msgspec

_CONTROL = re.compile(r"<\|[^|<>]*\|>")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.+-])")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:T[\d:.]+(?:Z|[+-]\d{2}:?\d{2})?)?(?![\w-])")
_WORD = re.compile(r"[A-Za-z_$][\w$-]*")
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_MAX_DEPTH = 100


class NotJSON(ValueError):
    """A text that is no JSON, and cannot be mended without guessing."""


def read_json(text: str) -> Any:
    """The value of `text`, mended when needed.

    Raises:
        NotJSON: It cannot be mended.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass
    plain = _CONTROL.sub("", text)
    try:
        return msgspec.json.decode(plain)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _Reader(plain).whole()


def read_arguments(args: Any) -> dict[str, Any]:
    """The arguments object of a call, from a JSON value or the text of one.

    No arguments at all (None, an empty text, `null`) are an empty object; a JSON text of an object in a JSON
    string is that object.

    Raises:
        NotJSON: They are no JSON object.
    """
    value = args
    for _ in range(2):
        if isinstance(value, str):
            value = read_json(value) if value.strip() else None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NotJSON(f"a JSON object is needed, not {type(value).__name__}")
    return cast("dict[str, Any]", value)


class _Reader:
    """A reader of JSON that also takes single quotes, bare keys, keys without one quote, and trailing commas."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at: int = 0
        self._depth = 0

    def whole(self) -> Any:
        value = self._value()
        if self._peek():
            self._fail()
        return value

    def _peek(self) -> str:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _take(self, expected: str) -> bool:
        if self._peek() != expected:
            return False
        self._at += 1
        return True

    def _match(self, pattern: re.Pattern[str]) -> str | None:
        self._peek()
        found = pattern.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        return found[0]

    def _fail(self) -> NoReturn:
        raise NotJSON(f"not valid JSON at character {self._at}")

    def _value(self) -> Any:
        match self._peek():
            case "{":
                return self._nested(self._object)
            case "[":
                return self._nested(self._array)
            case '"' | "'":
                return self._string()
            case _:
                return self._bare()

    def _nested(self, read: Any) -> Any:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail()
        self._at += 1
        value = read()
        self._depth -= 1
        return value

    def _object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not self._take("}"):
            key = self._key()
            if not self._take(":"):
                self._fail()
            found[key] = self._value()
            if not self._take(",") and self._peek() != "}":
                self._fail()
        return found

    def _array(self) -> list[Any]:
        found: list[Any] = []
        while not self._take("]"):
            found.append(self._value())
            if not self._take(",") and self._peek() != "]":
                self._fail()
        return found

    def _key(self) -> str:
        if self._peek() in {'"', "'"}:
            start = self._at
            with contextlib.suppress(NotJSON):
                key = self._string()
                if self._peek() == ":":
                    return key
            self._at = start + 1  # perhaps the closing quote is missing: {"name: 1}
        key = self._match(_WORD)
        if key is None:
            self._fail()
        if self._peek() in {'"', "'"}:  # the opening quote is missing: {name": 1}
            self._at += 1
        return key

    def _string(self) -> str:
        quote = self._text[self._at]
        end = self._at + 1
        while end < len(self._text) and self._text[end] != quote:
            end += 2 if self._text[end] == "\\" else 1
        if end >= len(self._text):
            self._fail()
        inner = self._text[self._at + 1 : end]
        self._at = end + 1
        return self._unescape(inner)

    def _unescape(self, inner: str) -> str:
        plain = re.sub(r'\\.|"', lambda found: {"\\'": "'", '"': '\\"'}.get(found[0], found[0]), inner, flags=re.DOTALL)
        plain = plain.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
        try:
            return msgspec.json.decode(f'"{plain}"', type=str)
        except (msgspec.DecodeError, UnicodeEncodeError):
            self._fail()

    def _bare(self) -> Any:
        date = self._match(_DATE)
        if date is not None:
            return date
        number = self._match(_NUMBER)
        if number is not None:
            return self._number(number)
        word = self._match(_WORD)
        if word not in _WORDS:
            self._fail()
        return _WORDS[word]

    def _number(self, written: str) -> int | float:
        try:
            return msgspec.json.decode(written, type=int | float)
        except msgspec.DecodeError as error:  # 1e999, or thousands of digits
            raise NotJSON(f"a number is out of range before character {self._at}") from error
