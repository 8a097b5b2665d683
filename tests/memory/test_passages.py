"""What of a message is made searchable."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenuto.memory.passages import passages, passages_of, said
from tenuto.messages.stored import OWN, TRANSFORMS, ReasoningPart, TextPart, ToolInvocation, ToolInvocationPart
from tests.memory.samples import of_parts
from tests.memory.samples import said as message


def test_only_text_that_people_and_agents_said() -> None:
    secret = ToolInvocationPart(
        ToolInvocation("result", "c", "pay", {"card": "4111"}, result="4111"),
        provider_metadata={OWN: {TRANSFORMS: {"transcript": {}}}},
    )
    answer = of_parts(ReasoningPart("hush"), TextPart("One."), secret, TextPart("  "), TextPart("Two."))
    assert passages_of(answer, 100) == ["One.\n\nTwo."]
    assert said(message("system", "be brief")) == ""
    assert said(message("signal", "tick")) == ""
    assert passages_of(of_parts(secret), 100) == []


def test_a_long_text_ends_where_a_paragraph_a_line_a_sentence_or_a_word_does() -> None:
    assert [*passages("aaaa bb.\n\ncccc dd", 12)] == ["aaaa bb.", "cccc dd"]
    assert [*passages("aaaa bb\ncccc dd", 12)] == ["aaaa bb", "cccc dd"]
    assert [*passages("Aaaa b. Cccc dd", 12)] == ["Aaaa b.", "Cccc dd"]
    assert [*passages("aaaa bbbb cccc dd", 12)] == ["aaaa bbbb", "cccc dd"]
    assert [*passages("a" * 25, 12)] == ["a" * 12, "a" * 12, "a"]
    assert [*passages("", 12)] == [*passages("  \n ", 12)] == []


@given(st.text(max_size=200), st.integers(1, 40))
def test_nothing_is_lost_and_nothing_is_too_long(text: str, most: int) -> None:
    made = [*passages(text, most)]
    assert all(0 < len(each) <= most for each in made)
    assert "".join("".join(each.split()) for each in made) == "".join(text.split())
