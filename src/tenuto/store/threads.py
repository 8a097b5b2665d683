"""The port of threads: conversations of a resource, their messages in one order, and who may change them.

Invariant: a thread belongs to one resource for good, and its id to no second thread; every call that names it with
another resource is refused (`THREAD_RESOURCE_MISMATCH`) or finds nothing. Its messages are ordered by `seq` and nothing
else: a message keeps its seq when it is replaced, and no seq is given twice, also after messages were dropped.

Messages are written by the owner of the scope of their thread: a run's `Write`, or an `edit` outside any run. Title and
metadata are anyone's to `swap`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeVar

from msgspec import Struct

from tenuto.core.payloads import Json
from tenuto.messages.stored import Message
from tenuto.store.scopes import Fence, Owner, Scope

_Row = TypeVar("_Row")


class ThreadRow(Struct, frozen=True, kw_only=True):
    """One thread. Times in seconds since the epoch: `created_at` set by the store when None, `updated_at` always.

    Attributes:
        version: Of title and metadata, which `swap` replaces; 1 when it is made. Messages do not change it.
        messages: The seq its next message will get; set by the store.
        root: The scope its messages are written in, when that is not its own: of the run at the top of the tree that a
            sub-agent's thread belongs to. It goes when the thread of that scope goes.
    """

    id: str
    resource: str
    title: str | None = None
    metadata: Mapping[str, Json] = {}
    created_at: float | None = None
    updated_at: float | None = None
    version: int = 0
    messages: int = 0
    root: Scope | None = None

    @property
    def scope(self) -> Scope:
        """What is claimed to write messages to it."""
        return self.root or Scope("thread", self.id, self.resource)


class ThreadMessage(Struct, frozen=True):
    """A message in its place; the store fills in the `thread_id` and `resource_id` of the message."""

    seq: int
    message: Message


class ThreadPage(Struct, frozen=True):
    """Some of the threads that were asked for, and how many there are in all."""

    threads: tuple[ThreadRow, ...]
    total: int


class ThreadQuery(Struct, frozen=True, kw_only=True):
    """The arguments of `ThreadStore.threads`."""

    resource: Owner
    metadata: Mapping[str, Json]
    root: Scope | None
    order_by: Literal["created_at", "updated_at"]
    descending: bool
    offset: int
    limit: int

    def page(self, rows: Sequence[_Row]) -> Sequence[_Row]:
        """Those of the rows, in their order, that were asked for."""
        offset = max(self.offset, 0)
        return rows[offset : offset + max(self.limit, 0)]

    def fits(self, metadata: Mapping[str, Json]) -> bool:
        """Whether a thread of these metadata is asked for."""
        return all(key in metadata and metadata[key] == value for key, value in self.metadata.items())


class CopyOf(Struct, frozen=True, kw_only=True):
    """Messages of another thread, to be copied under new ids and with their vectors.

    Attributes:
        resource: The owner of that thread.
        start: Seq of the first one, which gets the seq 0; gaps between them stay.
        end: Seq behind the last one; None: up to the end.
    """

    thread: str
    resource: str
    start: int = 0
    end: int | None = None


class ThreadEdit(Struct, frozen=True, kw_only=True):
    """One transaction of the owner of a thread's scope, outside any run; everything in it is stored, or nothing.

    Attributes:
        thread: Made if it does not exist, unless the edit only drops; otherwise only its id, resource and root count.
        copy: Put before everything else; the thread must not exist yet.
        messages: Each replaces the one of its id, or comes last.
        drop: Ids of messages to drop, with their vectors.
        delete: The thread goes, with its messages and vectors, and so do all threads whose `root` is its scope.
    """

    thread: ThreadRow
    copy: CopyOf | None = None
    messages: tuple[Message, ...] = ()
    drop: tuple[str, ...] = ()
    delete: bool = False


class ThreadStore(Protocol):
    """The part of `RunStore` that keeps threads."""

    async def edit(self, fence: Fence, edit: ThreadEdit) -> ThreadRow | None:
        """Store all of `edit`, as the owner of the scope of its thread.

        Returns:
            The thread as it is now; None when it is not there (any more).

        Raises:
            StaleLease: The fence was released, or somebody claimed the scope since. Nothing was stored.
            StoreError: `THREAD_RESOURCE_MISMATCH`, `THREAD_NOT_IN_SCOPE` (it is written in another scope than the
                fence's), `THREAD_NOT_FOUND` (there is nothing to copy from), `THREAD_EXISTS` (it would be copied
                into), `STORE_NOT_JSON`. Nothing was stored.
        """
        ...

    async def thread(self, thread_id: str, *, resource: Owner) -> ThreadRow | None:
        """The thread, if it exists and belongs to `resource`."""
        ...

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
        """Threads of `resource`.

        Args:
            resource: Whose.
            metadata: Only those whose metadata have each of these keys, with an equal value.
            root: Only sub-threads of this scope; None: only threads that are nobody's sub-thread.
            order_by: The time that orders them; of equal ones the one made first is first.
            descending: The other way round.
            offset: How many to pass over.
            limit: How many to give at most; `total` counts all.
        """
        ...

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
        """Messages of a thread, in its order; what it costs depends on how many are given, not on its length.

        Args:
            thread_id: Which thread; of one that is another's nothing is found.
            resource: Whose.
            last: Of those asked for, only so many from the end.
            first: Or only so many from the beginning.
            after: Only those with a higher seq.
            before: Only those with a lower seq.
            ids: Only these, each once, with their neighbours; the five above do not count then.
            around: How many neighbours before and after each of `ids`.
        """
        ...

    async def find_messages(self, ids: Sequence[str], *, resource: Owner) -> list[ThreadMessage]:
        """The messages of these ids in all threads of `resource`, by the age of their threads and their seq."""
        ...
