"""What there is of an answer while it is being written.

Invariant: parsing costs O(size of the answer) in all, however small the pieces: after a value was shown, the text must
grow by an eighth before the next look. A value that was shown is shown again only when it has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from tenuto.core.payloads import Json
from tenuto.structured.nulls import resolved
from tenuto.structured.text import begin

Schema = Mapping[str, Any]
_GROWTH = 8
_NOTHING: Any = object()


class PartialReader:
    """Reads one answer of the schema given as it comes."""

    __slots__ = ("_choices", "_is_array", "_length", "_look_at", "_pieces", "_shown")

    def __init__(self, schema: Schema) -> None:
        found = resolved(schema, schema) or schema
        self._is_array: bool = found.get("type") == "array"
        self._choices: Sequence[Any] = [each for each in found.get("enum") or () if isinstance(each, str)]
        self._pieces: list[str] = []
        self._length: int = 0
        self._look_at: int = 1
        self._shown: Json = _NOTHING

    def restart(self) -> None:
        """Another text part begins: unless the answer has begun, it may be the answer."""
        if self._shown is _NOTHING:
            self._pieces, self._length, self._look_at = [], 0, 1

    def feed(self, text: str) -> tuple[Json, bool]:
        """What there is now, and whether it is worth showing."""
        self._pieces.append(text)
        self._length += len(text)
        if self._length < self._look_at:
            return None, False
        self._look_at = self._length + max(1, self._length // _GROWTH)
        value = self._read("".join(self._pieces))
        if value is _NOTHING or value == self._shown:
            return None, False
        self._shown = value
        return value, True

    def _read(self, text: str) -> Json:
        from pydantic_core import from_json

        self._pieces = [text]
        begun = begin(text)
        if begun is None:
            return _NOTHING
        try:
            value: Json = from_json(begun, allow_partial="trailing-strings")
        except ValueError:
            return _NOTHING
        if self._is_array:
            return self._elements(begun, value)
        return self._choice(value) if self._choices else value

    def _elements(self, text: str, value: Json) -> Json:
        """Whole elements, and the last one when there is something in it."""
        if not isinstance(value, list):
            return _NOTHING
        elements = cast("list[Any]", value)
        if elements and not text.rstrip().endswith("]") and not (isinstance(elements[-1], dict) and elements[-1]):
            return elements[:-1]
        return elements

    def _choice(self, value: Json) -> Json:
        """The choice, once only one begins so."""
        if not isinstance(value, str):
            return value
        fitting = [each for each in self._choices if each.startswith(value)]
        return fitting[0] if len(fitting) == 1 and value else value or _NOTHING
