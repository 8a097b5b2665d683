"""`tenuto runs list`: the runs of a store, the newest first, with what each waits for."""

from __future__ import annotations

import time

from msgspec import Struct, to_builtins

from tenuto.app import Tenuto
from tenuto.cli.runs.output import STYLES, age, as_json, line
from tenuto.cli.screen import brief
from tenuto.core.payloads import wire_name
from tenuto.store.ports import PendingCall, RunRow, RunStatus

_HEAD = ("RUN", "AGENT", "STATUS", "AGE")
_CALLS_SHOWN = 2


class Listed(Struct, frozen=True, rename=wire_name):
    """One run of the list.

    Attributes:
        abandoned: Its process is gone, so it can be recovered.
    """

    run_id: str
    agent_id: str
    status: RunStatus
    durable: bool
    abandoned: bool
    created_at: float | None
    updated_at: float | None
    error: str | None
    pending: tuple[PendingCall, ...] = ()


async def list_runs(app: Tenuto, *, status: RunStatus | None, limit: int, in_json: bool) -> None:
    """Print the runs of the app's store."""
    rows = await app.store.runs(resource=None, status=status, limit=limit)
    lost = {row.run_id for row in await app.store.recoverable(limit=10_000)}
    listed = [await _listed(app, row, abandoned=row.run_id in lost) for row in rows]
    if in_json:
        print(as_json([to_builtins(each) for each in listed]))
    else:
        _print(listed, now=time.time())


async def _listed(app: Tenuto, row: RunRow, *, abandoned: bool) -> Listed:
    pending = await app.store.pending(row.run_id, resource=row.resource_id)
    error = None if row.error is None else row.error.message
    times = (row.created_at, row.updated_at)
    return Listed(row.run_id, row.agent_id, row.status, row.durable, abandoned, *times, error, tuple(pending))


def _print(listed: list[Listed], *, now: float) -> None:
    if not listed:
        line(("No runs.", "dim"))
        return
    rows = [_HEAD, *(_columns(each, now) for each in listed)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEAD))]
    line(("  ".join(_padded(_HEAD, widths)), "dim"))
    for each, row in zip(listed, rows[1:], strict=True):
        run_id, agent_id, status, since = _padded(row, widths)
        line(f"{run_id}  {agent_id}  ", (status, STYLES[each.status]), f"  {since}  {brief(_remark(each))}")


def _padded(row: tuple[str, ...], widths: list[int]) -> list[str]:
    return [f"{word:<{width}}" for word, width in zip(row, widths, strict=True)]


def _columns(each: Listed, now: float) -> tuple[str, str, str, str]:
    return brief(each.run_id), brief(each.agent_id), each.status, age(each.created_at, now)


def _remark(each: Listed) -> str:
    if each.abandoned:
        return "its process is gone: tenuto runs recover"
    if not each.pending:
        return each.error or ""
    shown = [f"{call.kind} of {call.tool_name} [{call.call_id}]" for call in each.pending[:_CALLS_SHOWN]]
    more = len(each.pending) - len(shown)
    return "waits: " + ", ".join(shown) + (f" and {more} more" if more else "")
