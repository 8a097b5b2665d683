"""A step's outcome as parts of a stored message, and back to what a model reads."""

from __future__ import annotations

import json

import msgspec

from tenuto.messages import stored as s
from tenuto.messages.convert import step_parts, to_turns
from tenuto.messages.turns import (
    AssistantTurn,
    CallPart,
    Custom,
    FilePart,
    ProviderResult,
    Reasoning,
    ResultPart,
    Text,
    ToolTurn,
)


def message(parts):
    return s.Message("m", "assistant", s.timestamp(1_900_000_000), s.Content(tuple(parts)))


def there_and_back(parts):
    plain = json.loads(json.dumps(message(parts).to_dict()))
    return to_turns([msgspec.convert(plain, s.Message)])


def test_the_order_of_a_step_is_kept():
    turn = AssistantTurn((Text("a"), CallPart("c", "f", {"x": 1}), Text("b")))
    done = s.ToolInvocation("result", "c", "f", {"x": 1}, 1, result={"y": 2})
    parts = step_parts(turn, {"c": done}, "p/m", 1)
    assert [type(part).__name__ for part in parts] == ["StepStartPart", "TextPart", "ToolInvocationPart", "TextPart"]
    assert there_and_back(parts) == [turn, ToolTurn((ResultPart("c", "f", '{"y":2}'),))]


def test_what_a_provider_wants_back_is_kept():
    metadata = {"google": {"thoughtSignature": "xyz"}}
    turn = AssistantTurn(
        (
            Reasoning("hm", "signed", {"anthropic": {"a": 1}}),
            Text("a", {"openai": {"itemId": "i"}}),
            CallPart("c", "f", None, "{broken", None, metadata),
        )
    )
    assert there_and_back(step_parts(turn, {}, "p/m", 1)) == [turn]


def test_steps_are_divided():
    first = step_parts(AssistantTurn((Text("a"),)), {}, "p/m", 1)
    second = step_parts(AssistantTurn((Text("b"),)), {}, "p/m", 2)
    assert there_and_back([*first, *second]) == [AssistantTurn((Text("a"),)), AssistantTurn((Text("b"),))]


def test_a_failed_call_and_one_that_was_left_open():
    turn = AssistantTurn((CallPart("c", "f", {}), CallPart("d", "f", {})))
    failed = s.ToolInvocation("output-error", "c", "f", {}, 1, error_text="no")
    assert there_and_back(step_parts(turn, {"c": failed}, "p/m", 1)) == [
        turn,
        ToolTurn((ResultPart("c", "f", "no", is_error=True),)),
    ]


def test_an_error_part_is_not_for_the_model():
    parts = [s.StepStartPart("p/m"), s.TextPart("a"), s.ErrorPart(s.ErrorText("ModelError", "no"))]
    assert there_and_back(parts) == [AssistantTurn((Text("a"),))]


def test_a_source_is_not_for_the_model():
    parts = [s.StepStartPart("p/m"), s.TextPart("a"), s.SourcePart({"url": "https://x.org"})]
    assert there_and_back(parts) == [AssistantTurn((Text("a"),))]


def test_messages_in_order_never_share_a_time():
    at = s.timestamp(1_900_000_000)
    made = [s.Message(str(n), "user", at, s.Content(())) for n in range(3)]
    times = [each.created_at for each in s.in_order(made)]
    assert times == sorted(set(times))
    assert times[0] == at


def test_what_the_provider_ran_and_made_is_sent_back_unchanged():
    turn = AssistantTurn(
        (
            Reasoning("", redacted="sealed"),
            CallPart("w", "web_search", {"query": "q"}, None, True, {"anthropic": {"type": "server_tool_use"}}),
            ProviderResult("w", "web_search", [{"url": "u"}], None, {"anthropic": {"encrypted": "e"}}),
            CallPart("x", "fetch", {}, None, True),
            ProviderResult("x", "fetch", {"code": "too_long"}, True),
            FilePart("image/png", data="AAAA", provider_metadata={"google": {"thoughtSignature": "s"}}),
            Custom("openai.compaction", {"openai": {"itemId": "i"}}),
            Text("done"),
        )
    )
    assert there_and_back(step_parts(turn, {}, "p/m", 1)) == [turn]
