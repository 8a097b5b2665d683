"""What `reconcile=` answers about a call whose outcome nobody stored.

Invariant: only `Applied` and `NotApplied` settle anything; whatever else comes back counts as `Unknown`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Applied(Struct, frozen=True):
    """The effect took place; `result` is what the call would have returned (anything JSON can hold)."""

    result: Any = None


class NotApplied(Struct, frozen=True):
    """The effect surely did not take place: the tool is run again."""


class Unknown(Struct, frozen=True):
    """It cannot be found out: the tool is not run again, and its `on_unknown` decides."""


Settlement = Applied | NotApplied | Unknown
