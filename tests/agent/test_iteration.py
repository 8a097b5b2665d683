"""`on_iteration_complete`: what it sees, and how it steers a plain run."""

from __future__ import annotations

import pytest

from tenuto import Agent, step_count_is, tool
from tenuto.testing import Call, Reply, ScriptedModel
from tests.agent.kit import both, run


@tool(effects="none")
async def add(a: int = 1, b: int = 2) -> int:
    return a + b


@tool(effects="none")
async def fail() -> str:
    raise ValueError("boom")


CALL = Reply("Let me see.", calls=[Call("add", {"a": 1}, "c1")])
AGAIN = Reply(calls=[Call("add", {"a": 2}, "c2")])


def agent(*script, **more):
    return Agent(id="a", name="Ann", model=ScriptedModel(list(script)), tools=[add, fail], **more)


def model_of(one):
    return one.setup().definition.model


def say(**said):
    return lambda _: said


def roles(messages):
    return [(message["role"], message.get("content")) for message in messages]


@both
async def test_it_sees_each_iteration(verb):
    seen = []
    calls = Reply("Let me see.", calls=[Call("add", {"a": 1}, "c1"), Call("fail", {}, "c2")])
    ran = await run(verb, agent(calls, "done"), on_iteration_complete=seen.append, max_steps=7)
    first, last = seen
    assert (first.iteration, first.max_iterations, first.text) == (1, 7, "Let me see.")
    assert (first.is_final, first.finish_reason, first.run_id) == (False, "tool-calls", ran.result.run_id)
    assert (first.agent_id, first.agent_name, first.thread_id, first.resource_id) == ("a", "Ann", None, None)
    assert [(call.id, call.name, call.args) for call in first.tool_calls] == [
        ("c1", "add", {"a": 1}),
        ("c2", "fail", {}),
    ]
    good, bad = first.tool_results
    assert (good.id, good.name, good.result, good.error) == ("c1", "add", 3, None)
    assert (bad.id, bad.result) == ("c2", None)
    assert "boom" in bad.error
    assert [message.role for message in first.messages] == ["user", "assistant"]
    assert first.message_list is first.messages
    assert (last.iteration, last.is_final, last.finish_reason, last.tool_calls) == (2, True, "stop", ())
    assert last.messages[-1].text == "Let me see.done"
    assert [message.id for message in last.messages] == [message.id for message in ran.result.messages]


@both
async def test_it_stops_a_run_early(verb):
    one = agent(CALL, "never")
    ran = await run(verb, one, on_iteration_complete=say(**{"continue": False}))
    assert (ran.result.finish_reason, ran.result.text, ran.error) == ("tool-calls", "Let me see.", None)
    assert len(model_of(one).requests) == 1
    assert [done.payload.result for done in ran.result.tool_results] == [3]
    assert ran.of("step-finish")[0].payload.step_result.is_continued is False


@both
async def test_feedback_reaches_the_next_step_and_is_saved(verb):
    one = agent(CALL, "done")

    async def coach(context):
        return {"feedback": "Be brief."} if context.iteration == 1 else None

    ran = await run(verb, one, on_iteration_complete=coach)
    sent = model_of(one).requests[1].messages
    assert roles(sent)[-1] == ("user", "Be brief.")
    assert [role for role, _ in roles(sent)] == ["user", "assistant", "tool", "user"]
    user, first, feedback, last = ran.result.messages
    assert [each.role for each in ran.result.messages] == ["user", "assistant", "assistant", "assistant"]
    assert (first.text, feedback.text, last.text) == ("Let me see.", "Be brief.", "done")
    assert feedback.content.metadata == {"completionResult": {"suppressFeedback": True}}
    assert last.id == f"{first.id}-1"
    assert len({each.id for each in ran.result.messages}) == 4
    times = [each.created_at for each in ran.result.messages]
    assert times == sorted(set(times))
    assert (ran.result.text, ran.result.finish_reason) == ("Let me see.done", "stop")
    assert [each.payload.message_id for each in ran.of("step-start")] == [first.id, last.id]
    assert user.text == "hi"


@both
async def test_a_later_turn_reads_feedback_as_said_to_the_model(verb):
    one = agent(CALL, "done", "bye")
    told = iter([{"feedback": "Be brief."}, None, None])
    ran = await run(verb, one, on_iteration_complete=lambda _: next(told))
    await run(verb, one, [*ran.result.messages, "and?"])
    asked = model_of(one).requests[2].messages
    assert [role for role, _ in roles(asked)] == ["user", "assistant", "tool", "user", "assistant", "user"]
    assert roles(asked)[3] == ("user", "Be brief.")


@both
async def test_feedback_with_a_stop_is_saved_and_nobody_is_asked(verb):
    one = agent(CALL, "never")
    ran = await run(verb, one, on_iteration_complete=say(**{"continue": False, "feedback": "Enough."}))
    assert len(model_of(one).requests) == 1
    assert [each.text for each in ran.result.messages] == ["hi", "Let me see.", "Enough."]
    assert ran.result.text == "Let me see."


@both
async def test_feedback_after_a_final_step_is_ignored(verb):
    ran = await run(verb, agent("done"), on_iteration_complete=say(feedback="More."))
    assert [each.text for each in ran.result.messages] == ["hi", "done"]


@both
async def test_a_run_that_would_end_goes_on(verb):
    one = agent("first", "second", "third")
    told = iter([{"continue": True, "feedback": "More."}, {"continue": True}, None])
    ran = await run(verb, one, on_iteration_complete=lambda _: next(told))
    assert ran.result.text == "firstsecondthird"
    assert [each.text for each in ran.result.messages] == ["hi", "first", "More.", "secondthird"]
    assert roles(model_of(one).requests[1].messages)[-1] == ("user", "More.")


@both
async def test_the_step_limit_holds_all_the_same(verb):
    one = Agent(id="a", model=ScriptedModel(lambda _: "more"), tools=[add])
    ran = await run(verb, one, on_iteration_complete=say(**{"continue": True}), max_steps=3)
    assert len(ran.result.steps) == 3


@both
async def test_it_may_overrule_a_stop_condition_and_feedback_alone_may_not(verb):
    one = agent(CALL, AGAIN, "done")
    ran = await run(verb, one, on_iteration_complete=say(feedback="Go on."), stop_when=step_count_is(1))
    assert len(ran.result.steps) == 1
    one = agent(CALL, AGAIN, "done")
    ran = await run(verb, one, on_iteration_complete=say(**{"continue": True}), stop_when=step_count_is(1), max_steps=3)
    assert len(ran.result.steps) == 3


@both
@pytest.mark.parametrize(
    "wrong", [3, {"continue": "no"}, {"feedback": 3}, {"stop": True}, ZeroDivisionError()], ids=repr
)
async def test_what_cannot_be_taken_is_logged_and_changes_nothing(verb, wrong, caplog):
    def callback(_):
        if isinstance(wrong, Exception):
            raise wrong
        return wrong

    ran = await run(verb, agent(CALL, "done"), on_iteration_complete=callback)
    assert (ran.result.text, ran.error) == ("Let me see.done", None)
    assert "on_iteration_complete failed" in caplog.text


@both
async def test_two_pieces_of_feedback(verb):
    one = agent(CALL, AGAIN, "done")
    told = iter([{"feedback": "One."}, {"feedback": "Two."}, None])
    ran = await run(verb, one, on_iteration_complete=lambda _: next(told))
    first, *_ = answers = [each for each in ran.result.messages[1:] if each.text not in {"One.", "Two."}]
    assert [each.id for each in answers] == [first.id, f"{first.id}-1", f"{first.id}-2"]
    assert [each.text for each in ran.result.messages if each.text] == ["hi", "Let me see.", "One.", "Two.", "done"]
    assert ran.result.response.db_messages == tuple(ran.result.messages[1:])
