"""The request oracle itself: it must refuse what it is there to catch."""

import copy
from typing import Any

import pytest
from pydantic_core import ValidationError

from tests.oracle import assert_valid_chat_body

BODY: dict[str, Any] = {
    "model": "x",
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "3"},
    ],
    "stream": True,
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "any": 1}}}],
    "temperature": 1,
    "metadata": {"a": "b"},
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("zip",), 1),
        (("temperature",), "1"),
        (("stream",), "yes"),
        (("messages", 0, "zip"), 1),
        (("messages", 0, "role"), "robot"),
        (("messages", 0, "content", 0, "zip"), 1),
        (("messages", 1, "reasoning_content"), "think"),
        (("messages", 1, "tool_calls", 0, "zip"), 1),
        (("messages", 1, "tool_calls", 0, "function", "arguments"), {}),
        (("messages", 2, "tool_call_id"), None),
        (("tools", 0, "function", "zip"), 1),
    ],
)
def test_one_change_is_caught(path: tuple[Any, ...], value: Any) -> None:
    assert_valid_chat_body(BODY)
    body: Any = copy.deepcopy(BODY)
    where = body
    for key in path[:-1]:
        where = where[key]
    where[path[-1]] = value
    with pytest.raises(ValidationError):
        assert_valid_chat_body(body)


def test_other_vendors_keys_can_be_allowed() -> None:
    body = copy.deepcopy(BODY) | {"top_k": 3}
    body["messages"][1]["reasoning_content"] = "think"
    assert_valid_chat_body(body, allow=frozenset({"top_k", "reasoning_content"}))
