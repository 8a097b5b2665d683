"""What the catalogue knows of a model reaches its calls: their cost, and the settings that are left out."""

import pytest

from tenuto import Agent
from tenuto.models.catalogue import ModelInfo, Price, find_model
from tenuto.testing import Call, FakeProvider, Reply, ScriptedModel, Usage
from tenuto.tools import tool


@tool(effects="none")
def look() -> str:
    """Look."""
    return "seen"


def asked(fake, monkeypatch, model, **options):
    """An agent on `model`, whose provider is `fake`."""
    name = model.partition("/")[0].upper().replace("-", "_")
    monkeypatch.setenv(f"{name}_BASE_URL", fake.base_url)
    return Agent(id="a", model={"id": model, "api_key": "k"}, tools=[look], **options)


async def test_a_run_costs_the_sum_of_its_calls(monkeypatch):
    script = [Reply(calls=[Call("look")], usage=Usage(1_000, 100, cached=200)), Reply("x", usage=Usage(2_000, 50))]
    price = find_model("groq", "llama-3.3-70b-versatile").price
    with FakeProvider(script) as fake:
        stream = await asked(fake, monkeypatch, "groq/llama-3.3-70b-versatile").stream("hi")
        chunks = [chunk async for chunk in stream.full_stream]
        result = await stream.get_full_output()
    first, second = (step.usage.cost for step in result.steps)
    assert first == pytest.approx((1_000 * price.input + 100 * price.output) / 1e6)
    assert second == pytest.approx((2_000 * price.input + 50 * price.output) / 1e6)
    assert result.usage.cost == pytest.approx(first + second)
    finish = chunks[-1].to_dict()["payload"]["output"]["usage"]
    assert finish["cost"] == result.usage.cost
    assert (finish["inputTokens"], finish["outputTokens"], finish["cachedInputTokens"]) == (3_000, 150, 200)


async def test_a_gateway_has_its_own_price(monkeypatch):
    price = find_model("openrouter", "anthropic/claude-sonnet-4.5").price
    with FakeProvider([Reply("x", usage=Usage(1_000, 100))]) as fake:
        result = await asked(fake, monkeypatch, "openrouter/anthropic/claude-sonnet-4.5").generate("hi")
    assert result.usage.cost == pytest.approx((1_000 * price.input + 100 * price.output) / 1e6)


async def test_no_price_no_cost(monkeypatch):
    with FakeProvider([Reply("x"), Reply("x")]) as fake:
        unknown = await asked(fake, monkeypatch, "groq/no-such-model").generate("hi")
        own = await Agent(id="a", model={"id": "groq/llama-3.3-70b-versatile", "url": fake.base_url}).generate("hi")
    scripted = await Agent(id="a", model=ScriptedModel("x")).generate("hi")
    assert (unknown.usage.cost, own.usage.cost, scripted.usage.cost) == (None, None, None)


async def test_a_setting_that_the_model_refuses_is_left_out_with_a_warning(monkeypatch):
    settings = {"model_settings": {"temperature": 0.3, "top_p": 0.9, "seed": 7}}
    with FakeProvider([Reply("x"), Reply("x")]) as fake:
        agent = asked(fake, monkeypatch, "nvidia/openai/gpt-oss-120b")
        refusing = asked(fake, monkeypatch, "perplexity/sonar-deep-research")
        taken, left_out = await agent.generate("hi", **settings), await refusing.generate("hi", **settings)
        first, second = (seen.body for seen in fake.requests)
    assert (first["temperature"], first["top_p"], first["seed"]) == (0.3, 0.9, 7)
    assert (second.keys() & {"temperature", "top_p"}, second["seed"]) == (set(), 7)
    assert taken.warnings == ()
    assert [warning["setting"] for warning in left_out.steps[0].warnings] == ["temperature", "topP"]


async def test_a_model_of_ones_own_may_say_what_it_costs_and_refuses():
    class Mine(ScriptedModel):
        info = ModelInfo(id="mine", price=Price(input=1, output=2), temperature=False)

    model = Mine(Reply("x", usage=Usage(1_000, 500)))
    result = await Agent(id="a", model=model).generate("hi", model_settings={"temperature": 1})
    assert result.usage.cost == pytest.approx(0.002)
    assert [warning["setting"] for warning in result.warnings] == ["temperature"]
