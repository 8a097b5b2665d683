"""The index of one embedder over the messages of threads: where it stands, and how it catches up.

Invariant: how far a thread is indexed is stored after the vectors are, so a crash in between makes them again and
loses none. It only ever covers messages that are stored, and what it costs is what is new. Vectors of one embedder are
never compared with those of another: each has a space of its own, and its own place in every thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from zlib import crc32

import msgspec
from msgspec import Struct

from tenuto.core import codec
from tenuto.core.errors import ModelError
from tenuto.memory.likeness import packed
from tenuto.memory.passages import passages_of
from tenuto.models.embedder import Embedder, Vector
from tenuto.store.ports import RunStore, ThreadMessage, ThreadRow, VectorRow, Versioned
from tenuto.store.vectors import VectorStore

KIND = "message-index"
"""Of the rows that say how far a thread is indexed."""

_AT_ONCE = 64
"""Messages that are read, embedded and stored together."""

Progress = Callable[[int, int], object]
"""Told how many messages are done, and how many there are."""


class Position(Struct, frozen=True, rename="camel"):
    """How far a thread is indexed.

    Attributes:
        next: The place of the first message that is not.
        made: When the thread was made: one of the same id that was made later is another.
        digest: Of what was indexed of the last message, which a run that waited may have changed since.
    """

    next: int = 0
    made: float = 0.0
    digest: int = 0


class _Passage(Struct, frozen=True):
    message: ThreadMessage
    part: int
    text: str


class Index:
    """The vectors of one embedder."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder: Embedder = embedder

    async def space(self) -> str:
        """Names the vectors that may be compared: the embedder, and the length of its vectors.

        Raises:
            ModelError: The length is not known, and the embedder does not answer.
        """
        if self.embedder.dimensions is None:
            [vector] = await self.vectors(["?"])
            return f"{self.embedder.id}#{len(vector) // 4}"
        return f"{self.embedder.id}#{self.embedder.dimensions}"

    async def vectors(self, texts: Sequence[str]) -> list[bytes]:
        """The vectors of texts, packed; those that point nowhere are empty.

        Raises:
            ModelError: The embedder failed, or did not give a vector for each text.
        """
        made: list[bytes] = []
        for batch in _batches(texts, self.embedder.max_batch):
            made += _packed(await self.embedder.embed(batch), len(batch), self.embedder.id)
        return made

    async def catch_up(
        self,
        store: RunStore,
        vectors: VectorStore,
        thread: str,
        resource: str,
        *,
        again: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> int:
        """Index what is new in a thread, and the messages `again` that were changed; returns how many that were."""
        row = await store.thread(thread, resource=resource)
        if row is None:
            return 0
        space = await self.space()
        changed = await self._again(store, vectors, row, space, again)
        return changed + await self._forward(store, vectors, row, space, progress)

    async def _again(
        self, store: RunStore, vectors: VectorStore, row: ThreadRow, space: str, ids: Sequence[str]
    ) -> int:
        if not ids:
            return 0
        position, _ = await _position(store, row, space)
        found = await store.messages(row.id, resource=row.resource, ids=ids)
        old = [each for each in found if each.seq < position.next]
        await self._store(vectors, row, space, old)
        return len(old)

    async def _forward(
        self, store: RunStore, vectors: VectorStore, row: ThreadRow, space: str, progress: Progress | None
    ) -> int:
        done = 0
        while True:
            position, version = await _position(store, row, space)
            found = await store.messages(row.id, resource=row.resource, after=position.next - 2, first=_AT_ONCE)
            new = [each for each in found if each.seq >= position.next or _digest(each) != position.digest]
            if not new:
                return done
            await self._store(vectors, row, space, new)
            done += len(new)
            after = Position(found[-1].seq + 1, row.created_at or 0.0, _digest(found[-1]))
            await store.swap(Versioned(KIND, _key(row, space), msgspec.to_builtins(after)), version)
            if progress is not None:
                progress(min(after.next, row.messages), row.messages)

    async def _store(self, vectors: VectorStore, row: ThreadRow, space: str, messages: Sequence[ThreadMessage]) -> None:
        """Embed messages and store their vectors in place of those they had."""
        passages = [*self._passages(messages)]
        made = await self.vectors([each.text for each in passages])
        rows = [
            VectorRow(
                resource=row.resource,
                thread=row.id,
                message_id=each.message.message.id,
                part=each.part,
                space=space,
                vector=vector,
            )
            for each, vector in zip(passages, made, strict=True)
            if vector
        ]
        silent = {each.message.id for each in messages} - {each.message_id for each in rows}
        if silent:
            await vectors.unindex(resource=row.resource, thread=row.id, ids=[*silent], space=space)
        if rows:
            await vectors.index(rows)

    def _passages(self, messages: Sequence[ThreadMessage]) -> Iterator[_Passage]:
        for each in messages:
            for part, text in enumerate(passages_of(each.message, self.embedder.max_characters)):
                yield _Passage(each, part, text)


async def _position(store: RunStore, row: ThreadRow, space: str) -> tuple[Position, int]:
    """How far a thread is indexed, and the version of what says so."""
    known = await store.versioned(KIND, _key(row, space))
    if known is None:
        return Position(made=row.created_at or 0.0), 0
    position = msgspec.convert(known.value, Position)
    here = position if position.made == (row.created_at or 0.0) else Position()
    return here, known.version


def _key(row: ThreadRow, space: str) -> str:
    return codec.encode([space, row.id]).decode()


def _digest(message: ThreadMessage) -> int:
    return crc32("\0".join([message.message.id, *passages_of(message.message, 1 << 30)]).encode("utf-8", "replace"))


def _batches(texts: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    step = max(most, 1)
    return (texts[start : start + step] for start in range(0, len(texts), step))


def _packed(vectors: Sequence[Vector], count: int, embedder: str) -> list[bytes]:
    if len(vectors) != count:
        message = f"The embedder {embedder} gave {len(vectors)} vectors for {count} texts."
        raise ModelError(message, id="EMBEDDING_RESPONSE_INVALID", provider=embedder.partition("/")[0])
    return [packed(vector) or b"" for vector in vectors]
