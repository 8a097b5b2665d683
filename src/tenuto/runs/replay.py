"""Builds a run again from its journal: the same data, the same state, nothing executed.

Invariant: what a run has done is read from its records only; what it needs to go on (model, tools, functions) comes
from the agent of the process that takes it up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from tenuto.core.clock import Clock
from tenuto.core.errors import RunError
from tenuto.core.ids import IdSource
from tenuto.core.request_context import RequestContext
from tenuto.machine.decisions import apply
from tenuto.machine.records import AnyRecord, Prepared, RunStarted, decode_record
from tenuto.machine.state import RunState
from tenuto.runs import live
from tenuto.runs.journal import Position
from tenuto.steps.budget import budget_of
from tenuto.steps.fold import absorb
from tenuto.steps.run import Definition, Options, Run, StepInputs
from tenuto.steps.values import validated_values
from tenuto.store.ports import ANYONE, Owner, RunRow, RunStore


class Restored(Struct, frozen=True):
    """The options of a segment.

    Attributes:
        asked: As they were given, with the call's `deps`; None when this process has only their persisted form.
        degraded: Names of those that this process does not have.
    """

    options: Options
    asked: Mapping[str, Any] | None = None
    degraded: tuple[str, ...] = ()


class Host(Struct, frozen=True):
    """What an agent brings to a run that goes on here.

    Attributes:
        options: From the run's first record to the options of this segment.
        request_context: The caller's values; they win over the stored ones.
        durable: The agent is a durable one.
        resource: Whose runs it may find, as far as the caller said.
    """

    definition: Definition
    store: RunStore
    clock: Clock
    ids: IdSource
    options: Callable[[RunStarted], Restored]
    request_context: RequestContext
    deps: Any
    durable: bool = False
    resource: Owner = ANYONE

    def __repr__(self) -> str:
        """The id alone; see `Definition`."""
        return f"Host({self.definition.id!r})"


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


async def rebuild(host: Host, row: RunRow, records: list[AnyRecord]) -> Run:
    """A run with its identity, options and thread, before any record is taken into it.

    Raises:
        ConfigurationError: The request values do not fit the agent's schema any more.
    """
    first = begun(row, records)
    restored = host.options(first)
    context = RequestContext(first.request_context or {})
    for key, value in host.request_context.entries():
        context.set(key, value)
    schema = host.definition.request_context_schema
    run = Run(
        run_id=first.run_id,
        message_id=first.message_id,
        definition=host.definition,
        options=restored.options,
        messages=(),
        request_context=context,
        clock=host.clock,
        ids=host.ids,
        asked=restored.asked,
        persisted=first.options,
        call_deps=host.deps if restored.asked is None else restored.asked.get("deps", host.deps),
        values=validated_values(schema, context, None, host.definition.id),
        degraded=restored.degraded,
        durable=row.durable,
        steerable=not host.durable,
        inputs=live.inputs_of(first.run_id) or StepInputs(),
        budget=budget_of(restored.options.cost_limit, restored.options.token_limit),
    )
    if row.thread_id is not None and row.resource_id is not None:
        from tenuto.steps.remember import memory_again

        run.memory = await memory_again(run, row.thread_id, row.resource_id, host.store)
    return run


async def read_thread(run: Run, records: list[AnyRecord]) -> None:
    """Have a run on a thread read again what it had read there, before its records are taken in."""
    prepared = next((record for record in records if isinstance(record, Prepared)), None)
    if run.memory is not None and prepared is not None and prepared.recalled is not None:
        from tenuto.steps.remember import read_again

        await read_again(run, prepared.recalled)


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
