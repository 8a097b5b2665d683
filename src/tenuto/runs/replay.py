"""Builds a run again from its journal: the same data, the same state, nothing executed.

Invariant: what a run has done is read from its records only; what it needs to go on (model, tools, functions) comes
from the agent of the process that takes it up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tenuto.core.clock import Clock
from tenuto.core.errors import RunError
from tenuto.core.ids import IdSource
from tenuto.core.payloads import Json
from tenuto.core.request_context import RequestContext
from tenuto.machine.decisions import apply
from tenuto.machine.records import AnyRecord, RunStarted, decode_record
from tenuto.machine.state import RunState
from tenuto.runs.journal import Position
from tenuto.steps.fold import absorb
from tenuto.steps.run import Definition, Options, Run
from tenuto.store.ports import RunRow, RunStore


class Host(Struct, frozen=True):
    """What an agent brings to a run that goes on here.

    Attributes:
        options: From the persisted form of the options to the options of this segment, and the names of those that
            this process does not have.
        request_context: The caller's values; they win over the stored ones.
    """

    definition: Definition
    store: RunStore
    clock: Clock
    ids: IdSource
    options: Callable[[str, Json], tuple[Options, tuple[str, ...]]]
    request_context: RequestContext
    deps: Any


async def read_journal(store: RunStore, row: RunRow) -> list[AnyRecord]:
    """The records of a run.

    Raises:
        StoreError: A record of a newer version.
    """
    return [decode_record(raw) for raw in await store.records(row.run_id, resource=row.resource_id)]


def begun(row: RunRow, records: list[AnyRecord]) -> RunStarted:
    """The first record.

    Raises:
        RunError: `RUN_JOURNAL_MISSING`.
    """
    first = records[0] if records else None
    if not isinstance(first, RunStarted):
        message = f"Run {row.run_id!r} has no journal; only durable runs, and runs that wait for a decision, have one."
        raise RunError(message, id="RUN_JOURNAL_MISSING")
    return first


def rebuild(host: Host, row: RunRow, records: list[AnyRecord]) -> Run:
    """A run with its identity and options, before any record is taken into it."""
    first = begun(row, records)
    options, degraded = host.options(row.run_id, first.options)
    context = RequestContext(first.request_context or {})
    for key, value in host.request_context.entries():
        context.set(key, value)
    return Run(
        run_id=first.run_id,
        message_id=first.message_id,
        definition=host.definition,
        options=options,
        messages=(),
        request_context=context,
        clock=host.clock,
        ids=host.ids,
        persisted=first.options,
        call_deps=host.deps,
        degraded=tuple(dict.fromkeys((*first.degraded, *degraded))),
        durable=row.durable,
    )


def take_in(run: Run, records: list[AnyRecord]) -> RunState:
    """Fold `records` into `run`; returns the state they lead to."""
    state = RunState()
    for record in records:
        state = apply(state, record)
        absorb(run, record)
    return state


async def position_of(store: RunStore, row: RunRow, records: list[AnyRecord], state: RunState) -> Position:
    """Where the journal of a run goes on."""
    count = await store.event_count(row.run_id, resource=row.resource_id)
    return Position(state, len(records), count, kept=True)
