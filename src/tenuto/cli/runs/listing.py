"""`tenuto runs list`: the runs of a store, the newest first, with what each waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tenuto.app import Tenuto
from tenuto.cli.runs.output import STYLES, age, as_json, line, wire
from tenuto.cli.screen import brief
from tenuto.store.ports import ANYONE, PendingCall, RunRow, RunStatus

_HEAD = ("RUN", "AGENT", "STATUS", "AGE")
_CALLS_SHOWN = 2


class Listed(Struct, frozen=True):
    """One run of the list.

    Attributes:
        abandoned: Its process is gone, so it can be recovered.
        depth: How many runs of the list stand above it: 0 for one that no call of another has started.
    """

    row: RunRow
    abandoned: bool
    pending: tuple[PendingCall, ...]
    depth: int


async def list_runs(app: Tenuto, *, status: RunStatus | None, limit: int, in_json: bool, now: float) -> None:
    """Print the runs of the app's store."""
    rows = await app.store.runs(resource=ANYONE, status=status, limit=limit)
    lost = {row.run_id for row in await app.store.recoverable(limit=10_000)}
    listed = [
        Listed(row, row.run_id in lost, tuple(await app.store.pending(row.run_id, resource=row.resource_id)), depth)
        for row, depth in in_trees(rows)
    ]
    if in_json:
        print(as_json([_plain(each) for each in listed]))
    else:
        _print(listed, now=now)


def in_trees(rows: Sequence[RunRow]) -> list[tuple[RunRow, int]]:
    """The rows, newest first, each followed by the runs that its calls have started, oldest first; with their depth."""
    known = {row.run_id for row in rows}
    below: dict[str | None, list[RunRow]] = {}
    for row in rows:
        below.setdefault(row.parent_id if row.parent_id in known else None, []).append(row)
    found: list[tuple[RunRow, int]] = []

    def add(row: RunRow, depth: int) -> None:
        found.append((row, depth))
        for child in reversed(below.get(row.run_id, ())):
            add(child, depth + 1)

    for row in below.get(None, ()):
        add(row, 0)
    return found


def _plain(each: Listed) -> dict[str, Any]:
    return {**wire(each.row), "abandoned": each.abandoned, "pending": [wire(call) for call in each.pending]}


def _print(listed: list[Listed], *, now: float) -> None:
    if not listed:
        line(("No runs.", "dim"))
        return
    rows = [_HEAD, *(_columns(each, now) for each in listed)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEAD))]
    line(("  ".join(_padded(_HEAD, widths)), "dim"))
    for each, row in zip(listed, rows[1:], strict=True):
        run_id, agent_id, status, since = _padded(row, widths)
        line(f"{run_id}  {agent_id}  ", (status, STYLES[each.row.status]), f"  {since}  {brief(_remark(each))}")


def _padded(row: tuple[str, ...], widths: list[int]) -> list[str]:
    return [f"{word:<{width}}" for word, width in zip(row, widths, strict=True)]


def _columns(each: Listed, now: float) -> tuple[str, str, str, str]:
    row = each.row
    return "  " * each.depth + brief(row.run_id), brief(row.agent_id), row.status, age(row.created_at, now)


def _remark(each: Listed) -> str:
    if each.row.parent_id is not None:
        return f"of call {each.row.parent_call_id}"
    if each.abandoned:
        return "its process is gone: tenuto runs recover"
    if not each.pending:
        return "" if each.row.error is None else each.row.error.message
    shown = [f"{call.kind} of {call.tool_name} [{call.call_id}]" for call in each.pending[:_CALLS_SHOWN]]
    more = len(each.pending) - len(shown)
    return "waits: " + ", ".join(shown) + (f" and {more} more" if more else "")
