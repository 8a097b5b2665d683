"""What one owner writes to at a time, the right to do so, and whose things a reader asks for.

Invariant: a fence is valid from its claim until it is released or somebody claims its scope anew, and never again.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal

from msgspec import Struct


class Anyone(Enum):
    """The type of `ANYONE`."""

    ANYONE = "anyone"


ANYONE: Final = Anyone.ANYONE
"""As `resource`: whoever it belongs to. For reads the runtime makes for itself, not for a caller with a resource."""

Owner = str | Anyone | None
"""Whose things a read may find: a resource's; None: those without an owner; `ANYONE`."""


def owns(owner: Owner, resource: str | None) -> bool:
    """Whether who asks as `owner` may find what belongs to `resource`."""
    return owner is ANYONE or owner == resource


class Scope(Struct, frozen=True):
    """What one owner writes to at a time: a run of its own, or a thread of a resource."""

    kind: Literal["run", "thread"]
    id: str
    resource: str = ""


class Fence(Struct, frozen=True):
    """The right to write to a scope until it is released or somebody claims it anew; from then on it is stale.

    Attributes:
        unfinished: A durable run of this scope whose owner is gone; it is to be recovered first.
    """

    scope: Scope
    epoch: int
    owner: str
    unfinished: str | None = None


class HeldBy(Struct, frozen=True):
    """A claim was refused: who holds the scope, and until when (seconds since the epoch) if it is not renewed."""

    scope: Scope
    owner: str
    epoch: int
    expires_at: float
