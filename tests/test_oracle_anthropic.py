"""The request oracle itself: it must refuse what it is there to catch."""

import copy
from typing import Any

import pytest

from tests.oracle_anthropic import assert_valid_messages_body

BODY: dict[str, Any] = {
    "model": "x",
    "max_tokens": 9,
    "stream": True,
    "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "", "signature": "s"},
                {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "3"}]},
    ],
    "tools": [{"name": "f", "input_schema": {"type": "object", "any": 1}}],
    "temperature": 1,
}


@pytest.mark.parametrize("previews", [False, True])
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("zip",), 1),
        (("max_tokens",), "9"),
        (("stream",), "yes"),
        (("system", 0, "zip"), 1),
        (("messages", 0, "role"), "robot"),
        (("messages", 0, "content", 0, "zip"), 1),
        (("messages", 1, "content", 0, "zip"), 1),
        (("messages", 1, "content", 0, "signature"), None),
        (("messages", 1, "content", 1, "input"), "{}"),
        (("messages", 2, "content", 0, "tool_use_id"), None),
        (("tools", 0, "zip"), 1),
    ],
)
def test_one_change_is_caught(path: tuple[Any, ...], value: Any, previews: bool) -> None:
    assert_valid_messages_body(BODY, previews=previews)
    body: Any = copy.deepcopy(BODY)
    where = body
    for key in path[:-1]:
        where = where[key]
    where[path[-1]] = value
    with pytest.raises(AssertionError):
        assert_valid_messages_body(body, previews=previews)


def test_other_keys_can_be_allowed() -> None:
    assert_valid_messages_body(BODY | {"zip": 1}, allow=frozenset({"zip"}))
