"""What steps need from the driver: the run's log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tenuto.core.chunks import AnyChunk
from tenuto.core.payloads import ErrorInfo
from tenuto.machine.records import AnyRecord
from tenuto.machine.state import RunState
from tenuto.store.ports import EffectRow, PendingCall, RunStatus


class RunLog(Protocol):
    """The append-only log of one run; the only way a step changes anything that outlives it."""

    @property
    def state(self) -> RunState:
        """The state after every record given so far."""
        ...

    @property
    def next_event(self) -> int:
        """The index that the next chunk will get."""
        ...

    @property
    def kept(self) -> bool:
        """Whether another process can take the run up: it is durable, or a call of it has waited for a decision."""
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
        pending: Sequence[PendingCall] = (),
        effects: Sequence[EffectRow] = (),
    ) -> None:
        """Store all that is given in one transaction, then show the chunks to viewers.

        Cancelled, it still stores and shows, and then raises.

        Raises:
            StaleLease: Another owner drives the run now; nothing was stored or shown.
        """
        ...

    async def effect(self, key: str) -> EffectRow | None:
        """The ledger entry of an effect, whatever run it comes from."""
        ...

    def late(self, effect: EffectRow) -> None:
        """Replace a ledger entry after its call had its outcome, if the run is still open; never waits."""
        ...

    async def stream(self, chunks: Sequence[AnyChunk], *, deltas: int) -> None:
        """Add chunks while a model speaks; if all of them are deltas they are shown at once and stored soon."""
        ...
