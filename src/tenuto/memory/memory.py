"""`Memory`: what an agent remembers, and the threads it remembers it in.

Invariant: a memory holds options and its store, nothing of any conversation; every method that touches a thread takes
the resource that owns it, and refuses a thread of another.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec.structs import replace
from typing_extensions import Unpack

from tenuto.core.clock import Clock, SystemClock
from tenuto.core.errors import ConfigurationError
from tenuto.core.ids import IdSource, RandomIds
from tenuto.core.payloads import Json
from tenuto.memory import knowledge, threads
from tenuto.memory.asides import Asides
from tenuto.memory.config import (
    MemoryConfig,
    MemoryOptions,
    SemanticRecall,
    merge_config,
    normalise_config,
    read_config,
)
from tenuto.memory.observations import forget
from tenuto.memory.pages import Page, Wanted, found_page, read_page
from tenuto.memory.query import Query
from tenuto.memory.searchable import check_searchable, make_recaller, missing_embedder
from tenuto.memory.threads import Thread, shown
from tenuto.memory.twins import MemoryTwins
from tenuto.memory.working import TOOL
from tenuto.messages.input import MessageReader, Messages
from tenuto.messages.stored import Message
from tenuto.store.memory import InMemoryStore
from tenuto.store.ports import CopyOf, RunStore, ThreadEdit, ThreadRow

if TYPE_CHECKING:
    from tenuto.memory.index import Progress
    from tenuto.memory.semantic import SemanticRecaller
    from tenuto.store.vectors import VectorStore

_elsewhere: RunStore = InMemoryStore()


_log = logging.getLogger("tenuto")


class Memory(MemoryTwins):
    """What an agent remembers: give it to `Agent(memory=...)` and name a thread in each call.

    Args:
        store: Where threads are kept. Only for agents that have no `store=` and no app of their own: a run and its
            thread are written together, so they share one store.
        vector: Where vectors are kept: an object with `index()`, `unindex()` and `vectors()`. Default: the store, which
            keeps them with the messages they belong to.
        embedder: Makes vectors, for `semantic_recall`: `"provider/model"`, a record, or an `Embedder`.
        **options: `last_messages` (10): how many stored messages a run reads; 0 or False: none are read and none are
            saved. `message_history`: a limit in tokens. `semantic_recall`: earlier messages like the new one.
            `working_memory`: what the agent keeps of the user. `generate_title`: a thread gets a title after its first
            answer. `read_only`: read and never write. `filter_incomplete_tool_calls` (True): calls whose arguments
            never arrived whole are left out of the prompt. `retain_full_input`: a history that the caller sends again
            is not taken out of its input. `observational_memory`: what is old in a long thread is noted down, and read
            in place of the messages. See `MemoryOptions` and `docs/memory.md`.

    Raises:
        TypeError: An unknown option, or a value of the wrong type.
        ValueError: A number out of range.
        ConfigurationError: `SEMANTIC_RECALL_MISSING_EMBEDDER`, `SEMANTIC_RECALL_MISSING_VECTOR_ADAPTER`,
            `SEMANTIC_RECALL_MISSING_STORAGE_ADAPTER`; an embedder that is not known.
    """

    __slots__ = ("_bound", "_clock", "_given", "_ids", "asides", "config", "options", "own_store", "recaller")

    def __init__(
        self,
        *,
        store: RunStore | None = None,
        vector: VectorStore | None = None,
        embedder: object = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        **options: Unpack[MemoryOptions],
    ) -> None:
        given = {"store": store, "vector": vector, "embedder": embedder, "clock": clock, "ids": ids}
        self._given: dict[str, Any] = {**given, **options}
        self.options: dict[str, Any] = normalise_config(cast("Mapping[str, Any]", options))
        self.config: MemoryConfig = read_config(self.options)
        _say_if_unused(self.options.get("working_memory"))
        self.own_store: RunStore | None = store
        self.recaller: SemanticRecaller | None = make_recaller(embedder, vector)
        check_searchable(self.config, self.recaller, store)
        self.asides: Asides = Asides()
        self._bound: RunStore | None = None
        self._clock: Clock = clock or SystemClock()
        self._ids: IdSource = ids or RandomIds()

    def __repr__(self) -> str:
        return f"Memory({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"

    def copy(self) -> Memory:
        """The same memory, bound to no agent and no app."""
        return Memory(**self._given)

    @property
    def store(self) -> RunStore:
        """Its own store, else that of its app or agent, else one in memory."""
        return self.own_store or self._bound or _elsewhere

    def bind(self, store: RunStore) -> None:
        """Take the store of the app or agent it belongs to.

        Raises:
            ConfigurationError: `MEMORY_STORE_CONFLICT`: it has another one.
        """
        mine = self.own_store or self._bound
        if mine is not None and mine is not store:
            message = (
                "This Memory keeps its threads in another store than its agent keeps its runs; a run and its thread "
                "are written together. Give the store to the app (Tenuto(store=...)) or the agent alone, and a Memory "
                "of its own to each (memory.copy())."
            )
            raise ConfigurationError(message, id="MEMORY_STORE_CONFLICT", domain="MEMORY")
        check_searchable(self.config, self.recaller, store)
        self._bound = store

    def merged(self, options: Mapping[str, Any] | None) -> MemoryConfig:
        """The options with those of a call, normalised, over them."""
        if not options:
            return self.config
        config = read_config(merge_config(self.options, options))
        check_searchable(config, self.recaller, self.store)
        return config

    # -- threads -----------------------------------------------------------------------------------------------------

    async def create_thread(
        self,
        *,
        resource_id: str,
        thread_id: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Thread:
        """Make a thread; one that is there gets the title and the metadata (merged into its own).

        Raises:
            RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`.
        """

        def made(row: ThreadRow | None) -> ThreadRow:
            row = row or ThreadRow(id=named, resource=resource_id)
            kept = {**row.metadata, **(metadata or {})}
            return replace(row, title=row.title if title is None else title, metadata=kept)

        named = thread_id or self._ids.new("thread")
        row = await threads.change(self.store, named, resource_id, made)
        return shown(cast("ThreadRow", row))

    async def save_thread(self, thread: Thread) -> Thread:
        """Store title and metadata of a thread as they are here; makes it if it is not there."""

        def made(row: ThreadRow | None) -> ThreadRow:
            row = row or ThreadRow(id=thread.id, resource=thread.resource_id)
            return replace(row, title=thread.title, metadata=dict(thread.metadata))

        row = await threads.change(self.store, thread.id, thread.resource_id, made)
        return shown(cast("ThreadRow", row))

    async def get_thread_by_id(self, *, thread_id: str, resource_id: str) -> Thread | None:
        """The thread; None when there is none.

        Raises:
            RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`.
        """
        row = await threads.find(self.store, thread_id, resource_id)
        return None if row is None else shown(row)

    async def update_thread(
        self,
        *,
        thread_id: str,
        resource_id: str,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Thread:
        """Give a thread another title (None: leave it) and further metadata.

        Raises:
            RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`, `MEMORY_THREAD_NOT_FOUND`.
        """
        await threads.found(self.store, thread_id, resource_id)
        return await self.create_thread(thread_id=thread_id, resource_id=resource_id, title=title, metadata=metadata)

    async def delete_thread(self, *, thread_id: str, resource_id: str) -> bool:
        """Delete a thread with its messages; a run on it is waited for. False when there is none.

        Raises:
            RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`, `MEMORY_THREAD_BUSY`, `THREAD_HELD_BY_ANCESTOR`.
        """
        row = await threads.find(self.store, thread_id, resource_id)
        if row is None:
            return False
        await threads.edit(self.store, self._clock, ThreadEdit(thread=row, delete=True))
        await forget(self.store, row)
        await self._unindex(row)
        return True

    async def list_threads(
        self,
        *,
        resource_id: str,
        metadata: Mapping[str, Any] | None = None,
        page: int = 0,
        per_page: int = 100,
        order_by: Literal["created_at", "updated_at"] = "created_at",
        direction: Literal["asc", "desc"] = "desc",
    ) -> Page[Thread]:
        """A page of the threads of a resource.

        Args:
            resource_id: Whose.
            metadata: Only those with each of these values.
            page: From 0.
            per_page: How many.
            order_by: The time that orders them.
            direction: `desc`: the newest first.
        """
        _check_page(page, per_page)
        found = await self.store.threads(
            resource=resource_id,
            metadata=metadata,
            order_by=order_by,
            descending=direction == "desc",
            offset=page * per_page,
            limit=per_page,
        )
        more = (page + 1) * per_page < found.total
        return Page(tuple(map(shown, found.threads)), page, per_page, has_more=more, total=found.total)

    async def clone_thread(
        self,
        *,
        thread_id: str,
        resource_id: str,
        new_thread_id: str | None = None,
        new_resource_id: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        last_messages: int | None = None,
    ) -> Thread:
        """Copy a thread and its messages, under new ids.

        Args:
            thread_id: Which.
            resource_id: Whose it is.
            new_thread_id: Of the copy; default: a new one.
            new_resource_id: Whose the copy is; default: the same.
            title: Of the copy; default: the same.
            metadata: Merged into a copy of the thread's.
            last_messages: Copy only so many from the end.

        Raises:
            RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`, `MEMORY_THREAD_NOT_FOUND`.
            StoreError: `THREAD_EXISTS`.
        """
        row = await threads.found(self.store, thread_id, resource_id)
        start = 0
        if last_messages is not None:
            newest = await self.store.messages(thread_id, resource=resource_id, last=last_messages)
            start = newest[0].seq if newest else row.messages
        copy = ThreadRow(
            id=new_thread_id or self._ids.new("thread"),
            resource=new_resource_id or resource_id,
            title=row.title if title is None else title,
            metadata={**row.metadata, **(metadata or {})},
        )
        of = CopyOf(thread=thread_id, resource=resource_id, start=start)
        made = await threads.edit(self.store, self._clock, ThreadEdit(thread=copy, copy=of))
        return shown(cast("ThreadRow", made))

    # -- messages ----------------------------------------------------------------------------------------------------

    async def recall(
        self,
        *,
        thread_id: str,
        resource_id: str,
        last: int | None = None,
        page: int = 0,
        per_page: int | Literal[False] | None = None,
        direction: Literal["asc", "desc"] = "desc",
        created_after: Any = None,
        created_before: Any = None,
        metadata: Mapping[str, Any] | None = None,
        hide_signals: bool = False,
        vector_search_string: str | None = None,
        options: MemoryOptions | None = None,
    ) -> Page[Message]:
        """Messages of a thread, always the older one first.

        Args:
            thread_id: Which.
            resource_id: Whose.
            last: The newest so many; the same as `per_page` of page 0.
            page: From 0.
            per_page: How many; default `last_messages` of this memory; False: all.
            direction: `desc`: page 0 has the newest; `asc`: the oldest.
            created_after: A `datetime`: only messages from then on.
            created_before: A `datetime`: only messages up to then.
            metadata: Only messages whose metadata have each of these values.
            hide_signals: Leave out messages of the role `signal`.
            vector_search_string: Only messages that are like this text and those around them, on one page, as
                `semantic_recall` finds them: in all threads of the resource, unless its scope is `thread`.
            options: Over those of this memory, for this call.

        Raises:
            ConfigurationError: `SEMANTIC_RECALL_MISSING_EMBEDDER`.
            ModelError: The embedder failed.
            RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`, `MEMORY_THREAD_NOT_FOUND`.
        """
        row = await threads.found(self.store, thread_id, resource_id)
        config = self._config(options)
        size = last if last is not None else per_page
        if size is None:
            size = config.last_messages if config.last_messages is not None else False
        if size is not False:
            _check_page(page, size)
        wanted = Wanted(page, size, direction, created_after, created_before, metadata, hide_signals)
        if vector_search_string is None:
            return await read_page(self.store, row, wanted)
        recaller = self._searching()
        search = config.semantic_recall or SemanticRecall()
        ids = await recaller.search(self.store, Query(vector_search_string, thread_id, resource_id, search))
        return await found_page(self.store, resource_id, ids, wanted)

    async def index_messages(
        self, *, resource_id: str, thread_id: str | None = None, on_progress: Progress | None = None
    ) -> int:
        """Make everything searchable that is not yet, in one thread or in all of a resource.

        Nothing needs this: what is new is indexed when it is stored, and what was there before, or before the embedder
        was changed, after the first search. It is for those who want to wait for that.

        Args:
            resource_id: Whose.
            thread_id: Only this thread.
            on_progress: Called with the messages of a thread that are done, and how many it has.

        Returns:
            How many messages were indexed.

        Raises:
            ConfigurationError: `SEMANTIC_RECALL_MISSING_EMBEDDER`.
            ModelError: The embedder failed; what was indexed stays so.
            RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`.
        """
        if thread_id is not None:
            await threads.find(self.store, thread_id, resource_id)
        return await self._searching().index(self.store, resource=resource_id, thread=thread_id, progress=on_progress)

    async def save_messages(self, messages: Messages, *, thread_id: str, resource_id: str) -> tuple[Message, ...]:
        """Add messages to the end of a thread, which is made if it is not there; one of a known id replaces that one.

        Returns:
            Them, as they are stored.

        Raises:
            ConfigurationError: `AGENT_INVALID_MESSAGES`.
            RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`, `MEMORY_THREAD_BUSY`, `THREAD_HELD_BY_ANCESTOR`.
        """
        read = MessageReader(self._ids, self._clock).read(messages)
        kept = tuple(message for message in read if message.role != "system")
        row = ThreadRow(id=thread_id, resource=resource_id)
        await threads.edit(self.store, self._clock, ThreadEdit(thread=row, messages=kept))
        if self.recaller is not None:
            self.recaller.saved(self.store, thread_id, resource_id, kept)
        return tuple(replace(message, thread_id=thread_id, resource_id=resource_id) for message in kept)

    async def delete_messages(self, ids: str | Sequence[str], *, thread_id: str, resource_id: str) -> int:
        """Delete messages of a thread; returns how many there were. Notes that were taken of any of them go, too.

        Raises:
            RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`, `MEMORY_THREAD_NOT_FOUND`, `MEMORY_THREAD_BUSY`,
                `THREAD_HELD_BY_ANCESTOR`.
        """
        wanted = (ids,) if isinstance(ids, str) else tuple(dict.fromkeys(ids))
        row = await threads.found(self.store, thread_id, resource_id)
        there = await self.store.messages(thread_id, resource=resource_id, ids=wanted)
        if there:
            await threads.edit(self.store, self._clock, ThreadEdit(thread=row, drop=wanted))
            await forget(self.store, row, min(each.seq for each in there))
            await self._unindex(row, wanted)
        return len(there)

    async def prune(self, *, thread_id: str, resource_id: str, keep: int) -> int:
        """Delete all messages of a thread but the newest `keep`; returns how many that were. Notes of them stay.

        Raises:
            RunError: As for `delete_messages`.
        """
        if keep < 0:
            message = f"keep= must be at least 0, not {keep}."
            raise ValueError(message)
        row = await threads.found(self.store, thread_id, resource_id)
        kept = await self.store.messages(thread_id, resource=resource_id, last=keep) if keep else []
        before = kept[0].seq if kept else row.messages
        old = await self.store.messages(thread_id, resource=resource_id, before=before)
        gone = tuple(each.message.id for each in old)
        if gone:
            await threads.edit(self.store, self._clock, ThreadEdit(thread=row, drop=gone))
            await self._unindex(row, gone)
        return len(gone)

    # -- working memory ----------------------------------------------------------------------------------------------

    async def get_working_memory(
        self, *, resource_id: str, thread_id: str | None = None, options: MemoryOptions | None = None
    ) -> Json:
        """What is kept of the resource, or of the thread: a text, or data; None when there is nothing.

        Raises:
            ConfigurationError: `WORKING_MEMORY_NOT_ENABLED`; a thread is needed and not given.
            RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`.
        """
        return await self._known(resource_id, thread_id, options).read()

    async def update_working_memory(
        self,
        working_memory: Json,
        *,
        resource_id: str,
        thread_id: str | None = None,
        options: MemoryOptions | None = None,
    ) -> Json:
        """Replace a text; of data, change what is named: null deletes, lists are replaced. Returns what is kept then.

        Two that change it at once both count: each is made of what the other left.

        Raises:
            ConfigurationError: `WORKING_MEMORY_NOT_ENABLED`; a thread is needed and not given; it does not fit.
            RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`.
        """
        return await self._known(resource_id, thread_id, options).write(working_memory)

    def list_tools(self, options: MemoryOptions | None = None) -> dict[str, Any]:
        """The tools that an agent with this memory has beside its own, by name."""
        return self.tools_of(self._config(options))

    def tools_of(self, config: MemoryConfig) -> dict[str, Any]:
        """The same for checked options; for the runtime."""
        working = config.working_memory
        if working is None or working.read_only or config.read_only:
            return {}
        return {TOOL: knowledge.tool_for(working, self)}

    async def settled(self) -> None:
        """Wait for background work on this memory's threads: titles, what is made searchable, what is noted down."""
        await self.asides.settled()
        if self.recaller is not None:
            await self.recaller.settled()

    async def _unindex(self, row: ThreadRow, ids: Sequence[str] | None = None) -> None:
        if self.recaller is not None:
            await self.recaller.unindex(row.resource, row.id, ids)

    def _searching(self) -> SemanticRecaller:
        if self.recaller is None:
            raise missing_embedder()
        return self.recaller

    def _config(self, options: MemoryOptions | None) -> MemoryConfig:
        return self.merged(None if options is None else normalise_config(cast("Mapping[str, Any]", options)))

    def _known(self, resource: str, thread: str | None, options: MemoryOptions | None) -> knowledge.Knowledge:
        working = self._config(options).working_memory
        if working is None:
            message = "This memory keeps no working memory; give it working_memory={'enabled': True}."
            raise ConfigurationError(message, id="WORKING_MEMORY_NOT_ENABLED", domain="MEMORY")
        return knowledge.Knowledge(self.store, working, resource, thread)


def _check_page(page: int, per_page: int) -> None:
    if page < 0 or per_page < 0:
        message = f"page= and per_page= must be at least 0, not {page} and {per_page}."
        raise ValueError(message)


def _say_if_unused(working: object) -> None:
    if isinstance(working, Mapping) and working and "enabled" not in working:
        _log.warning("working_memory= has options and is not on: add 'enabled': True.")
