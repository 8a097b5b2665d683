"""Two drivers of one run: one wins, the other knows it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.proof import races
from tests.proof.cells import Kill
from tests.proof.kills import AT_ONCE

pytestmark = pytest.mark.slow

ROUNDS = 3
MANY_ROUNDS = 200

FROZEN = {
    "before-the-model": {"scenario": "text", "at": Kill("model.before_call")},
    "in-the-stream": {"scenario": "text", "at": Kill("model.mid_stream", 5)},
    "after-the-effect": {"scenario": "once", "at": Kill("tool.after_effect")},
    "before-the-end": {"scenario": "text", "at": Kill("run.before_terminal")},
}

STORED = Kill("journal.commit.after", after="run.after_claim")

ABORTS = {
    "before-the-first-step": {"scenario": "text", "at": STORED, "requests": {}},
    "in-the-middle": {"scenario": "chain", "at": Kill("tool.after_effect"), "requests": {1: 1}, "effects": {"a": 1}},
    "in-the-stream": {"scenario": "text", "at": Kill("model.mid_stream", 3), "requests": {1: 1}},
    "between-steps": {"scenario": "chain", "at": Kill("tool.after_result"), "requests": {1: 1}, "effects": {"a": 1}},
    "before-the-intent": {"scenario": "once", "at": Kill("model.after_commit"), "requests": {1: 1}, "effects": {}},
    "before-it-parks": {"scenario": "approval", "at": Kill("run.before_park"), "requests": {1: 1}, "effects": {}},
    "when-it-has-parked": {"scenario": "approval", "at": Kill("run.after_park"), "requests": {1: 1}, "effects": {}},
}


@pytest.mark.parametrize("race", races.RACES.values(), ids=races.RACES)
def test_of_two_that_want_a_run_one_gets_it(stage, tmp_path, race):
    for number in range(ROUNDS):
        race(stage, tmp_path / str(number), f"{tmp_path.name}-{number}")


@pytest.mark.parametrize("during", [True, False], ids=["meanwhile", "afterwards"])
@pytest.mark.parametrize("given", FROZEN.values(), ids=FROZEN)
def test_S48_a_driver_that_was_replaced_writes_nothing(stage, tmp_path, given, during):
    races.replaced_driver(stage, tmp_path, tmp_path.name, during=during, **given)


def test_S53_a_healthy_run_is_not_taken_up(stage, tmp_path):
    races.untouched(stage, tmp_path, tmp_path.name)


@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
@pytest.mark.parametrize("given", ABORTS.values(), ids=ABORTS)
def test_S70_an_abort_from_another_process_holds(stage, tmp_path, given, killed):
    races.abort_elsewhere(stage, tmp_path, tmp_path.name, killed=killed, **given)


def test_S73_an_aborted_run_that_waited_waits_no_more(stage, tmp_path):
    races.abort_while_suspended(stage, tmp_path, tmp_path.name)


@pytest.mark.long
@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("race", races.RACES.values(), ids=races.RACES)
def test_of_two_that_want_a_run_one_gets_it_each_time(stage, tmp_path, race):
    with ThreadPoolExecutor(AT_ONCE) as pool:
        rounds = [
            pool.submit(race, stage, tmp_path / str(number), f"{tmp_path.name}-{number}")
            for number in range(MANY_ROUNDS)
        ]
        for each in rounds:
            each.result()
