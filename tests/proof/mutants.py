"""Faults that the proof has to notice: each takes one guarantee out of the runtime, in a child only.

Invariant: the source has no switch for them; `PROOF_MUTANT` names one, and this module puts it in place of what is
right.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from tenuto.runs import journal, segments
from tenuto.steps import tool_step
from tenuto.store import sqlite_owner
from tenuto.store.ports import Fence
from tenuto.store.sqlite_rows import SQL

VARIABLE = "PROOF_MUTANT"


def _no_fence_check() -> None:
    """Whoever has ever claimed a scope may write to it: the epoch of a commit is not looked at."""
    owner = sqlite_owner.Transaction

    def current(transaction: sqlite_owner.Transaction, fence: Fence) -> Fence:
        place = sqlite_owner.place_of(fence.scope)
        lease = transaction._execute(sqlite_owner.SQL["lease"], place).fetchone()
        return fence if lease is None else replace(fence, epoch=lease[1])

    commit, append = owner.commit, owner.append
    owner.commit = lambda self, fence, prepared: commit(self, current(self, fence), prepared)
    owner.append = lambda self, fence, prepared: append(self, current(self, fence), prepared)


def _epoch_not_bumped() -> None:
    """A claim takes the scope under the epoch of the holder before it."""
    claim = sqlite_owner.Transaction.claim

    def kept(self, scope, owner, run, expect):
        place = sqlite_owner.place_of(scope)
        lease = self._execute(sqlite_owner.SQL["lease"], place).fetchone()
        fence = claim(self, scope, owner, run, expect)
        if lease is None or not isinstance(fence, Fence):
            return fence
        self._execute("UPDATE leases SET epoch = ? WHERE epoch = ?", (lease[1], fence.epoch))
        return replace(fence, epoch=lease[1])

    sqlite_owner.Transaction.claim = kept


def _intent_after_effect() -> None:
    """The body runs first, and that it began is stored with its outcome."""
    entry = tool_step._Entry
    begin, end, body = entry._begin, entry._end, entry._body

    async def late_body(self):
        self._postponed = True
        await body(self)

    async def late_begin(self, key=None):
        if not getattr(self, "_postponed", False):
            await begin(self, key)

    async def late_end(self, outcome, **more):
        if getattr(self, "_postponed", False):
            await begin(self, self._key)
        await end(self, outcome, **more)

    entry._begin, entry._body, entry._end = late_begin, late_body, late_end


def _publish_before_commit() -> None:
    """Viewers are shown a chunk first, then it is stored."""
    log = journal.Journal

    async def commit(self, *records, chunks=(), status=None, error=None, pending=(), effects=()):
        async with self._lock:
            for record in records:
                self.note(record)
            self._index(chunks, keep=self._kept or bool(pending))
            if chunks and (shown := self._show(list(chunks))) is not None:
                await shown
            interrupted = await self._flush(status, error, tuple(pending), tuple(effects))
            if interrupted is not None:
                raise interrupted

    log._commit = commit


def _sweep_recovers_children() -> None:
    """The sweep takes child runs up like any other."""
    SQL["running"] = SQL["running"].replace("AND runs.parent_id IS NULL", "")
    check = sqlite_owner.check_claimed

    def unchecked(scope, run, known, expect):
        check(scope, run and replace(run, parent_id=None), known and replace(known, parent_id=None), expect)

    sqlite_owner.check_claimed = unchecked
    segments._check_root = lambda row: None


MUTANTS: Mapping[str, Callable[[], None]] = {
    "no-fence-check": _no_fence_check,
    "epoch-not-bumped": _epoch_not_bumped,
    "intent-after-effect": _intent_after_effect,
    "publish-before-commit": _publish_before_commit,
    "sweep-recovers-children": _sweep_recovers_children,
}


def apply() -> None:
    """Put the fault in place that the environment names, if it names one."""
    name = os.environ.get(VARIABLE)
    if name:
        MUTANTS[name]()
