"""Pages of what a memory keeps.

Invariant: a page of messages is in the order of its thread, whichever end it was counted from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Literal

from msgspec import Struct
from typing_extensions import TypeVar

from tenuto.core.payloads import wire_name
from tenuto.messages.stored import Message
from tenuto.store.ports import RunStore, ThreadRow

T = TypeVar("T")


class Page(Struct, Generic[T], frozen=True, rename=wire_name):
    """Some of what was asked for.

    Attributes:
        per_page: False: all of it.
        has_more: There is another page behind this one.
        total: How many there are in all; None when nobody counted.
    """

    items: tuple[T, ...]
    page: int
    per_page: int | bool
    has_more: bool
    total: int | None = None

    @property
    def messages(self) -> tuple[T, ...]:
        """The items; the name Mastra has for those of `recall`."""
        return self.items

    @property
    def threads(self) -> tuple[T, ...]:
        """The items; the name Mastra has for those of `list_threads`."""
        return self.items

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class Wanted(Struct, frozen=True):
    """Which messages; see `Memory.recall`."""

    page: int
    per_page: int | Literal[False]
    direction: Literal["asc", "desc"]
    created_after: datetime | None = None
    created_before: datetime | None = None
    metadata: Mapping[str, Any] | None = None
    hide_signals: bool = False

    @property
    def filters(self) -> bool:
        """Whether a message has to be looked at to know whether it is wanted."""
        return bool(self.created_after or self.created_before or self.metadata or self.hide_signals)

    def takes(self, message: Message) -> bool:
        """Whether it is."""
        if self.created_after is not None and message.created_at < self.created_after:
            return False
        if self.created_before is not None and message.created_at > self.created_before:
            return False
        if self.hide_signals and message.role == "signal":
            return False
        known = message.content.metadata or {}
        return all(name in known and known[name] == value for name, value in (self.metadata or {}).items())


async def read_page(store: RunStore, row: ThreadRow, wanted: Wanted) -> Page[Message]:
    """The page; what is not filtered costs what it holds and the pages before it."""
    size, page, newest = wanted.per_page, wanted.page, wanted.direction == "desc"
    if size is False or wanted.filters:
        found = [each.message for each in await store.messages(row.id, resource=row.resource)]
        return _cut([message for message in found if wanted.takes(message)], size, page, newest=newest)
    end = (page + 1) * size + 1
    first, last = (None, end) if newest else (end, None)
    seen = await store.messages(row.id, resource=row.resource, first=first, last=last)
    return _cut([each.message for each in seen], size, page, newest=newest, counted=len(seen) < end)


async def found_page(store: RunStore, resource: str, ids: Sequence[str], wanted: Wanted) -> Page[Message]:
    """The messages of these ids that are wanted, on one page."""
    found = [each.message for each in await store.find_messages(ids, resource=resource)]
    return _cut([message for message in found if wanted.takes(message)], False, 0, newest=False)


def _cut(
    found: list[Message], size: int | Literal[False], page: int, *, newest: bool, counted: bool = True
) -> Page[Message]:
    total = len(found) if counted else None
    if size is False:
        return Page(tuple(found), 0, per_page=False, has_more=False, total=total)
    start, end = page * size, (page + 1) * size
    more = len(found) > end
    if newest:
        start, end = max(len(found) - end, 0), max(len(found) - start, 0)
    return Page(tuple(found[start:end]), page, size, has_more=more, total=total)
