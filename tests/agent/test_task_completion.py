"""`is_task_complete`: scorers decide whether a run that would end has done its task."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tenuto import Agent, Tenuto, step_count_is, tool
from tenuto.errors import ConfigurationError
from tenuto.evals import JudgePrompt, Scorer, ScorerResult, create_scorer
from tenuto.testing import Call, FakeProvider, Gate, Reply, ScriptedModel, check_stream
from tests.agent.kit import VERBS, agent_on, all_ended, all_scored, both, run, sent


@tool(effects="none")
async def add(a: int = 1, b: int = 2) -> int:
    return a + b


CALL = Reply("Let me see.", calls=[Call("add", {"a": 1}, "c1")])


def agent(*script, **more):
    return Agent(id="a", name="Ann", model=ScriptedModel(list(script)), tools=[add], **more)


def model_of(one):
    return one.setup().definition.model


def says(word, id="word"):
    return create_scorer(
        id=id,
        name=id.title(),
        score=lambda sample: word in sample.output_text,
        reason=lambda sample: f"{word!r} is {'there' if sample.score else 'missing'}",
    )


def check(*scorers, **more):
    return {"scorers": list(scorers), **more}


@both
async def test_a_run_goes_on_until_its_task_is_complete(verb):
    one = agent("first", "second: done", "never")
    ran = await run(verb, one, is_task_complete=check(says("done")))
    check_stream(ran.chunks)
    assert (ran.result.text, ran.result.finish_reason) == ("firstsecond: done", "stop")
    assert len(model_of(one).requests) == 2
    first, second = [chunk.payload for chunk in ran.of("is-task-complete")]
    assert (first.iteration, first.passed, first.timed_out, first.max_iteration_reached) == (1, False, False, False)
    assert (first.reason, first.suppress_feedback) == ("'done' is missing", False)
    [verdict] = first.results
    assert (verdict.score, verdict.passed, verdict.scorer_id, verdict.scorer_name) == (0, False, "word", "Word")
    assert verdict.errored is None
    assert (second.iteration, second.passed, second.reason) == (2, True, "'done' is there")
    kinds = [kind for kind in ran.types if kind in {"is-task-complete", "step-finish", "finish"}]
    assert kinds == ["is-task-complete", "step-finish"] * 2 + ["finish"]
    assert [chunk.payload.step_result.is_continued for chunk in ran.of("step-finish")] == [True, False]


@both
async def test_feedback_is_stored_and_said_to_the_model_and_is_never_the_answer(verb):
    one = agent("first", "done")
    ran = await run(verb, one, is_task_complete=check(says("done")))
    _, first, feedback, last = ran.result.messages
    assert (first.text, last.text, feedback.role) == ("first", "done", "assistant")
    assert feedback.content.metadata == {"completionResult": {"passed": False, "suppressFeedback": False}}
    assert feedback.text == (
        "The task is not complete yet: 0 of 1 checks passed.\n"
        "- Word: failed (score 0): 'done' is missing\n"
        "Go on with the task, and make up for what failed."
    )
    assert last.id == f"{first.id}-1"
    assert [chunk.payload.message_id for chunk in ran.of("step-start")] == [first.id, last.id]
    told = model_of(one).requests[1].messages[-1]
    assert (told["role"], told["content"]) == ("user", feedback.text)
    assert ran.result.text == "firstdone"
    assert ran.result.steps[-1].text == "done"


@both
async def test_a_later_turn_reads_it_as_said_to_the_model(verb):
    one = agent("first", "done", "bye")
    ran = await run(verb, one, is_task_complete=check(says("done")))
    await run(verb, one, [*ran.result.messages, "and?"])
    roles = [message["role"] for message in model_of(one).requests[2].messages]
    assert roles == ["user", "assistant", "user", "assistant", "user"]


@both
async def test_only_a_step_that_would_end_the_run_is_looked_at(verb):
    seen = []
    scorer = create_scorer(id="x", score=lambda sample: seen.append(sample) or 1)
    ran = await run(verb, agent(CALL, "3"), "Add 1 and 2.", is_task_complete=check(scorer))
    assert len(ran.of("is-task-complete")) == 1
    [sample] = seen
    context = sample.input
    assert (context.iteration, context.max_iterations, context.original_task) == (2, 5, "Add 1 and 2.")
    assert (context.text, sample.output, context.run_id) == ("3", "3", ran.result.run_id)
    assert (context.agent_id, context.agent_name) == ("a", "Ann")
    assert [message.role for message in context.messages] == ["user", "assistant"]
    assert [call.tool_name for call in sample.tool_calls] == ["add"]
    assert sample.tool_results == ("3",)


@both
async def test_the_step_limit_bounds_it_and_the_last_feedback_says_so(verb):
    one = agent("a", "b", "never")
    ran = await run(verb, one, is_task_complete=check(says("done")), max_steps=2)
    assert (ran.result.text, ran.result.finish_reason) == ("ab", "stop")
    assert [chunk.payload.max_iteration_reached for chunk in ran.of("is-task-complete")] == [False, True]
    assert ran.result.messages[-1].text.endswith("That was the last step.")
    assert len(model_of(one).requests) == 2


@both
async def test_stop_when_stops_a_run_whose_task_is_not_complete(verb):
    one = agent("a", "never")
    ran = await run(verb, one, is_task_complete=check(says("done")), stop_when=step_count_is(1), max_steps=5)
    assert ran.result.text == "a"
    assert ran.of("is-task-complete")[0].payload.passed is False


@both
async def test_an_iteration_callback_has_the_last_word_and_its_feedback_comes_second(verb):
    one = agent("a", "done")
    told = iter([{"feedback": "Hurry."}, None])
    ran = await run(verb, one, is_task_complete=check(says("done")), on_iteration_complete=lambda _: next(told))
    texts = [message.text for message in ran.result.messages]
    assert [texts[0], texts[1], texts[3], texts[4]] == ["hi", "a", "Hurry.", "done"]
    assert texts[2].startswith("The task is not complete yet")
    asked = [message["content"] for message in model_of(one).requests[1].messages]
    assert asked[-2:] == texts[2:4]
    one = agent("a", "never")
    stop = {"continue": False}
    ran = await run(verb, one, is_task_complete=check(says("done")), on_iteration_complete=lambda _: stop)
    assert ran.result.text == "a"


@pytest.mark.parametrize(
    ("strategy", "answers", "complete"),
    [("all", "yes", False), ("any", "yes", True), ("all", "yes no", True), ("any", "-", False)],
)
@pytest.mark.parametrize("parallel", [True, False])
async def test_strategies(strategy, answers, complete, parallel):
    asked = check(says("yes", "a"), says("no", "b"), strategy=strategy, parallel=parallel)
    ran = await run("stream", agent(answers), is_task_complete=asked, max_steps=1)
    [chunk] = ran.of("is-task-complete")
    assert chunk.payload.passed is complete


@pytest.mark.parametrize(
    ("strategy", "answers", "asked"),
    [("any", "yes", ["a"]), ("any", "no", ["a", "b"]), ("all", "no", ["a"]), ("all", "yes", ["a", "b"])],
)
async def test_one_after_the_other_up_to_the_one_that_decides(strategy, answers, asked):
    told = []
    both_words = check(says("yes", "a"), says("no", "b"), strategy=strategy, parallel=False, on_complete=told.append)
    await run("generate", agent(answers), is_task_complete=both_words, max_steps=1)
    assert [verdict.scorer_id for verdict in told[0].scorers] == asked


async def test_at_once_means_at_once():
    inside, release = Gate(), asyncio.Event()

    async def wait(_):
        inside.open()
        await release.wait()
        return 1

    async def let_go(_):
        release.set()
        return 1

    asked = check(create_scorer(id="a", score=wait), create_scorer(id="b", score=let_go))
    ran = await run("generate", agent("x"), is_task_complete=asked)
    assert ran.result.text == "x"


@both
async def test_on_complete_is_told_and_its_failure_changes_nothing(verb, caplog):
    told = []

    async def on_complete(result):
        told.append(result)
        raise ZeroDivisionError

    ran = await run(verb, agent("a", "done"), is_task_complete=check(says("done"), on_complete=on_complete))
    assert [each.complete for each in told] == [False, True]
    assert told[0].completion_reason == "'done' is missing"
    assert [each.passed for each in told[0].scorers] == [False]
    assert (told[0].timed_out, told[0].total_duration >= 0) == (False, True)
    assert "on_complete failed" in caplog.text
    assert ran.result.text == "adone"


@both
async def test_a_scorer_that_raises_has_not_passed(verb, caplog):
    def boom(_):
        raise ZeroDivisionError("by hand")

    asked = check(create_scorer(id="x", score=boom), says("a"), strategy="any")
    ran = await run(verb, agent("a"), is_task_complete=asked)
    first, second = ran.of("is-task-complete")[0].payload.results
    assert (first.passed, first.errored, first.score) == (False, True, 0)
    assert first.reason == "ZeroDivisionError: by hand"
    assert second.passed
    assert "'x' raised" in caplog.text


@both
async def test_a_scorer_that_cancels_or_has_nothing_to_say_has_not_passed(verb):
    async def cancel(_):
        raise asyncio.CancelledError

    asked = check(create_scorer(id="x", score=cancel), create_scorer(id="y", score=lambda _: None))
    ran = await run(verb, agent("a"), is_task_complete=asked, max_steps=1)
    first, second = ran.of("is-task-complete")[0].payload.results
    assert (first.errored, second.errored, second.passed, second.score) == (True, None, False, 0)


@pytest.mark.parametrize("score", [0.99, 1.01, 0.5])
async def test_only_1_passes(score):
    ran = await run(
        "stream", agent("a"), is_task_complete=check(create_scorer(id="x", score=lambda _: score)), max_steps=1
    )
    assert ran.of("is-task-complete")[0].payload.passed is False


@both
@pytest.mark.parametrize("parallel", [True, False])
async def test_who_is_late_has_not_passed(verb, parallel, caplog):
    async def hang(_):
        await asyncio.Event().wait()

    late = [create_scorer(id=name, score=hang) for name in "ab"]
    asked = check(says("x"), *late, timeout=1, strategy="any" if not parallel else "all", parallel=parallel)
    if not parallel:
        asked["scorers"] = [*late, says("x")]
    ran = await run(verb, agent("x"), is_task_complete=asked, max_steps=1)
    payload = ran.of("is-task-complete")[0].payload
    assert payload.timed_out
    assert [each.errored for each in payload.results if each.scorer_id in "ab"] == [True, True]
    assert {each.reason for each in payload.results if each.errored} == {"not done after 1 ms"}


@pytest.mark.parametrize("verb", VERBS)
async def test_an_abort_ends_the_wait_for_scorers(verb):
    inside = asyncio.Event()
    ended = []

    async def hang(_):
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    one = agent("a")
    stream = await one.stream("hi", is_task_complete=check(create_scorer(id="x", score=hang), says("b")))
    await inside.wait()
    stream.abort()
    result = await stream.get_full_output()
    assert (result.finish_reason, result.text, ended) == ("aborted", "a", [True])
    assert "is-task-complete" not in [chunk.type async for chunk in stream.full_stream]
    await all_ended()


@both
async def test_no_check_where_a_client_has_to_answer_or_the_run_failed(verb):
    never = create_scorer(id="x", score=lambda _: pytest.fail("asked"))
    one = agent(Reply(calls=[Call("look", {}, "c1")]))
    tools = {"look": {"description": "x", "input_schema": {"type": "object"}}}
    ran = await run(verb, one, client_tools=tools, is_task_complete=check(never))
    assert ran.of("is-task-complete") == []
    ran = await run(verb, agent(Reply(finish="")), is_task_complete=check(never))
    assert ran.error is not None


@both
async def test_a_judge_over_http(verb):
    def judged(score, why):
        return Reply(f'{{"reason": "{why}", "score": {score}}}')

    async with FakeProvider(
        [Reply("Rome"), judged(0, "No country."), Reply("Rome, Italy"), judged(1, "Fine.")]
    ) as provider:
        judge = {"id": "test/judge", "url": provider.base_url}
        prompt = JudgePrompt(lambda sample: f"Is it complete? {sample.output_text}")
        scorer = create_scorer(id="judge", score=prompt, judge=judge)
        ran = await run(verb, agent_on(provider), "Capital?", is_task_complete=check(scorer))
        assert len(provider.requests) == 4
        assert "No country." in sent(provider, 2)[-1]["content"]
        assert sent(provider, 1)[-1]["content"].startswith("Is it complete? Rome")
    assert ran.result.text == "RomeRome, Italy"
    assert ran.result.usage.total_tokens == sum(step.usage.total_tokens for step in ran.result.steps)


@both
async def test_structured_output_is_that_of_the_last_step(verb):
    one = agent('{"n": 1}', '{"n": 2}')
    schema = {"schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
    ran = await run(verb, one, structured_output=schema, is_task_complete=check(says("2")))
    check_stream(ran.chunks)
    assert ran.result.object == {"n": 2}
    assert [chunk.object for chunk in ran.of("object-result")] == [{"n": 2}]


@both
async def test_suppressed_feedback_is_marked_as_such(verb):
    ran = await run(verb, agent("a", "done"), is_task_complete=check(says("done"), suppress_feedback=True))
    assert ran.of("is-task-complete")[0].payload.suppress_feedback
    assert ran.result.messages[2].content.metadata == {"completionResult": {"passed": False, "suppressFeedback": True}}


@both
async def test_names_are_looked_up_in_the_agent_and_in_the_app(verb):
    one = agent("a", "done mine", scorers={"own": says("mine")})
    Tenuto(agents={"a": one}, scorers={"app": says("done", "theirs")})
    asked = {"scorers": ["own"], "scorerNames": ["theirs"]}
    ran = await run(verb, one, is_task_complete=asked)
    assert [each.scorer_id for each in ran.of("is-task-complete")[0].payload.results] == ["word", "theirs"]
    assert ran.result.text == "adone mine"
    await all_scored()


@both
async def test_a_name_that_nobody_has(verb):
    with pytest.raises(ConfigurationError, match="'nobody', which nobody has; register it") as caught:
        await run(verb, agent("a"), is_task_complete={"scorer_names": ["nobody"]})
    assert caught.value.id == "SCORER_NOT_FOUND"


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ({}, TypeError, "at least one scorer"),
        ({"scorers": says("x")}, TypeError, "takes a list of scorers"),
        ({"scorers": [3]}, TypeError, "takes a list of scorers"),
        ({"scorer_names": [says("x")]}, TypeError, "takes a list of ids"),
        (check(says("x"), strategy="most"), TypeError, "'all' or 'any', not 'most'"),
        (check(says("x"), timeout="1"), TypeError, "takes milliseconds"),
        (check(says("x"), timeout=0), ValueError, "above 0 ms, not 0"),
        (check(says("x"), timeout=float("nan")), ValueError, "above 0 ms"),
        (check(says("x"), parallel=1), TypeError, "takes True or False"),
        (check(says("x"), on_complete=3), TypeError, "takes a function"),
        (check(says("x"), timeOut=3), TypeError, "Unknown is_task_complete key 'timeOut'"),
        ([says("x")], TypeError, "takes a mapping"),
    ],
)
async def test_what_cannot_work_is_refused_before_anything_runs(wrong, error, match):
    with pytest.raises(error, match=match):
        await agent("a").generate("hi", is_task_complete=wrong)


async def test_a_call_replaces_the_default_as_a_whole():
    one = agent("a", "b", default_options={"is_task_complete": check(says("x"), strategy="any")})
    ran = await run("stream", one, is_task_complete=check(says("a")))
    assert ran.result.text == "a"


class Late(Scorer):
    """Does not heed its cancellation."""

    async def run(self, input, output, request_context=None, *, ground_truth=None):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return ScorerResult(1.0)


async def test_a_late_answer_does_not_count(caplog):
    with caplog.at_level(logging.WARNING, "tenuto"):
        ran = await run("stream", agent("a"), is_task_complete=check(Late("late"), timeout=1), max_steps=1)
    payload = ran.of("is-task-complete")[0].payload
    assert (payload.passed, payload.timed_out) == (False, True)


@both
async def test_a_step_that_only_writes_to_working_memory_is_not_looked_at(verb):
    @tool(id="updateWorkingMemory", effects="none")
    async def remember() -> str:
        return "kept"

    cut = Reply(calls=[Call("updateWorkingMemory", {}, "c1")], finish="length")
    one = Agent(id="a", model=ScriptedModel([cut]), tools=[remember])
    ran = await run(verb, one, is_task_complete=check(says("x")))
    assert ran.of("is-task-complete") == []
    assert ran.result.finish_reason == "length"


class _Returning(Scorer):
    """A scorer of somebody's own."""

    def __init__(self, value):
        super().__init__("own")
        self.value = value

    async def run(self, *given, **more):
        return self.value


@both
@pytest.mark.parametrize(
    "value",
    [None, 1, "yes", ScorerResult(float("nan")), ScorerResult("1")],
    ids=["none", "number", "text", "nan", "1"],
)
async def test_a_scorer_that_returns_no_result_has_not_passed(verb, value):
    ran = await run(verb, agent("first", "second"), max_steps=1, is_task_complete=check(_Returning(value)))
    assert (ran.error, ran.result.text) == (None, "first")
    [verdict] = ran.of("is-task-complete")[0].payload.results
    assert (verdict.passed, verdict.errored) == (False, True)
    assert "'own'" in verdict.reason


@both
async def test_a_scorer_that_held_the_loop_beyond_its_time_is_late(verb):
    def slow(sample):
        loop = asyncio.get_running_loop()
        until = loop.time() + 0.002
        while loop.time() < until:
            pass
        return 1

    one = create_scorer(id="slow", score=slow)
    ran = await run(verb, agent("first"), max_steps=1, is_task_complete=check(one, timeout=1))
    [told] = ran.of("is-task-complete")
    assert (told.payload.passed, told.payload.timed_out) == (False, True)


@both
@pytest.mark.parametrize("fault", ["reason", "error"])
async def test_half_a_character_in_what_a_scorer_says(verb, fault):
    def score(sample):
        if fault == "error":
            raise ValueError("cut \ud83d")
        return 0

    one = create_scorer(id="s", score=score, reason=lambda sample: "cut \ud83d")
    ran = await run(verb, agent("first", "second"), max_steps=2, is_task_complete=check(one))
    assert (ran.error, ran.result.text) == (None, "firstsecond")
    assert ran.of("is-task-complete")[0].payload.results[0].reason.endswith("cut \ufffd")
