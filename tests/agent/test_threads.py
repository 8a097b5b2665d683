"""Runs on a thread: what they read and store, whose turn it is, and what waits for a decision."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenuto import AbortController, Agent, Memory, ToolContext, tool
from tenuto.core.chunks import AnyChunk
from tenuto.errors import ConfigurationError, ModelError, RunError, TenutoError
from tenuto.runs import turns
from tenuto.runs.supervisor import Supervisor
from tenuto.store import InMemoryStore
from tenuto.testing import Call, Gate, Reply, ScriptedModel
from tests.agent.kit import both, run

ANN = {"thread": "t", "resource": "ann"}


def agent_of(model: Any, *, store: Any = None, tools: Any = (), memory: Any = None, **more: Any) -> Agent[Any, Any]:
    remembers = memory if memory is not None else Memory(store=store or InMemoryStore(), **more.pop("options", {}))
    return Agent(id="agent", model=model, tools=tools, memory=remembers, **more)


async def stored(agent: Agent[Any, Any], thread: str = "t", resource: str = "ann") -> list[Any]:
    memory = await agent.get_memory()
    assert memory is not None
    page = await memory.recall(thread_id=thread, resource_id=resource, per_page=False)
    return list(page.messages)


async def said(agent: Agent[Any, Any], **where: Any) -> list[str]:
    return [message.text for message in await stored(agent, **where)]


def sent(model: ScriptedModel, call: int = -1) -> list[str]:
    """The texts of what a model call was sent, system messages apart."""
    return [str(each["content"]) for each in model.requests[call].messages if each["role"] != "system"]


async def asked(model: ScriptedModel, times: int = 1) -> None:
    """Until the model was asked so often."""
    for _ in range(1000):
        if len(model.requests) >= times:
            return
        await asyncio.sleep(0)
    raise AssertionError(len(model.requests))


# -- what is read and stored -----------------------------------------------------------------------------------------


@both
async def test_conformance_13_memory(verb):
    model = ScriptedModel(["one", "two", "three", "four", "five"])
    agent = agent_of(model)
    await run(verb, agent, "first", memory=ANN)
    second = await run(verb, agent, "second", memory=ANN)
    assert sent(model) == ["first", "one", "second"]
    assert [message.text for message in second.result.remembered_messages] == ["first", "one"]
    assert (second.result.thread_id, second.result.resource_id) == ("t", "ann")
    await run(verb, agent, "third", memory={**ANN, "options": {"last_messages": 1}})
    assert sent(model) == ["two", "third"]
    await run(verb, agent, "unseen", memory={**ANN, "options": {"read_only": True}})
    assert await said(agent) == ["first", "one", "second", "two", "third", "three"]
    with pytest.raises(RunError) as refused:
        await agent.generate("mine", memory={"thread": "t", "resource": "bob"})
    assert refused.value.id == "AGENT_MEMORY_THREAD_RESOURCE_MISMATCH"
    assert len(model.requests) == 4
    history = [message.to_dict() for message in await stored(agent)]
    for message in history:
        del message["id"]
    await run(verb, agent, [*history, {"role": "user", "content": "fourth"}], memory=ANN)
    assert (await said(agent))[-3:] == ["three", "fourth", "five"]


async def test_conformance_16_reserved_ids_override_those_of_the_caller():
    model = ScriptedModel(["one"])
    agent = agent_of(model)
    context = {"mastra__threadId": "real", "mastra__resourceId": "bob"}
    thread = {"id": "forged", "title": "Kept", "metadata": {"a": 1}}
    result = await agent.generate("hi", memory={"thread": thread, "resource": "ann"}, request_context=context)
    assert (result.thread_id, result.resource_id) == ("real", "bob")
    memory = await agent.get_memory()
    assert memory is not None
    made = await memory.get_thread_by_id(thread_id="real", resource_id="bob")
    assert made is not None
    assert (made.title, dict(made.metadata)) == ("Kept", {"a": 1})
    assert await memory.get_thread_by_id(thread_id="forged", resource_id="ann") is None


@pytest.mark.parametrize("where", [{"thread": "t"}, {"resource": "ann"}])
async def test_a_thread_has_an_owner(where):
    model = ScriptedModel()
    with pytest.raises(ConfigurationError) as refused:
        await agent_of(model).generate("hi", memory=where)
    assert refused.value.id == "AGENT_MEMORY_MISSING_RESOURCE_ID"
    assert model.requests == []


async def test_an_agent_without_memory_says_that_it_has_none(caplog):
    agent = Agent(id="agent", model=ScriptedModel(["one"]))
    assert (await agent.generate("hi", memory=ANN)).text == "one"
    assert "no memory" in caplog.text


async def test_a_memory_without_a_thread_is_stateless():
    agent = agent_of(ScriptedModel(["one"]))
    result = await agent.generate("hi")
    assert (result.text, result.thread_id) == ("one", None)


async def test_context_and_system_messages_are_stored_nowhere():
    model = ScriptedModel(["one"])
    agent = agent_of(model)
    given: Any = [{"role": "system", "content": "s"}, "hi"]
    result = await agent.generate(given, memory=ANN, context="aside", system="more")
    assert await said(agent) == ["hi", "one"]
    assert [message.text for message in result.messages] == ["aside", "hi", "one"]


async def test_what_is_read_comes_before_the_context_and_the_input():
    model = ScriptedModel(["one", "two"])
    agent = agent_of(model, instructions="Be brief.")
    await agent.generate("first", memory=ANN)
    await agent.generate("second", memory=ANN, context="aside")
    assert sent(model) == ["first", "one", "aside", "second"]


async def test_last_messages_0_reads_and_saves_nothing():
    model = ScriptedModel(["one", "two"])
    agent = agent_of(model, options={"last_messages": 0})
    await agent.generate("first", memory=ANN)
    await agent.generate("second", memory=ANN)
    assert sent(model) == ["second"]
    assert await said(agent) == []


async def test_d01_the_order_is_that_of_the_thread_whatever_the_clock_says():
    from tenuto.testing import VirtualClock

    clock = VirtualClock()
    store = InMemoryStore()
    agent = agent_of(ScriptedModel(["one", "two"]), memory=Memory(store=store, clock=clock))
    await agent.generate("first", memory=ANN)
    await agent.generate("second", memory=ANN)
    messages = await stored(agent)
    assert [message.text for message in messages] == ["first", "one", "second", "two"]
    times = [message.created_at for message in messages]
    assert times == sorted(set(times))


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("rounds", [1, 3, 12])
async def test_d03_one_row_per_message(rounds, per_step):
    @tool(effects="none")
    async def look() -> str:
        return "seen"

    replies: list[Any] = [Call("look") for _ in range(rounds)]
    agent = agent_of(ScriptedModel([*replies, "done"]), tools=[look])
    await agent.generate("hi", memory=ANN, max_steps=20, save_per_step=per_step)
    messages = await stored(agent)
    assert [message.role for message in messages] == ["user", "assistant"]
    assert sum(part.__class__.__name__ == "ToolInvocationPart" for part in messages[1].content.parts) == rounds


async def test_save_per_step_stores_a_step_when_it_is_over():
    seen: list[list[str]] = []

    @tool(effects="none")
    async def look() -> str:
        seen.append([message.role for message in await stored(agent)])
        return "seen"

    agent = agent_of(ScriptedModel([Call("look"), Call("look"), "done"]), tools=[look])
    await agent.generate("hi", memory=ANN, save_per_step=True)
    assert seen == [["user"], ["user", "assistant"]]


async def test_a_failed_run_keeps_what_was_said_and_why_it_failed():
    agent = agent_of(ScriptedModel([RuntimeError("no")]))
    with pytest.raises(ModelError):
        await agent.generate("hi", memory=ANN)
    user, answer = await stored(agent)
    assert (user.text, answer.role) == ("hi", "assistant")
    assert answer.content.parts[-1].__class__.__name__ == "ErrorPart"


async def test_d05_an_abort_keeps_the_question_and_what_was_said():
    gate, controller = Gate(), AbortController()
    agent = agent_of(ScriptedModel([Reply("Hello there", gate=gate)]))
    stream = await agent.stream("hi", memory=ANN, abort_signal=controller.signal)
    assert await said(agent) == ["hi"]
    gate.open()
    async for chunk in stream.full_stream:
        if chunk.type == "text-delta":
            controller.abort()
    result = await stream.get_full_output()
    assert result.finish_reason == "aborted"
    user, *answer = await stored(agent)
    assert user.text == "hi"
    assert [message.content.metadata["aborted"] for message in answer] == [True]


async def test_b14_a_result_that_is_sent_twice_is_stored_once():
    from tenuto import create_tool

    ask = create_tool(id="ask", description="Ask the user.")
    model = ScriptedModel([Call("ask", {}, "c1"), "thanks", "again"])
    agent = agent_of(model, tools=[ask])
    first = await agent.generate("hi", memory=ANN)
    assert first.finish_reason == "tool-calls"
    answer: Any = {
        "role": "tool",
        "content": [{"type": "tool-result", "tool_call_id": "c1", "tool_name": "ask", "result": "yes"}],
    }
    await agent.generate([answer], memory=ANN)
    assert [each["role"] for each in model.requests[1].messages] == ["user", "assistant", "tool"]
    await agent.generate([answer, "more"], memory=ANN)
    calls = [
        part for message in await stored(agent) for part in message.content.parts if hasattr(part, "tool_invocation")
    ]
    assert [part.tool_invocation.result for part in calls] == ["yes"]
    assert [each["role"] for each in model.requests[2].messages].count("tool") == 1


async def test_an_answer_to_a_call_that_nobody_made():
    agent = agent_of(ScriptedModel())
    answer: Any = {
        "role": "tool",
        "content": [{"type": "tool-result", "tool_call_id": "x", "tool_name": "a", "result": 1}],
    }
    with pytest.raises(ConfigurationError, match="nobody made"):
        await agent.generate([answer], memory=ANN)


async def test_b01_every_window_is_accepted():
    @tool(effects="none")
    async def look(n: int) -> str:
        return f"seen {n}"

    both_calls = Reply(calls=[Call("look", {"n": 1}), Call("look", {"n": 2})])
    script: list[Any] = []
    for _ in range(3):
        script += [both_calls, "done"]
    model = ScriptedModel([*script, *(["windowed"] * 10)])
    agent = agent_of(model, tools=[look])
    for turn in range(3):
        await agent.generate(f"turn {turn}", memory=ANN)
    for last in range(1, 11):
        where = {**ANN, "options": {"last_messages": last, "read_only": True}}
        await agent.generate("now", memory=where)
        asked = [call["id"] for each in model.requests[-1].messages for call in each.get("tool_calls") or ()]
        answered = [each["tool_call_id"] for each in model.requests[-1].messages if each["role"] == "tool"]
        assert asked == answered


async def test_a_token_limit_keeps_its_beginning_in_the_thread():
    model = ScriptedModel(lambda _: Reply("x" * 400))
    agent = agent_of(model, options={"message_history": {"max_tokens": 500}})
    for turn in range(6):
        await agent.generate(f"turn {turn}", memory=ANN)
    assert len(model.requests[-1].messages) < 9
    memory = await agent.get_memory()
    assert memory is not None
    thread = await memory.get_thread_by_id(thread_id="t", resource_id="ann")
    assert thread is not None
    assert thread.metadata["memoryTokenLimiter"]["seq"] > 0


async def test_metadata_of_a_call_are_merged_before_the_model_is_asked():
    agent = agent_of(ScriptedModel(["one", "two"]))
    await agent.generate("hi", memory={"thread": {"id": "t", "title": "A", "metadata": {"a": 1}}, "resource": "ann"})
    await agent.generate("hi", memory={"thread": {"id": "t", "title": "B", "metadata": {"b": 2}}, "resource": "ann"})
    memory = await agent.get_memory()
    assert memory is not None
    thread = await memory.get_thread_by_id(thread_id="t", resource_id="ann")
    assert thread is not None
    assert (thread.title, dict(thread.metadata)) == ("A", {"a": 1, "b": 2})


async def test_a_memory_that_depends_on_the_request():
    store = InMemoryStore()
    agent = Agent(
        id="agent",
        model=ScriptedModel(["one", "two"]),
        store=store,
        memory=lambda context: Memory(last_messages=context["last"]),
    )
    await agent.generate("hi", memory=ANN, request_context={"last": 5})
    memory = await agent.get_memory(request_context={"last": 7})
    assert memory is not None
    assert memory.config.last_messages == 7
    assert len(await memory.recall(thread_id="t", resource_id="ann")) == 2


async def test_a_memory_function_that_returns_nothing():
    agent = Agent(id="agent", model=ScriptedModel(), memory=lambda _: None)  # type: ignore[arg-type]
    with pytest.raises(TenutoError) as refused:
        await agent.get_memory()
    assert refused.value.id == "AGENT_GET_MEMORY_FUNCTION_EMPTY_RETURN"


def test_a_run_and_its_thread_share_a_store():
    with pytest.raises(ConfigurationError) as refused:
        Agent(id="a", model=ScriptedModel(), store=InMemoryStore(), memory=Memory(store=InMemoryStore()))
    assert refused.value.id == "MEMORY_STORE_CONFLICT"


# -- whose turn it is ------------------------------------------------------------------------------------------------


@both
async def test_d07_turns_asked_for_at_once_are_taken_one_after_the_other(verb):
    model = ScriptedModel(lambda request: Reply(f"re {request.last}"))
    agent = agent_of(model, options={"last_messages": 100})
    await asyncio.gather(*(run(verb, agent, str(turn), memory=ANN) for turn in range(10)))
    texts = await said(agent)
    assert texts == [text for turn in range(10) for text in (str(turn), f"re {turn}")]
    assert [len(request.messages) for request in model.requests] == list(range(1, 21, 2))


async def test_d09_a_turn_reads_what_the_one_before_it_wrote():
    gate = Gate()
    model = ScriptedModel([Reply("one", gate=gate), "two"])
    agent = agent_of(model)
    first = asyncio.create_task(agent.generate("first", memory=ANN))
    await asked(model)
    second = asyncio.create_task(agent.generate("second", memory=ANN))
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(model.requests) == 1
    gate.open()
    await asyncio.gather(first, second)
    assert sent(model) == ["first", "one", "second"]


async def test_another_thread_and_a_reader_do_not_wait():
    gate = Gate()
    model = ScriptedModel([Reply("one", gate=gate), "two", "three"])
    agent = agent_of(model)
    first = asyncio.create_task(agent.generate("first", memory=ANN))
    await asked(model)
    await agent.generate("elsewhere", memory={"thread": "u", "resource": "ann"})
    await agent.generate("reading", memory={**ANN, "options": {"read_only": True}})
    gate.open()
    await first
    assert await said(agent) == ["first", "one"]


async def test_an_abort_in_the_queue_ends_the_run_and_leaves_the_thread_alone():
    gate = Gate()
    model = ScriptedModel([Reply("one", gate=gate), "three"])
    agent = agent_of(model)
    first = asyncio.create_task(agent.generate("first", memory=ANN))
    await asked(model)
    controller, chunks = AbortController(), list[AnyChunk]()
    second = asyncio.create_task(
        agent.generate("second", memory=ANN, abort_signal=controller.signal, on_chunk=chunks.append)
    )
    third = asyncio.create_task(agent.generate("third", memory=ANN))
    for _ in range(20):
        await asyncio.sleep(0)
    controller.abort()
    result = await second
    assert result.finish_reason == "aborted"
    assert [chunk.type for chunk in chunks] == ["start", "abort", "finish"]
    gate.open()
    await asyncio.gather(first, third)
    assert await said(agent) == ["first", "one", "third", "three"]


async def test_a_tool_that_asks_its_own_thread_is_told_so_at_once():
    refused: list[str] = []

    @tool(effects="none")
    async def nested(ctx: ToolContext) -> str:
        try:
            await agent.generate("inner", memory=ANN)
        except RunError as error:
            refused.append(error.id)
        return "no"

    agent = agent_of(ScriptedModel([Call("nested"), "done"]), tools=[nested])
    assert (await agent.generate("hi", memory=ANN)).text == "done"
    assert refused == ["THREAD_HELD_BY_ANCESTOR"]


async def test_a_tool_may_read_its_own_thread_and_write_another():
    @tool(effects="none")
    async def nested() -> str:
        read = await agent.generate("inner", memory={**ANN, "options": {"read_only": True}})
        other = await agent.generate("other", memory={"thread": "u", "resource": "ann"})
        return f"{read.text} {other.text}"

    agent = agent_of(ScriptedModel([Call("nested"), "read", "wrote", "done"]), tools=[nested])
    assert (await agent.generate("hi", memory=ANN)).text == "done"
    assert await said(agent, thread="u") == ["other", "wrote"]


async def test_a_nested_run_does_not_wait_for_ever_for_somebody_elses_thread(monkeypatch):
    monkeypatch.setattr(turns, "NESTED_WAIT_SECONDS", 0.01)
    gate = Gate()

    @tool(effects="none")
    async def nested() -> str:
        await agent.generate("inner", memory={"thread": "u", "resource": "ann"})
        return "never"

    model = ScriptedModel([Reply("slow", gate=gate), Call("nested"), "done"])
    agent = agent_of(model, tools=[nested])
    slow = asyncio.create_task(agent.generate("first", memory={"thread": "u", "resource": "ann"}))
    await asked(model)
    result = await agent.generate("hi", memory=ANN)
    assert result.tool_results[0].payload.is_error
    assert "held by another run" in result.tool_results[0].payload.result
    gate.open()
    await slow


async def test_a_memory_edit_inside_a_run_that_holds_the_thread():
    refused: list[str] = []

    @tool(effects="none")
    async def edit() -> str:
        memory = await agent.get_memory()
        assert memory is not None
        try:
            await memory.save_messages("x", thread_id="t", resource_id="ann")
        except RunError as error:
            refused.append(error.id)
        return "no"

    agent = agent_of(ScriptedModel([Call("edit"), "done"]), tools=[edit])
    await agent.generate("hi", memory=ANN)
    assert refused == ["THREAD_HELD_BY_ANCESTOR"]


# -- what waits for a decision ---------------------------------------------------------------------------------------


def refunds(ran: list[str]) -> Any:
    @tool(require_approval=True)
    async def refund(order: str) -> str:
        ran.append(order)
        return f"refunded {order}"

    return refund


async def test_a_run_that_waits_lets_others_have_the_thread_and_is_told_as_waiting():
    ran: list[str] = []
    model = ScriptedModel([Call("refund", {"order": "A"}, "c1"), "still waiting", "Done."])
    agent = agent_of(model, tools=[refunds(ran)])
    waits = await agent.generate("refund A", memory=ANN)
    assert waits.finish_reason == "suspended"
    answer = (await stored(agent))[1]
    assert answer.content.metadata["pendingToolApprovals"]["c1"]["runId"] == waits.run_id
    await agent.generate("is it done?", memory=ANN)
    told = [each for each in model.requests[1].messages if each["role"] == "tool"]
    assert "awaiting a person's decision" in told[0]["content"]
    assert "c1" not in str(
        [part for message in await stored(agent) for part in message.content.parts if "awaiting" in str(part)]
    )
    result = await agent.approve_tool_call_generate(run_id=waits.run_id)
    assert (result.text, ran, result.thread_id) == ("Done.", ["A"], "t")
    assert [message.text for message in result.remembered_messages] == []
    _, answer, *later = await stored(agent)
    assert "pendingToolApprovals" not in answer.content.metadata
    assert answer.text == "Done."
    assert [message.text for message in later] == ["is it done?", "still waiting"]


async def test_a_resumed_run_reads_again_what_it_had_read():
    model = ScriptedModel(["one", Call("refund", {"order": "A"}, "c1"), "Done."])
    agent = agent_of(model, tools=[refunds([])])
    await agent.generate("first", memory=ANN)
    waits = await agent.generate("refund A", memory=ANN)
    result = await agent.approve_tool_call_generate(run_id=waits.run_id)
    assert sent(model)[:3] == ["first", "one", "refund A"]
    assert [message.text for message in result.remembered_messages] == ["first", "one"]


async def test_a_decision_goes_ahead_of_turns_that_wait():
    ran: list[str] = []
    gate = Gate()
    model = ScriptedModel([Call("refund", {"order": "A"}, "c1"), Reply("slow", gate=gate), "Done.", "last"])
    agent = agent_of(model, tools=[refunds(ran)])
    waits = await agent.generate("refund A", memory=ANN)
    slow = asyncio.create_task(agent.generate("slow", memory=ANN))
    await asked(model, 2)
    queued = asyncio.create_task(agent.generate("queued", memory=ANN))
    for _ in range(20):
        await asyncio.sleep(0)
    decided = asyncio.create_task(agent.approve_tool_call_generate(run_id=waits.run_id))
    for _ in range(50):
        await asyncio.sleep(0)
    gate.open()
    await asyncio.gather(slow, queued, decided)
    assert [result.text for result in (slow.result(), decided.result(), queued.result())] == ["slow", "Done.", "last"]


async def test_suspended_runs_are_listed_by_thread_and_resource():
    calls = [Call("refund", {"order": "A"}) for _ in range(3)]
    agent = agent_of(ScriptedModel(calls), tools=[refunds([])])
    ids = [
        (await agent.generate("x", memory={"thread": thread, "resource": resource})).run_id
        for thread, resource in (("a", "ann"), ("b", "ann"), ("c", "bob"))
    ]
    listed = await agent.list_suspended_runs(resource_id="ann")
    assert {each.run_id for each in listed.runs} == set(ids[:2])
    listed = await agent.list_suspended_runs(thread_id="b")
    assert [(each.run_id, each.thread_id, each.resource_id) for each in listed.runs] == [(ids[1], "b", "ann")]
    assert (await agent.list_suspended_runs(thread_id="c", resource_id="ann")).total == 0
    assert (await agent.list_suspended_runs()).total == 3


async def test_another_resource_cannot_decide():
    agent = agent_of(ScriptedModel([Call("refund", {"order": "A"})]), tools=[refunds([])])
    waits = await agent.generate("x", memory=ANN)
    with pytest.raises(RunError) as refused:
        await agent.approve_tool_call_generate(run_id=waits.run_id, memory={"thread": "t", "resource": "bob"})
    assert refused.value.id == "AGENT_RESUME_NO_SNAPSHOT_FOUND"


# -- working memory --------------------------------------------------------------------------------------------------


async def test_working_memory_is_told_written_and_hidden():
    model = ScriptedModel([Call("updateWorkingMemory", {"memory": "Ann likes tea."}), "Noted.", "Tea."])
    agent = agent_of(model, options={"working_memory": {"enabled": True}})
    result = await agent.generate("I like tea", memory=ANN)
    assert result.tool_calls[0].payload.tool_name == "updateWorkingMemory"
    assert await said(agent) == ["I like tea", "Noted."]
    assert not any(hasattr(part, "tool_invocation") for each in await stored(agent) for part in each.content.parts)
    await agent.generate("What do I like?", memory={"thread": "other", "resource": "ann"})
    assert "Ann likes tea." in model.requests[-1].messages[0]["content"]
    assert "Ann likes tea." not in str(model.requests[0].messages[0])


async def test_two_runs_that_learn_at_once_both_count():
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    model = ScriptedModel(
        lambda request: (
            Call("updateWorkingMemory", {"memory": {request.last[:1]: "x"}}) if len(request.last) == 1 else "ok"
        )
    )
    agent = agent_of(model, options={"working_memory": {"enabled": True, "schema": schema}})
    await asyncio.gather(*(agent.generate(each, memory={"thread": each, "resource": "ann"}) for each in "ab"))
    memory = await agent.get_memory()
    assert memory is not None
    assert await memory.get_working_memory(resource_id="ann") == {"a": "x", "b": "x"}


async def test_a_reader_has_no_tool_to_write_with():
    model = ScriptedModel(["one"])
    agent = agent_of(model, options={"working_memory": {"enabled": True}})
    await agent.generate("hi", memory={**ANN, "options": {"read_only": True}})
    assert model.requests[0].tool_names == ()


async def test_the_canary_of_one_resource_is_never_anothers():
    model = ScriptedModel(lambda request: Reply("ok"))
    agent = agent_of(model, options={"working_memory": {"enabled": True}})
    memory = await agent.get_memory()
    assert memory is not None
    await memory.update_working_memory("canary-of-ann", resource_id="ann")
    await agent.generate("canary-of-ann", memory=ANN)
    result = await agent.generate("hi", memory={"thread": "u", "resource": "bob"})
    assert "canary" not in str(model.requests[-1].messages)
    assert "canary" not in str([message.to_dict() for message in result.messages])


# -- titles ----------------------------------------------------------------------------------------------------------


def titled(*answers: Any) -> Any:
    return {"generate_title": {"model": ScriptedModel([*answers])}}


async def title_of(agent: Agent[Any, Any]) -> str | None:
    await Supervisor.current().aclose()
    memory = await agent.get_memory()
    assert memory is not None
    thread = await memory.get_thread_by_id(thread_id="t", resource_id="ann")
    return None if thread is None else thread.title


async def test_a_thread_gets_a_title_once():
    told: list[str] = []
    options = titled('"A greeting"')
    agent = agent_of(ScriptedModel(["one", "two", "three"]), options=options)
    await agent.generate("hi", memory={**ANN, "on_title_generated": told.append})
    assert await title_of(agent) == "A greeting"
    await agent.generate("again", memory={**ANN, "on_title_generated": told.append})
    await agent.generate("again", memory={**ANN, "on_title_generated": told.append})
    assert await title_of(agent) == "A greeting"
    assert told == ["A greeting"]
    [asked_for] = options["generate_title"]["model"].requests
    assert "User: hi\nAssistant: one" in asked_for.last


async def test_d11_one_title_with_the_history_off_and_with_steps_saved():
    options = {**titled("A title"), "last_messages": 0}
    agent = agent_of(ScriptedModel(["one", "two", "three"]), options=options)
    for _ in range(3):
        await agent.generate("hi", memory=ANN, save_per_step=True)
        assert await title_of(agent) == "A title"
    assert len(options["generate_title"]["model"].requests) == 1


async def test_d11_a_title_that_fails_fails_nothing(caplog):
    agent = agent_of(ScriptedModel(["one"]), options=titled(RuntimeError("no")))
    assert (await agent.generate("hi", memory=ANN)).text == "one"
    assert await title_of(agent) is None
    assert "gets no title" in caplog.text


async def test_a_title_that_the_caller_gave_stays():
    options = titled()
    agent = agent_of(ScriptedModel(["one"]), options=options)
    await agent.generate("hi", memory={"thread": {"id": "t", "title": "Mine"}, "resource": "ann"})
    assert await title_of(agent) == "Mine"
    assert options["generate_title"]["model"].requests == []


async def test_a_title_whose_event_was_asked_for_comes_before_the_end():
    options = {"generate_title": {"model": ScriptedModel(["A title"]), "emit_event": True}}
    agent = agent_of(ScriptedModel(["one"]), options=options)
    stream = await agent.stream("hi", memory=ANN)
    chunks = [chunk async for chunk in stream.full_stream]
    assert [chunk.type for chunk in chunks[-2:]] == ["data-thread-title", "finish"]
    assert chunks[-2].data == {"threadId": "t", "title": "A title"}


async def test_an_aborted_run_and_a_reader_get_no_title():
    options = titled()
    agent = agent_of(ScriptedModel([RuntimeError("no"), "one"]), options=options)
    with pytest.raises(ModelError):
        await agent.generate("hi", memory=ANN)
    await agent.generate("hi", memory={**ANN, "options": {"read_only": True}})
    assert await title_of(agent) is None
    assert options["generate_title"]["model"].requests == []


async def test_a_memory_is_settled_when_its_titles_are_there():
    agent = agent_of(ScriptedModel(["Hello.", "Greetings"]), options={"generate_title": True})
    told = []

    async def callback(title):
        memory = await agent.get_memory()
        await memory.settled()  # from within what it waits for
        told.append(title)

    await agent.generate("Hi", memory={**ANN, "on_title_generated": callback})
    memory = await agent.get_memory()
    await memory.settled()
    assert told == ["Greetings"]
    assert (await memory.get_thread_by_id(thread_id="t", resource_id="ann")).title == "Greetings"
