"""The soak: runs drawn by lot, whose drivers die at points drawn by lot, until so many have died.

Invariant: what is drawn depends on the seed and the number of the run alone; a run is judged like a cell of the matrix.

    python -m tests.proof.kills --count 500 --seed 7
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from tests.proof.cells import Cell, Kill, Play
from tests.proof.judge import violations
from tests.proof.points import POINTS
from tests.proof.scenarios import SCENARIOS
from tests.proof.stage import Stage, Violation

AT_ONCE = 4
MOST_KILLS = 3
"""Of one run: more in a row without a completed model call, and it is given up, as it should be."""

NOT_HERE = {"late", "aborted", "asking-no"}
"""They need a hand from the test, or a death where what their person says is true."""

_POINTS = [*["*"] * 20, *POINTS, "proof.effect"]


def drawn(seed: int, number: int) -> Cell:
    """The run of that number."""
    chance = random.Random(f"{seed}/{number}")
    scenario = chance.choice(sorted(SCENARIOS.keys() - NOT_HERE))
    kills: list[Kill | None] = []
    for _ in range(chance.randint(1, MOST_KILLS)):
        point = chance.choice(_POINTS)
        kills.append(Kill(point, chance.randint(1, 36 if point == "*" else 3)))
        kills += [None] * (chance.random() < 0.3)
    return Cell(scenario=scenario, kills=kills, surely=False)


def played(stage: Stage, place: Path, cell: Cell, tag: str) -> tuple[list[str], list[str]]:
    """Where its drivers died, and what does not hold."""
    place.mkdir()
    play = Play(stage, place, cell, tag)
    try:
        given = play.perform()
    except Violation as broken:
        return play.deaths, [str(broken)]
    wrong = violations(given)
    if given.status != "success" and (given.requests or not given.kills):
        wrong.append(f"the run is {given.status}")
    return play.deaths, wrong


def say(line: str) -> None:
    """At once, also into a pipe."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def soak(stage: Stage, root: Path, *, count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Play until `count` drivers have died; returns the points they died at, and each violation."""
    deaths: Counter[str] = Counter()
    broken: list[str] = []
    numbers: Iterator[int] = iter(range(count * 20))
    waiting: dict[Future[tuple[list[str], list[str]]], tuple[int, Cell]] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while deaths.total() < count or waiting:
            while len(waiting) < AT_ONCE and deaths.total() < count:
                number = next(numbers)
                cell = drawn(seed, number)
                job = pool.submit(played, stage, root / str(number), cell, f"{seed}-{number}")
                waiting[job] = number, cell
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for job in done:
                number, cell = waiting.pop(job)
                died, wrong = job.result()
                deaths.update(died)
                if wrong:
                    plan = ", ".join(map(str, cell.kills))
                    broken.append(f"seed {seed}, run {number}: {cell.scenario} [{plan}], died at {died}: {wrong}")
                    say(broken[-1])
    return deaths, broken


def main(arguments: list[str] | None = None) -> int:
    """The command; its last line is the verdict."""
    parser = argparse.ArgumentParser(description="Kill drivers at random points and judge what became of their runs.")
    parser.add_argument("--count", type=int, default=500, help="deaths")
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args(arguments)
    seed = random.randrange(1 << 32) if given.seed is None else given.seed
    say(f"seed: {seed}")
    with tempfile.TemporaryDirectory(prefix="tenuto-kills-") as directory, Stage(Path(directory)) as stage:
        deaths, broken = soak(stage, Path(directory), count=given.count, seed=seed)
    for point, count in deaths.most_common():
        say(f"{count:6} {point}")
    say(f"kills: {deaths.total()}")
    say(f"violations: {len(broken)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
