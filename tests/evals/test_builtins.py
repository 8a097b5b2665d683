"""The scorers that are shipped: what they ask, and what they make of the answer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.errors import ConfigurationError
from tenuto.evals import (
    create_answer_relevancy_scorer,
    create_bias_scorer,
    create_completeness_scorer,
    create_content_similarity_scorer,
    create_faithfulness_scorer,
    create_hallucination_scorer,
    create_keyword_coverage_scorer,
    create_tool_call_accuracy_scorer_code,
    create_tool_call_accuracy_scorer_llm,
    create_toxicity_scorer,
)
from tenuto.testing import FakeProvider, Reply, ScriptedModel
from tests.evals.kit import call, message

TOOLS = [{"id": "add", "description": "Adds."}, {"name": "sub", "description": "Subtracts."}]


def answer(*called):
    calls = [call("result", "ok", name, place) for place, name in enumerate(called)]
    return (message("assistant", *calls),)


async def judged(make, said, *run, **more):
    """What the scorer says, and the question it sent over HTTP."""
    async with FakeProvider([Reply(json.dumps(said))]) as provider:
        scorer = make(model={"id": "test/judge", "url": provider.base_url}, **more)
        result = await scorer.run(*run)
        [request] = provider.requests
    assert request.body["response_format"]["type"] == "json_schema"
    return result, request.body["messages"][-1]["content"]


def statement(text, relevant):
    return {"statement": text, "why": "because", "relevant": relevant}


async def test_answer_relevancy():
    said = {"statements": [statement("Rome.", "yes"), statement("It is old.", "unsure"), statement("Eat.", "no")]}
    result, asked = await judged(create_answer_relevancy_scorer, said, "Capital of Italy?", "Rome. It is old. Eat.")
    assert result.score == pytest.approx(1.3 / 3)
    assert result.reason == "1 of 3 statements are about the question. Beside it: 'Eat.' (because)"
    assert "<question>Capital of Italy?</question>" in asked
    assert "<answer>Rome. It is old. Eat.</answer>" in asked
    assert result.metadata["analyze"] == said
    result, _ = await judged(create_answer_relevancy_scorer, said, "q", "a", uncertainty_weight=1)
    assert result.score == pytest.approx(2 / 3)


def claim(text, verdict):
    return {"claim": text, "why": "because", "verdict": verdict}


CLAIMS = {
    "claims": [claim("a", "supported"), claim("b", "contradicted"), claim("c", "unsupported"), claim("d", "hedged")]
}


async def test_faithfulness():
    result, asked = await judged(create_faithfulness_scorer, CLAIMS, "q", "a b c d", context=["one", "two"])
    assert result.score == 0.25
    assert result.reason == ("1 of 4 claims follow from the sources. Not carried: 'b' (because), 'c' (because)")
    assert "<sources>[1] one\n\n[2] two</sources>" in asked


async def test_hallucination():
    result, _ = await judged(create_hallucination_scorer, CLAIMS, "q", "a b c d", context=lambda sample: [sample.input])
    assert result.score == 0.5
    assert result.reason.startswith("2 of 4 claims are not carried by the sources.")


@pytest.mark.parametrize("make", [create_faithfulness_scorer, create_hallucination_scorer])
async def test_the_sources_of_an_answer_are_what_its_tools_returned(make):
    result, asked = await judged(make, {"claims": []}, "q", (*answer("add"), message("assistant", "3.")))
    assert "<sources>[1] ok</sources>" in asked
    assert result.reason == "The answer claims nothing."
    assert result.score == (1 if make is create_faithfulness_scorer else 0)


@pytest.mark.parametrize("make", [create_faithfulness_scorer, create_hallucination_scorer])
async def test_without_sources_there_is_nothing_to_hold_an_answer_to(make):
    model = ScriptedModel([])
    assert (await make(model=model).run("q", "The moon is round.")).score is None
    assert model.requests == []


def remark(text, harmful, kind=""):
    return {"remark": text, "why": "because", "kind": kind, "harmful": harmful}


@pytest.mark.parametrize("make", [create_toxicity_scorer, create_bias_scorer])
async def test_harm(make):
    said = {"remarks": [remark("You fool.", True, "insult"), remark("I like it.", False)]}
    result, asked = await judged(make, said, "q", "You fool. I like it.")
    assert (result.score, result.reason) == (0.5, "1 of 2 remarks: 'You fool.' (insult: because)")
    assert "<answer>You fool. I like it.</answer>" in asked
    assert ("toxic" in asked) == (make is create_toxicity_scorer)
    result, _ = await judged(make, {"remarks": []}, "q", "4.")
    assert (result.score, result.reason) == (0, "The answer makes no remark about anybody.")
    result, _ = await judged(make, {"remarks": [remark("Nice.", False)]}, "q", "Nice.")
    assert (result.score, result.reason) == (0, "No remark of the answer is at fault.")


async def test_completeness_by_code():
    scorer = create_completeness_scorer()
    result = await scorer.run("List the refunds and the shipping costs of order A-17.", "Order A-17 was refunded.")
    assert result.score == pytest.approx(3 / 6)
    assert result.reason == "3 of 6 points are taken up. Missing: 'list', 'shipping', 'costs'"
    assert (await scorer.run("", "anything")).score == 1
    assert (await scorer.run("Why?", "")).reason == "Nothing was asked for."


async def test_completeness_by_a_judge():
    points = [{"point": "price", "why": "x", "answered": True}, {"point": "colour", "why": "y", "answered": False}]
    result, asked = await judged(create_completeness_scorer, {"points": points}, "Price and colour?", "5 euros")
    assert (result.score, result.reason) == (0.5, "1 of 2 points are taken up. Missing: 'colour'")
    assert "<request>Price and colour?</request>" in asked


@pytest.mark.parametrize(
    ("options", "called", "score"),
    [
        ({"expected_tool": "add"}, ["sub", "add"], 1),
        ({"expected_tool": "add"}, ["sub"], 0),
        ({"expected_tool": "add"}, [], 0),
        ({"expected_tool": "add", "strict": True}, ["add"], 1),
        ({"expected_tool": "add", "strict": True}, ["add", "sub"], 0),
        ({"expected_order": ["add", "sub"]}, ["add", "mul", "sub"], 1),
        ({"expected_order": ["add", "sub"]}, ["sub", "add"], 0),
        ({"expected_order": ["add", "add"]}, ["add"], 0),
        ({"expected_order": ["add", "sub"], "strict": True}, ["add", "mul", "sub"], 0),
        ({"expected_order": ["add", "sub"], "strict": True}, ["add", "sub"], 1),
        ({"expected_order": [], "strict": True}, [], 1),
    ],
)
async def test_tool_calls_by_code(options, called, score):
    result = await create_tool_call_accuracy_scorer_code(**options).run("q", answer(*called))
    assert result.score == score
    assert (", ".join(called) or "nothing") in result.reason


@pytest.mark.parametrize("options", [{}, {"expected_tool": "a", "expected_order": ["a"]}])
def test_tool_calls_need_an_expectation(options):
    with pytest.raises(ConfigurationError, match="one of them"):
        create_tool_call_accuracy_scorer_code(**options)


def on_call(place, appropriate, why="x"):
    return {"call": place, "why": why, "appropriate": appropriate}


@pytest.mark.parametrize(
    ("said", "called", "score", "reason"),
    [
        ([[on_call(1, True), on_call(2, False)], []], ["add", "sub"], 0.5, "1 of 2 calls were right. Wrong: sub (x)."),
        ([[on_call(1, True)], ["sub"]], ["add"], 0.5, "1 of 1 calls were right. Not called: sub."),
        ([[], []], [], 1, "0 of 0 calls were right."),
        ([[], ["add"]], [], 0, "0 of 0 calls were right. Not called: add."),
        (
            [[on_call(1, True), on_call(7, True)], []],
            ["add", "sub"],
            0.5,
            "1 of 2 calls were right. Wrong: sub (no verdict).",
        ),
        ([[on_call(1, True), on_call(1, False)], []], ["add"], 0, "0 of 1 calls were right. Wrong: add (x)."),
    ],
)
async def test_tool_calls_by_a_judge(said, called, score, reason):
    verdicts = {"calls": said[0], "missing": said[1]}
    make = create_tool_call_accuracy_scorer_llm
    result, asked = await judged(make, verdicts, "Add 1 and 2.", answer(*called), available_tools=TOOLS)
    assert (result.score, result.reason) == (score, reason)
    assert "- add: Adds.\n- sub: Subtracts." in asked
    assert ('1. add({"a":0})' in asked) == bool(called)


async def test_keyword_coverage():
    scorer = create_keyword_coverage_scorer()
    result = await scorer.run("What are the opening hours of the library?", "The library: hours 9-17")
    assert result.score == pytest.approx(2 / 3)
    assert result.reason == "2 of 3 keywords occur; missing: opening."
    result = await scorer.run("ignored", "Paris, France", ground_truth="Paris")
    assert (result.score, result.reason) == (1, "All 1 keywords occur.")
    result = await create_keyword_coverage_scorer(keywords=["New York", "Naïve"]).run("q", "york new naïve")
    assert result.score == 1
    assert (await scorer.run("", "x")).reason == "There are no keywords."


async def test_content_similarity():
    scorer = create_content_similarity_scorer()
    assert (await scorer.run("q", "The  CAT", ground_truth="the cat")).score == 1
    exact = create_content_similarity_scorer(ignore_case=False, ignore_whitespace=False)
    assert (await exact.run("q", "The  CAT", ground_truth="the cat")).score < 0.5
    result = await scorer.run("night", "nacht")
    assert result.score == 0.25
    assert result.reason == "The texts share 25% of their pairs of characters."


CODE = [
    create_completeness_scorer(),
    create_keyword_coverage_scorer(),
    create_content_similarity_scorer(),
    create_keyword_coverage_scorer(keywords=["日本", "x"]),
]


@pytest.mark.parametrize("scorer", CODE, ids=lambda scorer: scorer.id)
@given(question=st.text(), said=st.text(), truth=st.none() | st.text())
async def test_a_score_is_on_its_scale_for_any_text(scorer, question, said, truth):
    result = await scorer.run(question, said, ground_truth=truth)
    assert 0 <= result.score <= 1
    assert result.reason


@pytest.mark.parametrize("scorer", CODE[:3], ids=lambda scorer: scorer.id)
@given(text=st.text())
async def test_the_same_text_scores_best(scorer, text):
    assert (await scorer.run(text, text)).score == 1


@given(one=st.text(), other=st.text())
async def test_similarity_has_no_direction(one, other):
    scorer = create_content_similarity_scorer()
    assert (await scorer.run(one, other)).score == (await scorer.run(other, one)).score


@pytest.mark.parametrize(
    "make", [create_answer_relevancy_scorer, create_toxicity_scorer, create_bias_scorer], ids=lambda make: make.__name__
)
async def test_an_empty_answer_is_judged_without_a_judge(make):
    model = ScriptedModel([])
    result = await make(model=model).run("q", " \n")
    assert result.score == 0
    assert result.reason
    assert model.requests == []
