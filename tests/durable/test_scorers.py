"""Scorers of durable runs: what is stored of them, which are there after a restart, and who is asked again."""

from __future__ import annotations

from typing import Any

from tenuto import Agent, tool
from tenuto.core.background import Background
from tenuto.evals import create_scorer
from tenuto.machine.records import RunStarted, SegmentStarted, StepJudged
from tenuto.testing import Call, Reply, ScriptedModel
from tests.durable.kit import of


@tool(require_approval=True, effects="none")
async def look() -> str:
    """Look it up."""
    return "seen"


PARKS = Reply(calls=[Call("look", {}, "c1")])


def scripted(*answers: Any, **more: Any) -> Agent[Any, Any]:
    return Agent(id="clerk", model=ScriptedModel(list(answers)), tools=[look], **more)


def says(word: str, id: str, seen: list[str] | None = None) -> Any:
    def score(sample: Any) -> bool:
        if seen is not None:
            seen.append(sample.output_text)
        return word in sample.output_text

    return create_scorer(id=id, score=score)


async def recovered(world, process, run_id="r", **options):
    await world.leases_expire()
    output = await process.call(lambda a: a.recover(run_id, **options))
    return await process.call(lambda _: output.get_full_output())


async def test_S78_registered_scorers_are_in_force_after_a_restart(world):
    given = {"scorers": [says("done", "done")], "scorer_names": ["by app"], "strategy": "all", "timeout": 5_000}
    scorers = {"x": says("done", "done"), "by app": says("!", "by app")}
    first = world.process(scripted(PARKS), scorers=scorers)
    await first.call(lambda a: a.generate("hi", run_id="r", is_task_complete=given))
    begun = (await world.records("r"))[0]
    assert isinstance(begun, RunStarted)
    assert begun.options["is_task_complete"] == {
        "scorer_names": ["done", "by app"],
        "strategy": "all",
        "parallel": True,
        "timeout": 5_000.0,
        "suppress_feedback": False,
    }
    await first.kill()
    second = world.process(scripted("done", "done!"), scorers=scorers)
    result = await second.call(lambda a: a.approve_tool_call_generate(run_id="r"))
    assert (result.text, result.degraded) == ("donedone!", ())
    assert [chunk.payload.passed for chunk in of(await world.whole("r"), "is-task-complete")] == [False, True]


async def test_S78_unknown_names_are_skipped_with_a_warning_and_named(world, caplog):
    given = {"scorers": [says("!", "mine"), says("done", "app's")]}
    first = world.process(scripted(PARKS))
    await first.call(lambda a: a.generate("hi", run_id="r", is_task_complete=given))
    await first.kill()
    second = world.process(scripted("no", "done"), scorers={"x": says("done", "app's")})
    result = await second.call(lambda a: a.approve_tool_call_generate(run_id="r"))
    assert (result.text, result.degraded) == ("nodone", ("is_task_complete",))
    assert "This process has no scorer 'mine'" in caplog.text
    [segment] = [record for record in await world.records("r") if isinstance(record, SegmentStarted)]
    assert segment.degraded == ("is_task_complete",)


async def test_without_any_of_them_the_model_has_the_last_word(world):
    first = world.process(scripted(PARKS))
    await first.call(lambda a: a.generate("hi", run_id="r", is_task_complete={"scorers": [says("!", "mine")]}))
    await first.kill()
    second = world.process(scripted("no"))
    result = await second.call(lambda a: a.approve_tool_call_generate(run_id="r"))
    assert (result.text, result.degraded) == ("no", ("is_task_complete",))
    assert of(await world.whole("r"), "is-task-complete") == []


async def test_in_the_process_of_the_call_its_own_scorers_are_there_after_a_suspension(world):
    told: list[Any] = []
    given = {"scorers": [says("!", "mine")], "on_complete": told.append}
    first = world.process(scripted(PARKS, "no", "yes!"))
    await first.call(lambda a: a.generate("hi", run_id="r", is_task_complete=given))
    result = await first.call(lambda a: a.approve_tool_call_generate(run_id="r"))
    assert (result.text, result.degraded, [each.complete for each in told]) == ("noyes!", (), [False, True])


async def test_a_stored_verdict_is_not_asked_for_again(world):
    seen: list[str] = []
    scorers = {"x": says("done", "x", seen)}
    given = {"scorer_names": ["x"]}
    first = world.process(scripted("half"), scorers=scorers)
    await first.killed_in(lambda a: a.generate("hi", run_id="r", is_task_complete=given), "judge.after_verdict")
    second = world.process(scripted("done"), scorers=scorers)
    result = await recovered(world, second)
    assert (result.text, seen) == ("halfdone", ["half", "done"])
    feedback = result.messages[2]
    assert feedback.content.metadata == {"completionResult": {"passed": False, "suppressFeedback": False}}
    [half, done] = [record for record in await world.records("r") if isinstance(record, StepJudged)]
    assert (half.checked.check.passed, half.checked.feedback.text) == (False, feedback.text)
    assert (done.checked.check.passed, done.checked.feedback) == (True, None)
    assert [message.id for message in result.messages[1:]] == [
        half_id := result.messages[1].id,
        half.checked.feedback.id,
        f"{half_id}-1",
    ]


async def test_a_verdict_that_was_not_stored_is(world):
    seen: list[str] = []
    scorers = {"x": says("done", "x", seen)}
    first = world.process(scripted("done"), scorers=scorers)
    given = {"scorer_names": ["x"]}
    await first.killed_in(lambda a: a.generate("hi", run_id="r", is_task_complete=given), "judge.after_check")
    second = world.process(scripted(), scorers=scorers)
    result = await recovered(world, second)
    assert (result.text, seen) == ("done", ["done", "done"])
    assert len(of(await world.whole("r"), "is-task-complete")) == 1


async def stored_scores(world, process):
    async def wait(_: Any) -> None:
        while asides := list(Background.current().tasks):
            for task in asides:
                await task

    await process.call(wait)
    return await world.store.scores(resource=None, run_id="r")


async def test_live_scorers_survive_by_id(world):
    given = {
        "a": {"scorer": says("yes", "kept"), "sampling": {"type": "ratio", "rate": 1}},
        "b": {"scorer": says("yes", "own")},
        "c": {"scorer": "kept", "filter": {"op": "exists", "path": "requestContext.nothing"}},
    }
    first = world.process(scripted(PARKS), scorers={"k": says("yes", "kept")})
    await first.call(lambda a: a.generate("hi", run_id="r", scorers=given))
    begun = (await world.records("r"))[0]
    assert begun.options["scorers"] == {
        "a": {"scorer": "kept", "sampling": {"type": "ratio", "rate": 1.0}},
        "b": {"scorer": "own"},
        "c": {"scorer": "kept", "filter": {"op": "exists", "path": "requestContext.nothing"}},
    }
    await first.kill()
    second = world.process(scripted("yes"), scorers={"k": says("yes", "kept")})
    result = await second.call(lambda a: a.approve_tool_call_generate(run_id="r"))
    assert (result.text, result.degraded) == ("yes", ("scorers",))
    assert [(row.scorer_id, row.score) for row in await stored_scores(world, second)] == [("kept", 1.0)]


async def test_the_agents_own_scorers_score_what_another_process_began(world):
    first = world.process(scripted("yes", scorers={"a": says("yes", "a")}))
    await first.killed_in(lambda a: a.generate("hi", run_id="r", return_scorer_data=True), "model.after_commit")
    second = world.process(scripted(scorers={"a": says("yes", "a")}))
    result = await recovered(world, second)
    assert result.scoring_data.output == result.response.db_messages
    [row] = await stored_scores(world, second)
    assert (row.id, row.scorer_id, row.score) == ("r-a", "a", 1.0)
