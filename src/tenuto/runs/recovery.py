"""The sweep: finds runs whose drivers are gone and has them driven on, with a back-off for those that keep dying.

Invariant: it only ever proposes; the claim decides. A run of a newer loop, or of an agent this process does not have,
is left alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct

from tenuto.core.clock import Clock
from tenuto.core.errors import StoreError
from tenuto.machine.decisions import fold
from tenuto.runs import live
from tenuto.runs.replay import read_journal
from tenuto.store.ports import RunRow, RunStore

SWEEP_SECONDS = 5.0
"""Pause between two sweeps."""

BACKOFF_SECONDS = (0.0, 1.0, 10.0, 60.0)
"""How long a run rests before its first, second, … recovery without a completed model call; then it has failed."""

AT_ONCE = 8
"""Runs that one sweep drives on at the same time."""

_log = logging.getLogger("tenuto")


class RecoveryPolicy(Struct, frozen=True):
    """What a sweep works with; `recover` returns when the run has ended or waits."""

    store: RunStore
    clock: Clock
    loop_version: int
    recover: Callable[[RunRow], Awaitable[None]]


async def sweep(policy: RecoveryPolicy) -> None:
    """Sweep until cancelled."""
    while True:
        try:
            await sweep_once(policy)
        except StoreError:
            _log.exception("The recovery sweep could not read the store; it tries again.")
        await policy.clock.sleep(SWEEP_SECONDS)


async def sweep_once(policy: RecoveryPolicy) -> int:
    """Drive on what is due now; returns how many runs that were."""
    rows = [row for row in await policy.store.recoverable() if row.loop_version <= policy.loop_version]
    due = [row for row in rows if live.driver_of(row.run_id) is None and await _is_due(policy, row)]
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(row: RunRow) -> None:
        async with slots:
            await policy.recover(row)

    await asyncio.gather(*(one(row) for row in due))
    return len(due)


async def _is_due(policy: RecoveryPolicy, row: RunRow) -> bool:
    state = fold(await read_journal(policy.store, row))
    rest = BACKOFF_SECONDS[min(state.recoveries, len(BACKOFF_SECONDS) - 1)]
    return policy.clock.now() - (row.updated_at or 0.0) >= rest
