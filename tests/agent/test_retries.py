"""Another try of a model call that could not be opened: how often, after how long, and when not."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tenuto import AbortController, Agent
from tenuto.core.abort import AbortSignal
from tenuto.errors import ModelError, ModelHTTPError
from tenuto.testing import Batches, FakeProvider, Reply, ScriptedModel, run_virtual
from tests.agent.kit import agent_on, both, hasty, raw, run, says


def busy(**more):
    return ModelHTTPError("busy", **({"status": 503, "retryable": True} | more))


def agent(model, **more):
    return Agent(id="a", model=model, **more)


def timed(verb, one, **options):
    """The run, and the virtual seconds it took."""

    async def main():
        loop = asyncio.get_running_loop()
        began = loop.time()
        ran = await run(verb, one, **options)
        return ran, loop.time() - began

    return run_virtual(main())


@both
@pytest.mark.parametrize(("errors", "seconds"), [([busy()], 1), ([busy(), busy()], 3), ([busy()] * 4, 15)])
def test_each_wait_is_twice_the_one_before(verb, errors, seconds, caplog):
    model = ScriptedModel([*errors, "fine"])
    ran, took = timed(verb, agent(model, max_retries=4))
    assert (ran.result.text, ran.error) == ("fine", None)
    assert took == pytest.approx(seconds)
    assert len(model.requests) == len(errors) + 1
    assert ran.types == ["start", "step-start", "text-start", "text-delta", "text-end", "step-finish", "finish"]
    said = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == len(errors)
    assert "busy; retry 1 of 4 in 1 s" in said[0]


@both
def test_the_provider_is_not_asked_sooner_than_it_says(verb):
    model = ScriptedModel([busy(retry_after=7.5), busy(retry_after=0.1), "fine"])
    ran, took = timed(verb, agent(model, max_retries=2))
    assert ran.result.text == "fine"
    assert took == pytest.approx(7.5 + 2)


@both
def test_without_retries_the_first_failure_is_the_last(verb):
    model = ScriptedModel([busy()])
    ran, took = timed(verb, agent(model))
    assert (ran.error.status, took) == (503, 0)


@both
def test_when_retries_are_used_up_the_last_error_counts(verb):
    model = ScriptedModel([busy(), busy(status=500)])
    ran, _ = timed(verb, agent(model, max_retries=1))
    assert ran.error.status == 500
    assert ran.types == ["start", "step-start", "error", "step-finish", "finish"]


@both
@pytest.mark.parametrize(
    ("own", "call", "requests"),
    [({}, 2, 3), ({"max_retries": 1}, 2, 2), ({"max_retries": 0}, 2, 1), ({"max_retries": 1}, None, 2)],
)
def test_what_the_agent_says_wins_over_the_settings(verb, own, call, requests):
    model = ScriptedModel(lambda _: busy())
    settings = {} if call is None else {"model_settings": {"maxRetries": call}}
    timed(verb, agent(model, **own), **settings)
    assert len(model.requests) == requests


@both
@pytest.mark.parametrize("error", [ModelError("no"), ModelHTTPError("no", status=401), ZeroDivisionError("x")], ids=str)
def test_what_would_fail_again_is_not_tried_again(verb, error):
    model = ScriptedModel([error])
    ran, took = timed(verb, agent(model, max_retries=3))
    assert (took, len(model.requests)) == (0, 1)
    assert ran.result.finish_reason == "error"


@both
async def test_an_answer_that_was_begun_is_not_asked_for_again(verb):
    async with FakeProvider([Reply("Hello world", drop_after=3)]) as provider:
        ran = await run(verb, agent_on(provider, max_retries=3))
        assert len(provider.requests) == 1
    assert ran.error.retryable
    assert ran.result.text


@both
async def test_a_cut_before_the_answer_is_tried_again(verb, caplog):
    metadata_only = raw({"role": "assistant"}, finish=None, done=False)

    async with FakeProvider([metadata_only, Reply("fine")]) as provider:
        one, waits = hasty(agent_on(provider, max_retries=1))
        ran = await run(verb, one)
        assert len(provider.requests) == 2
    assert (ran.result.text, waits) == ("fine", [1.0])
    assert "cut off" in caplog.text
    assert ran.types.count("step-start") == 1


@both
def test_an_abort_ends_the_wait_at_once(verb):
    controller = AbortController()
    model = ScriptedModel([busy(retry_after=20), "never"])

    async def main():
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(run(verb, agent(model, max_retries=1), abort_signal=controller.signal))
        await asyncio.sleep(3)
        controller.abort()
        ran = await task
        return ran, loop.time()

    ran, ended = run_virtual(main())
    assert (ran.result.finish_reason, ran.error, ended) == ("aborted", None, 3)
    assert len(model.requests) == 1
    assert ran.types == ["start", "step-start", "abort", "finish"]


@both
def test_an_abort_that_the_model_reports_as_its_failure_is_no_retry(verb):
    controller = AbortController()

    class Careful(ScriptedModel):
        async def stream(self, request):
            async for batch in super().stream(request):
                yield batch
            assert isinstance(request.abort, AbortSignal)
            controller.abort()
            raise busy()

    model = Careful([Batches([])])
    ran, took = timed(verb, agent(model, max_retries=3), abort_signal=controller.signal)
    assert (ran.result.finish_reason, took, len(model.requests)) == ("aborted", 0, 1)


@both
async def test_an_error_event_after_the_first_words_is_told(verb):
    overloaded = {"error": {"message": "overloaded", "code": 503}}
    late = raw(says("Hel"), finish=None)
    late = type(late)(events=[*late.events, overloaded])
    async with FakeProvider([late]) as provider:
        ran = await run(verb, agent_on(provider, max_retries=3))
        assert len(provider.requests) == 1
    assert (ran.error.status, ran.error.retryable, ran.result.text) == (503, True, "Hel")


@pytest.mark.parametrize("wrong", ["3", 1.5, True])
def test_a_number_of_retries_is_a_whole_number(wrong):
    with pytest.raises(TypeError, match="max_retries"):
        agent(ScriptedModel(), max_retries=wrong)
    with pytest.raises(ValueError, match="at least 0"):
        agent(ScriptedModel(), max_retries=-1)
