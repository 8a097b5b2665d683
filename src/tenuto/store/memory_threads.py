"""Threads, vectors and scores of the store in memory.

Invariant: nothing here locks; `InMemoryStore` calls it under its lock. What is kept is encoded, so what was given may
change; what is checked is checked before anything is changed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter
from typing import Literal
from uuid import uuid4

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenuto.messages.stored import Message
from tenuto.store.ports import (
    CopyOf,
    Fence,
    Owner,
    RunRow,
    ScoreRow,
    ThreadEdit,
    ThreadMessage,
    ThreadPage,
    ThreadRow,
    VectorRow,
    Write,
)
from tenuto.store.rules import copied, encoded
from tenuto.store.scopes import owns
from tenuto.store.thread_rules import check_edit, check_owned, makes_thread, written_thread
from tenuto.store.threads import ThreadQuery

_decode = msgspec.json.Decoder(Message).decode


class _Thread(Struct):
    """A thread and what is in it; `order` holds the seqs, ascending, and `vectors` are by message, space and part."""

    row: ThreadRow
    order: list[int] = []
    stored: dict[int, tuple[str, bytes]] = {}
    seqs: dict[str, int] = {}
    vectors: dict[str, dict[tuple[str, int], VectorRow]] = {}


class Threads:
    """All of a store."""

    def __init__(self) -> None:
        self._threads: dict[str, _Thread] = {}
        self._scores: dict[str, ScoreRow] = {}
        self._place = 0

    def owner_of(self, thread_id: str) -> str | None:
        """Whose thread it is; None: there is no such thread."""
        known = self._threads.get(thread_id)
        return None if known is None else known.row.resource

    # -- writes ------------------------------------------------------------------------------------------------

    def prepare(self, write: Write, run: RunRow) -> tuple[ThreadRow, list[tuple[str, bytes]]] | None:
        """What `write` puts where; to be given to `put` when all of it may be stored."""
        if write.thread is None and not write.messages:
            return None
        thread = written_thread(write, run, self._row(run.thread_id))
        return copied(thread), [(message.id, encoded(message)) for message in write.messages]

    def put(self, thread: ThreadRow, messages: Iterable[tuple[str, bytes]], now: float) -> None:
        """Make the thread if it is missing, and store messages in it."""
        known = self._threads.get(thread.id)
        if known is None:
            known = self._make(thread, now)
        for message_id, raw in messages:
            seq = known.seqs.get(message_id)
            if seq is None:
                seq = known.row.messages
                known.row = replace(known.row, messages=seq + 1)
                known.seqs[message_id] = seq
                known.order.append(seq)
            known.stored[seq] = (message_id, raw)
        known.row = replace(known.row, updated_at=now)

    def edit(self, fence: Fence, edit: ThreadEdit, now: float) -> ThreadRow | None:
        """See `ThreadStore.edit`."""
        source = None if edit.copy is None else self._row(edit.copy.thread)
        check_edit(edit, fence.scope, self._row(edit.thread.id), source)
        thread, messages = copied(edit.thread), [(message.id, encoded(message)) for message in edit.messages]
        if edit.delete:
            self._delete(self._row(thread.id) or thread)
            return None
        if makes_thread(edit) or thread.id in self._threads:
            self.put(thread, (), now)
            if edit.copy is not None:
                self._copy(self._threads[thread.id], edit.copy)
            self.put(thread, messages, now)
            for message_id in edit.drop:
                _drop(self._threads[thread.id], message_id)
        return self._row(thread.id)

    def swap(self, row: ThreadRow, expect: int, now: float) -> bool:
        """See `RunStore.swap`."""
        known = self._threads.get(row.id)
        check_owned(row.id, row.resource, None if known is None else known.row.resource)
        row = copied(row)
        if (0 if known is None else known.row.version) != expect:
            return False
        if known is None:
            self._make(row, now)
        else:
            changes = {"title": row.title, "metadata": row.metadata, "version": expect + 1, "updated_at": now}
            known.row = replace(known.row, **changes)
        return True

    def index(self, rows: Sequence[VectorRow]) -> int:
        """See `VectorStore.index`."""
        kept = [row for row in rows if self._has(row)]
        for row in kept:
            of_message = self._threads[row.thread].vectors.setdefault(row.message_id, {})
            for key in [key for key in of_message if key[0] == row.space]:
                del of_message[key]
        for row in kept:
            self._place += 1
            vectors = self._threads[row.thread].vectors[row.message_id]
            vectors[row.space, row.part] = replace(row, place=self._place)
        return len(kept)

    def unindex(self, resource: str, thread: str | None, ids: Sequence[str] | None, space: str | None) -> int:
        """See `VectorStore.unindex`."""
        dropped = 0
        for each in self._of(resource, thread):
            for message_id in list(each.vectors) if ids is None else ids:
                of_message = each.vectors.get(message_id, {})
                for key in [key for key in of_message if space in (None, key[0])]:
                    del of_message[key]
                    dropped += 1
        return dropped

    def score(self, row: ScoreRow, now: float) -> Literal["stored", "duplicate", "conflict"]:
        """Store a score; see `RunStore.post`."""
        given = copied(row)
        known = self._scores.get(row.id)
        if known is None:
            created = now if given.created_at is None else given.created_at
            self._scores[row.id] = replace(given, created_at=created)
            return "stored"
        same = known == replace(given, created_at=known.created_at if given.created_at is None else given.created_at)
        return "duplicate" if same else "conflict"

    # -- reads -------------------------------------------------------------------------------------------------

    def thread(self, thread_id: str, resource: Owner) -> ThreadRow | None:
        """See `ThreadStore.thread`."""
        known = self._row(thread_id)
        return copied(known) if known is not None and owns(resource, known.resource) else None

    def threads(self, asked: ThreadQuery) -> ThreadPage:
        """See `ThreadStore.threads`."""
        rows = [
            each.row
            for each in self._threads.values()
            if owns(asked.resource, each.row.resource) and each.row.root == asked.root and asked.fits(each.row.metadata)
        ]
        rows.sort(key=attrgetter(asked.order_by))
        if asked.descending:
            rows.reverse()
        return ThreadPage(tuple(copied(row) for row in asked.page(rows)), len(rows))

    def messages(
        self,
        thread_id: str,
        resource: Owner,
        window: tuple[int | None, int | None],
        most: tuple[int | None, int | None],
    ) -> list[ThreadMessage]:
        """See `ThreadStore.messages`; `window` is after and before, `most` is last and first."""
        found = self._owned(thread_id, resource)
        if found is None:
            return []
        (after, before), (last, first) = window, most
        begin = 0 if after is None else bisect_right(found.order, after)
        end = len(found.order) if before is None else bisect_left(found.order, before)
        if last is not None:
            begin = max(begin, end - max(last, 0))
        if first is not None:
            end = min(end, begin + max(first, 0))
        return [_shown(found, seq) for seq in found.order[begin:end]]

    def near(self, thread_id: str, resource: Owner, ids: Sequence[str], around: tuple[int, int]) -> list[ThreadMessage]:
        """Messages by id, with their neighbours."""
        found = self._owned(thread_id, resource)
        if found is None:
            return []
        places = [bisect_left(found.order, found.seqs[each]) for each in ids if each in found.seqs]
        before, after = max(around[0], 0), max(around[1], 0)
        wanted = {seq for place in places for seq in found.order[max(place - before, 0) : place + after + 1]}
        return [_shown(found, seq) for seq in sorted(wanted)]

    def find_messages(self, ids: Sequence[str], resource: Owner) -> list[ThreadMessage]:
        """See `ThreadStore.find_messages`."""
        owned = [each for each in self._threads.values() if owns(resource, each.row.resource)]
        return [_shown(each, seq) for each in owned for seq in sorted({each.seqs[i] for i in ids if i in each.seqs})]

    def vectors(self, resource: Owner, space: str, thread: str | None, after: int, limit: int) -> list[VectorRow]:
        """See `VectorStore.vectors`."""
        found: list[VectorRow] = []
        for each in self._of(resource, thread):
            for of_message in each.vectors.values():
                found += [row for row in of_message.values() if row.space == space and row.place > after]
        found.sort(key=lambda row: row.place)
        return found[: max(limit, 0)]

    def scores(
        self, resource: Owner, run_id: str | None, scorer_id: str | None, entity_id: str | None, span: tuple[int, int]
    ) -> list[ScoreRow]:
        """See `ScoreStore.scores`; `span` is offset and limit."""
        found = (
            row
            for row in reversed(self._scores.values())
            if owns(resource, row.resource_id)
            and run_id in (None, row.run_id)
            and scorer_id in (None, row.scorer_id)
            and entity_id in (None, row.entity_id)
        )
        offset = max(span[0], 0)
        return [copied(row) for row in islice(found, offset, offset + max(span[1], 0))]

    # -- parts -------------------------------------------------------------------------------------------------

    def _row(self, thread_id: str | None) -> ThreadRow | None:
        known = None if thread_id is None else self._threads.get(thread_id)
        return None if known is None else known.row

    def _owned(self, thread_id: str, resource: Owner) -> _Thread | None:
        known = self._threads.get(thread_id)
        return known if known is not None and owns(resource, known.row.resource) else None

    def _of(self, resource: Owner, thread: str | None) -> list[_Thread]:
        if thread is None:
            return [each for each in self._threads.values() if owns(resource, each.row.resource)]
        known = self._owned(thread, resource)
        return [] if known is None else [known]

    def _has(self, row: VectorRow) -> bool:
        known = self._owned(row.thread, row.resource)
        return known is not None and row.message_id in known.seqs

    def _make(self, row: ThreadRow, now: float) -> _Thread:
        created = now if row.created_at is None else row.created_at
        made = _Thread(replace(row, version=1, messages=0, created_at=created, updated_at=now))
        self._threads[row.id] = made
        return made

    def _delete(self, row: ThreadRow) -> None:
        self._threads.pop(row.id, None)
        if row.root is None:
            for each in [each.row.id for each in self._threads.values() if each.row.root == row.scope]:
                del self._threads[each]

    def _copy(self, target: _Thread, copy: CopyOf) -> None:
        source = self._threads[copy.thread]
        end = len(source.order) if copy.end is None else bisect_left(source.order, copy.end)
        start = max(copy.start, 0)
        for seq in source.order[bisect_left(source.order, start) : end]:
            place = seq - start
            old, raw = source.stored[seq]
            new = uuid4().hex
            target.stored[place] = (new, raw)
            target.seqs[new] = place
            target.order.append(place)
            for vector in source.vectors.get(old, {}).values():
                self._place += 1
                row = replace(vector, resource=target.row.resource, thread=target.row.id, message_id=new)
                target.vectors.setdefault(new, {})[vector.space, vector.part] = replace(row, place=self._place)
        target.row = replace(target.row, messages=target.order[-1] + 1 if target.order else 0)


def _drop(thread: _Thread, message_id: str) -> None:
    seq = thread.seqs.pop(message_id, None)
    thread.vectors.pop(message_id, None)
    if seq is not None:
        del thread.stored[seq]
        del thread.order[bisect_left(thread.order, seq)]


def _shown(thread: _Thread, seq: int) -> ThreadMessage:
    message_id, raw = thread.stored[seq]
    row = thread.row
    return ThreadMessage(seq, replace(_decode(raw), id=message_id, thread_id=row.id, resource_id=row.resource))
