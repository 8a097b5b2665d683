"""`run_evals`: many questions to an agent or a function, each answer scored."""

import asyncio
import logging

import pytest

from tenuto import Agent, tool
from tenuto.errors import ModelError
from tenuto.evals import (
    EvalItem,
    Scorer,
    ScorerResult,
    create_keyword_coverage_scorer,
    create_scorer,
    create_tool_call_accuracy_scorer_code,
    run_evals,
)
from tenuto.store import InMemoryStore
from tenuto.testing import Call, Reply, ScriptedModel
from tests.agent.kit import all_scored


@tool(effects="none")
async def add(a: int = 1, b: int = 2) -> int:
    return a + b


def scorer(id="length", score=lambda sample: len(sample.output_text), **more):
    return create_scorer(id=id, score=score, **more)


def echo(request):
    return f"You said: {request.messages[-1]['content']}"


async def test_an_agent_is_asked_and_its_answers_are_scored():
    store = InMemoryStore()
    agent = Agent(id="a", model=ScriptedModel(echo), store=store, scorers={"x": scorer("live")})
    seen = []
    report = await run_evals(
        target=agent,
        data=["one", {"input": "three", "groundTruth": "said"}],
        scorers=[scorer(reason=lambda _: "counted"), create_keyword_coverage_scorer()],
        progress=False,
        on_item=seen.append,
    )
    first, second = report.items
    assert (first.text, second.text) == ("You said: one", "You said: three")
    assert [each.scores["length"].score for each in report.items] == [13, 15]
    assert first.scores["length"].reason == "counted"
    assert second.scores["keyword-coverage"].score == 1
    assert (first.result.text, first.item, first.error) == ("You said: one", EvalItem("one"), None)
    assert report.means["length"] == 14
    summary = report.summary["length"]
    assert (summary.least, summary.greatest, summary.scored, summary.unscored, summary.failed) == (13, 15, 2, 0, 0)
    assert sorted(each.place for each in seen) == [0, 1]
    await all_scored()
    assert await store.scores(resource=None) == []


async def test_scorers_get_what_live_ones_get():
    agent = Agent(id="a", model=ScriptedModel([Reply(calls=[Call("add", {}, "c1")]), "3"]), tools=[add])
    called = create_tool_call_accuracy_scorer_code(expected_tool="add", strict=True)
    report = await run_evals(target=agent, data=["1 + 2?"], scorers=[called], progress=False)
    assert report.means == {"tool-call-accuracy": 1}


async def test_an_item_has_its_own_context_and_options():
    seen = []
    agent = Agent(
        id="a", model=ScriptedModel(echo), instructions=lambda context: seen.append(context.get("who")) or "Be brief."
    )
    by = scorer("by", lambda sample: sample.request_context.get("weight"))
    item = {"input": "x", "request_context": {"who": "ann", "weight": 0.5}, "options": {"max_steps": 1}}
    report = await run_evals(target=agent, data=[item, EvalItem("y")], scorers=[by], progress=False, concurrency=1)
    assert seen == ["ann", None]
    assert [each.scores["by"].score for each in report.items] == [0.5, None]
    assert (report.summary["by"].scored, report.summary["by"].unscored) == (1, 1)


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_function(kind):
    async def later(text):
        await asyncio.sleep(0)
        return text.upper()

    report = await run_evals(
        target=str.upper if kind == "sync" else later, data=["ab"], scorers=[scorer()], progress=False
    )
    assert (report.items[0].text, report.items[0].result) == ("AB", "AB")


async def test_what_fails_fails_by_itself(caplog):
    def answer(request):
        if request.messages[-1]["content"] == "bad":
            raise ModelError("down")
        return "fine"

    def boom(sample):
        if sample.input_text == "odd":
            raise ZeroDivisionError("by hand")
        return 1

    def on_item(result):
        raise ZeroDivisionError

    agent = Agent(id="a", model=ScriptedModel(answer))
    data = ["bad", "odd", "good"]
    report = await run_evals(
        target=agent, data=data, scorers=[scorer("x", boom), scorer()], progress=False, on_item=on_item
    )
    bad, odd, good = report.items
    assert bad.error.startswith("ModelError: ")
    assert "down" in bad.error
    assert (bad.scores, bad.errors) == ({}, {})
    assert (odd.errors, odd.scores["length"].score) == ({"x": "ZeroDivisionError: by hand"}, 4)
    assert (good.error, good.scores["x"].score) == (None, 1)
    assert (report.failed, report.summary["x"].failed, report.means["x"]) == ((bad,), 1, 1)
    assert "on_item failed" in caplog.text


async def test_a_run_that_waits_has_no_answer():
    agent = Agent(id="a", model=ScriptedModel([Reply("Hm. ", calls=[Call("add", {}, "c1")])]), tools=[add])
    item = {"input": "x", "options": {"require_tool_approval": True}}
    report = await run_evals(target=agent, data=[item], scorers=[scorer()], progress=False)
    assert report.items[0].error == "the run ended with 'suspended'"


@pytest.mark.parametrize("concurrency", [1, 3, 50])
async def test_so_many_at_once(concurrency):
    now = most = 0

    async def answer(text):
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        now -= 1
        return text

    data = [str(number) for number in range(20)]
    report = await run_evals(target=answer, data=data, scorers=[scorer()], concurrency=concurrency, progress=False)
    assert most == min(concurrency, 20)
    assert [each.text for each in report.items] == data


async def test_cancelled_it_leaves_nothing_behind():
    begun = asyncio.Event()

    async def hang(text):
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(run_evals(target=hang, data=["a", "b"], scorers=[scorer()], progress=False))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_table():
    def fails(sample):
        raise ValueError

    report = await run_evals(
        target=str.upper, data=["a", "abc"], scorers=[scorer(), scorer("none", lambda _: None), scorer("bad", fails)],
        progress=False,
    )  # fmt: skip
    assert (
        str(report)
        == report.table()
        == (
            "scorer   mean    min    max  scored  not scored  failed\n"
            "------  -----  -----  -----  ------  ----------  ------\n"
            "length  2.000  1.000  3.000       2           0       0\n"
            "none        -      -      -       0           2       0\n"
            "bad         -      -      -       0           0       2\n"
            "\n"
            "2 items, 0 without an answer"
        )
    )
    plain = report.to_dict()
    assert plain["summary"]["length"] == {"mean": 2, "min": 1, "max": 3, "scored": 2, "notScored": 0, "failed": 0}
    assert plain["items"][0] == {
        "place": 0,
        "text": "A",
        "scores": {
            "length": {"score": 1, "reason": None, "metadata": {}},
            "none": {"score": None, "reason": None, "metadata": {}},
        },
        "errors": {"bad": "ValueError: "},
        "error": None,
    }


async def test_no_data():
    report = await run_evals(target=str.upper, data=[], scorers=[scorer()])
    assert (report.items, report.means) == ((), {"length": None})
    assert report.table().endswith("0 items, 0 without an answer")


async def test_progress_is_lines_on_stderr_where_there_is_no_terminal(capsys):
    await run_evals(target=str.upper, data=["a"] * 10, scorers=[scorer()])
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["evals: 3 of 10", "evals: 5 of 10", "evals: 8 of 10", "evals: 10 of 10"]
    await run_evals(target=str.upper, data=["a"] * 10, scorers=[scorer()], progress=False)
    assert capsys.readouterr() == ("", "")


async def test_progress_is_a_bar_on_a_terminal(capsys, monkeypatch):
    import sys

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    await run_evals(target=str.upper, data=["a"] * 3, scorers=[scorer()])
    assert "evals" in capsys.readouterr().err


async def test_a_scorer_of_ones_own_that_takes_no_ground_truth():
    class Mine(Scorer):
        async def run(self, input, output, request_context=None):
            return ScorerResult(0.5)

    report = await run_evals(
        target=str.upper, data=["a", {"input": "b", "ground_truth": "B"}], scorers=[Mine("mine")], progress=False
    )
    assert report.items[0].scores["mine"].score == 0.5
    assert "ground_truth" in report.items[1].errors["mine"]


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"target": 3}, TypeError, "an agent or a function"),
        ({"data": [3]}, TypeError, "text or a mapping"),
        ({"data": [{"question": "x"}]}, TypeError, "Unknown key of an item 'question'"),
        ({"data": [{"ground_truth": "x"}]}, TypeError, "has no 'input'"),
        ({"scorers": []}, ValueError, "at least one scorer"),
        ({"scorers": [scorer(), scorer()]}, ValueError, "an id of its own; given: length, length"),
        ({"scorers": ["length"]}, TypeError, "a list of scorers, not of str"),
        ({"concurrency": 0}, ValueError, "at least 1, not 0"),
    ],
)
async def test_what_cannot_work(given, error, match):
    with pytest.raises(error, match=match):
        await run_evals(**{"target": str.upper, "data": ["a"], "scorers": [scorer()], "progress": False, **given})


async def test_a_failing_agent_is_not_logged_twice(caplog):
    agent = Agent(id="a", model=ScriptedModel([ModelError("down")]))
    with caplog.at_level(logging.ERROR, "tenuto"):
        await run_evals(target=agent, data=["x"], scorers=[scorer()], progress=False)
    assert caplog.text == ""
