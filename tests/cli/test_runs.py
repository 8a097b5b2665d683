"""`tenuto runs`: every command, on runs that a small durable app has left in a file."""

from __future__ import annotations

import json
import re

import pytest

STORE = ("--store", "shop.db")
APP = ("--app", "shop:app")


def one_line(result, said, code=1):
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output


# -- where -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["list", "show", "watch", "abort"])
def test_without_app_or_store_it_says_what_to_give(shop, command):
    run = [] if command == "list" else ["run_1"]
    one_line(shop(command, *run), "give --app MODULE:APP or --store FILE", 2)
    one_line(shop(command, *run, *STORE, *APP), "give --app MODULE:APP or --store FILE", 2)


@pytest.mark.parametrize(("command", "more"), [("resume", ["run_1", "--approve"]), ("recover", ["--all"])])
def test_driving_on_needs_the_app(shop, command, more):
    one_line(shop(command, *more), "give --app", 2)


@pytest.mark.parametrize(
    ("option", "name", "said"),
    [
        ("--store", "none.db", "There is no store none.db"),
        ("--store", "shop.py", "shop.py"),
        ("--app", "shop:nothing", "it has: app, memory"),
        ("--app", "shop.py:nothing", "it has: app, memory"),
        ("--app", "shop", "write module:app"),
        ("--app", "nowhere:app", "There is no module 'nowhere'"),
        ("--app", "shop:memory", "give it store=SQLiteStore(...)"),
    ],
)
def test_a_place_that_is_not_there(shop, option, name, said):
    one_line(shop("list", option, name), said)


def test_a_run_that_is_not_there(shop):
    shop.run("Hi")
    for command in (
        ["show", "run_x", *STORE],
        ["watch", "run_x", *STORE],
        ["abort", "run_x", *STORE],
        ["resume", "run_x", "--approve", *APP],
        ["recover", "run_x", *APP],
    ):
        one_line(shop(*command), "There is no run 'run_x'")


# -- list --------------------------------------------------------------------------------------------------------------


def test_list_shows_what_each_run_waits_for(shop):
    paid, waits, lost = shop.run("pay 5"), shop.run("pay 200 300 400"), shop.abandon()
    for place in (STORE, APP, ("--app", "shop.py:app")):
        result = shop("list", *place)
        assert result.exit_code == 0
        head, *rows = result.stdout.splitlines()
        assert head.split() == ["RUN", "AGENT", "STATUS", "AGE"]
        assert [row.split()[:3] for row in rows] == [
            [lost, "clerk", "running"],
            [waits, "clerk", "suspended"],
            [paid, "clerk", "success"],
        ]
        assert "its process is gone: tenuto runs recover" in rows[0]
        assert re.search(r"waits: approval of pay \[\w+\], approval of pay \[\w+\] and 1 more", rows[1])
    assert shop.status(lost) == "running"  # looking recovers nothing, the app's recovery="auto" neither


def test_list_filters(shop):
    first, second, third = shop.run("Hi"), shop.run("ask"), shop.run("fail")
    assert [run["runId"] for run in listed(shop)] == [third, second, first]
    assert [run["runId"] for run in listed(shop, "--limit", 1)] == [third]
    (waiting,) = listed(shop, "--status", "suspended")
    assert (waiting["runId"], waiting["abandoned"], waiting["pending"][0]["toolName"]) == (second, False, "ask")
    assert "out of luck" in shop("list", *STORE, "--status", "failed").stdout
    assert shop("list", *STORE, "--status", "canceled").stdout == "No runs.\n"
    one_line(shop("list", *STORE, "--status", "lost"), "none of running, suspended", 2)


def listed(shop, *options):
    return json.loads(shop("list", *STORE, "--json", *options).stdout)


# -- show --------------------------------------------------------------------------------------------------------------


def test_a_tree_of_runs(shop):
    run = shop.run("pay 200", agent="boss")
    alone = shop.run("Hi")
    rows = shop("list", *STORE).output.splitlines()
    assert [row.split()[1] for row in rows[1:]] == ["clerk", "boss", "helper"]
    assert rows[1].startswith(alone)
    assert "waits: approval of pay [d1]" in rows[2]
    child = rows[3].split()[0]
    assert rows[3].startswith(f"  {child}")
    assert rows[3].endswith("of call d1")
    shown = shop("show", run, *STORE).output
    assert f"child run {child}  helper  suspended  of call d1" in shown
    assert f"tenuto runs resume {run} --call d1 --approve" in shown
    inside = shop("show", child, *STORE).output
    assert f"child of {run}, call d1; root {run}" in inside
    assert f"decisions are those of its root: tenuto runs show {run}" in inside
    assert "They said: You see: paid 200" in shop("resume", run, "--approve", *APP).output
    found = json.loads(shop("show", run, "--json", *STORE).output)
    assert [(each["runId"], each["status"]) for each in found["children"]] == [(child, "success")]
    assert "tool-output" in shop("show", run, "--events", *STORE).output


def test_show_is_a_timeline(shop):
    run = shop.run("pay 5")
    result = shop("show", run, *STORE)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == [run, "clerk", "success"]
    assert "2 steps, 20 tokens in, 10 out" in lines[1]
    assert [line[13:].split()[0] for line in lines[3:]] == [
        "started", "asked", "model", "call", "tool", "tool", "model", "said", "end",
    ]  # fmt: skip
    timed = [line[13:].split()[0] for line in lines[3:] if re.match(r"\d\d:\d\d:\d\d\.\d\d\d ", line)]
    assert timed == ["started", "model", "model", "end"]
    assert "#1 pay(amount=5) [" in lines[6]
    assert lines[8].endswith("#1 pay ok: paid 5")


def test_show_tells_how_to_answer_what_waits(shop):
    run = shop.run("pay 200")
    said = shop("show", run, *APP).stdout
    assert "waits for approval: pay(amount=200)" in said
    assert re.search(rf"tenuto runs resume {run} --call \w+ --approve --app shop:app", said)
    run = shop.run("ask")
    said = shop("show", run, *STORE).stdout
    assert 'waits for data: ask() asks {"question": "Which one?"}' in said
    assert re.search(r"--call \w+ --data JSON --app MODULE:APP", said)


def test_show_of_a_run_whose_process_is_gone(shop):
    run = shop.abandon()
    said = shop("show", run, *STORE).stdout
    assert "running, its process is gone" in said
    assert "step 1: no answer yet" in said
    assert f"to drive it on: tenuto runs recover {run} --app MODULE:APP" in said


def test_show_can_add_the_log(shop):
    run = shop.run("Hi")
    said = shop("show", run, *STORE, "--events").stdout
    assert re.search(r'^\d+-\d+ +text-delta +"You see: Hi"$', said, re.MULTILINE)
    assert re.search(r"^0 +start +{", said, re.MULTILINE)
    plain = json.loads(shop("show", run, *STORE, "--events", "--json").stdout)
    assert [event["index"] for event in plain["events"]] == list(range(len(plain["events"])))
    assert plain["events"][-1]["chunk"]["type"] == "finish"
    assert plain["records"][0]["kind"] == "run-started"
    assert plain["run"]["agentId"] == "clerk"


def test_show_of_a_run_without_a_journal(shop):
    run = shop.run("Hi", agent="plain")
    assert "This run has no journal: it is not durable." in shop("show", run, *STORE).stdout


def test_what_was_said_cannot_control_the_terminal_and_is_bounded(shop):
    run = shop.run("\x1b[2J\x9b" + "long " * 200)
    for more in ([], ["--events"], ["--json"], ["--json", "--events"]):
        said = shop("show", run, *STORE, *more).stdout
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", said)
    assert max(map(len, shop("show", run, *STORE).stdout.splitlines())) < 330


def test_show_of_a_failed_run(shop):
    run = shop.run("fail")
    assert "out of luck" in shop("show", run, *STORE).stdout
    assert next(text for kind, text in shop.shown(run) if kind == "end").startswith("error")


# -- watch -------------------------------------------------------------------------------------------------------------


def test_watch_shows_the_stream_of_a_run_that_is_over(shop):
    run = shop.run("pay 5")
    result = shop("watch", run, *STORE)
    assert result.exit_code == 0
    assert result.stdout == "You see: paid 5\n"
    assert "→ pay(amount=5)" in result.stderr
    assert "← paid 5" in result.stderr


def test_watch_from_an_index(shop):
    run = shop.run("Hi")
    events = json.loads(shop("show", run, *STORE, "--events", "--json").stdout)["events"]
    deltas = [event["index"] for event in events if event["chunk"]["type"] == "text-delta"]
    assert shop("watch", run, *APP, "--offset", deltas[1]).stdout == "You see: Hi"[4:] + "\n"


def test_watch_ends_when_the_run_waits(shop):
    run = shop.run("pay 200")
    result = shop("watch", run, *STORE)
    assert result.exit_code == 3
    assert "‖ pay waits for approval" in result.stderr
    assert f"tenuto runs resume {run}" in result.stderr


def test_watch_tells_how_it_ended(shop):
    result = shop("watch", shop.run("fail"), *STORE)
    assert result.exit_code == 1
    assert "out of luck" in result.stderr
    one_line(shop("watch", shop.run("Hi", agent="plain"), *STORE), "is not durable")


# -- resume ------------------------------------------------------------------------------------------------------------


def test_an_approval_drives_the_run_on_and_streams_it(shop):
    run = shop.run("pay 200")
    result = shop("resume", run, *APP, "--approve")
    assert result.exit_code == 0
    assert result.stdout == "You see: paid 200\n"
    assert "← paid 200" in result.stderr
    assert shop.paid() == ["200"]
    assert ("decision", "#1 pay approved") in shop.shown(run)


def test_an_approval_can_edit_the_arguments(shop):
    run = shop.run("pay 200")
    assert shop("resume", run, *APP, "--approve", "--args", '{"amount": 7}').exit_code == 0
    assert shop.paid() == ["7"]
    assert ("decision", '#1 pay approved with edited arguments {"amount": 7}') in shop.shown(run)


def test_a_decline_keeps_the_tool_from_running(shop):
    run = shop.run("pay 200")
    result = shop("resume", run, *APP, "--decline", "--reason", "too much")
    assert result.exit_code == 0
    assert "✗ pay was declined: too much" in result.stderr
    assert shop.paid() == []
    assert ("decision", "#1 pay declined: too much") in shop.shown(run)
    assert ("tool", "#1 pay did not run: too much") in shop.shown(run)


def test_data_answer_a_suspension(shop):
    run = shop.run("ask")
    assert shop("resume", run, *APP, "--data", '{"which": "left"}').exit_code == 0
    assert ("tool", '#1 ask waits for data: {"question": "Which one?"}') in shop.shown(run)
    assert ("decision", '#1 ask gets {"which": "left"}') in shop.shown(run)


def test_several_calls_are_answered_one_after_the_other(shop):
    run = shop.run("pay 200 300")
    first, second = (call["callId"] for call in listed(shop)[0]["pending"])
    one_line(shop("resume", run, *APP, "--approve"), f"name one: {first}, {second}")
    result = shop("resume", run, *APP, "--call", second, "--approve")
    assert result.exit_code == 3
    assert f"--call {first} --approve" in result.stderr
    assert shop("resume", run, *APP, "--approve").exit_code == 0
    assert shop.paid() == ["300", "200"]


def test_without_an_answer_it_says_what_is_asked(shop):
    run = shop.run("pay 200")
    result = shop("resume", run, *APP)
    assert result.exit_code == 2
    assert "waits for approval: pay(amount=200)" in result.stdout
    assert "--approve, --decline or --data" in result.stderr
    one_line(shop("resume", shop.run("Hi"), *APP), "waits for no decision")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--approve", "--decline"], "give one answer"),
        (["--decline", "--args", "{}"], "goes with --approve"),
        (["--approve", "--reason", "why"], "goes with --decline"),
        (["--approve", "--args", "[1]"], "--args cannot be read"),
        (["--data", "{"], "--data cannot be read"),
    ],
)
def test_an_answer_that_is_none(shop, options, said):
    one_line(shop("resume", "run_1", *APP, *options), said, 2)


def test_an_answer_that_does_not_fit_changes_nothing(shop):
    run = shop.run("ask")
    one_line(shop("resume", run, *APP, "--approve"), "waits for data, not for an approval")
    run = shop.run("pay 200")
    assert shop("resume", run, *APP, "--approve", "--args", '{"amount": "much"}').exit_code == 1
    one_line(shop("resume", run, *APP, "--call", "call_x", "--approve"), "does not wait for a decision")
    assert shop.status(run) == "suspended"


def test_a_plain_run_that_waits_can_be_resumed(shop):
    run = shop.run("pay 200", agent="plain")
    assert shop("resume", run, *APP, "--approve").exit_code == 0
    assert shop.paid() == ["200"]


# -- recover -----------------------------------------------------------------------------------------------------------


def test_recover_drives_a_run_on(shop):
    run = shop.abandon()
    result = shop("recover", run, *APP)
    assert result.exit_code == 0
    assert result.stdout == "You see: speak\n"
    assert "↻ the model is asked again (attempt 2)" in result.stderr
    told = shop.shown(run)
    assert ("segment", "recovered: its process was gone") in told
    assert ("model", "step 1: its process ended before an answer was stored") in told
    one_line(shop("recover", run, *APP), "there is nothing to recover")


def test_recover_all(shop):
    first, second, waits = shop.abandon(), shop.abandon(), shop.run("pay 200")
    result = shop("recover", "--all", *APP)
    assert result.exit_code == 0
    assert [row.split() for row in result.stdout.splitlines()] == [
        [first, "clerk", "success"],
        [second, "clerk", "success"],
    ]
    assert shop.status(waits) == "suspended"
    assert "nothing to recover" in shop("recover", "--all", *APP).stderr


def test_recover_all_leaves_the_runs_of_others_alone(shop):
    run = shop.abandon()
    (shop.folder / "other.py").write_text(
        "from tenuto import Tenuto\nfrom tenuto.store import SQLiteStore\n"
        'app = Tenuto(agents={}, store=SQLiteStore("shop.db"))\n'
    )
    result = shop("recover", "--all", "--app", "other.py:app")
    assert result.exit_code == 0
    assert f"{run} is left alone" in result.stderr
    assert shop.status(run) == "running"


def test_recover_needs_a_run_or_all(shop):
    one_line(shop("recover", *APP), "give the id of a run, or --all", 2)
    one_line(shop("recover", "run_1", "--all", *APP), "give the id of a run, or --all", 2)


# -- abort -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [STORE, APP])
def test_abort_ends_a_run_that_waits(shop, place):
    run = shop.run("pay 200")
    result = shop("abort", run, *place, "--reason", "enough")
    assert (result.exit_code, result.stdout) == (0, f"{run} has ended: canceled\n")
    assert ("abort", "requested: enough") in shop.shown(run)
    assert shop.shown(run)[-1] == ("end", "aborted")
    assert shop.paid() == []
    one_line(shop("abort", run, *place), "has ended already: canceled")


def test_abort_of_a_run_whose_process_is_gone(shop):
    run = shop.abandon()
    result = shop("abort", run, *STORE)
    assert result.exit_code == 0
    assert f"tenuto runs recover {run} --app MODULE:APP" in result.stdout
    assert shop("abort", run, *APP).stdout == f"{run} has ended: canceled\n"
    assert shop.shown(run)[-1] == ("end", "aborted")
    result = shop("watch", run, *STORE)
    assert (result.exit_code, "aborted" in result.stderr) == (1, True)
