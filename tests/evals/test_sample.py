"""What a scorer reads: the same text from strings, stored messages and the context of a completion check."""

import pytest

from tenuto.evals.sample import CompletionContext, Sample, ScorerInput, ScoringData, text_of
from tenuto.messages.stored import StepStartPart
from tenuto.messages.turns import SystemTurn
from tests.evals.kit import call, message

ANSWER = (
    message("assistant", StepStartPart(), "Let me see.", call("result", {"sum": 3}), call("output-error", name="sub")),
    message("assistant", "Try again.", metadata={"completionResult": {"passed": False}}),
    message("assistant", "3."),
)


def test_the_text_of_an_answer_is_without_feedback_and_without_what_was_refused():
    assert Sample("q", ANSWER).output_text == "3."
    assert Sample("q", ANSWER[:2]).output_text == "Let me see."
    told = message("assistant", "Be brief.", metadata={"completionResult": {"suppressFeedback": True}})
    assert Sample("q", (ANSWER[0], told, ANSWER[2])).output_text == "Let me see.\n3."


def test_the_text_of_a_question():
    given = ScorerInput((message("user", "What is "), message("system", "no"), message("user", "1 + 2?")))
    assert Sample(given, "").input_text == "What is \n1 + 2?"
    context = CompletionContext(
        iteration=1,
        max_iterations=5,
        original_task="Add.",
        text="3",
        messages=ANSWER,
        run_id="r",
        agent_id="a",
        agent_name="A",
    )
    assert Sample(context, "3").input_text == "Add."
    assert [each.tool_name for each in Sample(context, "3").tool_calls] == ["add", "sub"]


def test_calls_and_their_results():
    sample = Sample("q", ANSWER)
    assert [each.state for each in sample.tool_calls] == ["result", "output-error"]
    assert sample.tool_results == ('{"sum":3}',)
    assert Sample("q", "text").tool_calls == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), ("a", "a"), ([], ""), ((), ""), ({"a": 1}, '{"a":1}'), (3, "3"), ([1], "[1]"), (ANSWER[2], "3.")],
)
def test_anything_has_a_text(value, text):
    assert text_of(value) == text
    assert text_of(object()).startswith("<object")


def test_the_right_answer_as_text():
    assert Sample("q", "a").truth_text == ""
    assert Sample("q", "a", {"x": 1}).truth_text == '{"x":1}'


def test_the_stored_form():
    data = ScoringData(ScorerInput((message("user", "hi"),), (), (SystemTurn("Be brief."),)), ANSWER)
    plain = data.to_dict()
    assert plain["input"]["systemMessages"] == [{"role": "system", "content": "Be brief."}]
    assert plain["input"]["inputMessages"][0]["content"] == {"format": 2, "parts": [{"type": "text", "text": "hi"}]}
    assert (plain["input"]["rememberedMessages"], plain["input"]["taggedSystemMessages"]) == ([], {})
    assert [each["role"] for each in plain["output"]] == ["assistant"] * 3
