"""`thinking`, `effort` and levels of reasoning in the form that each model takes."""

import pytest

from tenuto.models.ports import ModelSettings
from tests.models.anthropic.test_request import body_of, refusal, warned
from tests.models.drive import F, call, request, results, said, user

BUDGET, BOTH, ADAPTIVE, ALWAYS = "claude-haiku-4-5", "claude-sonnet-4-6", "claude-sonnet-5", "claude-opus-5-5"
ON = {"type": "enabled", "budgetTokens": 2048}


def thought(body):
    """What a body says about thinking, and the effort."""
    return body.get("thinking"), (body.get("output_config") or {}).get("effort")


def levels(level):
    return ModelSettings(reasoning=level)


@pytest.mark.parametrize(
    ("name", "level", "thinking", "effort", "about"),
    [
        (BUDGET, "low", {"type": "enabled", "budget_tokens": 4096}, None, []),
        (BUDGET, "none", None, None, []),
        (BOTH, "medium", {"type": "adaptive"}, "medium", []),
        (BOTH, "xhigh", {"type": "adaptive"}, "high", ["changed"]),
        (ADAPTIVE, "minimal", {"type": "adaptive"}, "low", []),
        (ADAPTIVE, "max", {"type": "adaptive"}, "max", []),
        (ADAPTIVE, "none", {"type": "disabled"}, None, []),
        (ADAPTIVE, "provider-default", None, None, []),
        ("claude-sonnet-5-5", "none", {"type": "between_tools"}, None, []),
        (ALWAYS, "none", None, "low", ["reasoning"]),
        ("claude-3-5-haiku-latest", "high", None, None, ["reasoning"]),
        ("kimi-k2", "high", {"type": "enabled", "budget_tokens": 24576}, None, []),
    ],
)
async def test_levels_of_reasoning(name, level, thinking, effort, about):
    body, found = await warned(name=name, settings=levels(level))
    assert (*thought(body), found) == (thinking, effort, about)


async def test_a_level_that_nobody_knows():
    assert "none of none, minimal, low" in await refusal(settings=levels("a lot"))


@pytest.mark.parametrize(
    ("name", "options", "thinking", "effort", "about"),
    [
        (BUDGET, {"thinking": ON}, {"type": "enabled", "budget_tokens": 2048}, None, []),
        (BUDGET, {"thinking": {"type": "enabled"}}, {"type": "enabled", "budget_tokens": 1024}, None, ["changed"]),
        (BUDGET, {"thinking": {"type": "adaptive"}}, {"type": "enabled", "budget_tokens": 10240}, None, ["changed"]),
        (BUDGET, {"effort": "high"}, None, None, ["effort"]),
        ("claude-opus-4-5", {"effort": "max"}, None, "high", ["changed"]),
        (BOTH, {"thinking": ON, "effort": "max"}, {"type": "enabled", "budget_tokens": 2048}, "max", []),
        (ADAPTIVE, {"thinking": {**ON, "display": "omitted"}}, {"type": "adaptive", "display": "omitted"}, None,
         ["changed"]),
        (ADAPTIVE, {"thinking": {"type": "disabled"}}, {"type": "disabled"}, None, []),
        ("claude-sonnet-5-5", {"thinking": {"type": "disabled"}}, {"type": "between_tools"}, None, []),
        (ALWAYS, {"thinking": {"type": "disabled"}}, None, "low", ["reasoning"]),
        (ALWAYS, {"thinking": {"type": "disabled"}, "effort": "medium"}, None, "medium", ["reasoning"]),
        ("claude-3-haiku-20240307", {"thinking": ON}, None, None, ["thinking"]),
        (ADAPTIVE, {"thinking": {"type": "adaptive"}, "effort": "xhigh"}, {"type": "adaptive"}, "xhigh", []),
    ],
)  # fmt: skip
async def test_options(name, options, thinking, effort, about):
    body, found = await warned(name=name, provider_options={"anthropic": options})
    assert (*thought(body), found) == (thinking, effort, about)


async def test_options_win_over_the_level():
    body = await body_of(name=BOTH, provider_options={"anthropic": {"effort": "low"}}, settings=levels("high"))
    assert thought(body) == (None, "low")


async def test_a_budget_comes_on_top_of_the_answer():
    given = {"anthropic": {"thinking": ON}}
    body = await body_of(name=BUDGET, provider_options=given, settings=ModelSettings(max_output_tokens=100))
    assert body["max_tokens"] == 2148


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thinking": {"type": "enabled", "budgetTokens": 100}}, "at least 1024"),
        ({"thinking": {"type": "enabled", "budgetTokens": "many"}}, "at least 1024"),
        ({"thinking": ON, "maxTokens": 2048}, "the budget must be the smaller one"),
        ({"thinking": "on"}, "an object with a type"),
    ],
)
async def test_what_cannot_be(options, message):
    assert message in await refusal(name=BUDGET, provider_options={"anthropic": options})


async def test_a_model_that_thinks_is_not_warm():
    settings = ModelSettings(temperature=0.2, top_k=3, top_p=0.5, reasoning="low")
    body, about = await warned(name=BUDGET, settings=settings)
    assert not body.keys() & {"temperature", "top_k", "top_p"}
    assert about == ["temperature", "topK", "topP"]
    body, _ = await warned(name=BUDGET, settings=ModelSettings(top_p=0.97, reasoning="low"))
    assert body["top_p"] == 0.97


async def test_a_tool_cannot_be_forced_while_the_model_thinks():
    body, about = await warned(name=BOTH, tools=(F,), tool_choice="required", settings=levels("low"))
    assert (thought(body), about) == ((None, None), ["reasoning"])
    given = {"anthropic": {"thinking": ON}}
    found = await refusal(name=BUDGET, tools=(F,), tool_choice="required", provider_options=given)
    assert "cannot be forced while the model thinks" in found
    body, about = await warned(name=ADAPTIVE, tools=(F,), tool_choice="required", settings=levels("low"))
    assert (thought(body), about) == (({"type": "adaptive"}, "low"), [])


async def test_calls_made_without_thinking_are_answered_without():
    turns = (user(), said("", call("c")), results("c"))
    body, about = await warned(request(*turns, tools=(F,), settings=levels("low")), name=BUDGET)
    assert (thought(body), about) == ((None, None), ["changed"])
    body, about = await warned(request(*turns, user(), tools=(F,), settings=levels("low")), name=BUDGET)
    assert (thought(body)[0]["type"], about) == ("enabled", [])
