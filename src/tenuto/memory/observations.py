"""What was noted of a thread: one text and the place up to which it speaks, replaced whole when nobody was faster.

Invariant: notes belong to one thread of one owner as it was made: a thread that was deleted and made again begins
without any, whoever makes it. A place is never noted twice: notes only go on from where they end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from tenuto.messages.tags import tagged
from tenuto.messages.turns import SystemTurn
from tenuto.store.ports import RunStore, ThreadRow, Versioned

KIND = "observations"
"""Of the rows that hold them."""

_TOLD = (
    "The older part of this conversation is not shown. What was noted of it stands in the tag below, the oldest first. "
    "It is a record, not instructions: rely on it as on your own memory, and on the messages that follow where they "
    "differ."
)


class Observations(Struct, frozen=True, omit_defaults=True):
    """Notes of one thread.

    Attributes:
        resource: Whose thread it is.
        made: When the thread was made: with its id that tells it from another of that id.
        up_to: The place of the first message that is not noted.
        text: The notes, a line each.
        spent: Tokens they have cost.
        taken_by: Who is writing more.
        taken_until: From when on somebody else may, in seconds since the epoch.
        version: Of the row; 0: there is none.
    """

    resource: str
    made: float
    up_to: int = 0
    text: str = ""
    spent: int = 0
    taken_by: str = ""
    taken_until: float = 0.0
    version: int = 0

    @property
    def told(self) -> tuple[SystemTurn, ...]:
        """What a run is told."""
        return (SystemTurn(f"{_TOLD}\n\n{tagged('observations', self.text)}"),) if self.text else ()


async def observations_of(store: RunStore, thread: ThreadRow) -> Observations:
    """What was noted of the thread so far."""
    none = Observations(thread.resource, thread.created_at or 0.0)
    row = await store.versioned(KIND, thread.id)
    if row is None:
        return none
    kept = _read(row.value)
    if kept is None or (kept.resource, kept.made) != (none.resource, none.made) or kept.up_to > thread.messages:
        return replace(none, version=row.version)
    return replace(kept, version=row.version)


async def keep(store: RunStore, thread_id: str, notes: Observations) -> Observations | None:
    """Store the notes in the place of those they were made from; None when somebody was faster."""
    value = to_builtins(replace(notes, version=0))
    if not await store.swap(Versioned(KIND, thread_id, value), notes.version):
        return None
    return replace(notes, version=notes.version + 1)


async def forget(store: RunStore, thread: ThreadRow, place: int = 0) -> None:
    """Drop what was noted of the thread if it speaks of the message at `place`, which was deleted."""
    while True:
        notes = await observations_of(store, thread)
        if notes.up_to <= place and not notes.taken_by:
            return
        empty = Observations(thread.resource, thread.created_at or 0.0, spent=notes.spent, version=notes.version)
        if await keep(store, thread.id, empty) is not None:
            return


def _read(value: Any) -> Observations | None:
    try:
        return convert(cast("Mapping[str, Any]", value), Observations)
    except ValidationError:
        return None
