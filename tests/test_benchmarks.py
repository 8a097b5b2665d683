"""That the benchmarks run, not what they measure: a time is never asserted."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.measure import Field, measure, provider
from benchmarks.report import DIALECTS as DIALECT_TABLE
from benchmarks.report import MAIN, PAGE, section, table, table_of_dialects, written
from benchmarks.rows import AGNO, DIALECT_ROWS, DIALECTS, DURABLE, FLOOR, OPENAI, PROCESSED, ROWS, TENUTO, Bar

ROOT = Path(__file__).resolve().parent.parent
BY_NAME = {row.name: row for row in ROWS}
OF_DIALECTS = {row.name: row for row in DIALECT_ROWS}


def double(found):
    return found[TENUTO][0] / found[FLOOR][0]


@pytest.mark.slow
def test_a_tiny_scenario_of_each_kind_runs():
    said = []
    field = Field([TENUTO, FLOOR], said.append)
    field.absent |= {OPENAI: "not asked", AGNO: "not asked"}
    with provider() as base_url:
        for name in ("burst", "paced-many", "call", "long-run"):
            (found,) = measure(BY_NAME[name], field, base_url, 1, said.append, small=True)
            assert found.keys() == {TENUTO, FLOOR}, said
            assert all(figure > 0 for figures in found.values() for figure in figures)


@pytest.mark.slow
def test_tiny_scenarios_of_durable_runs_run():
    said = []
    field = Field([TENUTO, DURABLE], said.append)
    with provider() as base_url:
        for name in ("durable-burst", "durable-round"):
            (found,) = measure(BY_NAME[name], field, base_url, 1, said.append, small=True)
            assert found.keys() == {TENUTO, DURABLE}, said
        (found,) = measure(BY_NAME["viewers"], field, base_url, 1, said.append, small=True)
        assert found.keys() == {TENUTO}, said
        (found,) = measure(BY_NAME["search"], field, base_url, 1, said.append, small=True)
        assert found.keys() == {DURABLE}, said
        (found,) = measure(BY_NAME["parked"], field, base_url, 1, said.append, small=True)
        assert found[DURABLE][1:] == (0, 0), "a run that waits holds no task and no timer"
        (found,) = measure(BY_NAME["long-thread"], field, base_url, 1, said.append, small=True)
        assert found.keys() == {DURABLE}, said


@pytest.mark.slow
def test_a_tiny_stream_runs_through_a_processor():
    said = []
    field = Field([TENUTO, PROCESSED], said.append)
    with provider() as base_url:
        (found,) = measure(BY_NAME["processed-burst"], field, base_url, 1, said.append, small=True)
    assert found.keys() == {TENUTO, PROCESSED}, said


@pytest.mark.slow
def test_tiny_scenarios_run_in_every_dialect():
    said = []
    everyone = (TENUTO, *DIALECTS)
    field = Field(everyone, said.append)
    with provider() as base_url:
        for name in ("burst", "tool-round"):
            (found,) = measure(OF_DIALECTS[name], field, base_url, 1, said.append, small=True)
            assert found.keys() == set(everyone), said
            assert all(figure > 0 for figures in found.values() for figure in figures)


@pytest.mark.slow
def test_a_contestant_that_fails_is_named_and_left_out():
    said = []
    field = Field([TENUTO, FLOOR], said.append)
    field.absent |= {OPENAI: "not asked", AGNO: "not asked"}
    (found,) = measure(BY_NAME["call"], field, "http://127.0.0.1:9/v1", 1, said.append, small=True)
    assert not found
    assert "call failed" in field.absent[TENUTO]
    assert any(line.startswith("floor is missing") for line in said)


@pytest.mark.slow
def test_the_command_line_knows_its_rows():
    command = [sys.executable, "-m", "benchmarks", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT)
    assert all(row.name in done.stdout for row in ROWS)


@pytest.mark.parametrize(
    ("bar", "word"),
    [
        (Bar("", double, 2.0, (FLOOR,)), "met"),
        (Bar("", double, 1.9, (FLOOR,)), "missed"),
        (Bar("", double, 2.0, (FLOOR,), at_least=True), "met"),
        (Bar("", double, 2.1, (FLOOR,), at_least=True), "missed"),
        (Bar("", double, 2.0, (FLOOR, OPENAI)), "not measured: no openai"),
    ],
)
def test_a_verdict_is_that_of_the_median_ratio(bar, word):
    repetitions = [{TENUTO: (ratio * 10,), FLOOR: (10.0,)} for ratio in (2.0, 1.0, 30.0)]
    assert bar.verdict(repetitions).word == word


def test_the_added_cost_is_a_share_of_what_the_package_adds():
    (bar,) = BY_NAME["call"].bars
    verdict = bar.verdict([{TENUTO: (300.0,), FLOOR: (100.0,), OPENAI: (1_100.0,)}])
    assert verdict.ratios == (0.2, 0.2, 0.2)


def test_what_durable_runs_add_is_held_against_the_plain_ones():
    repetition = {TENUTO: (800.0, 1_000.0), DURABLE: (1_600.0, 4_000.0)}
    cpu, wall = (bar.verdict([repetition]) for bar in BY_NAME["durable-round"].bars)
    assert (cpu.ratios[0], wall.ratios[0]) == (1.6, 3.0)
    (packed,) = BY_NAME["durable-burst"].bars
    assert packed.verdict([repetition]).ratios[0] == 2
    assert packed.verdict([{DURABLE: (1.0,)}]).word == "not measured: no tenuto"


def test_the_table_has_a_line_for_each_bar():
    repetitions = [{TENUTO: (4.0,), FLOOR: (2.0,), OPENAI: (100.0,)}, {TENUTO: (6.0,), FLOOR: (2.0,)}]
    head, rule, first, second = table([(BY_NAME["burst"], repetitions)]).splitlines()
    assert len({len(line) for line in (head, rule, first, second)}) == 1
    assert [cell.strip() for cell in first.split("|")][3:-1] == [
        "5", "", "2", "100", "none", "at most 3x the floor", "2.5 (2 to 3)", "met",
    ]  # fmt: skip
    assert second.split("|")[-2].strip() == "met"


def test_the_table_of_dialects_has_a_line_for_each_row_and_holds_each_dialect_against_chat():
    repetitions = [{TENUTO: (4.0, 10.0), "responses": (9.0, 12.0), "anthropic": (4.0, 20.0)}]
    head, _, line = table_of_dialects([(OF_DIALECTS["long-run"], repetitions)]).splitlines()
    assert [cell.strip() for cell in head.split("|")][3:-1] == ["chat", *DIALECTS]
    assert [cell.strip() for cell in line.split("|")][3:-1] == [
        "4, 10", "9, 12: 1.2, met", "4, 20: 2, **missed**", "none: none, not measured: no google",
    ]  # fmt: skip


def test_every_dialect_is_held_against_chat_in_the_rows_that_all_have():
    assert {row.name for row in DIALECT_ROWS} == {"burst", "paced", "paced-many", "call", "tool-round", "long-run"}
    for row in DIALECT_ROWS:
        assert [(bar.about, bar.limit) for bar in row.bars] == [(name, 1.5) for name in DIALECTS]


def test_only_what_is_between_the_markers_is_written():
    begin, end = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
    page = f"before\n{begin}\nold\n{end}\nafter\n"
    text = section(MAIN.table([]), ["a fact"], {AGNO: "no network"}, "make bench")
    found = written(page, text, MAIN.place)
    assert found.startswith(f"before\n{begin}\n")
    assert found.endswith(f"{end}\nafter\n")
    assert "old" not in found
    assert "- missing: agno (no network)" in found
    with pytest.raises(ValueError, match="no lines"):
        written("a page without markers", text, MAIN.place)


def test_the_page_has_a_place_for_each_table():
    page = PAGE.read_text(encoding="utf-8")
    assert all("new" in written(page, "new", form.place) for form in (MAIN, DIALECT_TABLE))


def test_the_pins_of_a_peer_name_no_host():
    for pins in (ROOT / "benchmarks" / "peers").glob("*.txt"):
        text = pins.read_text(encoding="utf-8")
        assert f"{pins.stem}==" in text
        assert "://" not in text


def test_the_rows_have_names_of_their_own():
    assert len(BY_NAME) == len(ROWS)
