"""What is begun once a run's result is out: its scores, its thread's title, notes of what has become old there.

Invariant: nobody waits for any of it but who asks to, and nothing in it reaches the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenuto.runs.scoring import Aside, begin_scoring

if TYPE_CHECKING:
    from tenuto.core.payloads import FinishReason
    from tenuto.steps.run import Run
    from tenuto.store.ports import RunStore


def begin_afterwards(run: Run, reason: FinishReason, store: RunStore, aside: Aside) -> None:
    """Have all of it done by `aside`."""
    if run.scorers and run.tripwire is None and reason not in {"aborted", "error"}:
        begin_scoring(run, store, aside)
    if run.memory is not None:
        from tenuto.runs.compacting import begin_compaction
        from tenuto.runs.titling import begin_title

        begin_title(run, reason, aside)
        begin_compaction(run, run.memory, aside)
