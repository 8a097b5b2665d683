"""Looking through vectors for those most like one, and for the messages they stand for.

Invariant: exact, and only among what belongs to the resource that asks: vectors are read by their owner, and so are
the messages. It reads in pages and compares in a worker thread, so the event loop goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from tenuto.memory.config import SemanticRecall
from tenuto.memory.filters import takes
from tenuto.memory.likeness import similarities
from tenuto.store.ports import RunStore, ThreadMessage, VectorRow
from tenuto.store.vectors import VectorStore

PAGE = 2048
"""Vectors that are read and compared at once: 3 MB of them, about 20 ms."""

_LOOKED_AT = 64
"""Candidates that are read at once to see whether a filter takes them."""


class Hit(Struct, frozen=True):
    """A message that is like what is looked for; `score` is the cosine of its most like passage."""

    score: float
    thread: str
    message_id: str


_Best = dict[tuple[str, str], float]
"""The best score of each message, by its thread and its id."""


async def likest(
    vectors: VectorStore,
    wanted: bytes,
    *,
    resource: str,
    space: str,
    config: SemanticRecall,
    thread: str,
    known: Collection[str],
) -> list[Hit]:
    """All messages but the `known` ones, the likest first, as far as the threshold lets them."""
    best: _Best = {}
    place, only = 0, thread if config.scope == "thread" else None
    while rows := await vectors.vectors(resource=resource, space=space, thread=only, after=place, limit=PAGE):
        await asyncio.to_thread(_keep_best, best, wanted, rows, known)
        place = rows[-1].place
        if len(rows) < PAGE:
            break
    return await asyncio.to_thread(_ranked, best, -2.0 if config.threshold is None else config.threshold)


def _keep_best(best: _Best, wanted: bytes, rows: Sequence[VectorRow], known: Collection[str]) -> None:
    """Compare a page; of the passages of a message only the likest counts."""
    for row, score in zip(rows, similarities(wanted, [row.vector for row in rows]), strict=True):
        key = row.thread, row.message_id
        if row.message_id not in known and score > best.get(key, -2.0):
            best[key] = score


def _ranked(best: _Best, least: float) -> list[Hit]:
    hits = [Hit(score, *key) for key, score in best.items() if score >= least]
    return sorted(hits, key=lambda hit: (-hit.score, hit.thread, hit.message_id))


async def taken(store: RunStore, hits: Sequence[Hit], resource: str, config: SemanticRecall) -> list[Hit]:
    """The first `top_k` of the hits whose messages are there and pass the filter."""
    chosen: list[Hit] = []
    for start in range(0, len(hits), _LOOKED_AT):
        candidates = hits[start : start + _LOOKED_AT]
        found = await store.find_messages([hit.message_id for hit in candidates], resource=resource)
        there = {(each.message.thread_id, each.message.id): each for each in found}
        for hit in candidates:
            each = there.get((hit.thread, hit.message_id))
            if each is not None and (config.filter is None or takes(config.filter, each.message)):
                chosen.append(hit)
            if len(chosen) == config.top_k:
                return chosen
    return chosen


async def with_neighbours(
    store: RunStore, hits: Sequence[Hit], resource: str, config: SemanticRecall
) -> Mapping[str, Sequence[ThreadMessage]]:
    """By thread, the hits and the messages around them, each once and in the order of their thread."""
    by_thread: dict[str, list[str]] = {}
    for hit in hits:
        by_thread.setdefault(hit.thread, []).append(hit.message_id)
    around = config.before, config.after
    return {
        thread: await store.messages(thread, resource=resource, ids=ids, around=around)
        for thread, ids in by_thread.items()
    }
