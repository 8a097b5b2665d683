import asyncio
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenuto.messages.turns import (
    AssistantTurn,
    CallPart,
    FilePart,
    Prompt,
    Reasoning,
    ResultPart,
    SystemTurn,
    Text,
    ToolTurn,
    UserTurn,
)
from tenuto.models.chat.messages import ChatMessages
from tenuto.models.ports import ModelRequest
from tenuto.models.render import AWAITING, NO_RESULT, render, rendered
from tenuto.testing.provider import FakeProvider, Reply
from tests.models.drive import call, model_of, prompt, results, run, said, user
from tests.oracle import assert_valid_chat_body

CHAT = ChatMessages("test")


def shown(given: Prompt, dialect: ChatMessages = CHAT) -> list[dict]:
    return [json.loads(bytes(raw)) for raw in render(given, dialect)]


def roles(messages):
    return [message["role"] for message in messages]


def pairs(messages):
    """What follows each call: (id, result text)."""
    asked = [each["id"] for message in messages for each in message.get("tool_calls", ())]
    told = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
    assert len(set(asked)) == len(asked)
    assert set(asked) == set(told)
    return [told[each] for each in asked]


def test_a_plain_conversation():
    given = prompt(user(), said("sure", call("c")), results("c"), said("done"), system=[SystemTurn("be brief")])
    assert roles(shown(given)) == ["system", "user", "assistant", "tool", "assistant"]


def test_results_come_in_call_order_from_several_turns():
    given = prompt(user(), said("", call("a"), call("b")), results("b", text="B"), results("a", text="A"))
    assert [message["tool_call_id"] for message in shown(given)[2:]] == ["a", "b"]
    assert pairs(shown(given)) == ["A", "B"]


def test_a_dangling_call_is_closed():
    given = prompt(user(), said("", call("a"), call("b")), results("a"), user("and?"))
    assert pairs(shown(given)) == ["ok", NO_RESULT]
    assert roles(shown(given)) == ["user", "assistant", "tool", "tool", "user"]


def test_an_open_call_at_the_end_awaits_a_decision_in_that_request_only():
    given = prompt(user(), said("", call("a"), call("b")), results("b", text="B"))
    assert pairs(shown(given)) == [AWAITING, "B"]
    given.append(results("a", text="A"))
    assert pairs(shown(given)) == ["A", "B"]
    assert len(shown(given)) == 4


def test_a_late_result_takes_the_place_of_the_neutral_one():
    given = prompt(user(), said("", call("a"), call("b")), user("meanwhile"), said("yes"))
    assert pairs(shown(given)) == [NO_RESULT, NO_RESULT]
    given.append(results("b", text="late"))
    assert pairs(shown(given)) == [NO_RESULT, "late"]
    assert roles(shown(given)) == ["user", "assistant", "tool", "tool", "user", "assistant"]


def test_orphans_and_doubles_are_dropped():
    given = prompt(
        results("x"), user(), said("", call("a")), results("a", "a", "y"), results("a"), said("ok"), results("a")
    )
    assert roles(shown(given)) == ["user", "assistant", "tool", "assistant"]


def test_ids_used_twice_are_renamed_with_their_results():
    given = prompt(
        user(), said("", call("c"), call("c")), ToolTurn((ResultPart("c", "f", "1"), ResultPart("c", "f", "2"))),
        said("", call("c"), call("")), ToolTurn((ResultPart("c", "f", "3"), ResultPart("", "f", "4"))),
    )  # fmt: skip
    assert pairs(shown(given)) == ["1", "2", "3", "4"]


def test_empty_turns_are_skipped():
    given = prompt(
        user(),
        said(),
        AssistantTurn((Reasoning("hm"),)),
        said(
            "",
        ),
        UserTurn(()),
        user("x"),
    )
    assert roles(shown(given)) == ["user", "user"]
    assert all("tool_calls" not in message for message in shown(prompt(user(), said("hi"))))


def test_arguments_that_were_no_json_are_valid_json_text():
    given = prompt(user(), said("", CallPart("c", "f", None, '{"{"tagIds":[')), results("c"))
    (asked,) = shown(given)[1]["tool_calls"]
    assert json.loads(asked["function"]["arguments"]) == {"invalid_arguments": '{"{"tagIds":['}


def test_names_a_model_made_up_are_sent_in_valid_letters():
    given = prompt(user(), said("", call("c", name="a b.c/é" + "x" * 99)), results("c"))
    (asked,) = shown(given)[1]["tool_calls"]
    assert asked["function"]["name"] == ("a_b_c__" + "x" * 99)[:64]


def test_long_ids_are_shortened_and_short_ones_made_for_mistral():
    long = "call_" + "x" * 80
    given = prompt(user(), said("", call(long)), results(long))
    assert pairs(shown(given)) == ["ok"]
    assert len(shown(given)[2]["tool_call_id"]) <= 40
    mistral = shown(given, ChatMessages("mistral", short_ids=True))
    assert pairs(mistral) == ["ok"]
    assert len(mistral[2]["tool_call_id"]) == 9


def test_calls_that_the_provider_ran_itself_need_no_result():
    given = prompt(user(), said("found", call("s", provider_executed=True)), user("and?"))
    assert roles(shown(given)) == ["user", "assistant", "user"]


@pytest.mark.parametrize("echo", [True, False])
def test_A25_reasoning_goes_back_where_the_provider_wants_it(echo):
    turn = AssistantTurn((Reasoning("thi"), Reasoning("nk"), Text("x"), call("c")))
    message = shown(prompt(user(), turn, results("c")), ChatMessages("test", echo_reasoning=echo))[1]
    assert message.get("reasoning_content") == ("think" if echo else None)
    assert message["content"] == "x"


def test_opaque_call_metadata_goes_back():
    metadata = {"test": {"extra_content": {"google": {"thought_signature": "s"}}}}
    given = prompt(user(), said("", call("c", provider_metadata=metadata)), results("c"))
    assert shown(given)[1]["tool_calls"][0]["extra_content"] == metadata["test"]["extra_content"]


def test_a_step_encodes_what_is_new():
    given = prompt(user(), system=[SystemTurn("be brief")])
    counter = rendered(given, CHAT)
    render(given, CHAT)
    assert counter.encoded == 2
    for step in range(300):
        before = counter.encoded
        given.append(said("", call(f"c{step}"), call(f"d{step}")))
        given.append(results(f"c{step}", f"d{step}"))
        render(given, CHAT)
        assert counter.encoded - before == 3
    assert len(shown(given)) == 902


def test_an_open_call_costs_its_answers_again_and_no_more():
    given = prompt(user(), *(turn for n in range(50) for turn in (said("", call(str(n))), results(str(n)))))
    given.append(said("", call("open")))
    render(given, CHAT)
    counter = rendered(given, CHAT)
    before = counter.encoded
    render(given, CHAT)
    assert counter.encoded - before == 1


def test_dialects_do_not_share_a_cache():
    given = prompt(user(), AssistantTurn((Reasoning("r"), Text("t"))))
    plain, echo = ChatMessages("test"), ChatMessages("test", echo_reasoning=True)
    assert "reasoning_content" not in shown(given, plain)[1]
    assert "reasoning_content" in shown(given, echo)[1]
    assert "reasoning_content" not in shown(given, plain)[1]


IDS = st.sampled_from(["", "a", "b", "c", "x" * 50])
NAMES = st.sampled_from(["f", "", "b a d", "é" * 70])
ARGS = st.one_of(st.none(), st.dictionaries(st.text(max_size=2), st.integers(), max_size=2), st.lists(st.integers()))
TEXTS = st.builds(Text, st.text(st.characters(codec="utf-8"), max_size=3))
CALLS = st.builds(CallPart, IDS, NAMES, ARGS, st.sampled_from([None, "{", ""]), st.sampled_from([None, True]))
FILES = st.builds(
    FilePart,
    st.sampled_from(["image/png", "audio/wav", "audio/ogg", "application/pdf", "text/plain", "x/y"]),
    st.sampled_from([None, "http://h/f"]),
    st.sampled_from([None, "QUJD"]),
)
TURNS = st.lists(
    st.one_of(
        st.builds(SystemTurn, st.text(st.characters(codec="utf-8"), max_size=2)),
        st.builds(UserTurn, st.lists(st.one_of(TEXTS, FILES), max_size=3).map(tuple)),
        st.builds(
            AssistantTurn, st.lists(st.one_of(TEXTS, CALLS, st.builds(Reasoning, st.just("r"))), max_size=4).map(tuple)
        ),
        st.builds(
            ToolTurn,
            st.lists(st.builds(ResultPart, IDS, NAMES, st.text(max_size=2, alphabet="ab")), max_size=3).map(tuple),
        ),
    ),
    max_size=12,
)


@given(TURNS, st.integers(0, 12), st.booleans())
def test_any_history_renders_to_a_request_the_types_accept(turns, cut, echo):
    dialect = ChatMessages("test", echo_reasoning=echo)
    grown = Prompt((), turns[:cut])
    render(grown, dialect)
    for turn in turns[cut:]:
        grown.append(turn)
    messages = shown(grown, dialect)
    pairs(messages)
    if messages:
        body = {"model": "m", "messages": messages}
        assert_valid_chat_body(body, allow=frozenset({"reasoning_content"}))


async def test_any_history_is_accepted_by_the_strict_provider():
    with FakeProvider(lambda _: Reply("ok"), keep_requests=False) as fake:
        model = model_of(fake)
        loop = asyncio.get_running_loop()

        @settings(max_examples=150)
        @given(TURNS)
        def check(turns):
            done = run(model, ModelRequest(prompt=Prompt((), turns)))
            asyncio.run_coroutine_threadsafe(done, loop).result(10)

        await asyncio.to_thread(check)
        assert not fake.refused


def test_raw_messages_are_json():
    assert all(isinstance(raw, msgspec.Raw) for raw in render(prompt(user()), CHAT))
