"""Threads in a store: found by their owner, changed by compare-and-set, and edited by who holds them.

Invariant: every function takes the owner, and refuses a thread of another (`AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`);
messages change only under the claim of their thread, after the runs that were there first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from tenuto.core.clock import Clock
from tenuto.core.errors import RunError, StoreError
from tenuto.core.payloads import wire_name
from tenuto.messages.stored import timestamp
from tenuto.store.holding import check_free_for_me
from tenuto.store.owners import owner_id
from tenuto.store.ports import ANYONE, Fence, RunStore, ThreadEdit, ThreadRow

EDIT_WAIT_SECONDS = 30.0
"""How long an edit waits for a run that holds the thread."""

RECOVERED_SECONDS = 0.1
"""How often it looks whether somebody has begun to recover a run."""


class Thread(Struct, frozen=True, rename=wire_name):
    """A thread, as a memory shows it; times in UTC."""

    id: str
    resource_id: str
    title: str | None
    metadata: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime

    def to_dict(self) -> dict[str, Any]:
        """Plain values: camelCase names, times in ISO 8601."""
        return to_builtins(self)


def shown(row: ThreadRow) -> Thread:
    """The thread of a row."""
    return Thread(
        row.id,
        row.resource,
        row.title,
        row.metadata,
        timestamp(row.created_at or 0.0),
        timestamp(row.updated_at or 0.0),
    )


async def find(store: RunStore, thread_id: str, resource: str) -> ThreadRow | None:
    """The thread; None when there is none.

    Raises:
        RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`.
    """
    row = await store.thread(thread_id, resource=ANYONE)
    if row is not None and row.resource != resource:
        raise mismatch(thread_id)
    return row


async def found(store: RunStore, thread_id: str, resource: str) -> ThreadRow:
    """The thread.

    Raises:
        RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`, `MEMORY_THREAD_NOT_FOUND`.
    """
    row = await find(store, thread_id, resource)
    if row is None:
        message = f"There is no thread {thread_id!r}; create_thread makes one, and so does the first run on it."
        raise RunError(message, id="MEMORY_THREAD_NOT_FOUND", domain="MEMORY", category="USER")
    return row


async def change(
    store: RunStore, thread_id: str, resource: str, changed: Callable[[ThreadRow | None], ThreadRow | None]
) -> ThreadRow | None:
    """Replace title and metadata of a thread by what `changed` makes of the row as it is, however many try at once.

    Returns:
        The row as it is then; what was there when `changed` returned None.

    Raises:
        RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`.
    """
    while True:
        row = await find(store, thread_id, resource)
        after = changed(row)
        if after is None or after == row:
            return row
        try:
            if await store.swap(after, 0 if row is None else row.version):
                return await found(store, thread_id, resource)
        except StoreError as error:
            raise translated(error, thread_id) from error


async def edit(store: RunStore, clock: Clock, edit: ThreadEdit) -> ThreadRow | None:
    """Carry out an edit as the holder of its thread, which a run that is there first keeps until it ends or waits.

    A durable run whose process is gone counts as there: whoever recovers it goes first.

    Raises:
        RunError: `THREAD_HELD_BY_ANCESTOR`; `MEMORY_THREAD_BUSY`; `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`.
    """
    row = await find(store, edit.thread.id, edit.thread.resource)
    if row is not None and row.root is not None and edit.thread.root is None:
        edit = replace(edit, thread=replace(edit.thread, root=row.root))
    fence = await _claimed(store, clock, edit)
    try:
        return await store.edit(fence, edit)
    except StoreError as error:
        raise translated(error, edit.thread.id) from error
    finally:
        await store.release(fence)


async def _claimed(store: RunStore, clock: Clock, edit: ThreadEdit) -> Fence:
    scope, owner = edit.thread.scope, owner_id()
    check_free_for_me(scope)
    give_up = clock.monotonic() + EDIT_WAIT_SECONDS
    while True:
        try:
            fence = await store.claim(scope, owner)
        except StoreError as error:
            raise translated(error, edit.thread.id) from error
        if isinstance(fence, Fence) and fence.unfinished is None:
            return fence
        left = give_up - clock.monotonic()
        if isinstance(fence, Fence):
            await store.release(fence)
            if left <= 0:
                raise _busy(
                    edit, f"Run {fence.unfinished!r} of a process that is gone", "after recover(run_id), or abort it"
                )
            await clock.sleep(min(left, RECOVERED_SECONDS))
            continue
        if left <= 0:
            raise _busy(edit, "A run", "when it ends")
        lease = max(fence.expires_at - clock.now(), 0.05)
        await store.freed(scope, min(left, lease), owner=owner)


def _busy(edit: ThreadEdit, who: str, when: str) -> RunError:
    message = f"{who} holds thread {edit.thread.id!r}, for {EDIT_WAIT_SECONDS:.0f} s already; try again {when}."
    return RunError(message, id="MEMORY_THREAD_BUSY", domain="MEMORY", category="USER")


def mismatch(thread_id: str) -> RunError:
    """The thread is somebody else's."""
    message = f"Thread {thread_id!r} belongs to another resource; a thread has one owner for good."
    return RunError(message, id="AGENT_MEMORY_THREAD_RESOURCE_MISMATCH", domain="AGENT", category="USER")


def translated(error: StoreError, thread_id: str) -> Exception:
    """What the store refused, in the words of a memory."""
    return mismatch(thread_id) if error.id == "THREAD_RESOURCE_MISMATCH" else error
