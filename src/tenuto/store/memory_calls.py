"""The lock of the store in memory, and its calls about threads, vectors and scores.

Invariant: each call is one look at `Threads`, or one change of it, under that lock.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from tenuto.core.payloads import Json
from tenuto.store.memory_threads import Threads
from tenuto.store.ports import Owner, Scope, ScoreRow, ThreadMessage, ThreadPage, ThreadRow, VectorRow
from tenuto.store.rules import closed
from tenuto.store.threads import ThreadQuery

if TYPE_CHECKING:
    from types import TracebackType


class Gate:
    """The lock of an open store."""

    __slots__ = ("_lock", "closed")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.closed = False

    def __enter__(self) -> None:
        self._lock.acquire()
        if self.closed:
            self._lock.release()
            raise closed()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


class ThreadCalls:
    """The part of `InMemoryStore` that needs nothing but its threads."""

    _gate: Gate
    _threads: Threads

    async def index(self, rows: Sequence[VectorRow]) -> int:
        """See `VectorStore.index`."""
        with self._gate:
            return self._threads.index(rows)

    async def unindex(
        self, *, resource: str, thread: str | None = None, ids: Sequence[str] | None = None, space: str | None = None
    ) -> int:
        """See `VectorStore.unindex`."""
        with self._gate:
            return self._threads.unindex(resource, thread, ids, space)

    async def thread(self, thread_id: str, *, resource: Owner) -> ThreadRow | None:
        """See `ThreadStore.thread`."""
        with self._gate:
            return self._threads.thread(thread_id, resource)

    async def threads(
        self,
        *,
        resource: Owner,
        metadata: Mapping[str, Json] | None = None,
        root: Scope | None = None,
        order_by: Literal["created_at", "updated_at"] = "created_at",
        descending: bool = True,
        offset: int = 0,
        limit: int = 100,
    ) -> ThreadPage:
        """See `ThreadStore.threads`."""
        asked = ThreadQuery(
            resource=resource,
            metadata=metadata or {},
            root=root,
            order_by=order_by,
            descending=descending,
            offset=offset,
            limit=limit,
        )
        with self._gate:
            return self._threads.threads(asked)

    async def messages(
        self,
        thread_id: str,
        *,
        resource: Owner,
        last: int | None = None,
        first: int | None = None,
        after: int | None = None,
        before: int | None = None,
        ids: Sequence[str] | None = None,
        around: tuple[int, int] = (0, 0),
    ) -> list[ThreadMessage]:
        """See `ThreadStore.messages`."""
        with self._gate:
            if ids is not None:
                return self._threads.near(thread_id, resource, ids, around)
            return self._threads.messages(thread_id, resource, (after, before), (last, first))

    async def find_messages(self, ids: Sequence[str], *, resource: Owner) -> list[ThreadMessage]:
        """See `ThreadStore.find_messages`."""
        with self._gate:
            return self._threads.find_messages(ids, resource)

    async def vectors(
        self, *, resource: Owner, space: str, thread: str | None = None, after: int = 0, limit: int = 4096
    ) -> list[VectorRow]:
        """See `VectorStore.vectors`."""
        with self._gate:
            return self._threads.vectors(resource, space, thread, after, limit)

    async def scores(
        self,
        *,
        resource: Owner,
        run_id: str | None = None,
        scorer_id: str | None = None,
        entity_id: str | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> list[ScoreRow]:
        """See `ScoreStore.scores`."""
        with self._gate:
            return self._threads.scores(resource, run_id, scorer_id, entity_id, (offset, limit))
