"""The calls of the SQLite store about threads, vectors and scores that need no fence.

Invariant: what may return or look through much runs in a thread, a few messages on the thread that asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from tenuto.core.payloads import Json
from tenuto.store import sqlite_thread_reads, sqlite_threads
from tenuto.store.ports import Owner, Scope, ScoreRow, ThreadMessage, ThreadPage, ThreadRow, VectorRow
from tenuto.store.sqlite_connect import Readers
from tenuto.store.sqlite_writer import Writer
from tenuto.store.threads import ThreadQuery

OFF_LOOP_MESSAGES: Final = 64
"""A read of more messages than this goes to a thread."""


class ThreadCalls:
    """The part of `SQLiteStore` that needs nothing but its reader and its writer."""

    _readers: Readers
    _writer: Writer

    async def index(self, rows: Sequence[VectorRow]) -> int:
        """See `VectorStore.index`."""
        return await self._writer.do(lambda c, _: sqlite_threads.index(c, rows))

    async def unindex(
        self, *, resource: str, thread: str | None = None, ids: Sequence[str] | None = None, space: str | None = None
    ) -> int:
        """See `VectorStore.unindex`."""
        return await self._writer.do(lambda c, _: sqlite_threads.unindex(c, resource, thread, ids, space))

    async def thread(self, thread_id: str, *, resource: Owner) -> ThreadRow | None:
        """See `ThreadStore.thread`."""
        await self._writer.open()
        return self._readers.read(lambda c: sqlite_thread_reads.thread(c, thread_id, resource))

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
        await self._writer.open()
        asked = ThreadQuery(
            resource=resource,
            metadata=metadata or {},
            root=root,
            order_by=order_by,
            descending=descending,
            offset=offset,
            limit=limit,
        )
        return await self._readers.read_aside(lambda c: sqlite_thread_reads.threads(c, asked))

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
        await self._writer.open()
        if ids is not None:
            return await self._readers.read_aside(
                lambda c: sqlite_thread_reads.near(c, thread_id, resource, ids, around)
            )
        window, most = (after, before), (last, first)
        if min(OFF_LOOP_MESSAGES + 1 if each is None else each for each in most) <= OFF_LOOP_MESSAGES:
            return self._readers.read(lambda c: sqlite_thread_reads.messages(c, thread_id, resource, window, most))
        return await self._readers.read_aside(
            lambda c: sqlite_thread_reads.messages(c, thread_id, resource, window, most)
        )

    async def find_messages(self, ids: Sequence[str], *, resource: Owner) -> list[ThreadMessage]:
        """See `ThreadStore.find_messages`."""
        await self._writer.open()
        return await self._readers.read_aside(lambda c: sqlite_thread_reads.find_messages(c, ids, resource))

    async def vectors(
        self, *, resource: Owner, space: str, thread: str | None = None, after: int = 0, limit: int = 4096
    ) -> list[VectorRow]:
        """See `VectorStore.vectors`."""
        await self._writer.open()
        span = (after, limit)
        return await self._readers.read_aside(lambda c: sqlite_thread_reads.vectors(c, resource, space, thread, span))

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
        await self._writer.open()
        narrow, span = (scorer_id, entity_id), (offset, limit)
        return await self._readers.read_aside(lambda c: sqlite_thread_reads.scores(c, resource, run_id, narrow, span))
