"""Titles: the transcript and the answer."""

from __future__ import annotations

import pytest

from tenuto.memory.titles import MAX_TITLE, clean, countable, transcript
from tenuto.messages.stored import DataPart, ErrorPart, ErrorText, ReasoningPart, StoredFilePart, TextPart
from tests.memory.samples import call, of_parts, said, step


def test_a_transcript_says_who_said_what() -> None:
    answer = of_parts(
        *step(ReasoningPart("hm"), call("c", args={"q": "z" * 300}, result="r" * 300), TextPart("There."))
    )
    lines = transcript([said("user", "Where is it?"), said("system", "be brief"), answer]).splitlines()
    assert lines[0] == "User: Where is it?"
    assert lines[1] == "Assistant: [thought: hm]"
    assert lines[2].startswith('Assistant: [called look {"q":"zzz')
    assert len(lines[2]) < 500
    assert lines[3] == "Assistant: There."


def test_files_and_failures_are_named_and_data_is_not() -> None:
    parts = (StoredFilePart("image/png", filename="a.png"), DataPart("x", 1), ErrorPart(ErrorText("E", "m")))
    assert transcript([of_parts(*parts, role="user")]) == "User: [file: a.png]"


def test_feedback_is_no_part_of_it() -> None:
    assert transcript([said("assistant", "again", completionResult={})]) == ""
    assert countable([said("user", "a"), said("system", "b"), said("assistant", "c")]) == 2


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("A lost parcel", "A lost parcel"),
        ('"A lost parcel"\n', "A lost parcel"),
        ("<think>They want…\nso</think>\n\nA lost parcel", "A lost parcel"),
        ("<think>never ended", None),
        ("# A  lost\tparcel", "A lost parcel"),
        ("   ", None),
        ("x" * 200, "x" * MAX_TITLE),
    ],
)
def test_what_is_made_of_an_answer(answer: str, title: str | None) -> None:
    assert clean(answer) == title
