"""A run's journal as a story: what happened, in order, each in one line.

Invariant: it is made of the records and of what the store says about them, and of nothing else; a record this version
does not know was refused before it came here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from tenuto.cli.runs.calls import CallStory
from tenuto.cli.stream import as_text, signature
from tenuto.cli.usage import tokens
from tenuto.core.payloads import IsTaskCompletePayload, Usage, wire_name
from tenuto.machine import records as r
from tenuto.store.ports import EffectRow

_WAYS: Mapping[str, str] = {
    "ask": "waits for approval",
    "refuse": "is refused: the model is offered no such tool",
    "client": "is for the caller to answer",
}


class Entry(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """One line.

    Attributes:
        seq: Place of the record it comes from.
        kind: A word: `started`, `asked`, `model`, `said`, `call`, `tool`, `feedback`, `decision`, `segment`, `parked`,
            `abort`, `end`.
        at: Seconds since the epoch, where it is known.
    """

    seq: int
    kind: str
    text: str
    at: float | None = None
    call_id: str | None = None


class Known(Struct, frozen=True):
    """What the store knows beside the records.

    Attributes:
        asked_at: By the place of a `ModelStarted`: when the model was asked, in seconds since the epoch.
        late: By call id: what became of bodies that ended after their outcome had been stored.
        abort_reason: Why somebody asked for the end of the run.
    """

    created_at: float | None = None
    asked_at: Mapping[int, float] = {}
    late: Mapping[str, EffectRow] = {}
    abort_reason: str | None = None


def timeline(records: list[r.AnyRecord], known: Known) -> list[Entry]:
    """The lines of a run, in the order of its journal."""
    story = _Story(known)
    for seq, record in enumerate(records):
        story.take(seq, record)
    return story.entries


def usage_of(records: list[r.AnyRecord]) -> Usage:
    """Tokens and cost of all model calls that have an outcome, and of the child runs that have one."""
    total = Usage()
    for record in records:
        if isinstance(record, r.ToolEnded) and record.outcome != "suspended" and record.delegated is not None:
            total += record.delegated.usage or Usage()
        if isinstance(record, (r.ModelEnded, r.ModelFailed, r.StepRejected, r.Blocked)) and record.said is not None:
            total += record.said.usage
    return total


class _Story:
    """The lines so far, and what the next record is understood by."""

    def __init__(self, known: Known) -> None:
        self.entries: list[Entry] = []
        self._known = known
        self._calls = CallStory(known.late)
        self._asking: tuple[int, r.ModelStarted] | None = None  # place of its line, which its outcome completes
        self._seq = 0

    def take(self, seq: int, record: r.AnyRecord) -> None:  # noqa: C901, PLR0912, PLR0915 - one row per record
        """Add what `record` tells."""
        self._seq = seq
        match record:
            case r.RunStarted():
                lost = f"; not in other processes: {', '.join(record.degraded)}" if record.degraded else ""
                text = f"agent {record.agent_id}, at most {record.max_steps} steps{lost}"
                self._add("started", text, at=self._known.created_at)
            case r.Prepared():
                self._add("asked", _asked(record))
            case r.StepPrepared():
                pass  # the step itself says what it was
            case r.ModelStarted():
                self._close("its process ended before an answer was stored")
                self._asking = (len(self.entries), record)
                self._add("model", f"{_name(record)}: no answer yet", at=self._known.asked_at.get(seq))
            case r.ModelEnded():
                self._answered(record.said)
            case r.AttemptFailed():
                then = "it is asked again" if record.again else "another model is asked"
                self._close(f"{record.model} failed ({record.error.message}); {then}")
            case r.StepRejected():
                then = "; the model is told" if record.again else ""
                self._close(f"not accepted by a processor: {record.tripwire.reason}{then}")
            case r.Blocked():
                self._close("cut short by a processor")
                self._add("blocked", _blocked(record))
            case r.ProcessorState():
                pass
            case r.ModelFailed():
                self._close(f"failed: {record.error.message}")
                self._said(record.said)
            case r.Assessed():
                for call_id, verdict in record.verdicts:
                    if verdict in _WAYS:
                        self._add("call", f"{self._calls.name(call_id)} {_WAYS[verdict]}", call_id=call_id)
            case r.ToolStarted():
                self._add("tool", self._calls.started(record), call_id=record.call_id)
            case r.ToolEnded():
                self._add("tool", self._calls.ended(record), call_id=record.call_id)
            case r.Decision():
                self._add("decision", self._calls.decided(record), call_id=record.call_id)
            case r.SegmentStarted():
                self._segment(record)
            case r.AbortRequested():
                self._aborted(record)
            case r.Parked():
                self._add("parked", f"waits for {_count(record.call_ids)}; nothing is held")
            case r.Finalised():
                self._close("it has no outcome")
                error = f": {record.error.message}" if record.error else ""
                self._add("end", f"{record.reason}{error}", at=record.at)
            case r.DataWritten():
                self._add("tool", f"{self._calls.name(record.call_id)} wrote {record.type}", call_id=record.call_id)
            case r.StepJudged(feedback=feedback, checked=checked):
                if checked is not None:
                    self._add("check", _verdict(checked.check))
                if feedback is not None:
                    self._add("feedback", feedback.text)
            case r.Finished():
                pass
            case _:
                assert_never(record)

    def _answered(self, said: r.Said) -> None:
        self._close(f"{said.model}, {said.reason}, {tokens(said.usage)}")
        self._said(said)
        self._calls.enter(said.turn.calls)
        for call in said.turn.calls:
            given = signature(self._calls.name(call.tool_call_id), call.args, call.raw_args)
            self._add("call", f"{given} [{call.tool_call_id}]", call_id=call.tool_call_id)

    def _said(self, said: r.Said) -> None:
        if said.turn.text.strip():
            self._add("said", said.turn.text)

    def _segment(self, record: r.SegmentStarted) -> None:
        self._close("its process ended before an answer was stored")
        for call_id, text in self._calls.left():
            self._add("tool", text, call_id=call_id)
        lost = f"; without {', '.join(record.degraded)}" if record.degraded else ""
        why = "recovered: its process was gone" if record.cause == "recover" else "taken up again"
        self._add("segment", why + lost)

    def _aborted(self, record: r.AbortRequested) -> None:
        self._close("cut short by the abort")
        if record.said is not None and not self._calls.known(record.said.turn.calls):
            self._said(record.said)
        reason = self._known.abort_reason
        self._add("abort", "requested" + (f": {reason}" if reason else ""))

    def _close(self, outcome: str) -> None:
        """Complete the line of the model call that is under way, if one is."""
        if self._asking is not None:
            place, started = self._asking
            self.entries[place] = replace(self.entries[place], text=f"{_name(started)}: {outcome}")
            self._asking = None

    def _add(self, kind: str, text: str, *, at: float | None = None, call_id: str | None = None) -> None:
        self.entries.append(Entry(self._seq, kind, text, at, call_id))


def _name(started: r.ModelStarted) -> str:
    again = f", attempt {started.attempt}" if started.attempt > 1 else ""
    return f"step {started.step}{again}"


def _blocked(record: r.Blocked) -> str:
    if record.tripwire is None:
        return "a processor failed"
    return f"by processor {record.tripwire.processor_id}: {record.tripwire.reason}"


def _verdict(check: IsTaskCompletePayload) -> str:
    passed = sum(each.passed for each in check.results)
    word = "the task is complete" if check.passed else "the task is not complete"
    why = f": {check.reason}" if check.reason else ""
    return f"{word} ({passed} of {len(check.results)} scorers passed it){why}"


def _asked(record: r.Prepared) -> str:
    if not record.input:
        return "nothing"
    before = len(record.input) - 1
    earlier = f" (after {before} earlier message{'s' if before > 1 else ''})" if before else ""
    return f"{record.input[-1].text or as_text(record.input[-1].to_dict()['content'])}{earlier}"


def _count(call_ids: tuple[str, ...]) -> str:
    return "a decision" if len(call_ids) == 1 else f"{len(call_ids)} decisions"
