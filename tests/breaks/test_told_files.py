"""Files from `to_model_output` that are none: the model is told so, and no provider is asked to read them."""

from __future__ import annotations

import pytest

from tenuto import Agent, tool
from tenuto.testing import Call, FakeProvider, Reply
from tests.agent.kit import run

MODELS = [
    ("chat", "test/m"),
    ("responses", "openai/gpt-5"),
    ("anthropic", "anthropic/claude-sonnet-4-6"),
    ("google", "google/gemini-3-pro"),
    ("google", "google/gemini-2.5-flash"),
]


@pytest.mark.parametrize("given", [{"data": "not base64!!"}, {"url": "javascript:alert(1)"}, {"url": "file:///etc/x"}])
@pytest.mark.parametrize(("api", "name"), MODELS)
async def test_the_model_is_told_that_it_is_no_file(api, name, given):
    part = {"type": "file", "media_type": "image/png", **given}

    @tool(effects="none", to_model_output=lambda _: {"type": "content", "value": [part]})
    async def shot() -> int:
        return 7

    with FakeProvider([Reply(calls=[Call("shot")]), Reply("done")]) as provider:
        agent = Agent(id="a", model={"id": name, "url": provider.base_url, "api": api}, tools=[shot])
        ran = await run("stream", agent)
        body = str(provider.requests[1].body)
    assert ran.result.text == "done"
    assert "is no file" in body
    assert next(iter(given.values())) not in body
