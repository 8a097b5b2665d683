"""`tenuto runs watch | resume | recover | abort`: runs as they go on.

Invariant: `watch` reads only. `resume` and `recover` drive in this process; when it is stopped the run is left where
it stands, for another `recover`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from tenuto.app import Tenuto
from tenuto.calls import PendingStream
from tenuto.cli.runs.output import exit_code, line
from tenuto.cli.runs.places import Place, durable_of, known_run, stand_in
from tenuto.cli.runs.show import pending_lines
from tenuto.cli.screen import Answer, failed, note
from tenuto.cli.stream import Narrator
from tenuto.core.errors import RunError, TenutoError
from tenuto.core.payloads import Json
from tenuto.machine.records import LOOP_VERSION
from tenuto.runs.output import RunOutput
from tenuto.store.ports import ANYONE, TERMINAL_STATUS, PendingCall, RunRow


class Reply(Struct, frozen=True):
    """What a command line answers a pending call with: an approval, a decline, or data.

    Attributes:
        approve: True and False decide; None gives `data`.
        args: Edited arguments of an approval.
    """

    approve: bool | None
    data: Json = None
    args: dict[str, Any] | None = None
    reason: str | None = None


async def watch_run(app: Tenuto, run_id: str, place: Place, *, offset: int, follow: bool) -> int:
    """Show a run's stream from the store until it ends, or waits and is not to be followed on; the exit code.

    Raises:
        TenutoError: There is no such run, or nothing of it is stored.
    """
    row = await known_run(app, run_id)
    if not row.durable:
        message = f"Run {run_id!r} is not durable: its stream is seen in its own process only."
        raise RunError(message, id="CLI_RUN_NOT_DURABLE", category="USER")
    output = await stand_in(app, row).observe(run_id, offset=offset, close_on_suspend=not follow)
    return await _shown(app, output, place)


async def resume_run(app: Tenuto, run_id: str, call_id: str | None, reply: Reply | None, place: Place) -> int:
    """Answer a pending call and drive the run on; the exit code. Without an answer, say what is asked.

    Raises:
        TenutoError: There is no such run, call or agent, or the answer does not fit.
    """
    row = await known_run(app, run_id)
    pending = await app.store.pending(run_id, resource=row.resource_id)
    if reply is None:
        return _asked(row, pending, place)
    _check_kind(pending, call_id, reply)
    return await _shown(app, await _answered(app, row, call_id, reply), place)


def _answered(app: Tenuto, row: RunRow, call_id: str | None, reply: Reply) -> PendingStream[Any]:
    agent = app.get_agent_by_id(row.agent_id)
    if reply.approve is None:
        return agent.resume_stream(reply.data, run_id=row.run_id, tool_call_id=call_id)
    if reply.approve:
        return agent.approve_tool_call(run_id=row.run_id, tool_call_id=call_id, args=reply.args)
    return agent.decline_tool_call(run_id=row.run_id, tool_call_id=call_id, reason=reply.reason)


def _asked(row: RunRow, pending: list[PendingCall], place: Place) -> int:
    if not pending:
        failed(f"Run {row.run_id!r} is {row.status} and waits for no decision.")
        return 1
    for call in pending:
        for text in pending_lines(call, place):
            line(text)
    failed("give an answer: --approve, --decline or --data JSON")
    return 2


def _check_kind(pending: list[PendingCall], call_id: str | None, reply: Reply) -> None:
    """Without this an approval would be taken for the data that a suspended call waits for."""
    for call in pending:
        aimed = call.call_id == call_id or (call_id is None and len(pending) == 1)
        if aimed and call.kind == "suspension" and reply.approve is not None:
            message = f"Tool call {call.call_id!r} waits for data, not for an approval; give --data JSON."
            raise RunError(message, id="AGENT_RESUME_INVALID_DATA", category="USER")


async def recover_one(app: Tenuto, run_id: str, place: Place) -> int:
    """Drive a run on whose process is gone; the exit code.

    Raises:
        TenutoError: There is no such run or agent, or there is nothing to recover.
    """
    row = await known_run(app, run_id)
    _check_version(row)
    return await _shown(app, await durable_of(app, row).recover(run_id), place)


async def recover_all(app: Tenuto) -> int:
    """Drive on every run of the app's agents whose process is gone, one after the other; 1 when one of them failed."""
    good = done = 0
    for row in await app.store.recoverable(limit=10_000):
        try:
            _check_version(row)
            agent = durable_of(app, row)
        except TenutoError as error:
            note(f"{row.run_id} is left alone: {error}", "yellow")
            continue
        (run,) = (await agent.recover_active_runs(run_id=row.run_id)).recovered
        now = await known_run(app, row.run_id)
        done += 1
        good += run.status == "success"
        style = "green" if run.status == "success" else "red"
        line(f"{row.run_id}  {row.agent_id}  ", (now.status, style), f"  {run.error or ''}")
    if not done:
        note("There was nothing to recover.")
    return 0 if good == done else 1


def _check_version(row: RunRow) -> None:
    if row.loop_version > LOOP_VERSION:
        message = f"Run {row.run_id!r} was driven by a newer version of tenuto; update this one to drive it on."
        raise RunError(message, id="CLI_RUN_NEWER", category="USER")


async def abort_run(app: Tenuto, run_id: str, reason: str | None, place: Place) -> int:
    """Stop a run wherever it is; the exit code.

    Raises:
        TenutoError: There is no such run, or only its own process can stop it.
    """
    row = await known_run(app, run_id)
    if row.status in TERMINAL_STATUS:
        failed(f"Run {run_id!r} has ended already: {row.status}.")
        return 1
    if not row.durable:
        message = f"Run {run_id!r} is not durable: only its own process can stop it."
        raise RunError(message, id="CLI_RUN_NOT_DURABLE", category="USER")
    await stand_in(app, row).abort_run_stream(run_id, reason)
    if place.app is not None and await _is_abandoned(app, run_id):
        await durable_of(app, row).recover_active_runs(run_id=run_id)
    now = await known_run(app, run_id)
    if now.status in TERMINAL_STATUS:
        print(f"{run_id} has ended: {now.status}")
    elif await _is_abandoned(app, run_id):
        print(f"{run_id}: the abort is stored. Its process is gone, so it ends when it is taken up:")
        print(f"  tenuto runs recover {run_id} {place.app_option}")
    else:
        print(f"{run_id}: the abort is stored. The process that drives it ends it at its next step.")
    return 0


async def _is_abandoned(app: Tenuto, run_id: str) -> bool:
    return any(row.run_id == run_id for row in await app.store.recoverable(limit=10_000))


async def _shown(app: Tenuto, output: RunOutput[Any], place: Place) -> int:
    """Show a stream to its end; the exit code."""
    answer = Answer()
    narrator = Narrator(answer)
    try:
        async for chunk in output.full_stream:
            narrator.take(chunk)
        result = await output.get_full_output()
    finally:
        answer.close()
    if result.error is not None:
        failed(str(result.error))
    elif output.status == "canceled":
        note("aborted", "yellow")
    elif output.status == "suspended":
        for text in _waiting(await app.store.pending(output.run_id, resource=ANYONE), place):
            note(text, "yellow")
    return exit_code(output.status)


def _waiting(pending: list[PendingCall], place: Place) -> Iterator[str]:
    for call in pending:
        yield from pending_lines(call, place)
