"""`transform`: what displays and transcripts show of tools' payloads; closed where nobody says."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto import Agent, create_tool, durable_function, tool
from tenuto.core import codec
from tenuto.errors import ConfigurationError
from tenuto.testing import Call, Reply, ScriptedModel
from tests.agent.kit import both, run

SECRET = "canary-4711"


@tool(effects="none")
async def pay(card: str) -> str:
    return f"paid with {card}"


@tool(effects="none")
async def fail(card: str) -> str:
    raise ValueError(f"no money on {card}")


def script() -> ScriptedModel:
    return ScriptedModel([[Call("pay", {"card": SECRET}, "c1"), Call("fail", {"card": SECRET}, "c2")], "done", "again"])


def stars(context: Any) -> Any:
    match context.phase:
        case "input-available":
            return {"card": "***"}
        case "output-available":
            return "paid"
        case "error":
            return "it failed"
        case _:
            return None


def seen(ran: Any) -> str:
    return b"".join(codec.encode(chunk) for chunk in ran.chunks).decode()


def transcript(result: Any) -> str:
    return str([message.to_transcript().to_dict() for message in result.messages])


@both
async def test_a_policy_covers_streams_and_transcripts_and_nothing_else(verb):
    model = script()
    agent = Agent(id="a", model=model, tools=[pay, fail], transform={"transform_tool_payload": stars})
    ran = await run(verb, agent)
    assert SECRET not in seen(ran)
    assert ran.of("tool-call")[0].payload.args == {"card": "***"}
    (done,) = ran.of("tool-result")
    assert (done.payload.args, done.payload.result) == ({"card": "***"}, "paid")
    assert done.metadata["mastra"]["toolPayloadTransform"]["display"]["output-available"] == {"transformed": "paid"}
    assert ran.of("tool-error")[0].payload.error.message == "it failed"
    assert ran.of("step-finish")[0].payload.output.tool_calls[0].args == {"card": "***"}
    assert ran.of("tool-call-delta") == []  # nobody gave their text a form
    # the caller, the model and the stored messages have the payloads themselves
    assert ran.result.tool_results[0].payload.result == f"paid with {SECRET}"
    assert SECRET in model.requests[1].last or SECRET in str(model.requests[1].messages)
    assert SECRET not in transcript(ran.result)
    assert "***" in transcript(ran.result)
    await agent.generate([*ran.result.messages, "more"])
    assert SECRET in str(model.requests[2].messages)
    assert "***" not in str(model.requests[2].messages)


@both
@pytest.mark.parametrize("broken", ["raises", "says nothing", "none there"])
async def test_what_nobody_gave_a_form_is_hidden(verb, broken):
    def function(context):
        if broken == "raises":
            raise ValueError(SECRET)

    policy = {} if broken == "none there" else {"transform_tool_payload": function}
    ran = await run(verb, Agent(id="a", model=script(), tools=[pay, fail]), transform=policy)
    assert SECRET not in seen(ran)
    assert SECRET not in transcript(ran.result)
    assert ran.of("tool-result")[0].payload.result == {"hidden": True}
    assert ran.result.text == "done"


async def test_a_target_that_is_not_named_is_left_alone():
    agent = Agent(id="a", model=script(), tools=[pay, fail])
    ran = await run("stream", agent, transform={"targets": ["transcript"], "transformToolPayload": stars})
    assert SECRET in seen(ran)
    assert SECRET not in transcript(ran.result)


async def test_a_tool_s_own_transform_comes_after_the_policy_s_and_covers_it_alone():
    async def short(context):
        return "own"

    own = create_tool(
        id="pay",
        input_schema={"type": "object"},
        execute=lambda args: args,
        effects="none",
        transform={"display": {"output": short, "inputDelta": lambda context: "…"}},
    )
    ran = await run("stream", Agent(id="a", model=script(), tools=[own, fail]))
    assert ran.of("tool-result")[0].payload.result == "own"
    assert ran.of("tool-result")[0].payload.args == {"hidden": True}
    assert SECRET in str(ran.of("tool-error"))  # of a tool that hides nothing
    assert {
        each.payload.args_text_delta for each in ran.of("tool-call-delta") if each.payload.tool_call_id == "c1"
    } == {"…"}
    policy = {"transform_tool_payload": lambda c: "policy" if c.phase == "output-available" else None}
    ran = await run("stream", Agent(id="a", model=script(), tools=[own, fail]), transform=policy)
    assert ran.of("tool-result")[0].payload.result == "policy"


async def test_a_client_gets_the_arguments_it_is_to_run_with():
    where = create_tool(id="pay", input_schema={"type": "object"})
    ran = await run(
        "stream", Agent(id="a", model=ScriptedModel([Call("pay", {"card": "x"})]), tools=[where]), transform={}
    )
    assert ran.of("tool-call")[0].payload.args == {"card": "x"}
    assert "'hidden': True" in transcript(ran.result)


async def test_approval_and_suspension_show_their_own_forms():
    @tool(require_approval=True)
    async def guarded(card: str) -> str:
        return card

    def form(context):
        return {"card": "****"} if context.phase == "approval" else None

    model = ScriptedModel([Reply(calls=[Call("guarded", {"card": SECRET}, "c1")]), "ok"])
    agent = Agent(id="a", model=model, tools=[guarded], transform={"transform_tool_payload": form})
    ran = await run("stream", agent)
    assert ran.of("tool-call-approval")[0].payload.args == {"card": "****"}
    assert SECRET not in seen(ran)
    result = await agent.approve_tool_call_generate(run_id=ran.result.run_id)
    assert result.tool_results[0].payload.result == SECRET


def test_a_transform_of_another_form_is_refused():
    with pytest.raises(ConfigurationError, match="no key 'screen'"):
        tool(transform={"screen": {}})(lambda: 1)
    with pytest.raises(ConfigurationError, match="has to be a function"):
        tool(transform={"display": {"input": 3}})(lambda: 1)


@durable_function("tests: stars")
def registered(context: Any) -> Any:
    return stars(context)
