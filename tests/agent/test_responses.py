"""Cases of class A in the responses format, and what a run sends back, seen through an agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenuto import Agent, tool
from tenuto.errors import ModelError
from tenuto.testing import Call, FakeProvider, Raw, Reply
from tests.agent.kit import both, run

CREATED = {"type": "response.created", "response": {"id": "r", "model": "m", "created_at": 1}}
SAID = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "partial"}


def over(status: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"id": "r", "status": status, **more}}


def agent_on(provider: FakeProvider, *tools: Any, model: str = "test/m") -> Agent[Any, Any]:
    return Agent(id="agent", model={"id": model, "url": provider.base_url, "api": "responses"}, tools=list(tools))


@tool(effects="none")
async def double(a: int) -> int:
    """Twice as much."""
    return 2 * a


@both
async def test_a17_a_failed_response_is_an_error_that_keeps_its_text(verb):
    failed = over("failed", error={"code": "server_error", "message": "broke"})
    async with FakeProvider([Raw(events=[CREATED, SAID, failed])]) as provider:
        ran = await run(verb, agent_on(provider))
    assert isinstance(ran.error, ModelError)
    assert (ran.error.code, ran.error.status, ran.error.retryable) == ("server_error", 500, True)
    assert (ran.result.finish_reason, ran.result.text) == ("error", "partial")
    parts = ran.result.messages[-1].content.parts
    assert [type(part).__name__ for part in parts] == ["StepStartPart", "TextPart", "ErrorPart"]


@both
async def test_a17_an_incomplete_response_ends_for_its_length(verb):
    cut = over("incomplete", incomplete_details={"reason": "max_output_tokens"})
    async with FakeProvider([Raw(events=[CREATED, SAID, cut])]) as provider:
        ran = await run(verb, agent_on(provider))
    assert ran.error is None
    assert (ran.result.finish_reason, ran.result.text) == ("length", "partial")


THOUGHT = Reply("", [Call("double", {"a": 1}), Call("double", {"a": 2})], reasoning="both", signature="sealed-1")


@both
@pytest.mark.parametrize("stored", [False, True])
async def test_a_run_and_the_turn_after_it_send_everything_back(verb, stored):
    replies = [THOUGHT, Reply("2 and 4.", reasoning="easy", signature="sealed-2"), Reply("Yes.")]
    async with FakeProvider(replies) as provider:
        agent = agent_on(provider, double, model="openai/gpt-5-mini")
        ran = await run(verb, agent)
        history: Any = ran.result.messages
        if stored:
            history = json.loads(json.dumps([message.to_dict() for message in history]))
        await run(verb, agent, [*history, "sure?"])
        bodies = [each.body for each in provider.requests]
    assert ran.text == "2 and 4."
    assert [each.get("type", each.get("role")) for each in bodies[2]["input"]] == [
        "user", "reasoning", "function_call", "function_call", "function_call_output", "function_call_output",
        "reasoning", "message", "user",
    ]  # fmt: skip
    assert [each["encrypted_content"] for each in bodies[2]["input"] if each.get("type") == "reasoning"] == [
        "sealed-1",
        "sealed-2",
    ]
    assert bodies[2]["input"][: len(bodies[1]["input"])] == bodies[1]["input"]
    assert all(body["store"] is False for body in bodies)


async def test_the_default_of_openai_strings(monkeypatch):
    async with FakeProvider([Reply("hi")], api_key="k") as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        result = await Agent(id="agent", model="openai/gpt-5-mini").generate("hello")
        assert provider.requests[0].path == "/v1/responses"
    assert result.text == "hi"
