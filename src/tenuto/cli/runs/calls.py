"""What a timeline says of tool calls: intent, outcome, attempts, decisions.

Invariant: "ran" is said only of a body that was entered; an intent without an outcome is said to have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from msgspec import Struct

from tenuto.cli.stream import as_text
from tenuto.machine import records as r
from tenuto.messages.turns import CallPart
from tenuto.store.ports import EffectRow

_BODY_ENDED = {"ok": "ended well", "failed": "failed without effect", "unknown": "ended, and nobody knows how"}


class _Intent(Struct, frozen=True):
    attempt: int
    segment: int


class CallStory:
    """The calls of a run as far as its journal has been read.

    Args:
        late: By call id: bodies that ended after their outcome had been stored.
    """

    def __init__(self, late: Mapping[str, EffectRow]) -> None:
        self._late = late
        self._names: dict[str, str] = {}
        self._open: dict[str, _Intent] = {}
        self._asks: dict[str, str | None] = {}
        self._told: set[str] = set()  # answered by somebody's word: the next intent enters no body
        self._segment = 0

    def enter(self, calls: Iterable[CallPart]) -> None:
        """The model decided on `calls`."""
        for call in calls:
            self._names[call.tool_call_id] = f"#{len(self._names) + 1} {call.tool_name}"

    def known(self, calls: tuple[CallPart, ...]) -> bool:
        """Whether these were told of before: then what was said with them was, too."""
        return any(call.tool_call_id in self._names for call in calls)

    def name(self, call_id: str) -> str:
        """A call by its number in the run and its tool's name."""
        return self._names.get(call_id, call_id)

    def left(self) -> list[tuple[str, str]]:
        """Another driver takes over: the calls whose bodies the last one had entered, and what is to be said."""
        self._segment += 1
        return [
            (call_id, f"{self.name(call_id)}: no outcome was stored of attempt {intent.attempt}")
            for call_id, intent in self._open.items()
        ]

    def started(self, record: r.ToolStarted) -> str:
        """Its intent was stored."""
        self._open[record.call_id] = _Intent(record.attempt, self._segment)
        name = self.name(record.call_id)
        if record.call_id in self._told:
            return f"{name} is settled by that word; its body is not run"
        return f"{name} begins" + (f" again, attempt {record.attempt}" if record.attempt > 1 else "")

    def ended(self, record: r.ToolEnded) -> str:
        """It has an outcome, or waits."""
        intent = self._open.pop(record.call_id, None)
        told = record.call_id in self._told
        self._told.discard(record.call_id)
        self._asks[record.call_id] = record.asks
        found_out = intent is not None and intent.segment != self._segment and record.outcome == "ok"
        if told or found_out:
            how = "somebody's word" if told else "its reconcile"
            return f"{self.name(record.call_id)} {record.outcome}, by {how}: {record.text}"
        return f"{self.name(record.call_id)} {_outcome(record)}{self._lateness(record.call_id)}"

    def decided(self, record: r.Decision) -> str:
        """Somebody decided."""
        name = self.name(record.call_id)
        if not record.approved:
            return f"{name} declined" + _because(record.reason)
        asks = self._asks.get(record.call_id)
        if asks == "outcome":
            if _outcome_word(record.resume_data) != "not-applied":
                self._told.add(record.call_id)
            return f"{name}: {as_text(record.resume_data)}"
        if asks == "data":
            return f"{name} gets {as_text(record.resume_data)}"
        edited = f" with edited arguments {as_text(record.args)}" if record.args is not None else ""
        return f"{name} approved{edited}" + _because(record.reason)

    def _lateness(self, call_id: str) -> str:
        late = self._late.get(call_id)
        return "" if late is None else f" (late: its body then {_BODY_ENDED.get(late.status, late.status)})"


def _outcome(record: r.ToolEnded) -> str:
    match record.outcome:
        case "ok" if record.deduplicated:
            return f"ok, deduplicated: an earlier call with the same key gave {record.text}"
        case "ok":
            return f"ok: {record.text}"
        case "failed":
            return f"failed: {_message(record)}"
        case "unknown":
            return f"unknown, it may have taken effect: {_message(record)}"
        case "suspended" if record.asks == "outcome":
            return "waits for somebody's word on whether it took effect"
        case "suspended":
            return f"waits for data: {as_text(record.result)}"
        case "denied":
            return f"did not run: {record.text}"
        case "client":
            return "is the client's to carry out"
        case "aborted":
            return "was cut short by the abort, it may have taken effect"


def _message(record: r.ToolEnded) -> str:
    return record.error.message if record.error is not None else record.text


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _outcome_word(data: Any) -> Any:
    return cast("Mapping[str, Any]", data).get("outcome") if isinstance(data, Mapping) else None
