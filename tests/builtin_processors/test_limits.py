"""Tokens are limited, calls are hidden, deltas are joined, text is normalised."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.builtin_processors.tokens import Counting
from tenuto.builtin_processors.trimming import trimmed
from tenuto.builtin_processors.unicode_normalizer import normalized
from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.errors import ConfigurationError
from tenuto.messages import stored as s
from tenuto.messages.turns import AssistantTurn, CallPart, Reasoning, ResultPart, SystemTurn, Text, ToolTurn, UserTurn
from tenuto.processors import (
    BatchPartsProcessor,
    InputContext,
    InputStepContext,
    LLMRequestContext,
    TokenLimiterProcessor,
    ToolCallFilter,
    Tripwire,
    UnicodeNormalizer,
    estimate_tokens,
)
from tenuto.testing import VirtualClock
from tests.builtin_processors.kit import around, delta, end, messages, other, run, said, streamed, texts

WORDS = Counting(str.split)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("中文", 2), ("\ud800", 1)])
def test_the_estimate(text, tokens):
    assert estimate_tokens(text) == tokens


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def called(*names, texts=()):
    """An answer with a step for each name, in which that tool was called and answered."""
    parts = []
    for at, name in enumerate(names):
        call = s.ToolInvocation("result", f"c{at}", name, {"q": "a b"}, result="r s t")
        parts += [s.StepStartPart(), s.ToolInvocationPart(call)]
    parts += [part for text in texts for part in (s.StepStartPart(), s.TextPart(text))]
    [message] = messages(assistant("-"))
    return s.Message(f"answer{len(names)}", "assistant", message.created_at, s.Content(tuple(parts)))


def cut(given_messages, limit, mode="best-fit", own=()):
    left = trimmed(given_messages, limit, WORDS, mode, own)
    return None if left is None else [message.text for message in left]


HISTORY = messages(user("one"), assistant("two two"), user("a b c d e f g h"), assistant("four"), user("five"))


def test_what_fits_stays_as_it_is():
    assert trimmed(HISTORY, 100, WORDS, "best-fit") == list(HISTORY)


@pytest.mark.parametrize(
    ("limit", "mode", "left"),
    [
        (21, "best-fit", ["one", "two two", "four", "five"]),
        (21, "contiguous", ["four", "five"]),
        (15, "best-fit", ["one", "four", "five"]),
        (5, "best-fit", ["five"]),
        (4, "best-fit", None),
    ],
)
def test_what_is_left_out(limit, mode, left):
    assert cut(HISTORY, limit, mode) == left


def test_what_is_the_run_s_own_stays():
    own = {HISTORY[2].id, HISTORY[4].id}
    assert cut(HISTORY, 22, "memory-only", own) == ["a b c d e f g h", "four", "five"]
    assert cut(HISTORY, 10, "memory-only", own) is None


def test_an_answer_is_cut_between_its_steps():
    answer = called("a", "b", "c")
    [asked, left] = trimmed((*messages(user("x")), answer), 20, WORDS, "best-fit")
    names = [part.tool_invocation.tool_name for part in left.content.parts if isinstance(part, s.ToolInvocationPart)]
    assert (asked.text, names, left.id) == ("x", ["c"], answer.id)


@given(
    st.lists(st.one_of(st.integers(1, 9), st.lists(st.sampled_from("ab"), min_size=1, max_size=4)), max_size=8),
    st.integers(1, 120),
    st.sampled_from(["best-fit", "contiguous", "memory-only"]),
)
def test_whatever_is_cut_fits_and_is_whole(shape, limit, mode):
    history = [
        each for one in shape for each in (messages(user("w " * one)) if isinstance(one, int) else [called(*one)])
    ]
    left = trimmed(history, limit, WORDS, mode)
    if left is None:
        return
    assert WORDS.messages(left) <= limit or left == history
    for message in left:
        calls = [part for part in message.content.parts if isinstance(part, s.ToolInvocationPart)]
        assert all(part.tool_invocation.state == "result" for part in calls)
        assert len(calls) == sum(isinstance(part, s.StepStartPart) for part in message.content.parts) or not calls


def step(processor, given_messages, shared, **more):
    return processor.process_input_step(InputStepContext(shared, messages=tuple(given_messages), **more))


def test_the_limiter_trims_the_prompt_and_counts_the_system_messages():
    processor = TokenLimiterProcessor(24, counter=str.split)
    change = step(processor, HISTORY, around(processor), system_messages=(SystemTurn("be brief now"),))
    assert [message.text for message in change["messages"]] == ["one", "two two", "four", "five"]
    assert step(TokenLimiterProcessor(100, counter=str.split), HISTORY, around(processor)) is None


def test_the_limiter_blocks_when_nothing_fits():
    processor = TokenLimiterProcessor(6, counter=str.split)
    with pytest.raises(Tripwire, match="does not fit into 6 tokens: the system messages take 3"):
        step(processor, HISTORY, around(processor), system_messages=(SystemTurn("be brief now"),))


def test_only_what_was_recalled_is_left_out():
    processor = TokenLimiterProcessor(20, counter=str.split, trim_mode="memory-only")
    shared = around(processor)
    processor.process_input(InputContext(shared, messages=HISTORY[2:3]))
    change = step(processor, HISTORY[:3], shared)
    assert [message.text for message in change["messages"]] == ["two two", "a b c d e f g h"]


TEXT = "abcd efgh ijkl mnop"


async def test_an_answer_is_cut_at_the_limit():
    processor = TokenLimiterProcessor(3)
    assert await said(processor, TEXT) == TEXT[:12]
    shared = around(processor)
    assert await said(processor, "abcd", "efgh", shared=shared) == "abcdefgh"
    assert await said(processor, "ijkl", "mnop", shared=shared) == "ijkl"
    assert await said(processor, "x", shared=shared) == ""
    assert shared.state == {"spent of 3": 3}
    each = TokenLimiterProcessor(3, count_mode="part")
    shared = around(each)
    assert [await said(each, TEXT, shared=shared) for _ in range(2)] == [TEXT[:12]] * 2


async def test_an_answer_that_is_too_long_is_blocked():
    shown = await streamed(TokenLimiterProcessor(3, strategy="abort"), *map(delta, TEXT))
    assert "".join(chunk.payload.text for chunk in shown[:-1]) == TEXT[:12]
    assert str(shown[-1]) == "The answer is longer than 3 tokens."


@given(st.text(max_size=2_500), st.integers(1, 700), st.integers(1, 400))
def test_an_answer_is_cut_at_the_same_place_however_it_comes(text, limit, size):
    processor = TokenLimiterProcessor(limit)
    whole = run(said(processor, text))
    assert run(said(processor, *(text[at : at + size] for at in range(0, len(text), size)))) == whole
    assert text.startswith(whole)


CALL = AssistantTurn((Reasoning("hm", "sig"), Text("I look."), CallPart("1", "search", {}), CallPart("2", "mail", {})))
RESULTS = ToolTurn((ResultPart("1", "search", "x"), ResultPart("2", "mail", "y")))
ONLY = AssistantTurn((CallPart("3", "search", {}),))
ONLY_RESULT = ToolTurn((ResultPart("3", "search", "z"),))
ASK = UserTurn((Text("?"),))
PAST = (SystemTurn("s"), ASK, CALL, RESULTS, ONLY, ONLY_RESULT, ASK)


def hidden(processor, *prompt):
    change = processor.process_llm_request(LLMRequestContext(around(processor), prompt=prompt))
    return list(prompt) if change is None else change["prompt"]


def test_calls_of_the_past_are_left_out():
    left = hidden(ToolCallFilter(), *PAST, ONLY, ONLY_RESULT)
    assert left == [SystemTurn("s"), ASK, AssistantTurn((Text("I look."),)), ASK, ONLY, ONLY_RESULT]


def test_calls_of_some_tools_are_left_out():
    left = hidden(ToolCallFilter(exclude=["search"]), *PAST)
    kept = AssistantTurn((Text("I look."), CallPart("2", "mail", {})))
    assert left == [SystemTurn("s"), ASK, kept, ToolTurn((ResultPart("2", "mail", "y"),)), ASK]
    assert hidden(ToolCallFilter(exclude=[]), *PAST) == list(PAST)


@pytest.mark.parametrize(
    ("steps", "left"), [(0, []), (1, [ONLY, ONLY_RESULT]), (5, [CALL, RESULTS, ONLY, ONLY_RESULT])]
)
def test_calls_of_the_run_itself(steps, left):
    prompt = (ASK, CALL, RESULTS, ONLY, ONLY_RESULT)
    text = [] if steps > 1 else [AssistantTurn((Text("I look."),))]
    assert hidden(ToolCallFilter(filter_after_tool_steps=steps), *prompt) == [ASK, *text, *left]


def texts_of(shown):
    return [chunk.payload.text if chunk.type == "text-delta" else chunk.type for chunk in shown]


async def test_deltas_are_joined():
    shown = await streamed(BatchPartsProcessor(batch_size=2), *map(delta, "abcde"), end())
    assert texts_of(shown) == ["ab", "cd", "e", "text-end"]


async def test_another_chunk_lets_them_go():
    chunks = [delta("a"), other(), delta("b"), end()]
    assert texts_of(await streamed(BatchPartsProcessor(), *chunks)) == ["a", "source", "b", "text-end"]
    shown = await streamed(BatchPartsProcessor(emit_on_non_text=False), *chunks)
    assert texts_of(shown) == ["source", "ab", "text-end"]


async def test_another_part_lets_them_go():
    shown = await streamed(BatchPartsProcessor(), delta("a", "1"), delta("b", "2"), end("2"))
    assert [(chunk.payload.id, chunk.type) for chunk in shown] == [
        ("1", "text-delta"),
        ("2", "text-delta"),
        ("2", "text-end"),
    ]


class Ticking(VirtualClock):
    def __init__(self):
        super().__init__()
        self.at = 0.0

    def monotonic(self):
        self.at += 0.03
        return self.at


async def test_time_lets_them_go():
    processor = BatchPartsProcessor(max_wait_time=100)
    shown = await streamed(processor, *map(delta, "abcdef"), shared=around(processor, clock=Ticking()))
    assert texts_of(shown) == ["abcd"]


async def test_a_new_attempt_begins_with_nothing_gathered():
    start = c.StepStart("run_1", "AGENT", p.StepStartPayload("m", {}, ()))
    shown = await streamed(BatchPartsProcessor(), delta("a"), start, delta("b"), end())
    assert texts_of(shown) == ["step-start", "b", "text-end"]


@pytest.mark.parametrize(
    ("text", "options", "normal"),
    [
        ("e\u0301  x \r\n\r\n\r\n y ", {}, "é x\n\ny"),
        (" a  b ", {"collapse_whitespace": False}, "a  b"),
        (" a  b ", {"trim": False}, " a b "),
        ("a\u200bb\x00c\td", {"strip_control_chars": True}, "abc d"),
        ("a\u200bb", {}, "a\u200bb"),
        ("ok 👍🏽 👩\u200d💻!", {}, "ok 👍🏽 👩\u200d💻!"),
        ("ok 👍🏽 👩\u200d💻!", {"preserve_emojis": False}, "ok !"),
        ("\ud83d\ude00 \ud800", {}, "😀 \ufffd"),
    ],
)
async def test_text_is_normalised(text, options, normal):
    assert await texts(UnicodeNormalizer(**options), text) == [normal]


@given(st.text(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_normalising_twice_changes_nothing(text, strip, emojis, collapse, trim):
    options = {
        "strip_control_chars": strip, "preserve_emojis": emojis, "collapse_whitespace": collapse, "trim": trim
    }  # fmt: skip
    once = normalized(text, **options)
    assert normalized(once, **options) == once
    assert unicodedata.is_normalized("NFC", once)
    once.encode()


@pytest.mark.parametrize(
    "make",
    [
        lambda: TokenLimiterProcessor(0),
        lambda: TokenLimiterProcessor(True),
        lambda: TokenLimiterProcessor(5, trim_mode="all"),
        lambda: TokenLimiterProcessor(5, strategy="cut"),
        lambda: TokenLimiterProcessor(5, count_mode="all"),
        lambda: BatchPartsProcessor(batch_size=0),
        lambda: ToolCallFilter(filter_after_tool_steps=-1),
    ],
)
def test_options_that_cannot_work(make):
    with pytest.raises(ConfigurationError):
        make()
