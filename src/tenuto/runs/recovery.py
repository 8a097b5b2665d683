"""The sweep: finds runs whose drivers are gone and has them driven on, with a back-off for those that keep dying.

Invariant: it only ever proposes; the claim decides. A run of a newer loop, or of an agent this process does not have,
is left alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from tenuto.core.clock import Clock
from tenuto.core.errors import StoreError, TenutoError
from tenuto.machine.decisions import fold
from tenuto.runs import live
from tenuto.runs.replay import read_journal
from tenuto.store.ports import RunRow, RunStore

SWEEP_SECONDS = 5.0
"""Pause between two sweeps."""

BACKOFF_SECONDS = (0.0, 1.0, 10.0, 60.0)
"""How long a run rests before its first, second, … recovery without a completed model call; then it has failed."""

AT_ONCE = 32
"""Runs that the sweep drives on at the same time."""

SCAN = 10_000
"""Runs without a driver that one sweep looks at, at the most: those it cannot take must not hide the others."""

_log = logging.getLogger("tenuto")


class RecoveryPolicy(Struct, frozen=True):
    """What a sweep works with; `recover` returns when the run has ended or waits.

    Attributes:
        agent_ids: Whose runs this process can drive.
        answered: Suspended runs that the last sweep found with an answer: who gave it may be about to drive them on.
        unreadable: Runs whose journals could not be read when they were last looked at.
    """

    store: RunStore
    clock: Clock
    loop_version: int
    agent_ids: frozenset[str]
    recover: Callable[[RunRow], Awaitable[None]]
    answered: set[str] = field(default_factory=set[str])
    unreadable: set[str] = field(default_factory=set[str])


async def sweep(policy: RecoveryPolicy) -> None:
    """Sweep until cancelled; a recovery that takes long, or fails, keeps no other run waiting for the next sweep."""
    slots = asyncio.Semaphore(AT_ONCE)
    begun: set[str] = set()

    async def drive_on(row: RunRow) -> None:
        try:
            async with slots:
                await policy.recover(row)
        except Exception:  # noqa: BLE001 - the sweep serves the other runs, too
            _log.exception("Recovering run %s failed; it is tried again.", row.run_id)
        finally:
            begun.discard(row.run_id)

    async with asyncio.TaskGroup() as group:
        while True:
            for row in await due(policy):
                if row.run_id not in begun:
                    begun.add(row.run_id)
                    group.create_task(drive_on(row))
            await policy.clock.sleep(SWEEP_SECONDS)


async def due(policy: RecoveryPolicy) -> list[RunRow]:
    """The runs to drive on now; none when the store cannot tell."""
    try:
        found = await policy.store.recoverable(limit=SCAN)
    except StoreError:
        _log.exception("The recovery sweep could not read the store; it tries again.")
        return []
    rows = [row for row in found if row.loop_version <= policy.loop_version and row.agent_id in policy.agent_ids]
    rested = [row for row in rows if live.driver_of(row.run_id) is None and await _is_due(policy, row)]
    policy.answered.clear()
    policy.answered.update(row.run_id for row in rows if row.status == "suspended")
    return rested


async def _is_due(policy: RecoveryPolicy, row: RunRow) -> bool:
    if row.status == "suspended" and row.run_id not in policy.answered:
        return False
    try:
        state = fold(await read_journal(policy.store, row))
    except TenutoError as error:
        if row.run_id not in policy.unreadable:
            _log.warning("Run %s is left alone: its journal cannot be read (%s).", row.run_id, error)
            policy.unreadable.add(row.run_id)
        return False
    policy.unreadable.discard(row.run_id)
    rest = BACKOFF_SECONDS[min(state.recoveries, len(BACKOFF_SECONDS) - 1)]
    return policy.clock.now() - (row.updated_at or 0.0) >= rest
