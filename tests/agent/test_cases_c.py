"""Public bug reports of structured output, each under its id; see also tests/structured for C05 and C08."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from tenuto import Agent, Tenuto, create_durable_agent, tool
from tenuto.errors import OutputInvalid
from tenuto.store import SQLiteStore
from tenuto.testing import Call, FakeProvider, Reply, ScriptedModel
from tests.agent.kit import agent_on, both, run, sent


class Verdict(BaseModel):
    valid: bool


class Boxes(BaseModel):
    customerName: str  # noqa: N815 - the case's own names
    boxCount: int  # noqa: N815


@tool(effects="none")
async def look() -> str:
    """Look it up."""
    return "seen"


# deepseek has no json_schema, so there the answer is the arguments of a tool
def deepseek(provider: FakeProvider, tools: Any = ()) -> Agent[Any, Any]:
    record = {"id": "deepseek/chat", "url": provider.base_url}
    return Agent(id="agent", model=record, tools=tools)


@both
async def test_c03_an_answer_by_tool_leaves_no_call_without_a_result(verb):
    script = [
        Reply(calls=[Call("look", {}, "c1")]),
        Reply(calls=[Call("final_answer", {"valid": True}, "c2")]),
        Reply("And now text."),
    ]
    async with FakeProvider(script) as provider:
        agent = deepseek(provider, [look])
        first = await run(verb, agent, structured_output=Verdict)
        assert first.result.object == Verdict(valid=True)
        assert [each.payload.tool_name for each in first.result.tool_calls] == ["look"]
        offered = [each["function"]["name"] for each in provider.requests[0].body["tools"]]
        assert (offered, provider.requests[0].body["tool_choice"]) == (["look", "final_answer"], "required")
        again = await run(verb, agent, [*first.result.messages, {"role": "user", "content": "why?"}])
        turns = sent(provider)
    assert again.result.text == "And now text."
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool", "assistant", "user"]
    assert turns[3]["content"] == '{"valid":true}'
    assert "tool_calls" not in turns[3]


@both
@pytest.mark.parametrize("size", [1, 4, 0])
async def test_c05_thinking_before_the_json_is_dropped_and_never_shown(verb, size):
    text = '<think>maybe {"valid":true}</think>\n{"valid":false}'
    async with FakeProvider([Reply(text, chunk_size=size)]) as provider:
        ran = await run(verb, agent_on(provider), structured_output=Verdict)
    assert ran.result.object == Verdict(valid=False)
    assert all(chunk.object in ({}, {"valid": False}) for chunk in ran.of("object"))
    assert ran.of("object-result")[0].object == {"valid": False}


async def test_c06_an_answer_that_does_not_fit_says_everything_by_every_path(tmp_path):
    async def tell(agent: Any, **options: Any) -> OutputInvalid:
        with pytest.raises(OutputInvalid) as caught:
            await agent.generate("how many?", structured_output=Boxes, **options)
        return caught.value

    bad = '{"customerName":"Ana"}'
    errors = [await tell(Agent(id="a", model=ScriptedModel([bad])))]
    prose = ScriptedModel(["Ana has some boxes."])
    separate = {"schema": Boxes, "model": ScriptedModel([bad])}
    with pytest.raises(OutputInvalid) as caught:
        await Agent(id="a", model=prose).generate("how many?", structured_output=separate)
    errors.append(caught.value)
    durable = create_durable_agent(Agent(id="a", model=ScriptedModel([bad])))
    async with Tenuto(agents={"a": durable}, store=SQLiteStore(tmp_path / "runs.db")):
        errors.append(await tell(durable, run_id="r"))
        assert errors[-1].result.finish_reason == "error"
    elsewhere = create_durable_agent(Agent(id="a", model=ScriptedModel()))
    async with Tenuto(agents={"a": elsewhere}, store=SQLiteStore(tmp_path / "runs.db")):
        viewer = await elsewhere.observe("r")
        with pytest.raises(OutputInvalid) as caught:
            await viewer.object
        errors.append(caught.value)
    for error in errors:
        assert [issue.path for issue in error.issues] == [("boxCount",)]
        assert (error.text, error.value) == (bad, {"customerName": "Ana"})
        assert error.id == "STRUCTURED_OUTPUT_SCHEMA_VALIDATION_FAILED"
        assert error.details["value"] == bad


@both
async def test_c09_nothing_is_validated_where_nothing_is_to_be(verb):
    defaults: Any = {"structured_output": Verdict}
    off = await run(
        verb, Agent(id="a", model=ScriptedModel(["plain"]), default_options=defaults), structured_output=None
    )
    assert (off.error, off.result.text, off.result.object_state) == (None, "plain", "unasked")

    calling = Agent(id="a", model=ScriptedModel(Call("look")), tools=[look], default_options=defaults)
    capped = await run(verb, calling, max_steps=1)
    assert (capped.error, capped.result.finish_reason) == (None, "tool-calls")
    assert (capped.result.object_state, capped.result.object_or_none) == ("none", None)
    with pytest.raises(OutputInvalid, match="it ended with 'tool-calls'"):
        _ = capped.result.object

    cut = await run(
        verb, Agent(id="a", model=ScriptedModel([Reply('{"val', finish="length")]), default_options=defaults)
    )
    assert cut.error is not None
    assert cut.error.id == "STRUCTURED_OUTPUT_TRUNCATED"
    assert cut.error.details == {"reason": "length"}
