"""What processors remember during a run: one dict for each processor id.

Invariant: what JSON can hold of it is written down when it has changed, together with what the hooks did, so that
whoever goes on with the run has the state that belongs to its records. Keys with other values stay in this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import to_builtins

from tenuto.core import codec
from tenuto.core.payloads import Json


class States:
    """The states of one run's processors."""

    def __init__(self) -> None:
        self._states: dict[str, dict[str, Any]] = {}
        self._written: dict[str, bytes] = {}

    def of(self, processor_id: str) -> dict[str, Any]:
        """The state of a processor; the same dict whenever it is asked for."""
        return self._states.setdefault(processor_id, {})

    def changes(self) -> dict[str, Json]:
        """The states, as JSON, that are not as they were when this was asked before."""
        changed: dict[str, Json] = {}
        for name, state in self._states.items():
            if not state and name not in self._written:
                continue
            kept = _storable(state)
            raw = codec.encode(kept)
            if raw != self._written.get(name):
                self._written[name] = raw
                changed[name] = kept
        return changed

    def restore(self, written: Mapping[str, Json]) -> None:
        """Put in place what was written down, unless this process has the state already."""
        for name, kept in written.items():
            raw = codec.encode(kept)
            if self._written.get(name) == raw:
                continue
            self._written[name] = raw
            state = self.of(name)
            state.clear()
            state.update(cast("dict[str, Any]", kept))


def _storable(state: Mapping[str, Any]) -> dict[str, Json]:
    kept: dict[str, Json] = {}
    for key, value in state.items():
        try:
            plain = to_builtins(value)
            codec.encode(plain)
        except (TypeError, ValueError, RecursionError, OverflowError):
            continue
        kept[str(key)] = plain
    return kept
