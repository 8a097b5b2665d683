"""What requests are reckoned to take, and that a limit is never gone beyond, however many are on their way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import Agent
from tenuto.core.payloads import Usage as Tokens
from tenuto.errors import TenutoError
from tenuto.messages.turns import AssistantTurn as Assistant
from tenuto.messages.turns import CallPart, FilePart, Prompt, ResultPart, SystemTurn, Text, ToolTurn, UserTurn
from tenuto.models.catalogue import ModelInfo, Price
from tenuto.models.ports import ModelRequest, ModelSettings, ToolSpec
from tenuto.steps.budget import ASSUMED_OUTPUT, FILE_TOKENS, budget_of, reckoned, reckoned_answer
from tenuto.testing import Call, Gate, Reply, ScriptedModel, Usage

INFO = ModelInfo(id="model", max_output=1_000, price=Price(input=10.0, output=100.0))


def priced_model(script: Any, **more: Any) -> ScriptedModel:
    model = ScriptedModel(script, **more)
    model.info = INFO  # type: ignore[attr-defined]
    return model


def request(*turns: Any, system: str = "", most: int | None = None, **more: Any) -> ModelRequest:
    prompt = Prompt((SystemTurn(system),) if system else (), turns)
    return ModelRequest(prompt=prompt, settings=ModelSettings(max_output_tokens=most), **more)


def says(text: str) -> UserTurn:
    return UserTurn((Text(text),))


@pytest.mark.parametrize(
    ("asked", "info", "read", "written"),
    [
        (request(says("abcabc"), most=7), None, 3, 7),
        (request(says("abcabc")), None, 3, ASSUMED_OUTPUT),
        (request(says("abcabc")), INFO, 3, 1_000),
        (request(says("ééé"), system="abc", most=1), None, 2 + 3, 1),
        (request(UserTurn((FilePart("image/png", "https://x/y"),)), most=1), None, FILE_TOKENS, 1),
        (request(Assistant((CallPart("c", "f", {"a": 1}),)), most=1), None, 3, 1),
        (request(ToolTurn((ResultPart("c", "f", "abc"),)), most=1), None, 2, 1),
    ],
)
def test_what_a_request_may_take(asked, info, read, written):
    found = reckoned(asked, info)
    assert (found.input_tokens, found.output_tokens, found.total_tokens) == (read, written, read + written)
    assert (found.cost is None) == (info is None)


def test_tools_count():
    spec = ToolSpec("f", "x" * 300, {"type": "object"})
    assert reckoned(request(says("a"), tools=(spec,), most=1), None).input_tokens > 100


def test_the_price_of_a_request():
    assert reckoned(request(says("a"), most=100), INFO).cost == pytest.approx((1 * 10 + 100 * 100) / 1_000_000)


def test_requests_on_their_way_count_with_what_they_may_take():
    budget = budget_of(None, 100)
    model = ScriptedModel()
    first = budget.reserve(request(says("a"), most=59), model, None)
    with pytest.raises(TenutoError) as caught:
        budget.reserve(request(says("a"), most=59), model, None)
    assert "0 are spent, 60 put aside for requests on their way, and the next one may take 60" in str(caught.value)
    budget.settle(first, Tokens(1, 9, 10))
    second = budget.reserve(request(says("a"), most=59), model, None)
    budget.settle(second, None)
    budget.also(Tokens(40, 0, 40))
    with pytest.raises(TenutoError, match="50 are spent"):
        budget.reserve(request(says("a"), most=59), model, None)


def test_a_budget_below_another_counts_in_both():
    above = budget_of(None, 100)
    below = budget_of(None, 50, above)
    assert budget_of(None, None, above) is above
    model = ScriptedModel()
    below.settle(below.reserve(request(says("a"), most=9), model, None), Tokens(20, 20, 40))
    with pytest.raises(TenutoError, match="token_limit is 50"):
        below.reserve(request(says("a"), most=20), model, None)
    with pytest.raises(TenutoError, match="token_limit is 100 tokens: 40 are spent"):
        above.reserve(request(says("a"), most=80), model, None)
    below.before(Tokens(5, 5, 10))
    above.reserve(request(says("a"), most=50), model, None)


def test_an_answer_whose_provider_says_nothing():
    budget = budget_of(None, 1_000)
    reserved = budget.reserve(request(says("abcabc"), most=100), ScriptedModel(), None)
    assert reckoned_answer(reserved, "abcabcabc").total_tokens == 3 + 4


# -- runs ----------------------------------------------------------------------------------------------------------


async def test_a_cost_limit_ends_the_run_before_the_request_that_would_exceed_it():
    model = priced_model(lambda _: Reply("again", calls=[Call("nothing")], usage=Usage(1_000, 500)))
    agent = Agent(id="a", model=model)
    with pytest.raises(TenutoError) as caught:
        await agent.generate("hi", cost_limit=0.2, max_steps=10)
    result = caught.value.result
    assert caught.value.id == "AGENT_COST_LIMIT_REACHED"
    assert "cost_limit is 0.2 USD: 0.12 are spent" in str(caught.value)
    assert (len(model.requests), result.finish_reason) == (2, "error")
    assert result.usage.cost == pytest.approx(0.12)


async def test_a_model_without_a_price_cannot_have_a_cost_limit():
    model = ScriptedModel(["hi"])
    with pytest.raises(TenutoError) as caught:
        await Agent(id="a", model=model).generate("hi", cost_limit=1.0)
    assert caught.value.id == "AGENT_COST_LIMIT_NO_PRICE"
    assert "set token_limit=" in str(caught.value)
    assert model.requests == []


async def test_a_limit_is_no_failure_of_the_model_that_another_one_makes_good():
    first, second = ScriptedModel(["a"], model_id="a"), ScriptedModel(["b"], model_id="b")
    with pytest.raises(TenutoError) as caught:
        await Agent(id="a", model=[first, second]).generate("hi", token_limit=10)
    assert caught.value.id == "AGENT_TOKEN_LIMIT_REACHED"
    assert first.requests == second.requests == []


async def test_parallel_sub_agents_share_what_is_left():
    gate = Gate()
    sub_model = ScriptedModel(lambda _: Reply("ok", gate=gate, usage=Usage(100, 100)))
    short = {"model_settings": {"max_output_tokens": 500}}
    sub = Agent(id="sub", model=sub_model, default_options=short)
    calls = [Call("agent-x", {"prompt": str(place)}) for place in range(3)]
    model = ScriptedModel([Reply(calls=calls, usage=Usage(10, 10)), Reply("Done.", usage=Usage(10, 10))])
    boss = Agent(id="boss", model=model, agents={"x": sub}, default_options=short)
    task = asyncio.ensure_future(boss.generate("hi", token_limit=1_400))
    while len(sub_model.requests) < 2:  # noqa: ASYNC110 - what it waits for is the code's under test
        await asyncio.sleep(0)
    gate.open()
    result = await task
    assert len(sub_model.requests) == 2  # the third would have gone beyond, while two were on their way
    failed = [each for each in result.tool_results if each.payload.is_error]
    assert [each.payload.result for each in failed] == [
        "The agent 'x' failed (AGENT_TOKEN_LIMIT_REACHED) and gave no answer."
    ]
    assert (result.text, result.usage.total_tokens) == ("Done.", 440)


async def test_a_limit_of_the_sub_agents_own():
    model = ScriptedModel(lambda _: Reply("again", calls=[Call("nothing")], usage=Usage(300, 100)))
    sub = Agent(
        id="sub",
        model=model,
        default_options={"token_limit": 1_000, "max_steps": 9, "model_settings": {"max_output_tokens": 10}},
    )
    boss_model = ScriptedModel([Call("agent-x", {"prompt": "go"}), "Done."])
    result = await Agent(id="boss", model=boss_model, agents={"x": sub}).generate("hi")
    assert (len(model.requests), result.text) == (3, "Done.")
    assert "(AGENT_TOKEN_LIMIT_REACHED)" in boss_model.requests[1].last
