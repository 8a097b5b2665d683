"""One cell of the kill matrix: a run, the deaths of its drivers, and whoever takes it up again.

Invariant: a cell is judged only when each death that it plans came at its point; a child that ends otherwise fails the
cell as the proof's own fault, not as a violation.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from tenuto.steps.delegation import child_id_of
from tests.proof.judge import ENDED, Evidence, violations
from tests.proof.scenarios import ASIDE, SCENARIOS, Scenario, lines
from tests.proof.stage import Child, Stage, Violation

ROUNDS = 20
"""So many processes take a run up at most."""


class Kill(Struct, frozen=True):
    """Where a driver dies: at the n-th pass of `point`, counted from the pass of `after` on; `*` is any point."""

    point: str
    nth: int = 1
    after: str | None = None

    def __str__(self) -> str:
        times = f"#{self.nth}" if self.nth > 1 else ""
        return f"{self.point}{times}" + (f">{self.after}" if self.after else "")

    def order(self) -> dict[str, Any]:
        return {"point": self.point, "nth": self.nth, "after": self.after}


class Cell(Struct, frozen=True, kw_only=True):
    """What is done, and what must come of it beside what holds of every run.

    Attributes:
        kills: Of the first driver, of the one after it, and so on; None lets one live.
        effects: By order: how often it took effect; None: whatever the tools' kinds allow.
        requests: By step: how often the model was asked.
        told: What the model must have read somewhere.
        status: How the run ends.
        surely: Each death must come; False: a driver may end without passing its point.
    """

    scenario: str
    kills: Sequence[Kill | None] = ()
    effects: Mapping[str, int] | None = None
    requests: Mapping[int, int] | None = None
    told: str | None = None
    status: str = "success"
    surely: bool = True
    mutant: str | None = None


class Onlooker:
    """A viewer in a process of its own, and its successors: each goes on behind what the last one wrote down."""

    def __init__(self, stage: Stage, place: Path, run: str) -> None:
        self._stage, self._place, self._run = stage, place, run
        self._file = f"viewer-{run}.jsonl"
        self._child: Child | None = None

    @property
    def seen(self) -> list[tuple[int, dict[str, Any]]]:
        return [(line["index"], line["chunk"]) for line in lines(self._place / self._file)]

    def attach(self) -> None:
        """Start looking, behind what was seen so far."""
        self._child = self._stage.start("view", self._place, self._run, file=self._file, offset=len(self.seen))

    def replace(self) -> None:
        """End this one, and let another process go on."""
        if self._child is not None:
            self._child.kill()
            self._child.exit()
        self.attach()

    def end(self) -> None:
        """Wait until the run's end was seen."""
        assert self._child is not None
        self._child.exit()


class Play:
    """A run on the stage."""

    def __init__(self, stage: Stage, place: Path, cell: Cell, tag: str) -> None:
        self._stage, self._place, self._cell, self._tag = stage, place, cell, tag
        self.run = f"run-{tag}"
        self.scenario: Scenario = SCENARIOS[cell.scenario]
        self._kills = list(cell.kills)
        self._drivers: list[Child] = []
        self.onlooker = Onlooker(stage, place, self.run)
        self.deaths: list[str] = []
        self._answered: set[str] = set()
        self.text: str | None = None

    def perform(self) -> Evidence:
        """Until the run has ended."""
        self.onlooker.attach()
        status, pending = None, []
        for _ in range(ROUNDS):
            self._see_out(self._next(status, pending))
            looked = self.look()
            status, pending = looked["status"], looked["pending"]
            if status in ENDED:
                break
            self._check_pending(status, pending)
            self.onlooker.replace()
        else:
            raise Violation(f"{self._cell}: the run is {status} after {ROUNDS} processes: {self._last_words()}")
        self.onlooker.end()
        return self.evidence(status)

    def start(self, role: str, kill: Kill | None = None, **order: Any) -> Child:
        """A process of this run."""
        order = {"scenario": self._cell.scenario, "tag": self._tag, "mutant": self._cell.mutant, **order}
        order["lockstep"] = (self.scenario.inner or self.scenario).lockstep
        if kill is not None:
            order["die"] = kill.order()
        child = self._stage.start(role, self._place, self.run, **order)
        self._drivers.append(child)
        return child

    def look(self) -> dict[str, Any]:
        child = self._stage.start("look", self._place, self.run)
        looked = child.until("looked")
        assert child.exit() == 0, self._stage.errors()
        return looked

    def evidence(self, status: str | None) -> Evidence:
        """What was written down."""
        live: list[tuple[int, list[dict[str, Any]]]] = []
        for child in self._drivers:
            said = lines(self._place / f"live-{child.number}.jsonl")
            if said and "first" in said[0]:
                live.append((said[0]["first"], [line["chunk"] for line in said[1:]]))
        return Evidence(
            scenario=self.scenario,
            effects=self._effects(),
            requests=self._stage.requests[self._tag],
            inner=self._inner(self.scenario, self._tag),
            log=[(line["index"], line["chunk"]) for line in lines(self._place / "log.jsonl")],
            seen=[self.onlooker.seen],
            thread=lines(self._place / "thread.jsonl"),
            live=live,
            status=status,
            text=self.text,
            kills=self.deaths,
            drivers=len(live),
        )

    def _effects(self) -> list[dict[str, Any]]:
        """Of the run and its tree."""
        return [line for line in lines(self._place / "effects.jsonl") if line["run"] in self._tree()]

    def _tree(self) -> set[str]:
        found, scenario = {self.run}, self.scenario
        run = self.run
        while (scenario := scenario.inner) is not None:
            run = child_id_of(run, 1, 0)
            found.add(run)
        return found

    def _inner(self, scenario: Scenario, tag: str) -> list[tuple[Scenario, list[Any]]]:
        """What each child run of the tree asked its model."""
        found: list[tuple[Scenario, list[Any]]] = []
        inner = scenario.inner
        while inner is not None:
            tag += ASIDE
            found.append((inner, self._stage.requests[tag]))
            inner = inner.inner
        return found

    def decision(self, tool: str, kind: str) -> Mapping[str, Any]:
        """What a call of this tool is answered with."""
        given = self.scenario.decisions[tool]
        return given[0] if kind == "approval" else given[-1]

    def _next(self, status: str | None, pending: Sequence[tuple[str, str, str]]) -> Child:
        kill = self._kills.pop(0) if self._kills else None
        if status is None:
            return self.start("drive", kill)
        if status == "running":
            return self.start("recover", kill)
        call, tool, kind = pending[0]
        self._answered.add(call)
        return self.start("answer", kill, call=call, data=self.decision(tool, kind))

    def _see_out(self, child: Child) -> None:
        code = child.exit()
        planned = child.order.get("die")
        at = child.said("at")
        if at is not None:
            self.deaths.append(at["point"])
            assert code == -signal.SIGKILL, f"{at} and then {code}"
            assert planned is not None
            assert planned["point"] in {"*", at["point"]}
            return
        assert code == 0, f"{child.order} ended with {code}: {child.heard}\n{self._stage.errors()}"
        assert planned is None or not self._cell.surely, f"{planned}: it did not die there, but said {child.heard}"
        if (ended := child.said("ended")) is not None and ended["status"] in ENDED:
            self.text = ended["text"]

    def _check_pending(self, status: str | None, pending: Sequence[Sequence[str]]) -> None:
        if status != "suspended":
            return
        missing = self.scenario.approvals - self._answered - {call for call, *_ in pending}
        if missing or not pending:
            raise Violation(
                f"{self._cell}: the run waits; pending is {pending}, and {missing or 'something'} is missing"
            )

    def _last_words(self) -> list[Any]:
        return [child.heard[-2:] for child in self._drivers[-3:]]


def check(cell: Cell, given: Evidence) -> None:
    """Hold the evidence against what must be.

    Raises:
        Violation: It lists everything that does not hold.
    """
    wrong = violations(given)
    if given.status != cell.status:
        wrong.append(f"the run is {given.status}, not {cell.status}")
    counted = Counter(line["order"] for line in given.effects)
    if cell.effects is not None and counted != Counter(cell.effects):
        wrong.append(f"effects: {dict(counted)}, not {dict(cell.effects)}")
    asked = Counter(step for step, _, _ in given.requests)
    if cell.requests is not None and asked != Counter(cell.requests):
        wrong.append(f"requests by step: {dict(asked)}, not {dict(cell.requests)}")
    if cell.told is not None and not any(cell.told in text for text in told(given)):
        wrong.append(f"the model was never told {cell.told!r}: {told(given)}")
    if wrong:
        raise Violation("\n".join([f"{cell}", f"deaths: {given.kills}", *wrong]))


def told(given: Evidence) -> list[str]:
    """The answers to calls that the model was sent, each once, in order."""
    found: dict[str, None] = {}
    everything = [*given.requests, *(each for _, asked in given.inner for each in asked)]
    for _, _, body in everything:
        for message in body["messages"]:
            if message["role"] == "tool":
                found[str(message["content"])] = None
    return list(found)


def perform(stage: Stage, place: Path, cell: Cell, tag: str) -> Evidence:
    """Play a cell and judge it."""
    place.mkdir(parents=True, exist_ok=True)
    given = Play(stage, place, cell, tag).perform()
    check(cell, given)
    return given


Perform = Callable[[Cell], Evidence]
