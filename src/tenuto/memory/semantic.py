"""Semantic recall: earlier messages that are like what the user says now.

Invariant: it never fails a run and never holds one up for longer than `TIMEOUT`. What cannot be searched finds nothing
and says so; what cannot be indexed now is indexed later, for the index knows how far it came. Only messages of the
resource that asks are ever looked at.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from tenuto.core.background import Background
from tenuto.core.errors import TenutoError
from tenuto.memory.index import Index, Progress
from tenuto.memory.passages import passages
from tenuto.memory.query import Query
from tenuto.memory.search import likest, taken, with_neighbours
from tenuto.memory.searchable import keeps_vectors, missing_vectors
from tenuto.messages.stored import Message
from tenuto.models.embedder import Embedder
from tenuto.models.resolve_embedder import resolve_embedder
from tenuto.store.ports import RunStore, ThreadRow
from tenuto.store.vectors import VectorStore

TIMEOUT = 10.0
"""Seconds a run waits for a search, at most."""

_THREADS = 100
"""Threads of a resource that are read at once."""

_REMEMBERED = 10_000
"""Resources of which a process remembers that it has looked for what another one left."""

_log = logging.getLogger("tenuto")


class _Desk:
    """What is under way on one event loop."""

    def __init__(self) -> None:
        self.due: dict[tuple[str, str], set[str]] = {}
        self.tasks: set[asyncio.Task[Any]] = set()


class SemanticRecaller:
    """Finds messages worth reading again by comparing vectors, and keeps its index."""

    def __init__(self, embedder: object, vector: VectorStore | None = None, *, timeout: float = TIMEOUT) -> None:
        """Make vectors with `embedder`, in whatever form `resolve_embedder` takes.

        Args:
            embedder: What makes vectors.
            vector: Where they are kept; None: in the store, with the messages.
            timeout: Seconds a run waits for a search.

        Raises:
            ConfigurationError: There is no such embedder; `vector` keeps no vectors.
            TypeError: It is none.
        """
        if vector is not None and not keeps_vectors(vector):
            raise missing_vectors(vector)
        self.embedder: Embedder = resolve_embedder(embedder)
        self._index = Index(self.embedder)
        self.vector: VectorStore | None = vector
        self._timeout = timeout
        self._desks: WeakKeyDictionary[asyncio.AbstractEventLoop, _Desk] = WeakKeyDictionary()
        self._looked: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"<SemanticRecaller {self.embedder.id}>"

    # -- finding -----------------------------------------------------------------------------------------------------

    async def find(self, store: RunStore, query: Query) -> tuple[str, ...]:
        """Ids of the messages found and of those around them, in any thread of the resource; never fails."""
        try:
            async with asyncio.timeout(self._timeout):
                return await self.search(store, query)
        except TimeoutError:
            return self._without(query, f"it took longer than {self._timeout:g} s")
        except TenutoError as error:
            return self._without(query, str(error))
        except Exception as error:  # noqa: BLE001 - a user's embedder may raise anything; the run goes on
            return self._without(query, f"{type(error).__name__}: {error}")
        finally:
            self._look_for_what_is_missing(store, query.resource)

    async def search(self, store: RunStore, query: Query) -> tuple[str, ...]:
        """The same, and a failure is raised.

        Raises:
            ModelError: The embedder failed.
            StoreError: The store failed.
        """
        text = next(passages(query.text.strip(), self.embedder.max_characters), "")
        if not text:
            return ()
        [wanted] = await self._index.vectors([text])
        hits = (
            await likest(
                self._vectors(store),
                wanted,
                resource=query.resource,
                space=await self._index.space(),
                config=query.config,
                thread=query.thread,
                known=query.known,
            )
            if wanted
            else []
        )
        chosen = await taken(store, hits, query.resource, query.config)
        found = await with_neighbours(store, chosen, query.resource, query.config)
        return tuple(
            each.message.id
            for messages in found.values()
            for each in messages
            if each.message.role != "system" and each.message.id not in query.known
        )

    def _without(self, query: Query, why: str) -> tuple[str, ...]:
        said = f"The search through earlier messages was left out: {why}"
        _log.warning("%s", said)
        if query.warn is not None:
            query.warn(said)
        return ()

    # -- indexing ----------------------------------------------------------------------------------------------------

    def saved(self, store: RunStore, thread: str, resource: str, messages: Sequence[Message]) -> None:
        """These messages of a thread are stored now; returns at once."""
        if not messages:
            return
        desk = self._desk()
        key = thread, resource
        under_way = key in desk.due
        desk.due.setdefault(key, set()).update(message.id for message in messages)
        if not under_way:
            self._begin(desk, partial(self._work_off, desk, store, *key), f"index of thread {thread}")

    async def unindex(self, resource: str, thread: str, ids: Sequence[str] | None = None) -> None:
        """Messages of a thread, or all of it, are gone: so are their vectors where they are not kept with them."""
        if self.vector is not None:
            await self.vector.unindex(resource=resource, thread=thread, ids=ids)

    async def settled(self) -> None:
        """Wait for what is under way on this event loop."""
        desk = self._desk()
        while desk.tasks:
            await asyncio.wait([*desk.tasks])

    async def index(
        self,
        store: RunStore,
        *,
        resource: str,
        thread: str | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Index what is not indexed yet; returns how many messages that were.

        Raises:
            ModelError: The embedder failed; what is done is kept.
        """
        done = 0
        for row in await _threads(store, resource, thread):
            done += await self._index.catch_up(store, self._vectors(store), row.id, resource, progress=progress)
        return done

    def _begin(self, desk: _Desk, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        task = Background.current().begin(work, name)
        desk.tasks.add(task)
        task.add_done_callback(desk.tasks.discard)

    async def _work_off(self, desk: _Desk, store: RunStore, thread: str, resource: str) -> None:
        """Index a thread until nothing of it is due; a failure leaves the rest for the next time."""
        try:
            while again := desk.due[thread, resource]:
                desk.due[thread, resource] = set()
                await self._index.catch_up(store, self._vectors(store), thread, resource, again=[*again])
        except Exception as error:  # noqa: BLE001 - nobody waits for it; a user's embedder may raise anything
            _log.warning("Thread %r could not be indexed now and will be later: %s", thread, error)
        finally:
            desk.due.pop((thread, resource), None)

    def _look_for_what_is_missing(self, store: RunStore, resource: str) -> None:
        """Once per resource: what a process that is gone, or another embedder, left without vectors."""
        if resource not in self._looked:
            while len(self._looked) >= _REMEMBERED:
                self._looked.pop(next(iter(self._looked)))
            self._looked[resource] = None
            self._begin(self._desk(), partial(self._quietly, store, resource), f"index of resource {resource}")

    async def _quietly(self, store: RunStore, resource: str) -> None:
        try:
            await self.index(store, resource=resource)
        except Exception as error:  # noqa: BLE001 - as above
            self._looked.pop(resource, None)
            _log.warning("The threads of a resource could not be indexed now and will be later: %s", error)

    def _vectors(self, store: RunStore) -> VectorStore:
        return store if self.vector is None else self.vector

    def _desk(self) -> _Desk:
        return self._desks.setdefault(asyncio.get_running_loop(), _Desk())


async def _threads(store: RunStore, resource: str, thread: str | None) -> list[ThreadRow]:
    if thread is not None:
        row = await store.thread(thread, resource=resource)
        return [] if row is None else [row]
    found: list[ThreadRow] = []
    while True:
        page = await store.threads(
            resource=resource, order_by="created_at", descending=False, offset=len(found), limit=_THREADS
        )
        found += page.threads
        if len(page.threads) < _THREADS:
            return found
