"""Two processes at one run, and drivers that were replaced without knowing it.

Invariant: of two that want the same, one drives and the other is told so; what took effect, what the model was asked
and what the log holds are those of one driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.proof.cells import Cell, Kill, Play, check
from tests.proof.judge import ENDED, Evidence
from tests.proof.scenarios import APPROVE, DECLINE, lines
from tests.proof.stage import Child, Stage, Violation, wait_for

LATER = 60.0
"""Seconds ahead: for such a process the leases of the others have run out."""

REFUSED = {
    "recover": {"DURABLE_AGENT_RECOVER_LEASE_ACQUIRE_FAILED", "DURABLE_AGENT_RECOVER_NOT_RUNNING"},
    "answer": {"WORKFLOW_RESUME_ALREADY_CLAIMED", "AGENT_RESUME_TOOL_CALL_NOT_SUSPENDED", "AGENT_RESUME_NOT_SUSPENDED"},
}
"""What the loser of a race may be told."""


class Race(Play):
    """A run that two processes want; starts up to where they meet."""

    def __init__(self, stage: Stage, place: Path, scenario: str, tag: str, **cell: Any) -> None:
        place.mkdir(parents=True, exist_ok=True)
        super().__init__(stage, place, Cell(scenario=scenario, **cell), tag)

    def die_at(self, kill: Kill) -> None:
        """The first driver dies there."""
        self._see_out(self.start("drive", kill))

    def park(self) -> list[list[str]]:
        """The first driver leaves the run to a decision."""
        self._see_out(self.start("drive"))
        return self.look()["pending"]

    def pause_at(self, kill: Kill, role: str = "drive", **order: Any) -> Child:
        """A driver that stands still there until it is told to go on."""
        child = self.start(role, kill, pause=True, **order)
        child.until("at")
        return child

    def together(self, *children: Child) -> None:
        """Let them go at once."""
        for child in children:
            child.until("ready")
        for child in children:
            child.go()

    def judged(self, **cell: Any) -> Evidence:
        """Judge what is there now; nobody drives any more."""
        self.onlooker.attach()
        status = self.look()["status"]
        if status not in ENDED:
            raise Violation(f"{self._cell}: the run is {status}: {[child.heard[1:] for child in self._drivers]}")
        self.onlooker.end()
        given = self.evidence(status)
        check(Cell(scenario=self._cell.scenario, **cell), given)
        return given

    def winner(self, role: str, *children: Child) -> Child:
        """The one that drove; the others were told why not.

        Raises:
            Violation: None did, or a loser was told something else.
        """
        for child in children:
            assert child.exit() == 0, f"{child.heard}\n{self._stage.errors()}"
        for child in children:
            refused = child.said("refused")
            if refused is not None and refused["error"] not in REFUSED[role]:
                raise Violation(f"the loser of {role} was told {refused['error']}")
        drove = [child for child in children if child.said("ended") is not None]
        if not drove:
            raise Violation(f"nobody drove: {[child.heard[1:] for child in children]}")
        return drove[0]

    def only_one(self, role: str, *children: Child) -> None:
        """Exactly one drove."""
        self.winner(role, *children)
        if (count := sum(child.said("ended") is not None for child in children)) != 1:
            raise Violation(f"{count} of {len(children)} drove: {[child.heard[1:] for child in children]}")

    @property
    def paid(self) -> Mapping[str, int]:
        return Counter(line["order"] for line in lines(self._place / "effects.jsonl"))


def recover_twice(stage: Stage, place: Path, tag: str) -> None:
    """S47: one drives, the other hears that the run is driven, or that it is over."""
    race = Race(stage, place, "once", tag)
    race.die_at(Kill("tool.after_result"))
    both = [race.start("recover", barrier=True) for _ in range(2)]
    race.together(*both)
    race.only_one("recover", *both)
    race.judged(effects={"a": 1}, requests={1: 1, 2: 1})


def resume_twice(stage: Stage, place: Path, tag: str) -> None:
    """S49: the same decision from two processes has one effect."""
    race = Race(stage, place, "approval", tag)
    ((call, *_),) = race.park()
    both = [race.start("answer", call=call, data=APPROVE, barrier=True) for _ in range(2)]
    race.together(*both)
    race.winner("answer", *both)
    race.judged(effects={"a": 1}, requests={1: 1, 2: 1}, told="paid a")


def approve_and_decline(stage: Stage, place: Path, tag: str) -> None:
    """S50: one decision is recorded, and what took effect fits it."""
    race = Race(stage, place, "approval", tag)
    ((call, *_),) = race.park()
    yes, no = (race.start("answer", call=call, data=data, barrier=True) for data in (APPROVE, DECLINE))
    race.together(yes, no)
    race.only_one("answer", yes, no)
    approved = yes.said("ended") is not None
    told = "paid a" if approved else DECLINE["reason"]
    race.judged(effects={"a": 1} if approved else {}, requests={1: 1, 2: 1}, told=told)


def approve_two_calls(stage: Stage, place: Path, tag: str) -> None:
    """S51: two pending calls are approved at once by two processes; each runs once, and the run goes on."""
    race = Race(stage, place, "approvals", tag)
    pending = race.park()
    both = [race.start("answer", call=call, data=APPROVE, barrier=True) for call, *_ in pending]
    race.together(*both)
    race.winner("answer", *both)
    race.judged(effects={"a": 1, "b": 1}, requests={1: 1, 2: 1})


RACES = {
    "S47-recover-twice": recover_twice,
    "S49-resume-twice": resume_twice,
    "S50-approve-and-decline": approve_and_decline,
    "S51-two-calls": approve_two_calls,
}


def replaced_driver(
    stage: Stage, place: Path, tag: str, *, scenario: str, at: Kill, during: bool, mutant: str | None = None
) -> None:
    """S48: a driver is frozen beyond its lease, another takes the run up, the first wakes and writes nothing.

    Args:
        at: Where the first one freezes.
        during: It wakes while the other is in the middle; else when that has finished.
        mutant: A fault in both.
    """
    race = Race(stage, place, scenario, tag, mutant=mutant)
    first = race.pause_at(at)
    first.freeze()
    second = race.pause_at(Kill("run.after_recover_claim"), "recover", ahead=LATER)
    if not during:
        second.go()
        assert second.exit() == 0, stage.errors()
    race.look()
    log, paid = lines(place / "log.jsonl"), race.paid
    first.go()
    first.thaw()
    assert first.exit() == 0, stage.errors()
    race.look()
    wrong = []
    if (now := lines(place / "log.jsonl")) != log:
        wrong.append(f"the replaced driver wrote {now[len(log) :]}")
    if race.paid != paid:
        wrong.append(f"the replaced driver took effect: {race.paid}, before: {paid}")
    if (lost := first.said("lost")) is None or lost["error"] != "STORE_STALE_LEASE":
        wrong.append(f"the replaced driver was not told so: {first.heard[1:]}")
    if during:
        second.go()
        assert second.exit() == 0, stage.errors()
    if wrong:
        raise Violation("\n".join([f"frozen at {at}", *wrong]))
    race.judged()


def untouched(stage: Stage, place: Path, tag: str) -> None:
    """S53: what another process drives is not taken up."""
    race = Race(stage, place, "once", tag)
    driver = race.pause_at(Kill("tool.after_effect"))
    other = race.start("recover_all")
    recovered = other.until("recovered")["runs"]
    assert other.exit() == 0
    refused = race.start("recover")
    assert refused.exit() == 0
    driver.go()
    assert driver.exit() == 0
    if recovered or refused.said("refused") is None:
        raise Violation(f"a healthy run was taken up: {recovered}, {refused.heard[1:]}")
    race.judged(effects={"a": 1}, requests={1: 1, 2: 1}, told="paid a")


def abort_elsewhere(
    stage: Stage, place: Path, tag: str, *, scenario: str, at: Kill, killed: bool, **expected: Any
) -> None:
    """S70: another process aborts a run that its driver is in the middle of.

    Args:
        at: Where the driver is.
        killed: It dies there before it can know.
        expected: See `Cell`.
    """
    race = Race(stage, place, scenario, tag)
    driver = race.pause_at(at)
    asked = race.start("abort")
    asked.until("posted")
    if killed:
        driver.kill()
        driver.exit()
    else:
        driver.go()
        assert driver.exit() == 0, f"{driver.heard}\n{stage.errors()}"
    assert asked.until("asked")["done"] is True
    assert asked.exit() == 0, stage.errors()
    if killed and race.look()["status"] not in ENDED:
        again = race.start("recover")
        assert again.exit() == 0, stage.errors()
    race.judged(status="canceled", **expected)


def abort_while_suspended(stage: Stage, place: Path, tag: str) -> None:
    """S73: nothing is pending any more, and an approval comes too late."""
    race = Race(stage, place, "approval", tag)
    ((call, *_),) = race.park()
    aborter = race.start("abort", Kill("run.after_abort"))  # the abort is stored, and its sender dies
    aborter.until("at")
    aborter.exit()
    assert race.start("abort").until("asked")["done"] is True
    wait_for(lambda: race.look()["status"] in ENDED, "the end of an aborted run")
    late = race.start("answer", call=call, data=APPROVE)
    assert late.exit() == 0, stage.errors()
    if (refused := late.said("refused")) is None:
        raise Violation(f"an aborted run was approved: {late.heard[1:]}")
    if refused["error"] not in REFUSED["answer"]:
        raise Violation(f"an approval after an abort was told {refused['error']}")
    race.judged(status="canceled", effects={}, requests={1: 1})


def orphan_child(stage: Stage, place: Path, tag: str, mutant: str | None = None) -> None:
    """A child run whose root has no driver is left alone by an app that knows its agent: its root drives it on."""
    race = Race(stage, place, "aided", tag, mutant=mutant)
    race.die_at(Kill("model.after_commit", 2))
    sweeper = race.start("sweep_aside", ahead=LATER)
    assert sweeper.exit() == 0, stage.errors()
    if race.paid:
        raise Violation(f"the child run was driven without its parent: {dict(race.paid)}")
    race.start("recover").exit()
    race.judged(effects={"a": 1}, requests={1: 1, 2: 1}, told="paid a")
