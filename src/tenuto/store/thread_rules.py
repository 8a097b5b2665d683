"""What every store refuses of threads and child runs, and the words it does so with.

Invariant: nothing here changes anything; see `rules`.
"""

from __future__ import annotations

from msgspec.structs import replace

from tenuto.core.errors import StoreError
from tenuto.store.ports import TERMINAL_STATUS, RunRow, Scope, ThreadEdit, ThreadRow, Write
from tenuto.store.rules import elsewhere


def check_owned(thread_id: str, resource: str | None, known: str | None) -> None:
    """Whether a thread that belongs to the resource `known` (None: there is no such thread) may be `resource`'s.

    Raises:
        StoreError: `THREAD_RESOURCE_MISMATCH`.
    """
    if known is not None and known != resource:
        message = f"Thread {thread_id!r} belongs to another resource than {resource!r}; give it another id."
        raise StoreError(
            message, id="THREAD_RESOURCE_MISMATCH", category="USER", details={"thread": thread_id, "resource": resource}
        )


def check_written(fence: Scope, thread: ThreadRow) -> None:
    """Whether messages of the thread are written in the scope of the fence.

    Raises:
        StoreError: `THREAD_NOT_IN_SCOPE`.
    """
    if thread.scope != fence:
        scope = thread.scope
        message = f"Thread {thread.id!r} is written in {scope.kind} {scope.id!r}, not in {fence.kind} {fence.id!r}."
        raise StoreError(message, id="THREAD_NOT_IN_SCOPE")


def written_thread(write: Write, run: RunRow, known: ThreadRow | None) -> ThreadRow:
    """The thread a run writes messages to, as it is stored (`known`) or to be made.

    Raises:
        StoreError: See `RunStore.commit`.
    """
    asked = write.thread
    if asked is not None and asked.id != run.thread_id:
        message = f"Run {run.run_id!r} writes to thread {run.thread_id!r}, not to {asked.id!r}."
        raise StoreError(message, id="WRITE_MIXES_RUNS")
    thread = known or asked
    if thread is None:
        message = f"There is no thread {run.thread_id!r} for the messages of run {run.run_id!r}; add its row."
        raise StoreError(message, id="THREAD_NOT_FOUND")
    check_owned(thread.id, run.resource_id, thread.resource)
    check_written(run.scope, thread)
    return thread


def check_edit(edit: ThreadEdit, fence: Scope, known: ThreadRow | None, source: ThreadRow | None) -> None:
    """Whether the owner of `fence` may do it, given the thread and the one to copy from as they are stored.

    Raises:
        StoreError: See `ThreadStore.edit`.
    """
    thread = edit.thread
    check_owned(thread.id, thread.resource, None if known is None else known.resource)
    check_written(fence, known or thread)
    if edit.copy is None:
        return
    if known is not None:
        message = f"There is a thread {thread.id!r} already; copy into another id."
        raise StoreError(message, id="THREAD_EXISTS", category="USER")
    if source is None or source.resource != edit.copy.resource:
        message = f"{edit.copy.resource!r} has no thread {edit.copy.thread!r} to copy from."
        raise StoreError(message, id="THREAD_NOT_FOUND", category="USER")


def makes_thread(edit: ThreadEdit) -> bool:
    """Whether the edit makes a thread that does not exist."""
    return not edit.delete and (not edit.drop or bool(edit.messages) or edit.copy is not None)


def check_child(write: Write, scope: Scope, parent: RunRow | None, *, known: bool) -> None:
    """Whether `write.run` may be added as a child of `parent`.

    Raises:
        StoreError: See `RunStore.commit`.
    """
    child = write.run
    if child is None:
        return
    if child.run_id != write.run_id:
        message = f"A write of run {write.run_id!r} would add run {child.run_id!r}; commit that with its own records."
        raise StoreError(message, id="WRITE_MIXES_RUNS")
    if known:
        message = f"There is a run {child.run_id!r} already; take another run_id."
        raise StoreError(message, id="RUN_EXISTS", category="USER")
    if child.scope != scope:
        raise elsewhere(child.run_id, scope)
    if parent is None or parent.status in TERMINAL_STATUS:
        status = "unknown" if parent is None else parent.status
        message = f"Run {child.parent_id!r} is {status}; no child can be added to it."
        raise StoreError(message, id="RUN_NOT_OPEN")
    if parent.scope != scope:
        raise elsewhere(parent.run_id, scope)


def as_child(child: RunRow, parent: RunRow | None) -> RunRow:
    """The row of a child as it is added: in the tree of its parent, and its resource's unless it has one of its own."""
    if parent is None:
        return child
    resource = parent.resource_id if child.resource_id is None else child.resource_id
    return replace(child, root_id=parent.root_id, resource_id=resource)
