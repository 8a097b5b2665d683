"""What steps need from the driver: the run's log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tenuto.core.chunks import AnyChunk
from tenuto.core.payloads import ErrorInfo
from tenuto.machine.records import AnyRecord
from tenuto.machine.state import RunState
from tenuto.store.ports import RunStatus


class RunLog(Protocol):
    """The append-only log of one run; the only way a step changes anything that outlives it."""

    @property
    def state(self) -> RunState:
        """The state after every record given so far."""
        ...

    def note(self, record: AnyRecord) -> None:
        """Apply a record now and store it with the next commit: for facts that may be lost and found again."""
        ...

    async def commit(
        self,
        *records: AnyRecord,
        chunks: Sequence[AnyChunk] = (),
        status: RunStatus | None = None,
        error: ErrorInfo | None = None,
    ) -> None:
        """Store records, chunks and status in one transaction, then show the chunks to viewers.

        Raises:
            StaleLease: Another owner drives the run now; nothing was stored or shown.
        """
        ...

    async def stream(self, chunks: Sequence[AnyChunk], *, deltas: int) -> None:
        """Add chunks while a model speaks; if all of them are deltas they are shown at once and stored soon."""
        ...
