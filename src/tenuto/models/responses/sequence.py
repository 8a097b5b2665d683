"""The numbers of a stream's events, which tell of one that was lost or came twice.

Invariant: numbers are believed only as long as they count up, as the format says: servers that leave them out, repeat
one number for ever or begin again are read as if there were none.

Source: OpenAI API reference, "Responses", streaming events, `sequence_number`.
"""

from __future__ import annotations

from typing import Any


class EventOrder:
    """Follows the numbers of one stream.

    Attributes:
        next: The number that comes next, when all is well; None before the first.
        last: The event before.
    """

    __slots__ = ("_counted", "_gap", "_void", "last", "next")

    def __init__(self) -> None:
        self.next: int | None = None
        self.last = b""
        self._counted = self._gap = self._void = False

    @property
    def lost(self) -> bool:
        """Whether an event was lost on the way."""
        return self._gap and not self._void

    def counted(self, data: bytes) -> None:
        """The event that came has the number that was next."""
        self.next = (self.next or 0) + 1
        self.last = data
        self._counted = True

    def is_repeat(self, number: Any, data: bytes) -> bool:
        """Take an event with any other number; True when it is the event before, once more."""
        before, self.last = self.last, data
        if not isinstance(number, int):
            self._void = True
        elif self.next is None:
            self.next = number + 1
        elif number > self.next:
            self._gap = True
            self.next = number + 1
        elif number == self.next - 1 and data == before:
            return self._counted and not self._void
        else:
            self._void = True
        return False
