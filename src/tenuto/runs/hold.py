"""What a driver holds of a run's scope: the claim of a new run, the turn on its thread, and the mark around its code.

Invariant: the turn is given on after the scope was released, once; a run that is aborted before its turn has come
leaves the thread alone and ends by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenuto.core import faults
from tenuto.core.errors import RunError, StoreError
from tenuto.machine.records import LOOP_VERSION
from tenuto.runs import live
from tenuto.runs.turns import Line, Settle, Wish, take_turn
from tenuto.store.holding import Holding, around
from tenuto.store.ports import Fence, HeldBy, RunRow, RunStore

if TYPE_CHECKING:
    from tenuto.memory.bound import RunMemory
    from tenuto.runs.work import Work
    from tenuto.steps.run import Run


class Hold:
    """Of one driver.

    Args:
        store: Where the run is kept.
        owner: The driver, to the store.
        line: Of the thread of a run that goes on, whose turn it has.
    """

    __slots__ = ("_around", "_line", "_owner", "_store")

    def __init__(self, store: RunStore, owner: str, line: Line | None) -> None:
        self._store = store
        self._owner = owner
        self._line = line
        self._around: Holding | None = None

    async def take(self, run: Run, work: Work, settle: Settle | None) -> Fence:
        """Claim the scope of a new run, its thread when its turn has come.

        Raises:
            RunError: `RUN_HELD`, or the thread cannot be waited for; see `take_turn`.
        """
        fence: Fence | None = None
        if run.memory is not None and run.memory.writes:
            fence = await self._next_on_thread(run, run.memory, work, settle)
        fence = fence or await self._alone(run)
        self.enter(fence)
        faults.hit("run.after_claim")
        return fence

    def enter(self, fence: Fence) -> None:
        """What this task does from now on is inside a run that holds the scope."""
        self._around = around.enter(fence.scope)

    async def give_back(self, fence: Fence) -> None:
        """Give the scope back, and the turn on the thread to whoever is next."""
        faults.hit("run.before_release")
        try:
            await self._store.release(fence)
        finally:
            line, self._line = self._line, None
            if self._around is not None:
                self._around.active = False
            if line is not None:
                line.give()

    async def _next_on_thread(self, run: Run, memory: RunMemory, work: Work, settle: Settle | None) -> Fence | None:
        from tenuto.memory.threads import mismatch

        taken: list[tuple[Fence, Line]] = []

        async def take() -> None:
            wish = Wish(self._store, self._owner, new_row(run), settle, run.clock)
            try:
                taken.append(await take_turn(live.process.get().lines, wish))
            except StoreError as error:
                if error.id == "THREAD_RESOURCE_MISMATCH":
                    raise mismatch(memory.thread) from error
                raise

        await work.alone(take(), lambda: not taken)
        if not taken:
            run.memory = memory.apart()
            return None
        fence, self._line = taken[0]
        return fence

    async def _alone(self, run: Run) -> Fence:
        row = new_row(run)
        fence = await self._store.claim(row.scope, self._owner, run=row)
        if isinstance(fence, HeldBy):
            message = f"Run {row.run_id!r} is driven by {fence.owner}; it cannot be started here."
            raise RunError(message, id="RUN_HELD")
        return fence


def new_row(run: Run) -> RunRow:
    """The row of a run that begins."""
    return RunRow(
        run_id=run.run_id,
        agent_id=run.definition.id,
        scope=run.scope,
        durable=run.durable,
        thread_id=run.thread_id,
        resource_id=run.resource_id,
        loop_version=LOOP_VERSION,
    )
