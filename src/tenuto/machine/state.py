"""The state of a run: ids, counters and the calls of the current step, never a message.

Invariant: states are values, made by `decisions.apply` only; the transition tables here (which status or phase may
follow which) and in `decisions.ACCEPTED` (which record fits which phase) are the whole truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from tenuto.core.payloads import FinishReason

Phase = Literal["new", "starting", "ready", "modelling", "retrying", "calling", "judged", "parked", "closing", "done"]
CallStatus = Literal[
    "decided", "awaiting", "approved", "declined", "intended", "resumed", "refused",
    "ok", "failed", "unknown", "suspended", "denied", "client", "aborted",
]  # fmt: skip

CALL_TRANSITIONS: Mapping[CallStatus, frozenset[CallStatus]] = {
    "decided": frozenset({"awaiting", "approved", "refused", "client", "aborted"}),
    "awaiting": frozenset({"approved", "declined", "aborted"}),
    "approved": frozenset({"intended", "aborted"}),
    "refused": frozenset({"failed", "aborted"}),
    "declined": frozenset({"denied", "aborted"}),
    "intended": frozenset({"intended", "ok", "failed", "unknown", "suspended", "client", "aborted"}),
    "suspended": frozenset({"resumed", "declined", "aborted"}),
    "resumed": frozenset({"intended", "aborted"}),
    "ok": frozenset(),
    "failed": frozenset(),
    "unknown": frozenset(),
    "denied": frozenset(),
    "client": frozenset(),
    "aborted": frozenset(),
}

CLOSED: frozenset[CallStatus] = frozenset(s for s, after in CALL_TRANSITIONS.items() if not after)
"""A call with such a status has its final outcome."""

PENDING: frozenset[CallStatus] = frozenset({"awaiting", "suspended"})
"""A call with such a status waits for a decision."""

PHASES: Mapping[Phase, frozenset[Phase]] = {
    "new": frozenset({"starting"}),
    "starting": frozenset({"ready", "closing"}),
    "ready": frozenset({"modelling", "closing"}),
    "modelling": frozenset({"modelling", "retrying", "ready", "calling", "judged", "closing"}),
    "retrying": frozenset({"modelling", "closing"}),
    "calling": frozenset({"calling", "judged", "parked", "closing"}),
    "parked": frozenset({"calling", "closing"}),
    "judged": frozenset({"ready", "closing"}),
    "closing": frozenset({"done"}),
    "done": frozenset(),
}


class Call(Struct, frozen=True):
    """A call of the current step; `attempt` counts entries of its body, from 0 (never entered).

    A `refused` one ran, and a processor did not accept its result.
    """

    id: str
    name: str
    status: CallStatus = "decided"
    attempt: int = 0
    refused: bool = False


class RunState(Struct, frozen=True):
    """Where a run stands.

    Attributes:
        phase: See `PHASES`.
        step: The current step, from 1; 0 before the first model call.
        attempt: The current attempt of the step's model call, from 1.
        max_steps: The budget: model calls this run may complete.
        calls: Of the current step only.
        reason: Why the step, or at the end the run, ended.
        aborted: An abort was recorded; no further command starts work.
        failed: Ids of the models that failed in this run while another one was left.
        first_event: Index of the first event of the current attempt of the model call.
        recoveries: Recoveries since a model call last completed.
        rejections: How often processors had an answer made again, since a step was accepted.
        repeats: How often a processor had a failed model asked again, in this step.
        blocked: A processor ended the run, which has this reason then; no further command starts work.
        seq: How many records made this state.
    """

    run_id: str = ""
    phase: Phase = "new"
    step: int = 0
    attempt: int = 0
    max_steps: int = 0
    calls: tuple[Call, ...] = ()
    reason: FinishReason = "other"
    aborted: bool = False
    failed: tuple[str, ...] = ()
    first_event: int = 0
    recoveries: int = 0
    rejections: int = 0
    repeats: int = 0
    blocked: FinishReason | None = None
    seq: int = 0

    @property
    def open_calls(self) -> tuple[Call, ...]:
        """The calls without a final outcome."""
        return tuple(call for call in self.calls if call.status not in CLOSED)

    def call(self, call_id: str) -> Call:
        """The call of the current step with this id.

        Raises:
            KeyError: There is none.
        """
        for call in self.calls:
            if call.id == call_id:
                return call
        raise KeyError(call_id)
