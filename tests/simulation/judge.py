"""What must hold after a simulation, whatever happened in it.

Invariant: nothing here asks the runtime what it did: it compares the world's own notes with the store.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from tenuto.machine import records as r
from tenuto.machine.decisions import fold
from tenuto.store.ports import TERMINAL_STATUS
from tenuto.testing import check_stream
from tests.simulation.cast import ANY_NUMBER, final_text
from tests.simulation.clients import Clients
from tests.simulation.world import World


async def judge(world: World, clients: Clients) -> None:
    """Write down everything that does not hold."""
    await _effects(world)
    _requests(world)
    for number in range(len(world.plan.runs)):
        run_id = f"run-{number}"
        if world.row(run_id) is not None:
            await _run(world, clients, run_id)
        elif run_id not in clients.never:
            world.fail(f"{run_id} was started and is not stored")
    _left(world)


async def _effects(world: World) -> None:
    for number in range(len(world.plan.runs)):
        for record in await world.records(f"run-{number}"):
            if isinstance(record, r.Decision) and record.resume_data == {"outcome": "not-applied"}:
                world.forgiven[record.call_id] += 1
    counts = Counter((effect.tool, effect.what) for effect in world.effects if effect.tool not in ANY_NUMBER)
    for (tool, what), count in counts.items():
        if count > 1 + world.forgiven[what]:
            world.fail(f"{tool} took effect {count} times: {what}")
    keys: dict[tuple[str, str], set[str]] = defaultdict(set)
    for effect in world.effects:
        keys[effect.tool, effect.what].add(effect.key)
    for (tool, what), found in keys.items():
        if len(found) > 1:
            world.fail(f"{tool} had {len(found)} keys: {what}")


def _requests(world: World) -> None:
    for asked in world.requests:
        if asked.late:
            world.fail(f"{asked.run_id}: the model was asked for step {asked.step}, whose outcome is stored")


async def _run(world: World, clients: Clients, run_id: str) -> None:
    row = world.row(run_id)
    assert row is not None
    events = await world.store.events(run_id, resource=None)
    chunks = [event.chunk for event in events]
    records = await world.records(run_id)
    if [event.index for event in events] != list(range(len(events))):
        world.fail(f"{run_id}: the indexes are not contiguous")
    try:
        check_stream(chunks, complete=row.status in TERMINAL_STATUS)
    except AssertionError as error:
        world.fail(f"{run_id}: {error}")
    _end(world, run_id, row, chunks, records)
    _decisions(world, clients, run_id, records)
    _wires(world, run_id, records)
    text = _text(chunks)
    if row.status == "success" and fold(records).reason == "stop" and text != final_text(run_id):
        world.fail(f"{run_id} answers {text!r}")
    if run_id in clients.aborted and row.status not in {"canceled", "success", "failed"}:
        world.fail(f"{run_id} was aborted and is {row.status}")
    for viewer in clients.viewers:
        if viewer.run_id == run_id:
            _viewer(world, viewer, chunks, text)


def _end(world: World, run_id: str, row: Any, chunks: list[Any], records: list[Any]) -> None:
    if row.status not in TERMINAL_STATUS:
        world.fail(f"{run_id} is still {row.status}")
        return
    terminal = [place for place, chunk in enumerate(chunks) if chunk.type == "finish"]
    if terminal != [len(chunks) - 1]:
        world.fail(f"{run_id} has terminal events at {terminal} of {len(chunks)}")
    phase = fold(records).phase
    if phase != "done":
        world.fail(f"{run_id} is {row.status} and its journal ends in {phase!r}")
    if world.store._logs[run_id].pending:
        world.fail(f"{run_id} is over and has pending calls")


def _decisions(world: World, clients: Clients, run_id: str, records: list[Any]) -> None:
    """Per wait of a call there is one decision, and everybody who was told yes meant it."""
    entered: Counter[str] = Counter()
    taken: dict[tuple[str, int], list[r.Decision]] = defaultdict(list)
    for record in records:
        if isinstance(record, r.ToolStarted):
            entered[record.call_id] = record.attempt
        elif isinstance(record, r.Decision):
            taken[record.call_id, entered[record.call_id]].append(record)
    for (call_id, attempt), found in taken.items():
        if len(found) > 1:
            world.fail(f"{call_id} was decided {len(found)} times at attempt {attempt}")
    for told in clients.decided:
        if told.run_id != run_id:
            continue
        # A decision names a call, not one of its waits: it may have met the next one.
        found = [
            each
            for (call_id, at), one in taken.items()
            if call_id == told.call_id and at >= told.attempt
            for each in one
        ]
        if found and not any(_means(each, told.what) for each in found):
            world.fail(f"{told.call_id}: {told.what!r} was accepted, and {found} is recorded")


def _means(record: r.Decision, what: str) -> bool:
    if record.resume_data in ({"approved": True}, {"approved": False, "reason": "No."}):
        return what in {"approve", "decline"}  # data, to a call that waited for data
    match what:
        case "approve":
            return record.approved and record.args is None
        case "edit":
            return record.approved and record.args is not None
        case "decline":
            return not record.approved
        case "yes" | "no":
            return record.resume_data == {"answer": what}
        case _:
            return record.resume_data == {"outcome": what}


def _wires(world: World, run_id: str, records: list[Any]) -> None:
    """What needs approval ran only when approved, and with the arguments that were approved."""
    approved = {record.call_id: record.args for record in records if isinstance(record, r.Decision) and record.approved}
    for effect in world.effects:
        if effect.run_id != run_id or effect.tool != "wire":
            continue
        if effect.call_id not in approved:
            world.fail(f"{effect.call_id} ran without approval")
        elif (edited := approved[effect.call_id]) is not None and edited != effect.args:
            world.fail(f"{effect.call_id} was approved with {edited} and ran with {effect.args}")


def _viewer(world: World, viewer: Any, chunks: list[Any], text: str) -> None:
    seen = list(viewer.seen.values())
    if seen != chunks:
        place = next((at for at, (a, b) in enumerate(zip(seen, chunks, strict=False)) if a != b), None)
        world.fail(f"a viewer of {viewer.run_id} saw {len(seen)} of {len(chunks)} events, the first other at {place}")
    if not viewer.ended:
        world.fail(f"a viewer of {viewer.run_id} saw no end")
    elif world.row(viewer.run_id).status == "success" and not viewer.text.endswith(text):
        world.fail(f"a viewer of {viewer.run_id} got the text {viewer.text!r}, and the log holds {text!r}")


def _text(chunks: list[Any]) -> str:
    """The last step's text, as a viewer puts it together who honours `attempt-restarted`."""
    kept: list[Any] = []
    for index, chunk in enumerate(chunks):
        if chunk.type == "attempt-restarted":
            kept = [(place, each) for place, each in kept if place < chunk.payload.discard_from]
        kept.append((index, chunk))
    text = ""
    for _, chunk in kept:
        if chunk.type == "step-start":
            text = ""
        elif chunk.type == "text-delta":
            text += chunk.payload.text
    return text


def _left(world: World) -> None:
    left = [task for task in world.tasks if not task.done()]
    if len(left) > 1:  # the simulation itself
        world.fail(f"tasks are left: {left}")
    timers = [handle for handle in world.loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
    if timers:
        world.fail(f"timers are left: {timers}")
