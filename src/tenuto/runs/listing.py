"""Lists an agent's runs from the store: those that wait for a decision, and those that are driven.

Invariant: only runs of the agent asked, never one that a supervisor's call started; the total counts them before they
are divided into pages.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tenuto.core.errors import ConfigurationError
from tenuto.core.payloads import wire_name
from tenuto.steps.results import PendingCall
from tenuto.store.ports import ANYONE, Owner, RunRow, RunStatus, RunStore

SCAN = 10_000
"""Rows looked at, at the most."""


class SuspendedRun(Struct, frozen=True, rename=wire_name):
    """A run that waits; `suspended_at` in seconds since the epoch."""

    run_id: str
    thread_id: str | None
    resource_id: str | None
    suspended_at: float | None
    tool_calls: tuple[PendingCall, ...]
    status: str = "suspended"


class SuspendedRuns(Struct, frozen=True, rename=wire_name):
    """A page of them."""

    runs: tuple[SuspendedRun, ...]
    total: int


class ActiveRun(Struct, frozen=True, rename=wire_name):
    """A run that is driven, or was when its process ended; `updated_at` in seconds since the epoch."""

    run_id: str
    thread_id: str | None
    resource_id: str | None
    updated_at: float | None
    status: str = "running"


class ActiveRuns(Struct, frozen=True, rename=wire_name):
    """A page of them."""

    runs: tuple[ActiveRun, ...]
    total: int


class RecoveredRun(Struct, frozen=True, rename=wire_name):
    """What became of one run; `status` is `success` or `failed`, with the error's id and text."""

    run_id: str
    status: str
    error: str | None = None
    error_id: str | None = None


class Recovered(Struct, frozen=True, rename=wire_name):
    """What `recover_active_runs` did."""

    recovered: tuple[RecoveredRun, ...]
    succeeded: int
    failed: int


async def list_suspended(
    store: RunStore,
    agent_id: str,
    *,
    thread: str | None = None,
    resource: str | None = None,
    per_page: int | None,
    page: int | None,
) -> SuspendedRuns:
    """The suspended runs of an agent, newest first; of one thread or one resource only, where those are named.

    Raises:
        ConfigurationError: `per_page` or `page` is out of range.
    """
    _check_page(per_page, page, "AGENT_LIST_SUSPENDED_RUNS")
    rows = await _rows(store, agent_id, "suspended", ANYONE if resource is None else resource)
    rows = [row for row in rows if thread is None or row.thread_id == thread]
    return SuspendedRuns(tuple([await _suspended(store, row) for row in _paged(rows, per_page, page)]), len(rows))


async def list_active(store: RunStore, agent_id: str, *, per_page: int | None, page: int | None) -> ActiveRuns:
    """The running runs of an agent, newest first.

    Raises:
        ConfigurationError: `per_page` or `page` is out of range.
    """
    _check_page(per_page, page, "DURABLE_AGENT_LIST_ACTIVE_RUNS")
    rows = await _rows(store, agent_id, "running", ANYONE)
    shown = (
        ActiveRun(row.run_id, row.thread_id, row.resource_id, row.updated_at) for row in _paged(rows, per_page, page)
    )
    return ActiveRuns(tuple(shown), len(rows))


async def _rows(store: RunStore, agent_id: str, status: RunStatus, resource: Owner) -> list[RunRow]:
    found = await store.runs(resource=resource, status=status, limit=SCAN)
    rows = [row for row in found if row.agent_id == agent_id and row.parent_id is None]
    return sorted(rows, key=lambda row: (-(row.updated_at or 0.0), row.run_id))


async def _suspended(store: RunStore, row: RunRow) -> SuspendedRun:
    pending = await store.pending(row.run_id, resource=row.resource_id)
    calls = tuple(
        PendingCall(each.call_id, each.tool_name, each.args, each.kind, each.suspend_payload, each.resume_schema)
        for each in pending
    )
    return SuspendedRun(row.run_id, row.thread_id, row.resource_id, row.updated_at, calls)


def _paged(rows: list[RunRow], per_page: int | None, page: int | None) -> list[RunRow]:
    if per_page is None or page is None:
        return rows
    return rows[page * per_page : (page + 1) * per_page]


def _check_page(per_page: Any, page: Any, prefix: str) -> None:
    if per_page is not None and (not isinstance(per_page, int) or per_page < 1):
        raise ConfigurationError(
            f"per_page= must be a whole number from 1, not {per_page!r}.", id=f"{prefix}_INVALID_PER_PAGE"
        )
    if page is not None and (not isinstance(page, int) or page < 0):
        message = f"page= must be a whole number from 0, not {page!r}."
        raise ConfigurationError(message, id=f"{prefix}_INVALID_PAGE")
