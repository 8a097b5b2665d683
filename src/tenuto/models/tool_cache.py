"""Encoded tool definitions, kept per tuple object.

Invariant: an agent offers the same tuple on every step, so its tools are encoded once for each way to write them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tenuto.models.ports import ToolSpec

_KEPT = 32
_encode = msgspec.json.Encoder().encode


class ToolCache:
    """The tools of one format, as `write` puts them."""

    __slots__ = ("_known", "_write")

    def __init__(self, write: Callable[[ToolSpec], Mapping[str, Any]]) -> None:
        self._write = write
        self._known: dict[int, tuple[tuple[ToolSpec, ...], tuple[msgspec.Raw, ...]]] = {}

    def encode(self, tools: tuple[ToolSpec, ...]) -> tuple[msgspec.Raw, ...]:
        """Each tool as JSON."""
        known = self._known.get(id(tools))
        if known is not None and known[0] is tools:
            return known[1]
        encoded = tuple(msgspec.Raw(_encode(self._write(spec))) for spec in tools)
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[id(tools)] = (tools, encoded)
        return encoded
