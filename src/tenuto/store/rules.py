"""What every store refuses, and the words it does so with.

Invariant: nothing here changes anything; the stores look up what is stored, ask these rules, and only then write.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from tenuto.core import codec
from tenuto.core.errors import StaleLease, StoreError
from tenuto.store.ports import (
    TERMINAL_STATUS,
    AbortRequest,
    Decide,
    EffectRow,
    Fence,
    Inbox,
    PendingCall,
    Post,
    RunRow,
    RunStatus,
    Scope,
    Write,
)

_S = TypeVar("_S", bound=Struct)


def encoded(value: object) -> bytes:
    """The JSON of `value`.

    Raises:
        StoreError: `STORE_NOT_JSON`.
    """
    try:
        return codec.encode(value)
    except TypeError as error:
        raise StoreError(f"Nothing was stored: {error}", id="STORE_NOT_JSON", category="USER") from error


def copied(value: _S) -> _S:
    """What JSON keeps of `value`.

    Raises:
        StoreError: `STORE_NOT_JSON`.
    """
    return msgspec.json.decode(encoded(value), type=type(value))


def address(item: Post) -> tuple[Scope | str, str]:
    """The queue of a post, and its unique key there."""
    match item:
        case Inbox():
            return item.scope, item.id
        case Decide():
            return item.run_id, f"decide {item.attempt} {item.call_id}"
        case AbortRequest():
            return item.run_id, "abort"


def answers(item: Decide, call: PendingCall | None) -> bool:
    """Whether the decision is about this call as it waits now."""
    if call is None or call.closed:
        return False
    return (call.args_hash, call.attempt) == (item.args_hash, item.attempt)


def answered(posts: Iterable[Post], pending: Iterable[PendingCall]) -> bool:
    """Whether a suspended run with these open calls can go on."""
    calls = {call.call_id: call for call in pending}
    return any(
        isinstance(post, AbortRequest) or (isinstance(post, Decide) and answers(post, calls.get(post.call_id)))
        for post in posts
    )


def check_claimed(scope: Scope, run: RunRow | None, known: RunRow | None, expect: RunStatus | None) -> None:
    """Whether `run` may start (again) in `scope`, given the row that is stored under its id.

    Raises:
        StoreError: See `RunStore.claim`.
    """
    if run is None:
        return
    if run.scope != scope or run.parent_id is not None or (known is not None and known.parent_id is not None):
        raise elsewhere(run.run_id, scope)
    if expect is None and known is not None:
        message = f"There is a run {run.run_id!r} already; take another run_id."
        raise StoreError(message, id="RUN_EXISTS", category="USER")
    if expect is not None:
        mine = known is not None and (known.scope, known.resource_id) == (scope, run.resource_id)
        status = known.status if known is not None and mine else None
        if status != expect or status in TERMINAL_STATUS:
            raise status_changed(run.run_id, status, expect)


def check_open(
    fence: Fence, write: Write, scope: Scope | None, status: RunStatus | None, parent: RunStatus | None = None
) -> None:
    """Whether the owner may write to the run, given the scope and status of its row (None: no such row).

    Args:
        fence: Of the owner.
        write: What is to be stored.
        scope: Of the run.
        status: Of the run.
        parent: The status of the run's parent, if it has one: a child is woken by a write.

    Raises:
        StoreError: `RUN_NOT_IN_SCOPE`, `RUN_NOT_OPEN`, `RUN_STATUS_CHANGED`, `WRITE_MIXES_RUNS`.
    """
    run_id = write.run_id
    if scope is not None and scope != fence.scope:
        raise elsewhere(run_id, fence.scope)
    if status is None or status in TERMINAL_STATUS:
        message = f"Run {run_id!r} is {status or 'unknown'}; nothing can be added to it."
        raise StoreError(message, id="RUN_NOT_OPEN")
    if write.status == "running" != status and parent != "running":
        raise status_changed(run_id, status, "running")
    if {part.run_id for part in (*write.pending, *write.effects)} - {run_id}:
        message = f"A write of run {run_id!r} holds calls or effects of another run; commit them there."
        raise StoreError(message, id="WRITE_MIXES_RUNS")


def check_order(write: Write, *, durable: bool, seq: int, events: int) -> None:
    """Whether records and events go on from the counts of what is stored.

    Raises:
        StoreError: `STORE_OUT_OF_ORDER`.
    """
    first = write.first_seq
    if write.keep and not durable:
        if first or len(write.records) < seq:
            message = (
                f"Run {write.run_id!r} was not kept so far and has {seq} records; the write that keeps it must hold "
                f"all of them, and this one holds {len(write.records)} from {first} on."
            )
            raise StoreError(message, id="STORE_OUT_OF_ORDER")
        events = max(events, write.events[0].index) if write.events else events
    elif write.records and first != seq:
        message = f"Run {write.run_id!r} has {seq} records; these would start at {first}."
        raise StoreError(message, id="STORE_OUT_OF_ORDER")
    for place, event in enumerate(write.events, events):
        if event.index != place:
            message = f"Run {write.run_id!r} has no event {place}; the event given is {event.index}."
            raise StoreError(message, id="STORE_OUT_OF_ORDER")


EffectStatus = Literal["intended", "ok", "failed", "unknown"]


def check_effect(effect: EffectRow, status: EffectStatus | None, run_id: str, call_id: str) -> None:
    """Whether `effect` may replace the entry of its key that is stored in this status by that call.

    Raises:
        StoreError: `EFFECT_TAKEN`.
    """
    if effect.status != "intended" or status not in {"intended", "ok"}:
        return
    if (run_id, call_id) != (effect.run_id, effect.call_id):
        by = f"call {call_id!r} of run {run_id!r}"
        message = f"The effect {effect.key!r} is {status} by {by}; take its outcome, or settle it first."
        raise StoreError(message, id="EFFECT_TAKEN")


def closed() -> StoreError:
    """The store was closed."""
    return StoreError("This store is closed; open a new one.", id="STORE_CLOSED")


def stale(fence: Fence) -> StaleLease:
    """The fence holds nothing."""
    message = (
        f"Epoch {fence.epoch} of {fence.scope.kind} {fence.scope.id!r} is over: released, or claimed by another owner."
    )
    return StaleLease(message, details={"scope": fence.scope.id, "epoch": fence.epoch})


def elsewhere(run_id: str, scope: Scope) -> StoreError:
    """The run writes to another scope than this."""
    message = f"Run {run_id!r} does not write to {scope.kind} {scope.id!r}; claim the scope of its row."
    return StoreError(message, id="RUN_NOT_IN_SCOPE")


def status_changed(run_id: str, status: RunStatus | None, expect: RunStatus) -> StoreError:
    """The run cannot go on as `expect`."""
    message = (
        f"Run {run_id!r} is {status or 'unknown'}; only a suspended or running one can go on, and {expect} was asked."
    )
    return StoreError(message, id="RUN_STATUS_CHANGED", details={"status": status})
