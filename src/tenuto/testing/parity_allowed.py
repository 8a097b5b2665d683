"""Where a durable agent may differ from the plain one: the whole list, each line with what forces it.

Invariant: a difference that is not in this list is a fault; a line that no longer holds is one, too.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["PARITY_ALLOWED", "Allowed"]


class Allowed(Struct, frozen=True):
    """One difference.

    Attributes:
        scenario: Where the parity table shows it.
        plain: What the plain agent does.
        durable: What the durable one does.
        forced_by: The line of the contract or of the design.
    """

    scenario: str
    plain: str
    durable: str
    forced_by: str


PARITY_ALLOWED: tuple[Allowed, ...] = (
    Allowed(
        "the caller of generate is cancelled",
        "the run is aborted and saved",
        "the run goes on without its caller",
        "A viewer's lifetime never decides the run's lifetime; only abort does (spec of durable agents, I9).",
    ),
    Allowed(
        "the loop ends in order",
        "the run is aborted and saved",
        "the run stays where it is, to be recovered",
        "On shutdown a durable run is parked: row running, lease free (spec of durable agents, 3.9).",
    ),
    Allowed(
        "a model record with a key of its own",
        "it is used, and kept in this process only",
        "the call is refused before anything is stored",
        "No credential is ever persisted or published (spec of durable agents, I18).",
    ),
    Allowed(
        "on_iteration_complete says stop",
        "the run stops",
        "the run goes on",
        "On durable agents it only observes: continue and feedback do not affect the loop (contract: durable agents).",
    ),
    Allowed(
        "a durable method",
        "DURABLE_AGENT_NOT_REGISTERED",
        "it is there",
        "observe, resume, recover and list_active_runs belong to durable agents (contract: durable agents, methods).",
    ),
)
