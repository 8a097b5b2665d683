"""What steps need from the driver: the run's log, and somebody who drives the runs that its delegations start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from tenuto.core.chunks import AnyChunk
from tenuto.core.payloads import ErrorInfo, FinishReason
from tenuto.core.request_context import RequestContext
from tenuto.machine.records import AnyRecord
from tenuto.machine.state import RunState
from tenuto.store.ports import Decide, EffectRow, PendingCall, RunStatus

if TYPE_CHECKING:
    from tenuto.steps.run import Run


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


class Brief(Struct, frozen=True, kw_only=True):
    """With what a child run begins.

    Attributes:
        prompt: Its input.
        instructions: Beside the agent's own.
        max_steps: In place of the agent's own limit; None leaves that.
        wanted_steps: What the supervisor's model asks for: no more than the agent's own limit.
        context: Messages before the input, kept nowhere.
        request_context: Its own.
        key: Of the agent among its supervisor's.
    """

    prompt: str
    instructions: str | None
    max_steps: int | None
    wanted_steps: int | None
    context: Sequence[Any]
    request_context: RequestContext
    key: str


class Delegating(Struct, frozen=True):
    """A call that is a delegation: whom it asks, and the id of the run that it starts."""

    call_id: str
    tool_name: str
    child_id: str
    agent: Any


class Child(Struct, frozen=True, kw_only=True):
    """A child run as it stands.

    Attributes:
        run: With all that its journal says.
        reason: Why it ended, `suspended` while it waits for decisions; None: it is to go on.
        began: In seconds since the epoch.
        events: How many its log has.
    """

    run: Run
    reason: FinishReason | None
    began: float
    events: int


class Children(Protocol):
    """Drives the child runs of one run, under the fence of its root, and shows on its stream what they show."""

    async def find(self, call: Delegating) -> Child | None:
        """The child that an earlier entry of the call has started, if it got as far as to be stored."""
        ...

    async def start(self, call: Delegating, brief: Brief) -> Child:
        """Start a child and drive it until it has ended or waits; aborted with its parent, it has ended.

        Raises:
            StoreError: Nothing can be written any more.
            Exception: It could not be started.
        """
        ...

    async def go_on(self, call: Delegating, child: Child, decision: Decide | None) -> Child:
        """Drive a child that was found on from its journal, with the decision on a call of it; see `start`.

        One that waits for something else stays as it is.
        """
        ...
