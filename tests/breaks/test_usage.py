"""Counts of tokens that cannot be."""

from __future__ import annotations

import pytest

from tenuto.core.payloads import Usage
from tenuto.testing import FakeProvider, Raw, chat_chunk
from tests.agent.kit import agent_on, both, run, says


@both
@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -5, "completion_tokens": 1},
        {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": -6},
        {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": -1}},
    ],
    ids=str,
)
async def test_impossible_counts_are_none(verb, usage):
    events = [chat_chunk(says("hi")), chat_chunk({}, finish="stop"), {"choices": [], "usage": usage}]
    with FakeProvider([Raw(events=events)]) as provider:
        ran = await run(verb, agent_on(provider))
    assert ran.result.text == "hi"
    assert ran.result.usage == Usage(raw=usage)
