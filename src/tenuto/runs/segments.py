"""Takes a run up that somebody else drove: after a decision, or because its driver is gone.

Invariant: a decision is stored by compare-and-set before anything moves, whoever holds the run; a claim decides who
drives on; the same decision again attaches to what it started, a different one is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tenuto.core import faults
from tenuto.core.errors import RunError, StoreError
from tenuto.core.payloads import Json
from tenuto.machine.decisions import fold
from tenuto.machine.records import LOOP_VERSION, AnyRecord, Decision, RunStarted
from tenuto.machine.state import PENDING
from tenuto.runs import live
from tenuto.runs.driver import Driver
from tenuto.runs.inner_calls import asking_run
from tenuto.runs.origin import Continued
from tenuto.runs.replay import Host, position_of, read_journal, read_thread, rebuild, take_in
from tenuto.runs.spent import spent_by
from tenuto.runs.supervisor import Started, Supervisor
from tenuto.runs.turns import Line, take_line
from tenuto.steps.prepare import bind
from tenuto.steps.prepare_step import enter_recorded
from tenuto.steps.run import Run
from tenuto.steps.tool_step import ASKS_OUTCOME
from tenuto.store.ports import (
    ANYONE,
    TERMINAL_STATUS,
    AbortRequest,
    Decide,
    Fence,
    HeldBy,
    Owner,
    PendingCall,
    RunRow,
    RunStatus,
)
from tenuto.store.rules import answered
from tenuto.tools.approval import validate_edited
from tenuto.tools.effects import read_settlement
from tenuto.tools.resume import Approved, Declined, read_decision, read_resume
from tenuto.tools.toolbox import RunnableTool

HELD_RETRY_SECONDS = 0.02
"""Pause between two attempts to take a run whose last driver is just letting go of it."""


Wake = Callable[[str, int], None] | None


class Taken(Struct, frozen=True):
    """A run this process has claimed; `line` is the turn on its thread that it has."""

    fence: Fence
    owner: str
    wake: Wake
    line: Line | None = None


class Answer(Struct, frozen=True, kw_only=True):
    """An answer to a pending call, as a caller gives it.

    Attributes:
        tool_call_id: Which call; None when exactly one waits.
        data: For an approval `{"approved": bool, "reason": ...}`, for a suspension what its schema asks for.
        args: Arguments edited at an approval.
        declines: It declines the call, whatever that waits for.
    """

    data: Any
    tool_call_id: str | None = None
    args: dict[str, Any] | None = None
    declines: bool = False


async def find_run(host: Host, run_id: str, resource: Owner = ANYONE) -> RunRow:
    """The row of a run of this agent.

    Raises:
        RunError: `AGENT_RESUME_NO_SNAPSHOT_FOUND` or `DURABLE_AGENT_RESUME_AGENT_MISMATCH`.
    """
    row = await host.store.run(run_id, resource=resource)
    if row is None:
        message = f"No registry entry found for run {run_id}. Cannot resume. (The store has no such run either.)"
        raise RunError(message, id="AGENT_RESUME_NO_SNAPSHOT_FOUND", category="USER")
    if row.agent_id != host.definition.id:
        message = f"Run {run_id!r} belongs to another agent than {host.definition.id!r}."
        raise RunError(message, id="DURABLE_AGENT_RESUME_AGENT_MISMATCH", category="USER")
    return row


async def answer_call(host: Host, run_id: str, answer: Answer, *, wake: Wake = None) -> Started:
    """Store the answer and drive the run on, or attach to the driver that does.

    Raises:
        RunError: No such run or call, an ambiguous or unfit answer (still suspended), or another one was faster.
    """
    row = await find_run(host, run_id, host.resource)
    _check_root(row)
    records = await read_journal(host.store, row)
    run = await rebuild(host, row, records)
    if (attached := _attach_decided(row, answer, records)) is not None:
        return attached
    await bind(run)
    try:
        await enter_recorded(run, records)
        item = await _decision(host, run, row, records, answer)
        posted = await host.store.post(item)
        faults.hit("run.after_post")
        if posted.outcome == "conflict":
            raise _already(run_id, item.call_id)
        async with Supervisor.current().turn(run_id):
            return await _drive_on(host, run, row, item, again=posted.outcome == "duplicate", wake=wake)
    except BaseException:
        await run.closing.aclose()
        raise


def _check_root(row: RunRow) -> None:
    """Only its parent's step drives a child run.

    Raises:
        RunError: `RUN_IS_A_CHILD`.
    """
    if row.parent_id is not None:
        message = (
            f"Run {row.run_id!r} was started by the call {row.parent_call_id!r} of run {row.parent_id!r}, which alone "
            f"drives it: decide, recover or abort run {row.root_id!r}."
        )
        raise RunError(message, id="RUN_IS_A_CHILD", category="USER", details={"rootId": row.root_id})


def _attach_decided(row: RunRow, answer: Answer, records: list[AnyRecord]) -> Started | None:
    """The segment that a decision like `answer` has started already; None when the call is not decided.

    Raises:
        RunError: `WORKFLOW_RESUME_ALREADY_CLAIMED`: it was decided, differently or for another process.
    """
    decided = _decided(records, answer.tool_call_id)
    if decided is None:
        return None
    driver = live.driver_of(row.run_id)
    if driver is None or not _says(decided, answer):
        raise _already(row.run_id, decided.call_id)
    return Started(driver, driver.task)


def _decided(records: list[AnyRecord], call_id: str | None) -> Decision | None:
    """The decision on a call that has no outcome yet."""
    if call_id is None:
        return None
    state = fold(records)
    if all(call.id != call_id or call.status in PENDING for call in state.open_calls):
        return None
    found = (each for each in reversed(records) if isinstance(each, Decision) and each.call_id == call_id)
    return next(found, None)


def _says(decided: Decision, answer: Answer) -> bool:
    """Whether the two are the same answer."""
    if decided.resume_data == answer.data and answer.args is None:
        return True
    try:
        verdict = read_decision(answer.data)
    except RunError:
        return False
    extra = verdict.extra if isinstance(verdict, Approved) else None
    said = (decided.approved, decided.reason, decided.resume_data, decided.args)
    return said == (verdict.approved, verdict.reason, extra, answer.args)


async def _decision(host: Host, run: Run, row: RunRow, records: list[AnyRecord], answer: Answer) -> Decide:
    pending = await host.store.pending(row.run_id, resource=row.resource_id)
    asked = _target(row, pending, answer.tool_call_id)
    async with asking_run(host.store, run, records, asked.call_id) as asking:
        return _checked(asking, asked, answer)


def _checked(asking: Run, asked: PendingCall, answer: Answer) -> Decide:
    """The decision to store; `asking` is the run whose tool gets it."""
    if asked.kind == "suspension" and not answer.declines:
        _check_unedited(asked, answer)
        _check_data(asking, asked, answer.data)
        return _decide(asked, approved=True, data=answer.data)
    verdict = read_decision(answer.data)
    if isinstance(verdict, Declined):
        return _decide(asked, approved=False, reason=verdict.reason)
    tool, args = _tool(asking, asked), answer.args
    if args is not None:
        args = validate_edited(tool, args, name=asked.tool_name)
    return _decide(asked, approved=True, reason=verdict.reason, data=verdict.extra, args=args)


def _check_unedited(asked: PendingCall, answer: Answer) -> None:
    """Edited arguments belong to an approval; here they would be dropped without a word."""
    if answer.args is not None:
        message = (
            f"Call {asked.call_id!r} waits for data, not for an approval: its arguments cannot be edited any more."
        )
        raise RunError(message, id="AGENT_RESUME_INVALID_DATA", category="USER")


def _check_data(run: Run, asked: PendingCall, data: Any) -> None:
    """Refuse data that do not fit before anything is stored."""
    if asked.resume_schema == ASKS_OUTCOME:
        read_settlement(data)
    else:
        schema = asked.resume_schema
        read_resume(_tool(run, asked), data, None if schema is None else msgspec.json.decode(schema))


def _tool(run: Run, asked: PendingCall) -> RunnableTool:
    """The tool that would run; without it a yes is refused, and the call waits for a process that has it."""
    tool = run.toolbox.get(asked.tool_name)
    if tool is None:
        known = ", ".join(run.toolbox) or "none"
        message = (
            f"Agent {run.definition.id!r} has no tool {asked.tool_name!r} in this process (it has: {known}), so call "
            f"{asked.call_id!r} cannot run. It still waits: bring the tool back, or decline the call."
        )
        raise RunError(message, id="AGENT_RESUME_TOOL_NOT_FOUND", category="USER")
    return tool


def _decide(
    asked: PendingCall, *, approved: bool, reason: str | None = None, data: Json = None, args: Json = None
) -> Decide:
    return Decide(
        run_id=asked.run_id,
        call_id=asked.call_id,
        args_hash=asked.args_hash,
        attempt=asked.attempt,
        approved=approved,
        reason=reason,
        resume_data=data,
        args=args,
    )


def _target(row: RunRow, pending: list[PendingCall], call_id: str | None) -> PendingCall:
    if call_id is not None:
        for each in pending:
            if each.call_id == call_id:
                return each
        message = f"Tool call {call_id!r} of run {row.run_id!r} does not wait for a decision."
        raise RunError(message, id="AGENT_RESUME_TOOL_CALL_NOT_SUSPENDED", category="USER")
    if len(pending) == 1:
        return pending[0]
    if not pending:
        message = f"This workflow run was not suspended (run {row.run_id!r} is {row.status})."
        raise RunError(message, id="AGENT_RESUME_NOT_SUSPENDED", category="USER")
    message = f"Run {row.run_id!r} has {len(pending)} pending calls; name one: {', '.join(c.call_id for c in pending)}."
    raise RunError(message, id="AGENT_RESUME_AMBIGUOUS_TOOL_CALL", category="USER")


def _already(run_id: str, call_id: str) -> RunError:
    message = f"Tool call {call_id!r} of run {run_id!r} has been decided already, and differently."
    return RunError(message, id="WORKFLOW_RESUME_ALREADY_CLAIMED", category="USER", details={"status": 409})


def _elsewhere(run_id: str, call_id: str) -> RunError:
    message = f"Tool call {call_id!r} is decided as asked, and another process drives run {run_id!r} on; observe() it."
    return RunError(message, id="WORKFLOW_RESUME_ALREADY_CLAIMED", category="USER", details={"status": 409})


async def _drive_on(host: Host, run: Run, row: RunRow, item: Decide, *, again: bool, wake: Wake) -> Started:
    """Claim the run and go on; while another driver has it, that one takes the decision up."""
    driver: Driver | None = None
    line: Line | None = None
    try:
        while True:
            driver = live.driver_of(row.run_id) or driver
            if driver is not None and _acts_on(driver, item):
                await run.closing.aclose()
                return Started(driver, driver.task)
            if line is None and (line := await _line(host, row)) is not None:
                continue  # it may have taken a while
            owner = Supervisor.current().new_owner()
            fence = await _claim(host, row, owner, "suspended")
            if isinstance(fence, Fence):
                started = await _continue(host, run, row, Taken(fence, owner, wake, line))
                line = None
                return started
            if live.driver_of(row.run_id) is None and (driver is None or not _acts_on(driver, item)):
                await _check_waiting(host, row, item, mine=not again)
            if fence is None and (orphan := await _take_orphan(host, run, row, wake, line)) is not None:
                line = None
                return orphan
            await host.clock.sleep(HELD_RETRY_SECONDS)
    finally:
        if line is not None:
            line.give()


async def _line(host: Host, row: RunRow) -> Line | None:
    """The turn on the thread of a run that waits; None for one that holds none."""
    return await take_line(live.process.get().lines, host.store, row.scope)


async def _claim(host: Host, row: RunRow, owner: str, expect: RunStatus) -> Fence | HeldBy | None:
    """The claim of a run that goes on; None when it is not what was expected any more."""
    try:
        return await host.store.claim(row.scope, owner, run=row, expect=expect)
    except StoreError as error:
        if error.id != "RUN_STATUS_CHANGED":
            raise
        return None


async def _take_orphan(host: Host, run: Run, row: RunRow, wake: Wake, line: Line | None) -> Started | None:
    """Go on with a run whose driver died before it had let go of it; None while it has one."""
    owner = Supervisor.current().new_owner()
    fence = await _claim(host, row, owner, "running")
    if not isinstance(fence, Fence):
        return None
    return await _go_on(host, run, row, Taken(fence, owner, wake, line), "resume")


def _acts_on(driver: Driver, item: Decide) -> bool:
    """Whether the driver of this process has taken `item` up, or surely will."""
    asked = driver.run.pending.get(item.call_id)
    if asked is None or asked.attempt != item.attempt:
        return True
    return live.driver_of(item.run_id) is driver and not driver.leaving


async def _check_waiting(host: Host, row: RunRow, item: Decide, *, mine: bool) -> None:
    """See that nobody elsewhere has taken `item` up.

    Raises:
        RunError: `WORKFLOW_RESUME_ALREADY_CLAIMED`: another process has.
    """
    now = await host.store.run(row.run_id, resource=row.resource_id)
    waiting = {each.call_id for each in await host.store.pending(row.run_id, resource=row.resource_id)}
    if now is None or now.status in TERMINAL_STATUS or item.call_id not in waiting:
        raise _elsewhere(row.run_id, item.call_id) if mine else _already(row.run_id, item.call_id)


async def _continue(host: Host, run: Run, row: RunRow, taken: Taken) -> Started:
    faults.hit("run.after_resume_claim")
    return await _go_on(host, run, row, taken, "resume")


async def _go_on(host: Host, run: Run, row: RunRow, taken: Taken, cause: Literal["resume", "recover"]) -> Started:
    """Read the journal again, now that nobody else writes it, and drive on from its end."""
    records = await read_journal(host.store, row)
    await read_thread(run, records)
    state = take_in(run, records)
    pending = await host.store.pending(row.run_id, resource=row.resource_id)
    run.pending = {each.call_id: each for each in pending}
    if run.budget is not None:
        run.budget.before(await spent_by(host.store, row.run_id, records))
    position = await position_of(host.store, row, records, state)
    continued = Continued(taken.fence, position, cause, taken.line)
    return Supervisor.current().go_on(run, host.store, taken.owner, continued, wake=taken.wake)


async def recover_run(host: Host, row: RunRow, *, wake: Wake = None, has_turn: bool = False) -> Started:
    """Drive a run on whose driver is gone: while it drove, or when a decision or an abort was stored and not taken.

    Args:
        host: Its agent.
        row: The run.
        wake: Told of its commits.
        has_turn: Whoever calls has the turn on the run's thread, and keeps it.

    Raises:
        RunError: `DURABLE_AGENT_RECOVER_NOT_RUNNING`, `DURABLE_AGENT_RECOVER_LEASE_ACQUIRE_FAILED`,
            `DURABLE_AGENT_RECOVER_ALREADY_IN_PROGRESS`.
        StoreError: The journal cannot be read.
    """
    _check_root(row)
    if live.driver_of(row.run_id) is not None:
        message = f"Run {row.run_id!r} is driven in this process."
        raise RunError(message, id="DURABLE_AGENT_RECOVER_ALREADY_IN_PROGRESS", category="USER")
    if row.status != "running" and not await _is_answered(host, row):
        message = f"Run {row.run_id!r} is {row.status}; there is nothing to recover."
        raise RunError(message, id="DURABLE_AGENT_RECOVER_NOT_RUNNING", category="USER")
    if row.loop_version > LOOP_VERSION:
        message = (
            f"Run {row.run_id!r} was driven by a newer tenuto (loop {row.loop_version}); recover it with that one."
        )
        raise RunError(message, id="DURABLE_AGENT_RECOVER_NEWER_LOOP", category="USER")
    run = await _rebuilt(host, row)
    owner = Supervisor.current().new_owner()
    line: Line | None = None
    try:
        if row.status == "suspended":
            await bind(run)
        if not has_turn:
            line = await _line(host, row)
        fence = await _claim_left(host, row, owner)
        faults.hit("run.after_recover_claim")
        cause = "resume" if row.status == "suspended" else "recover"
        return await _go_on(host, run, row, Taken(fence, owner, wake, line), cause)
    except BaseException:
        await run.closing.aclose()
        if line is not None:
            line.give()
        raise


async def _is_answered(host: Host, row: RunRow) -> bool:
    if row.status != "suspended":
        return False
    pending = await host.store.pending(row.run_id, resource=row.resource_id)
    return answered(await host.store.posts(row.run_id), pending)


async def _rebuilt(host: Host, row: RunRow) -> Run:
    """A run whose driver died before it stored anything is there, too: it is to be ended, not forgotten."""
    records = await read_journal(host.store, row)
    return await rebuild(host, row, records or [RunStarted(row.run_id, row.agent_id, host.ids.new("msg"), 1)])


async def _claim_left(host: Host, row: RunRow, owner: str) -> Fence:
    try:
        fence = await host.store.claim(row.scope, owner, run=row, expect=row.status)
    except StoreError as error:
        if error.id != "RUN_STATUS_CHANGED":
            raise
        message = f"Run {row.run_id!r} has ended or waits for a decision; there is nothing to recover."
        raise RunError(message, id="DURABLE_AGENT_RECOVER_NOT_RUNNING", category="USER") from error
    if isinstance(fence, HeldBy):
        message = f"Run {row.run_id!r} is driven by {fence.owner}."
        raise RunError(message, id="DURABLE_AGENT_RECOVER_LEASE_ACQUIRE_FAILED", category="USER")
    return fence


async def end_run(host: Host, row: RunRow, reason: str | None, *, wake: Wake = None) -> bool:
    """Abort a run wherever it is: its driver sees it at its next boundary, one that waits is ended here.

    Returns:
        False when it has ended already.
    """
    _check_root(row)
    posted = await host.store.post(AbortRequest(run_id=row.run_id, reason=reason))
    faults.hit("run.after_abort")
    if posted.outcome == "conflict":
        if (driver := live.driver_of(row.run_id)) is not None:
            driver.abort(reason or "aborted")  # what is left of it are callbacks
        return False
    while (driver := live.driver_of(row.run_id)) is not None:
        if not driver.leaving:
            driver.abort(reason or "aborted")
            return True
        await host.clock.sleep(HELD_RETRY_SECONDS)
    now = await host.store.run(row.run_id, resource=row.resource_id)  # again: it may have begun to wait meanwhile
    if now is not None and now.status == "suspended":
        await _end_waiting(host, now, wake)
    return True


async def _end_waiting(host: Host, row: RunRow, wake: Wake) -> None:
    """End a suspended run whose abort is posted; when somebody drives it on meanwhile, that driver sees the abort."""
    run = await rebuild(host, row, await read_journal(host.store, row))
    line = await _line(host, row)
    try:
        while True:
            owner = Supervisor.current().new_owner()
            fence = await _claim(host, row, owner, "suspended")
            if fence is None:
                return
            if isinstance(fence, Fence):
                started = await _go_on(host, run, row, Taken(fence, owner, wake, line), "resume")
                line = None
                await started.ended()
                return
            await host.clock.sleep(HELD_RETRY_SECONDS)  # its last driver lets go of it, or has died doing so
    finally:
        if line is not None:
            line.give()
