"""The records of what took effect: one per call, one per `ctx.step` inside a call.

Invariant: an intent is stored before anything that may take effect runs, an outcome after; a step's record belongs to
(call, name) and answers every later entry of the body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from tenuto.store.ports import EffectRow
from tenuto.tools.canonical import digest
from tenuto.tools.ports import Effects, Recorded, StepDone, StepFailed, StepOpen, StepOutcome

if TYPE_CHECKING:
    from tenuto.steps.ports import RunLog


class CallLedger:
    """See `tools.ports.StepLedger`.

    Args:
        run_id: The run.
        call_id: The call.
        tool_name: Its tool.
        key: Of the call.
        log: Where the entries are stored.
    """

    def __init__(self, run_id: str, call_id: str, tool_name: str, key: str, log: RunLog) -> None:
        self._run_id = run_id
        self._call_id = call_id
        self._tool_name = tool_name
        self._key = key
        self._log = log

    async def begin(self, name: str, effects: Effects) -> Recorded | None:
        """See `StepLedger.begin`."""
        row = await self._log.effect(self._key_of(name))
        if row is not None:
            return _recorded(row)
        if effects != "none":
            await self._log.commit(effects=[self._row(name, StepOpen())])
        return None

    async def end(self, name: str, outcome: StepOutcome) -> None:
        """See `StepLedger.end`."""
        await self._log.commit(effects=[self._row(name, outcome)])

    def _key_of(self, name: str) -> str:
        return digest("step", self._key, name)

    def _row(self, name: str, outcome: Recorded) -> EffectRow:
        match outcome:
            case StepDone(result):
                status, kept = "ok", result
            case StepFailed(text):
                status, kept = "failed", text
            case StepOpen():
                status, kept = "intended", None
            case _:
                assert_never(outcome)
        return EffectRow(
            key=self._key_of(name),
            run_id=self._run_id,
            call_id=self._call_id,
            tool_name=self._tool_name,
            status=status,
            attempt=1,
            result=kept,
        )


def _recorded(row: EffectRow) -> Recorded:
    match row.status:
        case "ok":
            return StepDone(row.result)
        case "failed":
            return StepFailed(str(row.result))
        case "intended" | "unknown":
            return StepOpen()
        case _:
            assert_never(row.status)
