"""Processors of a run on a thread: what they changed is what the thread has, and what they blocked is not in it."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto import Agent, Memory, tool
from tenuto.processors import Processor
from tenuto.store import InMemoryStore
from tenuto.testing import Call, Reply, ScriptedModel
from tests.agent.kit import both, run
from tests.agent.test_processors import having, masked
from tests.agent.test_threads import ANN, said, sent, stored


@tool(effects="none")
async def look() -> dict[str, str]:
    return {"secret": "123-45"}


def agent_of(model: Any, *, memory: Memory | None = None, **more: Any) -> Agent[Any, Any]:
    return Agent(id="a", model=model, memory=memory or Memory(store=InMemoryStore()), tools=[look], **more)


@both
async def test_the_thread_has_what_processors_left(verb):
    seen = []

    def edit(context: Any) -> Any:
        seen.append(([message.text for message in context.messages], context.thread_id, context.resource_id))
        return {"role": "user", "content": context.messages[0].text.upper()}

    model = ScriptedModel([Reply("it is 123-45", chunk_size=99, calls=[Call("look")]), "done", "again"])
    processors: dict[str, Any] = {
        "input_processors": [having(process_input=edit)],
        "output_processors": [
            having(id="mask", process_output_stream=masked, process_tool_result=lambda _: {"result": "***"})
        ],
    }
    agent = agent_of(model, **processors)
    await run(verb, agent, "hi", memory=ANN)
    await run(verb, agent, "more", memory=ANN)
    assert seen == [(["hi"], "t", "ann"), (["more"], "t", "ann")]  # the call's own, never what was recalled
    assert await said(agent) == ["HI", "it is ***done", "MORE", "again"]
    assert "123-45" not in repr(await stored(agent))
    assert sent(model)[0] == "HI"
    assert sent(model)[-1] == "MORE"


@both
async def test_a_blocked_input_is_not_in_the_thread(verb):
    guard = having(process_input=lambda x: x.abort("no") if "bad" in x.messages[0].text else None)
    model = ScriptedModel(["one"])
    agent = agent_of(model, input_processors=[guard])
    await run(verb, agent, "bad", memory=ANN)
    await run(verb, agent, "good", memory=ANN)
    assert await said(agent) == ["good", "one"]
    assert sent(model) == ["good"]


@both
async def test_a_blocked_result_leaves_the_question_in_the_thread(verb):
    guard = having(process_output_result=lambda x: x.abort("no") if "bad" in x.result.text else None)
    agent = agent_of(ScriptedModel(["bad", "good"]), output_processors=[guard])
    blocked = await run(verb, agent, "first", memory=ANN)
    assert blocked.types[-1] == "tripwire"
    await run(verb, agent, "second", memory=ANN)
    assert await said(agent) == ["first", "second", "good"]


@both
async def test_an_answer_that_was_asked_for_again_is_not_in_the_thread(verb):
    judge = having(process_output_step=lambda x: x.abort("no", retry=True) if x.text == "draft" else None)
    agent = agent_of(ScriptedModel(["draft", "final"]), output_processors=[judge], max_processor_retries=1)
    await run(verb, agent, "hi", memory={**ANN, "options": {}})
    assert await said(agent) == ["hi", "final"]


@both
@pytest.mark.parametrize("fails", [False, True])
async def test_a_thread_keeps_what_was_said_before_a_failure(verb, fails):
    """Trap 61: the end's processors, and what is saved, also come after the model failed."""

    class Sign(Processor):
        id = "sign"

        def process_output_result(self, context: Any) -> None:
            asked.append(context.result.finish_reason)
            if fails:
                message = "oops"
                raise ValueError(message)

    asked: list[str] = []
    agent = agent_of(ScriptedModel([Call("look"), RuntimeError("down")]), output_processors=[Sign()])
    ran = await run(verb, agent, "hi", memory=ANN)
    assert ran.result.finish_reason == "error"
    assert asked == ["error"]
    messages = await stored(agent)
    assert [message.role for message in messages] == ["user", "assistant"]
    assert messages[1].content.parts[-1].error.message


@both
async def test_what_a_model_is_told_of_its_memory_is_no_business_of_the_input(verb):
    hook = having(process_input=lambda x: {"system_messages": f"Only this ({len(x.system_messages)})."})
    model = ScriptedModel("ok")
    memory = Memory(store=InMemoryStore(), working_memory={"enabled": True, "template": "# Name"})
    agent = agent_of(model, memory=memory, input_processors=[hook], instructions="Own.")
    await run(verb, agent, "hi", memory=ANN)
    system = [message["content"] for message in model.requests[0].messages if message["role"] == "system"]
    assert system[0] == "Only this (1)."
    assert "# Name" in system[1]
