"""What a simulation is told to do: the runs, what befalls the processes and the store, and what people do meanwhile.

Invariant: a plan is a value; the same plan gives the same simulation, step by step. `seed` decides only what is too
small to be written down one by one (extra yields, waits, which process a client asks).
"""

from __future__ import annotations

from random import Random
from typing import Any, Literal

from hypothesis import strategies as st
from msgspec import Struct

TOOLS = ("look", "file", "pay", "charge", "wire", "ask", "trip", "check", "doubt")
Does = Literal["work", "fail", "boom", "slow", "long"]
DOES: tuple[Does, ...] = ("work", "work", "work", "work", "work", "fail", "boom", "slow", "long")
Kind = Literal["crash", "crash at a failpoint", "freeze", "stop", "refuse", "keep and raise"]
KINDS: tuple[Kind, ...] = ("crash", "crash", "crash at a failpoint", "freeze", "stop", "refuse", "keep and raise")
Deed = Literal["abort", "observe", "recover", "recover all", "list"]
DEEDS: tuple[Deed, ...] = ("observe", "observe", "observe", "recover", "recover all", "list", "abort")


class CallPlan(Struct, frozen=True):
    """A tool call of the model. `order` names the effect among those of its run: two calls may share it."""

    tool: str
    does: Does
    order: int


class RunPlan(Struct, frozen=True):
    """A run: the calls of each step but the last, which answers; a step without calls ends it before.

    Attributes:
        at: Virtual second of its start.
        fails: The step in which the model fails; 0: none.
    """

    at: float
    steps: tuple[tuple[CallPlan, ...], ...]
    fails: int = 0
    approve_all: bool = False
    max_steps: int = 6
    concurrency: int = 10


class Blow(Struct, frozen=True):
    """Something that befalls a process when it passes its port (or failpoint) for the `at`th time."""

    slot: int
    at: int
    kind: Kind


class Act(Struct, frozen=True):
    """What a client does at a virtual second."""

    at: float
    deed: Deed
    run: int


class Plan(Struct, frozen=True):
    """See the module."""

    seed: int
    runs: tuple[RunPlan, ...]
    blows: tuple[Blow, ...] = ()
    acts: tuple[Act, ...] = ()


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    chance = Random(f"plan {seed}")
    runs = tuple(_run(chance) for _ in range(chance.choice((1, 1, 2, 3))))
    # Calls of the port are counted over all lives of a process; a quiet run needs about forty.
    blows = tuple(
        Blow(chance.randrange(2), int(chance.triangular(1, 160, 20)), chance.choice(KINDS))
        for _ in range(chance.choice((0, 1, 2, 3, 4, 6)))
    )
    acts = tuple(
        Act(round(chance.uniform(0, 40), 2), chance.choice(DEEDS), chance.randrange(len(runs)))
        for _ in range(chance.randrange(6))
    )
    return Plan(seed, runs, blows, acts)


def _run(chance: Random) -> RunPlan:
    steps = tuple(
        tuple(_call(chance) for _ in range(chance.choice((1, 1, 1, 2, 3)))) for _ in range(chance.randrange(4))
    )
    return RunPlan(
        at=round(chance.uniform(0, 10), 2),
        steps=steps,
        fails=chance.randint(1, len(steps) + 1) if chance.random() < 0.1 else 0,
        approve_all=chance.random() < 0.1,
        max_steps=chance.choice((6, 6, 6, 2)),
        concurrency=chance.choice((10, 10, 1, 2)),
    )


def _call(chance: Random) -> CallPlan:
    return CallPlan(chance.choice(TOOLS), chance.choice(DOES), chance.randrange(4))


def plans() -> st.SearchStrategy[Plan]:
    """Plans that hypothesis can make smaller."""
    calls = st.builds(CallPlan, st.sampled_from(TOOLS), st.sampled_from(DOES), st.integers(0, 2))
    runs: Any = st.builds(
        RunPlan,
        st.floats(0, 10).map(lambda at: round(at, 1)),
        st.lists(st.lists(calls, min_size=1, max_size=3).map(tuple), max_size=3).map(tuple),
    )
    blows = st.builds(Blow, st.integers(0, 1), st.integers(1, 160), st.sampled_from(KINDS))
    acts = st.builds(Act, st.floats(0, 40).map(lambda at: round(at, 1)), st.sampled_from(DEEDS), st.just(0))
    return st.builds(
        Plan,
        st.integers(0, 1000),
        st.lists(runs, min_size=1, max_size=2).map(tuple),
        st.lists(blows, max_size=4).map(tuple),
        st.lists(acts, max_size=4).map(tuple),
    )
