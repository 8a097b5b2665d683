"""`python -m tests.simulation --seed N` plays one simulation again; `--count N` plays many."""

from __future__ import annotations

import argparse
import sys
import time

import msgspec

from tests.simulation.plan import Plan, plan_of
from tests.simulation.simulate import simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    parser.add_argument("--plan", help="a plan as JSON, as a failure prints it, instead of a seed")
    parser.add_argument("--trace", action="store_true", help="say what happened also when everything holds")
    asked = parser.parse_args()
    plans = [plan_of(asked.seed + place) for place in range(asked.count)]
    if asked.plan:
        plans = [msgspec.json.decode(asked.plan, type=Plan)]
    began, wrong = time.perf_counter(), 0
    for plan in plans:
        done = simulate(plan)
        wrong += len(done.violations)
        if done.violations or asked.trace:
            sys.stdout.write(done.report() + "\n")
    seconds = time.perf_counter() - began
    sys.stdout.write(f"{len(plans)} simulations in {seconds:.1f} s\nviolations: {wrong}\n")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
