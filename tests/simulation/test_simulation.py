"""Seeded simulations of two processes, and that the simulation can see what it looks for."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tenuto.runs.driver import Driver
from tenuto.runs.journal import Journal
from tenuto.steps import tool_step
from tenuto.store import InMemoryStore
from tests.simulation.plan import Blow, CallPlan, Plan, RunPlan, plan_of, plans
from tests.simulation.simulate import simulate

SEEDS = 150
LONG_SEEDS = 2_000


@pytest.mark.parametrize("first", range(0, SEEDS, 25))
def test_nothing_is_lost_or_repeated(first):
    for seed in range(first, first + 25):
        done = simulate(plan_of(seed))
        assert not done.violations, f"python -m tests.simulation --seed {seed}\n{done.report()}"


@settings(
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
    derandomize=True,
)
@given(plans())
def test_nothing_is_lost_or_repeated_in_small_plans(plan):
    """Found here, a plan is made smaller; `python -m tests.simulation --plan '...'` plays it again."""
    done = simulate(plan)
    assert not done.violations, done.report()


@pytest.mark.parametrize("seed", [3, 17, 42])
def test_a_seed_says_the_same_twice(seed):
    plan = plan_of(seed)
    assert simulate(plan).trace == simulate(plan).trace


@pytest.fixture(scope="module")
def long_run():
    """Counts over the tests that share the seeds: each stays below the time after which a test counts as hung."""
    return {"simulations": 0, "violations": 0}


@pytest.mark.long
@pytest.mark.parametrize("first", range(10_000, 10_000 + LONG_SEEDS, 100))
def test_many_simulations(first, long_run):
    reports: list[str] = []
    for seed in range(first, first + 100):
        done = simulate(plan_of(seed))
        if done.violations:
            reports.append(f"python -m tests.simulation --seed {seed}\n{done.report()}")
    long_run["simulations"] += 100
    long_run["violations"] += len(reports)
    assert not reports, "\n".join(reports)


@pytest.mark.long
def test_what_came_of_them(long_run, capsys):
    with capsys.disabled():
        sys.stdout.write(f"\nsimulations of two processes: {long_run['simulations']}\n")
        sys.stdout.write(f"violations: {long_run['violations']}\n")
    assert long_run == {"simulations": LONG_SEEDS, "violations": 0}


# -- with a fault put in, some seed must turn red ----------------------------------------------------------------------


def _violations(plans: Iterable[Plan]) -> list[str]:
    """Of the first plan that has some."""
    return next((done.violations for plan in plans if (done := simulate(plan)).violations), [])


def _frozen(tool: str) -> Iterable[Plan]:
    """A run of one tool, whose driver freezes somewhere, long enough for another one to take over."""
    calls = (CallPlan(tool, "work", 0), CallPlan(tool, "work", 1))
    blows = ((Blow(0, at, "freeze"), Blow(1, at, "freeze")) for at in range(6, 60, 2))
    return (Plan(at, (RunPlan(0.0, (calls, calls, calls)),), both) for at, both in enumerate(blows))


def test_it_sees_a_store_that_does_not_check_the_fence(monkeypatch):
    monkeypatch.setattr(InMemoryStore, "_holds", lambda store, fence: fence.scope in store._leases)
    assert any("stale epoch" in each for each in _violations(_frozen("trip")))


def test_it_sees_an_effect_before_its_intent(monkeypatch):
    body = tool_step._Entry._body

    async def effect_first(entry):
        await tool_step.run_tool(entry._tool, entry._context(), entry._args)
        await body(entry)

    monkeypatch.setattr(tool_step._Entry, "_body", effect_first)
    assert any("took effect" in each for each in _violations(map(plan_of, range(20))))


def test_it_sees_what_is_shown_before_it_is_stored(monkeypatch):
    flush = Journal._flush

    async def shown_first(journal, *parts):
        chunks, journal._hidden = journal._hidden, []
        journal._show(chunks)
        return await flush(journal, *parts)

    monkeypatch.setattr(Journal, "_flush", shown_first)
    assert any("before it was stored" in each for each in _violations(map(plan_of, range(20))))


def test_it_sees_a_driver_that_renews_its_old_fence(monkeypatch):
    hold = Driver._hold
    monkeypatch.setattr(Driver, "_drop_lease", lambda driver: None)
    monkeypatch.setattr(Driver, "_hold", lambda driver, journal: driver._held or hold(driver, journal))
    plans = (Plan(seed, (RunPlan(0.0, ((CallPlan("wire", "work", 0),),) * 4),)) for seed in range(120))
    assert any("which it holds" in each for each in _violations(plans))
