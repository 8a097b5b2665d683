"""What a tool's body needs of the run that called it: a place where the steps inside the body are recorded.

Invariant: a step's record belongs to (call, name). An intent is stored before the step's function runs, an outcome
before the body goes on, and no record is ever replaced by another outcome.
"""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from tenuto.core.payloads import Json

Effects = Literal["none", "idempotent", "once"]
"""What a repetition would do: nothing, the same again, or the effect a second time."""


class StepDone(Struct, frozen=True):
    """The function returned this, as JSON."""

    result: Json = None


class StepFailed(Struct, frozen=True):
    """The function raised `ToolFailed`: surely no effect; `text` is its message."""

    text: str


class StepOpen(Struct, frozen=True):
    """An intent is stored and no outcome: the function may have taken effect."""


StepOutcome = StepDone | StepFailed
Recorded = StepDone | StepFailed | StepOpen


class StepLedger(Protocol):
    """The records of one call's steps; every call is made on the run's event loop, several may be under way at once.

    Either method may be cancelled (timeout, abort); then what it was to store is stored or not, and nobody knows which.
    """

    async def begin(self, name: str, effects: Effects) -> Recorded | None:
        """What an earlier entry of the body recorded under `name`, else None.

        When it returns None and `effects` is not "none", the intent is stored.

        Raises:
            Exception: The intent could not be stored; the step's function does not run.
        """
        ...

    async def end(self, name: str, outcome: StepOutcome) -> None:
        """Store the outcome of the step that begun as `name`; it is stored when this returns.

        Raises:
            Exception: It could not be stored; the body sees it, and the intent stays open.
        """
        ...


class MemoryLedger:
    """Records of one call in this process: for tools that are called directly, and for tests of their steps."""

    def __init__(self) -> None:
        self.records: dict[str, Recorded] = {}

    async def begin(self, name: str, effects: Effects) -> Recorded | None:
        """See `StepLedger`."""
        found = self.records.get(name)
        if found is None and effects != "none":
            self.records[name] = StepOpen()
        return found

    async def end(self, name: str, outcome: StepOutcome) -> None:
        """See `StepLedger`."""
        self.records[name] = outcome
