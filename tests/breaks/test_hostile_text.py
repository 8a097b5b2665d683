"""Text that no provider and no store can hold is mended wherever a caller may put it."""

from __future__ import annotations

import pytest

from tenuto import Agent
from tenuto.testing import FakeProvider, Reply
from tests.agent.kit import agent_on, sent

LONE = "a\ud800b"
MENDED = "a\ufffdb"


@pytest.mark.parametrize(
    "messages",
    [
        LONE,
        [LONE],
        {"role": "user", "content": LONE},
        {"role": "user", "content": [LONE]},
        {"role": "user", "content": [{"type": "text", "text": LONE}]},
    ],
    ids=["text", "list", "content", "part", "text part"],
)
async def test_a_lone_surrogate_in_a_message(messages):
    with FakeProvider([Reply("ok")]) as provider:
        result = await agent_on(provider).generate(messages)
    assert sent(provider)[-1]["content"] == MENDED
    assert result.messages[0].text == MENDED


@pytest.mark.parametrize("option", ["instructions", "system", "context"])
async def test_a_lone_surrogate_in_an_option(option):
    with FakeProvider([Reply("ok")]) as provider:
        await agent_on(provider).generate("x", **{option: LONE})
    assert MENDED in [message["content"] for message in sent(provider)]


async def test_a_surrogate_pair_is_one_character():
    with FakeProvider([Reply("ok")]) as provider:
        agent = Agent(id="a", model={"id": "test/m", "url": provider.base_url})
        await agent.generate("\ud83d\ude00")
    assert sent(provider)[-1]["content"] == "\U0001f600"
