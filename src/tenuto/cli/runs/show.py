"""`tenuto runs show`: one run, from its journal and its log of events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, to_builtins

from tenuto.app import Tenuto
from tenuto.cli.runs.log import log_lines
from tenuto.cli.runs.output import STYLES, age, as_json, line, moment, wire
from tenuto.cli.runs.places import Place, known_run
from tenuto.cli.runs.timeline import Entry, Known, timeline, usage_of
from tenuto.cli.screen import brief
from tenuto.cli.stream import as_text, signature
from tenuto.cli.usage import tokens
from tenuto.core import chunks as c
from tenuto.core.events import Event
from tenuto.machine.records import AnyRecord, ModelEnded, ModelStarted, ToolEnded
from tenuto.runs.replay import read_journal
from tenuto.store.ports import ANYONE, AbortRequest, EffectRow, PendingCall, RunRow, RunStore
from tenuto.tools.effects import call_key


class Shown(Struct, frozen=True):
    """All that is known of a run."""

    row: RunRow
    abandoned: bool
    pending: tuple[PendingCall, ...]
    records: list[AnyRecord]
    entries: list[Entry]
    children: list[tuple[RunRow, int]]


async def show_run(app: Tenuto, run_id: str, place: Place, *, events: bool, in_json: bool, now: float) -> None:
    """Print a run.

    Raises:
        TenutoError: There is no such run, or its journal is a newer version's.
    """
    shown = await read_run(app.store, await known_run(app, run_id))
    log = await app.store.events(run_id, resource=shown.row.resource_id) if events else []
    if in_json:
        print(as_json(_plain(shown, log, with_events=events)))
        return
    print_run(shown, place, now=now)
    if events:
        line("")
        for text in log_lines(log):
            line(text)


async def read_run(store: RunStore, row: RunRow) -> Shown:
    """Read what the store has of a run."""
    records = await read_journal(store, row)
    pending = await store.pending(row.run_id, resource=row.resource_id)
    lost = {each.run_id for each in await store.recoverable(limit=10_000)} if row.status == "running" else set[str]()
    posts = await store.posts(row.run_id)
    known = Known(
        created_at=row.created_at,
        asked_at=await _asked_at(store, row, records),
        late=await _late(store, row, records),
        abort_reason=next((post.reason for post in posts if isinstance(post, AbortRequest)), None),
    )
    children = await _children(store, row.run_id, 0)
    return Shown(row, row.run_id in lost, tuple(pending), records, timeline(records, known), children)


async def _children(store: RunStore, run_id: str, depth: int) -> list[tuple[RunRow, int]]:
    """The runs that its calls have started, with their own, each with its depth."""
    found: list[tuple[RunRow, int]] = []
    for child in await store.children(run_id, resource=ANYONE):
        found.append((child, depth))
        found += await _children(store, child.run_id, depth + 1)
    return found


async def _asked_at(store: RunStore, row: RunRow, records: list[AnyRecord]) -> dict[int, float]:
    """When each model call began, which its first event says."""
    times: dict[int, float] = {}
    for seq, record in enumerate(records):
        if isinstance(record, ModelStarted):
            found = await store.events(row.run_id, resource=row.resource_id, start=record.first_event, limit=1)
            chunk = found[0].chunk if found and found[0].index == record.first_event else None
            if isinstance(chunk, c.StepStart) and chunk.payload.started_at is not None:
                times[seq] = chunk.payload.started_at / 1000
    return times


async def _late(store: RunStore, row: RunRow, records: list[AnyRecord]) -> dict[str, EffectRow]:
    """The ledger entries of bodies that ended late; those of tools with `key=` cannot be told without the tool."""
    keys: dict[str, str] = {}
    found: dict[str, EffectRow] = {}
    for record in records:
        if isinstance(record, ModelEnded):
            for place, call in enumerate(record.said.turn.calls):
                keys[call.tool_call_id] = call_key(row.run_id, record.step, place)
        elif isinstance(record, ToolEnded) and record.outcome in {"unknown", "aborted"}:
            effect = await store.effect(keys[record.call_id])
            if effect is not None and effect.late:
                found[record.call_id] = effect
    return found


# -- on the screen -----------------------------------------------------------------------------------------------------


def print_run(shown: Shown, place: Place, *, now: float) -> None:
    """Print the run, its timeline, and what can be done about it."""
    row = shown.row
    _print_head(shown, now)
    if shown.entries:
        line("")
    for entry in shown.entries:
        line((f"{moment(entry.at):<13}", "dim"), (f"{entry.kind:<9}", "cyan"), brief(entry.text))
    for child, depth in shown.children:
        line(
            ("  " * depth + "child run ", "dim"),
            (brief(child.run_id), "bold"),
            f"  {brief(child.agent_id)}  ",
            (child.status, STYLES[child.status]),
            f"  of call {brief(child.parent_call_id or '')}",
        )
    if not shown.records:
        why = "its process ended before it stored anything" if row.durable else "it is not durable"
        line((f"This run has no journal: {why}.", "dim"))
    for hint in _hints(shown, place):
        line((hint, "yellow"))


def _print_head(shown: Shown, now: float) -> None:
    row = shown.row
    steps = sum(isinstance(record, ModelEnded) for record in shown.records)
    status = f"{row.status}, its process is gone" if shown.abandoned else row.status
    line((brief(row.run_id), "bold"), f"  {brief(row.agent_id)}  ", (status, STYLES[row.status]))
    if row.parent_id is not None:
        call, root = brief(row.parent_call_id or ""), brief(row.root_id or "")
        line(f"child of {brief(row.parent_id)}, call {call}; root {root}")
    if row.thread_id is not None:
        line(f"thread {brief(row.thread_id)}, resource {brief(row.resource_id or '-')}")
    line(
        f"created {moment(row.created_at, date=True)}, last change {age(row.updated_at, now)} ago; "
        f"{steps} step{'' if steps == 1 else 's'}, {tokens(usage_of(shown.records))}"
    )
    if row.error is not None:
        line((brief(f"{row.error.id or row.error.name}: {row.error.message}"), "red"))


def _hints(shown: Shown, place: Place) -> Iterator[str]:
    row = shown.row
    if shown.abandoned:
        yield f"to drive it on: tenuto runs recover {row.run_id} {place.app_option}"
    if row.parent_id is not None:
        yield from (f"decisions are those of its root: tenuto runs show {row.root_id}" for _ in shown.pending[:1])
        return
    for call in shown.pending:
        yield from pending_lines(call, place)


def pending_lines(call: PendingCall, place: Place) -> Iterator[str]:
    """What a call waits for, and how to answer it."""
    command = f"tenuto runs resume {call.run_id} --call {call.call_id}"
    said = signature(call.tool_name, call.args)
    if call.kind == "approval":
        yield brief(f"waits for approval: {said}")
        yield f"  {command} --approve {place.app_option}   (or --decline)"
    else:
        yield brief(f"waits for data: {said} asks {as_text(call.suspend_payload)}")
        if call.resume_schema is not None:
            yield brief(f"  schema of the answer: {as_text(call.resume_schema)}")
        yield f"  {command} --data JSON {place.app_option}"


def _plain(shown: Shown, log: list[Event], *, with_events: bool) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "run": wire(shown.row),
        "abandoned": shown.abandoned,
        "pending": [wire(call) for call in shown.pending],
        "timeline": to_builtins(shown.entries),
        "records": to_builtins(shown.records),
        "children": [wire(row) for row, _ in shown.children],
    }
    if with_events:
        plain["events"] = [{"index": event.index, "chunk": event.chunk.to_dict()} for event in log]
    return plain
