"""Executes `RunTool`, `SettleUnknown`, `RefuseCall`: every call gets exactly one bounded answer, or waits for a word.

Invariant: the intent is in the journal before a body runs, its outcome after; an abort that arrives before the body
keeps it from running. A call whose outcome nobody knows is never run again unless its tool says that this is harmless
or that it took no effect. The chunk of an outcome is shown after the record that holds it.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tenuto.core import codec, faults
from tenuto.core.errors import ToolError
from tenuto.core.payloads import Json
from tenuto.machine.commands import RunTool
from tenuto.machine.records import ToolEnded, ToolStarted
from tenuto.messages.bounded import model_text
from tenuto.steps import answer, around
from tenuto.steps.calls import arguments_of, context_of, draft_of, find_call, find_tool, key_of, names_offered
from tenuto.steps.checked import Checked
from tenuto.steps.delegates import DelegationTool
from tenuto.steps.delegation import Delegation, delegate
from tenuto.store.ports import EffectRow
from tenuto.tools.effects import (
    SETTLE_SCHEMA,
    effect_key,
    read_settlement,
    settle,
    unknown_after_restart,
    unknown_before,
)
from tenuto.tools.execute import run_tool
from tenuto.tools.outcome import Aborted, Failed, Ok, Outcome, UnknownOutcome
from tenuto.tools.settlement import Applied, NotApplied, Settlement
from tenuto.tools.validate import bind_arguments

if TYPE_CHECKING:
    from tenuto.machine.commands import RefuseCall, SettleUnknown
    from tenuto.messages.turns import CallPart
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run
    from tenuto.tools.context import ToolContext
    from tenuto.tools.toolbox import RunnableTool

ASKS_OUTCOME = codec.encode(SETTLE_SCHEMA).decode()
"""JSON text of what is asked about a call of unknown outcome."""


async def run_call(run: Run, log: RunLog, command: RunTool) -> None:
    """Run a call's tool, and log its outcome; after an abort, do nothing.

    Cancelled because the run was aborted, it logs the call as aborted and returns.
    """
    call = find_call(run, command.call_id)
    tool = find_tool(run, call)
    if run.aborted or log.state.blocked:
        return
    if tool is None:
        await _lost_tool(run, log, call, command)
        return
    entry = _Entry(run, log, tool, call, command.attempt)
    async with entry.alone():
        if not (run.aborted or log.state.blocked):
            await entry.run()


async def settle_call(run: Run, log: RunLog, command: SettleUnknown) -> None:
    """Settle a call that a driver began which is gone: by its tool's declaration, its `reconcile`, or its policy."""
    call = find_call(run, command.call_id)
    tool = find_tool(run, call)
    if run.aborted:
        return
    if tool is None:
        await answer.close(run, log, call, command.attempt, unknown_after_restart(call.tool_name))
        return
    entry = _Entry(run, log, tool, call, command.attempt)
    async with entry.alone():
        if not run.aborted:
            await entry.find_out()


async def refuse_call(run: Run, log: RunLog, command: RefuseCall) -> None:
    """Answer a call that was declined, or whose tool is unknown or not active, without running anything."""
    call = find_call(run, command.call_id)
    reason = draft_of(run).declined.get(call.tool_call_id)
    if reason is not None:
        await answer.deny(run, log, call, reason)
        return
    names = ", ".join(names_offered(run)) or "none"
    text = (
        f"Tool {call.tool_name[:100]!r} not found. Available tools: {names}. Use one of these names exactly, "
        "or answer without a tool."
    )
    error = ToolError(text, id="TOOL_NOT_FOUND", details={"tool": call.tool_name[:100]})
    await answer.close(run, log, call, 0, Failed(error, text))


async def _lost_tool(run: Run, log: RunLog, call: CallPart, command: RunTool) -> None:
    """The tool was there when the call was decided, and this process does not have it."""
    text = f"Tool {call.tool_name!r} is not available any more; nothing was run."
    await log.commit(ToolStarted(call.tool_call_id, command.attempt))
    await answer.close(run, log, call, command.attempt, Failed(ToolError(text, id="TOOL_NOT_FOUND"), text))


class _Entry:
    """One attempt of one call."""

    def __init__(self, run: Run, log: RunLog, tool: RunnableTool, call: CallPart, attempt: int) -> None:
        self._run = run
        self._log = log
        self._tool = tool
        self._call = call
        self._attempt = attempt
        self._args: Json = arguments_of(run, call)
        self._row: EffectRow | None = None
        self._delegation: Delegation | None = None
        self._key = None if isinstance(tool, DelegationTool) else self._effect_key()

    def alone(self) -> AbstractAsyncContextManager[object]:
        """Keeps this run's other calls of the same `key` waiting: their answer depends on this one's outcome."""
        if self._tool.key is None or self._key is None:
            return nullcontext()
        return self._run.effect_locks.setdefault(self._key, asyncio.Lock())

    async def known(self) -> EffectRow | None:
        """The ledger's entry of this effect."""
        return None if self._key is None else await self._log.effect(self._key)

    async def run(self) -> None:
        """Run the body, unless an earlier call with the same key, or somebody's word, has answered already."""
        if self._call.tool_call_id in draft_of(self._run).unsettled:
            await self._told()
            return
        if await self._answered_before():
            return
        known = None if self._tool.key is None else await self.known()
        if known is not None and self._is_mine(known):
            known = None
        if known is not None and known.status == "ok":
            await self._begin()
            checked = await self._checked(_same(self._tool, known))
            await self._end(checked.outcome, checked, deduplicated=True)
        elif known is not None and known.status in {"unknown", "intended"} and self._tool.effects == "once":
            await self._begin()
            await self.settle(unknown_before(self._call.tool_name), known)
        else:
            await self._body()

    async def find_out(self) -> None:
        """Settle a call that somebody began who is gone."""
        if self._tool.fn is None:  # it was with a hook
            self._attempt += 1
            await self.run()
            return
        known = await self.known()
        if known is not None and self._is_mine(known) and known.status == "ok":
            await self._end(self._returned(known))  # the body had returned; what follows it had not
        elif self._tool.effects == "once":
            await self.settle(unknown_after_restart(self._call.tool_name), known)
        else:
            await self.again()

    async def again(self) -> None:
        """Run the body once more."""
        self._attempt += 1
        await self._body()

    async def _answered_before(self) -> bool:
        """Whether the call needs no body: a hook has answered, the client is to, or the run was aborted meanwhile."""
        if self._run.hooks.before is None and self._tool.fn is not None:
            return False
        try:
            said = await around.before(self._run, self._tool, self._call, self._context())
        except asyncio.CancelledError:
            if not self._run.aborted:
                raise
            return True
        if self._run.aborted:
            return True
        if said is not None:
            await self._begin()
            await self._close(said)
        elif self._tool.fn is None:
            await self._begin()
            await self._log.commit(ToolEnded(self._call.tool_call_id, self._attempt, "client", ""))
        return said is not None or self._tool.fn is None

    async def settle(self, unknown: UnknownOutcome, row: EffectRow | None) -> None:
        """Find out what became of the effect; else answer `unknown`, or wait for somebody's word.

        Args:
            unknown: The answer when nobody knows.
            row: The ledger's entry, of this call or of an earlier one with the same key; it learns what is found out.
        """
        self._row = row
        settlement = await settle(self._tool, self._context(), self._args)
        if isinstance(settlement, (Applied, NotApplied)):
            await self._settled(settlement)
        elif self._tool.on_unknown == "suspend":
            asked = {"outcome": "unknown", "text": unknown.text}
            await answer.suspend(
                self._run,
                self._log,
                self._call,
                self._attempt,
                asked,
                ASKS_OUTCOME,
                asks="outcome",
                effects=self._rows("unknown"),
            )
        else:
            await self._end(unknown)

    async def _told(self) -> None:
        """Somebody said what became of the call."""
        said = read_settlement(draft_of(self._run).resumed.get(self._call.tool_call_id))
        row = await self.known()
        if isinstance(said, NotApplied):
            await self._free(row)
            await self._body()
            return
        await self._begin()
        self._row = row
        if isinstance(said, Applied):
            await self._settled(said)
        else:
            await self._end(unknown_after_restart(self._call.tool_name))

    async def _settled(self, settlement: Settlement) -> None:
        if isinstance(settlement, Applied):
            text = model_text(settlement.result, self._tool.max_result_chars)
            await self._end(Ok(settlement.result, text))
        else:
            await self._free(self._row)
            await self.again()

    async def _free(self, row: EffectRow | None) -> None:
        """An earlier call of this run did not take the effect: its intent must not keep this one from it."""
        if row is not None and row.run_id == self._run.run_id and not self._is_mine(row):
            await self._log.commit(effects=[replace(row, status="failed")])

    async def _body(self) -> None:
        await self._begin(self._key)
        faults.hit("tool.after_intent")
        trace = self._run.trace
        with trace.tool_call(self._call, self._tool.description, self._args) as span:
            checked = await self._checked(await self._outcome())
            trace.answered(span, checked.outcome)
        faults.hit("tool.after_effect")
        await self._end(checked.outcome, checked)
        faults.hit("tool.after_result")

    async def _checked(self, outcome: Outcome) -> Checked:
        """The outcome as processors of tool results leave it.

        While they are asked it is known that a body took effect which must not be run again.
        """
        if self._run.chain is None or not isinstance(outcome, Ok):
            return Checked(outcome)
        from tenuto.steps.process_outcome import check_outcome, checks_results

        if not checks_results(self._run):
            return Checked(outcome)
        if self._row is not None and self._tool.effects == "once":
            self._row = replace(self._row, status="ok", result=None)
            await self._log.commit(effects=[self._row])
            faults.hit("tool.before_check")
        try:
            limit = self._tool.max_result_chars
            return await check_outcome(self._run, self._log, self._call, self._args, outcome, limit=limit)
        except asyncio.CancelledError:
            if not self._run.aborted:
                raise
            return Checked(Aborted())

    def _returned(self, known: EffectRow) -> Outcome:
        """The outcome of a body that had returned. A result that was not checked yet is in no ledger: it is lost."""
        if known.result is not None or self._run.chain is None or not self._run.chain["process_tool_result"]:
            return _same(self._tool, known)
        text = f"Tool {self._call.tool_name!r} ran and took effect; its result was lost before it was checked."
        return Failed(ToolError(text, id="TOOL_RESULT_LOST", details={"tool": self._call.tool_name}), text)

    async def _outcome(self) -> Outcome:
        if isinstance(self._tool, DelegationTool):
            came = await delegate(self._run, self._log, self._tool, self._call, attempt=self._attempt, args=self._args)
            self._delegation = came
            return came.outcome
        try:
            return await run_tool(self._tool, self._context(), self._args, late=self._late)
        except asyncio.CancelledError:
            if not self._run.aborted:
                raise
            return Aborted()

    def _context(self) -> ToolContext[Any, Any]:
        return context_of(self._run, self._log, self._tool, self._call, self._attempt, effect=self._key)

    async def _begin(self, key: str | None = None) -> None:
        rows = [] if key is None else [self._new_row(key, "intended")]
        self._row = rows[0] if rows else None
        await self._log.commit(ToolStarted(self._call.tool_call_id, self._attempt), effects=rows)

    async def _end(self, outcome: Outcome, checked: Checked | None = None, *, deduplicated: bool = False) -> None:
        """Let what follows a body run, then record the outcome."""
        ended = outcome
        if checked is not None and checked.withheld:
            await self._close(outcome, None if self._row is None else Ok(None, ""), checked, deduplicated=deduplicated)
            return
        if around.follows(self._run, self._tool):
            if self._row is not None and isinstance(outcome, Ok):
                self._row = _concluded(self._row, outcome)
                await self._log.commit(effects=[self._row])
            try:
                ended = await around.after(self._run, self._tool, self._call, self._context(), outcome)
            except asyncio.CancelledError:
                if not self._run.aborted:
                    raise
                ended = Aborted()
        await self._close(ended, outcome, deduplicated=deduplicated)

    async def _close(
        self,
        ended: Outcome,
        of_body: Outcome | None = None,
        checked: Checked | None = None,
        *,
        deduplicated: bool = False,
    ) -> None:
        rows = [] if self._row is None or of_body is None else [_concluded(self._row, of_body)]
        await answer.close(
            self._run,
            self._log,
            self._call,
            self._attempt,
            ended,
            effects=rows,
            deduplicated=deduplicated,
            delegation=self._delegation,
            checked=checked,
        )

    def _late(self, outcome: Outcome) -> None:
        if self._run.chain is not None and isinstance(outcome, Ok) and self._run.chain["process_tool_result"]:
            outcome = Ok(None, "")  # nobody will check it, so nobody gets it
        if self._key is not None:
            self._log.late(replace(_concluded(self._new_row(self._key, "unknown"), outcome), late=True))

    def _rows(self, status: Any) -> list[EffectRow]:
        return [] if self._row is None else [replace(self._row, status=status)]

    def _effect_key(self) -> str | None:
        """The key of the ledger entry; None when nothing needs one: a plain run's call without `key=`."""
        if self._tool.key is not None:
            bound = bind_arguments(self._call.tool_name, self._tool.schema, self._args)
            return None if isinstance(bound, Failed) else effect_key(self._tool, bound, self._run.run_id)
        return key_of(self._run, self._log.state.step, self._call) if self._log.kept else None

    def _is_mine(self, row: EffectRow) -> bool:
        return (row.run_id, row.call_id) == (self._run.run_id, self._call.tool_call_id)

    def _new_row(self, key: str, status: Any) -> EffectRow:
        return EffectRow(
            key=key,
            run_id=self._run.run_id,
            call_id=self._call.tool_call_id,
            tool_name=self._call.tool_name,
            status=status,
            attempt=self._attempt,
        )


def _concluded(row: EffectRow, outcome: Outcome) -> EffectRow:
    """The entry after `outcome`. A suspension or a refusal took no effect, so the key stays free for a further call."""
    match outcome:
        case Ok():
            return replace(row, status="ok", result=outcome.result)
        case UnknownOutcome() | Aborted():
            return replace(row, status="unknown")
        case _:
            return replace(row, status="failed")


def _same(tool: RunnableTool, row: EffectRow) -> Ok:
    return Ok(row.result, model_text(row.result, tool.max_result_chars))
