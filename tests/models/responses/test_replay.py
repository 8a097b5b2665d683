"""What a model said goes back item for item, from memory and from the stored form."""

import msgspec
import pytest

from tenuto.messages.convert import step_parts, to_turns
from tenuto.messages.stored import Content, Message, ToolInvocation, timestamp
from tenuto.messages.turns import (
    AssistantTurn,
    Custom,
    FilePart,
    ProviderResult,
    Reasoning,
    ResultPart,
    Text,
    ToolTurn,
    UserTurn,
)
from tenuto.models.ports import ProviderTool
from tenuto.models.render import render
from tenuto.models.responses.messages import ResponsesMessages
from tenuto.steps.turn import TurnBuilder
from tenuto.testing.provider import Call, FakeProvider, Raw, Reply
from tenuto.testing.provider.dialect import Wanted
from tenuto.testing.provider.responses import Responses
from tenuto.testing.provider.script import Made, ProviderCall
from tests.models.drive import F, call, calls_of, model_of, prompt, request, results, run, user

SEARCH = ProviderCall("web_search", {"action": {"type": "search", "query": "q", "sources": []}})
REPLIES = [
    Reply("Let me see.", [Call("f", {"a": 1}), Call("f", {"a": 2})], reasoning="I need both.", signature="sealed-1"),
    Reply(
        "Found.", [Call("f", {"a": 3})], reasoning="Now the web.", signature="sealed-2", provider_calls=[SEARCH],
        sources=[("http://a", "A")], redacted=["sealed-3"],
    ),
    Reply("Drawn.", files=[Made("image/png", "QUJD")], provider_calls=[ProviderCall("compaction")]),
    Reply("Done."),
]  # fmt: skip


def given(number):
    """The items that the fake provider made for a request, as a request may hold them."""
    whole = Responses().whole(REPLIES[number], Wanted("m", stream=False, usage=True, results=0), number)
    return [bare(item) for item in msgspec.json.decode(whole)["output"]]


def bare(item):
    """An item without what an answer adds and a request need not have."""
    item = {key: value for key, value in item.items() if key != "status" or item["type"] == "web_search_call"}
    for part in item.get("content") or ():
        part.pop("logprobs", None)
    return item


def turn_of(parts):
    builder = TurnBuilder("run")
    builder.take(parts)
    return builder.turn


def restored(turns):
    """The same turns after they were a stored message: encoded, decoded, converted back."""
    parts = []
    for at, turn in enumerate(turns):
        if isinstance(turn, AssistantTurn):
            answers = turns[at + 1].results if at + 1 < len(turns) and isinstance(turns[at + 1], ToolTurn) else ()
            made = {each.tool_call_id: each for each in turn.calls}
            outcomes = {
                each.tool_call_id: ToolInvocation(
                    "result", each.tool_call_id, each.tool_name, made[each.tool_call_id].args, result=each.text
                )
                for each in answers
            }
            parts += step_parts(turn, outcomes, "openai/m", at + 1)
    stored = Message("m", "assistant", timestamp(0), Content(tuple(parts)))
    return to_turns([msgspec.json.decode(msgspec.json.encode(stored), type=Message)])


@pytest.mark.parametrize("through", ["memory", "storage"])
async def test_reasoning_two_calls_and_a_search_over_four_requests(through):
    asked = request(tools=(F,), provider_tools=(ProviderTool("openai.web_search", "web_search"),))
    turns = []
    with FakeProvider(REPLIES) as fake:
        model = model_of(fake, "openai/gpt-5.1", api="responses")
        for _ in REPLIES:
            history = turns if through == "memory" else restored(turns)
            parts = await run(model, msgspec.structs.replace(asked, prompt=prompt(user(), *history)))
            turns.append(turn_of(parts))
            if own := [each for each in calls_of(parts) if not each.provider_executed]:
                turns.append(ToolTurn(tuple(ResultPart(each.tool_call_id, "f", "ok") for each in own)))
        sent = [[bare(item) for item in each.body["input"] if item.get("type")] for each in fake.requests]
    one = [*given(0), output("call_0_0"), output("call_0_1")]
    two = [*one, *given(1), output("call_1_0")]
    assert sent == [[], one, two, [*two, *given(2)]]


def output(call_id):
    return {"type": "function_call_output", "call_id": call_id, "output": "ok"}


def items_of(*turns, provider="openai"):
    return [msgspec.json.decode(raw) for raw in render(prompt(*turns), ResponsesMessages(provider, "system"))]


def own(**more):
    return {"openai": more}


def test_parts_of_one_item_become_one_item_again():
    turn = AssistantTurn(
        (
            Reasoning("one", None, own(itemId="rs_1")),
            Reasoning("two", None, own(itemId="rs_1", reasoningEncryptedContent="sealed")),
            Text("a", own(itemId="msg_1", phase="commentary")),
            Text("no", own(itemId="msg_1", refusal=True)),
            Text("", own(itemId="msg_1")),
            Text("b", own(itemId="msg_2")),
        )
    )
    assert items_of(turn) == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}],
            "encrypted_content": "sealed",
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary",
            "content": [
                {"type": "output_text", "text": "a", "annotations": []},
                {"type": "refusal", "refusal": "no"},
            ],
        },
        {
            "type": "message",
            "id": "msg_2",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "b", "annotations": []}],
        },
    ]


def test_open_reasoning_goes_back_as_content():
    turn = AssistantTurn((Reasoning("hm", None, own(itemId="rs_1", reasoningContent=True)), Text("x")))
    assert items_of(turn)[0] == {
        "type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]
    }  # fmt: skip


@pytest.mark.parametrize(
    "parts",
    [
        (Reasoning("r", None, own(itemId="rs_1")), Text("x")),
        (Text("x"), Reasoning("r", None, own(itemId="rs_1", reasoningEncryptedContent="s"))),
        (Reasoning("r", "signature"), Text("x")),
    ],
)
def test_reasoning_that_would_be_refused_stays_away(parts):
    assert items_of(AssistantTurn(parts)) == [{"role": "assistant", "content": "x"}]


def test_the_call_id_follows_the_renderer():
    item = {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "x"}
    once = AssistantTurn((call("c", name="sql", provider_metadata=own(item=item)),))
    again = AssistantTurn((call("c", name="sql", provider_metadata=own(item=item)),))
    found = items_of(once, results("c"), again, results("c"))
    assert [each["call_id"] for each in found] == ["c", "c", "c_2", "c_2"]


@pytest.mark.parametrize(
    ("item", "text", "failed", "expected"),
    [
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "x"}, "1", None,
            {"type": "custom_tool_call_output", "call_id": "c", "output": "1"},
        ),
        (
            {"type": "local_shell_call", "call_id": "c"}, "1", None,
            {"type": "local_shell_call_output", "id": "c", "output": "1"},
        ),
        (
            {"type": "shell_call", "call_id": "c"}, "1", None,
            {
                "type": "shell_call_output", "call_id": "c",
                "output": [{"stdout": "1", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
            },
        ),
        (
            {"type": "shell_call", "call_id": "c"}, "bad", True,
            {
                "type": "shell_call_output", "call_id": "c",
                "output": [{"stdout": "", "stderr": "bad", "outcome": {"type": "exit", "exit_code": 1}}],
            },
        ),
        (
            {"type": "apply_patch_call", "call_id": "c"}, "bad", True,
            {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "bad"},
        ),
        (
            {"type": "computer_call", "call_id": "c", "pending_safety_checks": [{"id": "s"}]}, "https://h/i.png", None,
            {
                "type": "computer_call_output", "call_id": "c", "acknowledged_safety_checks": [{"id": "s"}],
                "output": {"type": "computer_screenshot", "image_url": "https://h/i.png"},
            },
        ),
        (
            {"type": "mcp_approval_request", "id": "c"}, "true", None,
            {"type": "mcp_approval_response", "approval_request_id": "c", "approve": True},
        ),
        (
            {"type": "mcp_approval_request", "id": "c"}, "There is no such tool.", True,
            {
                "type": "mcp_approval_response", "approval_request_id": "c", "approve": False,
                "reason": "There is no such tool.",
            },
        ),
    ],
)  # fmt: skip
def test_each_kind_of_call_is_answered_in_its_own_form(item, text, failed, expected):
    turn = AssistantTurn((call("c", name="tool", provider_metadata=own(item=item)),))
    answered = ToolTurn((ResultPart("c", "tool", text, failed),))
    assert items_of(turn, answered) == [item, expected]


def test_an_answer_to_a_computer_is_always_a_picture():
    item = {"type": "computer_call", "call_id": "c", "pending_safety_checks": [{"id": "s"}]}
    turn = AssistantTurn((call("c", name="computer", provider_metadata=own(item=item)),))
    answer = items_of(turn, ToolTurn((ResultPart("c", "computer", "broke", is_error=True),)))[1]
    assert answer["output"]["image_url"].startswith("data:image/png;base64,")
    assert "acknowledged_safety_checks" not in answer


def test_a_result_may_hold_pictures():
    told = (Text("see"), FilePart("image/png", data="QUJD"), FilePart("application/pdf", url="http://h/a.pdf"))
    answered = ToolTurn((ResultPart("c", "f", "see", content=told),))
    assert items_of(AssistantTurn((call("c"),)), answered)[1]["output"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,QUJD"},
        {"type": "input_file", "file_url": "http://h/a.pdf"},
    ]
    item = {"type": "computer_call", "call_id": "c"}
    shown = items_of(AssistantTurn((call("c", provider_metadata=own(item=item)),)), answered)[1]
    assert shown["output"]["image_url"] == "data:image/png;base64,QUJD"


def test_what_another_provider_kept_stays_away():
    turn = AssistantTurn(
        (
            Custom("anthropic.x", {"anthropic": {"item": {"type": "x"}}}),
            ProviderResult("t", "search", {}, provider_metadata={"anthropic": {"item": {}}}),
            FilePart("image/png", data="QUJD"),
            call("t", name="search", provider_executed=True),
            Text("x"),
        )
    )
    assert items_of(turn) == [{"role": "assistant", "content": "x"}]


async def test_a_call_of_ours_is_answered_in_the_next_request():
    item = {
        "type": "local_shell_call", "id": "lsh_1", "call_id": "call_9", "status": "completed",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    }  # fmt: skip
    begun = {"type": "response.created", "response": {"id": "r"}}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    over = {"type": "response.completed", "response": {"id": "r", "status": "completed"}}
    with FakeProvider([Raw(events=[begun, done, over]), Reply("ok")]) as fake:
        model = model_of(fake, "openai/m", api="responses")
        asked = request(provider_tools=(ProviderTool("openai.local_shell", "shell"),))
        parts = await run(model, asked)
        assert calls_of(parts)[0].tool_name == "shell"
        asked.prompt.append(turn_of(parts))
        asked.prompt.append(ToolTurn((ResultPart("call_9", "shell", "a.txt"),)))
        await run(model, asked)
        assert fake.requests[1].body["input"][1:] == [
            item,
            {"type": "local_shell_call_output", "id": "call_9", "output": "a.txt"},
        ]


def test_history_is_encoded_once():
    from tenuto.models.render import rendered

    asked = prompt(user(), AssistantTurn((call("a"),)), results("a"))
    slot = rendered(asked, ResponsesMessages("openai", "system"))
    slot.render(asked)
    before = slot.encoded
    asked.append(UserTurn((Text("more"),)))
    slot.render(asked)
    assert slot.encoded == before + 1
