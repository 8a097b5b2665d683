"""Unknown outcomes without a crash and with one, and what else can go wrong around a run."""

import os

import pytest

from tests.proof.cells import Cell, Kill, Play, check
from tests.proof.judge import ENDED
from tests.proof.matrix import AFTER_INTENT, AFTER_RESULT, UNKNOWN
from tests.proof.races import Race
from tests.proof.stage import wait_for

pytestmark = pytest.mark.slow

UPSETS = {
    "timeout": Cell(scenario="timeout", effects={"a": 1}, told=UNKNOWN),
    "timeout-FP7": Cell(scenario="timeout", kills=[AFTER_RESULT], effects={"a": 1}, told=UNKNOWN),
    "raises": Cell(scenario="raises", effects={"a": 1}, told=UNKNOWN),
    "raises-FP7": Cell(scenario="raises", kills=[AFTER_RESULT], effects={"a": 1}, told=UNKNOWN),
    "raises-then-FP4": Cell(scenario="raises", kills=[Kill("model.after_commit", 2)], effects={"a": 1}, told=UNKNOWN),
    "all-calls-are-one": Cell(scenario="only-once", effects={"a": 1}, told="paid a"),
    "all-calls-are-one-FP6": Cell(
        scenario="only-once", kills=[Kill("tool.after_effect")], effects={"a": 1}, told=UNKNOWN
    ),
    "surely-failed": Cell(scenario="refused", effects={"a": 1}, told="nothing was paid"),
    "surely-failed-FP7": Cell(scenario="refused", kills=[AFTER_RESULT], effects={"a": 1}, told="paid a"),
    "surely-failed-then-FP4": Cell(
        scenario="refused", kills=[Kill("model.after_commit", 2)], effects={"a": 1}, told="paid a"
    ),
    "surely-failed-FP5": Cell(scenario="refused", kills=[AFTER_INTENT], effects={}, told=UNKNOWN),
}


@pytest.mark.parametrize("cell", [pytest.param(cell, id=name) for name, cell in UPSETS.items()])
def test_an_outcome_that_nobody_knows_is_not_tried_again(played, request, cell):
    played[request.node.name].result()


def test_a_tool_that_ends_late_answers_the_next_call_of_its_key(stage, tmp_path):
    race = Race(stage, tmp_path, "late", tmp_path.name)
    os.mkfifo(tmp_path / "held")
    driver = race.start("drive")
    wait_for(lambda: any(step == 2 for step, _, _ in stage.requests[tmp_path.name]), "the call's outcome")
    with (tmp_path / "held").open("wb"):
        pass  # the thread reads to the end of it, and its tool returns
    assert driver.exit() == 0, stage.errors()
    given = race.judged(effects={"a": 1, "c": 1}, told="paid a, late")
    outcomes = [chunk["type"] for _, chunk in given.log if chunk["type"] in {"tool-error", "tool-result"}]
    assert outcomes == ["tool-error", *["tool-result"] * 3]  # the log keeps what it said


def test_a_tool_that_an_abort_ends_is_not_run_again(stage, tmp_path):
    race = Race(stage, tmp_path, "aborted", tmp_path.name)
    driver = race.start("drive", abort_at="proof.effect")
    assert driver.exit() == 0, stage.errors()
    race.judged(status="canceled", effects={"a": 1}, requests={1: 1})


@pytest.mark.parametrize("at", [Kill("run.after_finalise"), Kill("run.before_terminal")], ids=str)
def test_an_abort_outlives_its_driver(stage, tmp_path, at):
    race = Race(stage, tmp_path, "aborted", tmp_path.name)
    driver = race.start("drive", at, abort_at="proof.effect")
    driver.until("at")
    driver.exit()
    assert race.start("recover").exit() == 0, stage.errors()
    race.judged(status="canceled", effects={"a": 1}, requests={1: 1})


def test_S42_without_recovery_nothing_is_taken_up_at_boot(stage, tmp_path):
    race = Race(stage, tmp_path, "once", tmp_path.name)
    race.die_at(AFTER_RESULT)
    assert race.look()["status"] == "running"  # `look` is an app with recovery="off"
    assert race.start("recover").exit() == 0
    race.judged(effects={"a": 1}, requests={1: 1, 2: 1})


@pytest.mark.parametrize(
    "at", [Kill("tool.after_effect"), Kill("run.after_claim"), Kill("run.before_terminal")], ids=str
)
def test_S43_an_app_takes_up_at_boot_what_others_left(stage, tmp_path, at):
    race = Race(stage, tmp_path, "once", tmp_path.name)
    race.die_at(at)
    app = race.start("sweep", recovery="auto")
    assert app.exit() == 0, stage.errors()
    begun = at.point != "run.after_claim"
    race.judged(status="success" if begun else "failed", effects={"a": 1} if begun else {})


def test_a_decision_whose_sender_died_is_taken_up_at_boot(stage, tmp_path):
    race = Race(stage, tmp_path, "approval", tmp_path.name)
    ((call, _, _),) = race.park()
    sender = race.start("answer", Kill("run.after_post"), call=call, data={"approved": True})
    sender.until("at")
    sender.exit()
    app = race.start("sweep", recovery="auto")
    wait_for(lambda: race.look()["status"] in ENDED, "the end of a run that was approved")
    assert app.exit() == 0, stage.errors()
    race.judged(effects={"a": 1}, told="paid a")


@pytest.mark.parametrize("point", ["store.migrate.mid", "store.group_commit.before"])
def test_a_store_whose_maker_died_is_finished_by_the_next(stage, tmp_path, point):
    maker = stage.start("open", tmp_path, "none", die={"point": point})
    if maker.until("at", "exit")["said"] == "at":
        assert maker.exit() == -9
    cell = Cell(scenario="once", effects={"a": 1})
    check(cell, Play(stage, tmp_path, cell, tmp_path.name).perform())
