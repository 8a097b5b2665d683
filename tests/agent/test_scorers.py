"""Live scores: after a run ended well, scorers look at it and what they say is stored; the run never notices."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tenuto import Agent, Memory, Tenuto, tool
from tenuto.core import codec
from tenuto.core.background import Background
from tenuto.core.payloads import wire_name
from tenuto.errors import ConfigurationError, ModelError, StoreError, TenutoError
from tenuto.evals import create_keyword_coverage_scorer, create_scorer
from tenuto.evals.declared import fraction_of
from tenuto.processors import RegexFilterProcessor, RegexRule
from tenuto.store import InMemoryStore
from tenuto.testing import Call, Reply, ScriptedModel
from tests.agent.kit import all_scored, both, run


@tool(effects="none")
async def add(a: int = 1, b: int = 2) -> int:
    return a + b


def scorer(id="length", score=lambda sample: len(sample.output_text), **more):
    return create_scorer(id=id, score=score, **more)


def agent(*script, store=None, **more):
    script = script or ("answer",)
    return Agent(id="a", name="Ann", model=ScriptedModel(list(script)), tools=[add], store=store, **more)


async def scores(store, **filters):
    await all_scored()
    return await store.scores(resource=None, **filters)


@both
async def test_a_run_is_scored_after_it_has_ended(verb):
    store = InMemoryStore()
    one = agent(store=store, scorers={"len": {"scorer": scorer(reason=lambda _: "counted", analyze=lambda _: [1])}})
    ran = await run(verb, one, "how long?")
    [row] = await scores(store)
    assert (row.score, row.reason, row.scorer_id, row.run_id) == (6.0, "counted", "length", ran.result.run_id)
    assert (row.entity_id, row.entity_type, row.source) == ("a", "AGENT", "LIVE")
    assert (row.thread_id, row.resource_id) == (None, None)
    assert (row.trace_id, row.span_id) == (ran.result.trace_id, ran.result.span_id)
    assert row.details == {"analyze": [1]}
    assert row.metadata["structuredOutput"] is False
    assert [message["role"] for message in row.input["inputMessages"]] == ["user"]
    assert row.input["rememberedMessages"] == []
    assert row.output[0]["content"]["parts"][-1] == {"type": "text", "text": "answer"}
    assert row.created_at is not None


@both
async def test_a_scorer_or_its_id_alone_scores_every_run(verb):
    store = InMemoryStore()
    one = agent(scorers={"mine": scorer("own"), "theirs": "shared"})
    app = Tenuto(agents={"a": one}, store=store, scorers={"key": scorer("shared")})
    ran = await run(verb, one)
    await all_scored()
    rows = await app.list_scores(run_id=ran.result.run_id)
    assert sorted(row.scorer_id for row in rows) == ["own", "shared"]
    assert [row.scorer_id for row in await app.list_scores(scorer_id="own", agent_id="a")] == ["own"]
    assert await app.list_scores(resource="somebody") == []
    assert app.get_scorer_by_id("shared") is app.get_scorer("key") is app.list_scorers()["key"]


@pytest.mark.parametrize(("get", "name"), [("get_scorer", "shared"), ("get_scorer_by_id", "key")])
def test_a_scorer_that_the_app_does_not_have(get, name):
    app = Tenuto(agents={}, scorers={"key": scorer("shared")})
    with pytest.raises(ConfigurationError, match="There is no scorer") as caught:
        getattr(app, get)(name)
    assert caught.value.id == "SCORER_NOT_FOUND"


@both
async def test_those_of_a_call_replace_the_agents(verb):
    store = InMemoryStore()
    one = agent("a", "b", "c", store=store, scorers={"own": scorer("own")})
    await run(verb, one, scorers={"call": scorer("call")})
    await run(verb, one, scorers={})
    assert [row.scorer_id for row in await scores(store)] == ["call"]
    await run(verb, one)
    assert [row.scorer_id for row in await scores(store)] == ["own", "call"]


@both
async def test_a_call_may_name_the_agents_own(verb):
    store = InMemoryStore()
    one = agent(store=store, scorers={"own": scorer("id")})
    await run(verb, one, scorers={"x": {"scorer": "id"}, "y": {"scorer": "own"}})
    assert [row.scorer_id for row in await scores(store)] == ["id", "id"]


@both
async def test_a_function_of_the_request_context(verb):
    store = InMemoryStore()
    one = agent("a", "b", store=store, scorers=lambda context: {"x": scorer(context["which"])})
    await run(verb, one, request_context={"which": "one"})
    assert [row.scorer_id for row in await scores(store)] == ["one"]
    await run(verb, one, request_context={"which": ""})
    assert len(await scores(store)) == 1


@both
async def test_names_that_nobody_has_are_warned_of(verb, caplog):
    store = InMemoryStore()
    ran = await run(verb, agent("a", store=store), scorers={"x": "nobody", "y": {"scorer": "else"}})
    assert ran.result.text == "a"
    assert "No scorer 'nobody', 'else' is registered" in caplog.text
    assert "AGENT_GENEREATE_SCORER_NOT_FOUND" in caplog.text
    assert await scores(store) == []
    caplog.clear()
    await run(verb, agent("a", store=store), scorers={"x": "nobody", "y": scorer()})
    assert "GENEREATE" not in caplog.text
    assert len(await scores(store)) == 1


@both
async def test_what_a_scorer_raises_is_logged_and_the_others_go_on(verb, caplog):
    def boom(_):
        raise ZeroDivisionError("by hand")

    store = InMemoryStore()
    one = agent(
        store=store, scorers={"bad": scorer("bad", boom), "none": scorer("none", lambda _: None), "ok": scorer()}
    )
    ran = await run(verb, one)
    assert [row.scorer_id for row in await scores(store)] == ["length"]
    assert "Scorer 'bad' could not score run" in caplog.text
    assert ran.error is None


@both
async def test_a_store_that_fails_is_logged(verb, caplog, monkeypatch):
    store = InMemoryStore()

    async def refuse(item):
        raise StoreError("full")

    monkeypatch.setattr(store, "post", refuse)
    ran = await run(verb, agent(store=store, scorers={"x": scorer()}))
    await all_scored()
    assert "could not be stored" in caplog.text
    assert ran.result.text == "answer"


@both
async def test_the_result_does_not_wait_for_a_scorer(verb):
    release = asyncio.Event()

    async def wait(_):
        await release.wait()
        return 1

    store = InMemoryStore()
    ran = await run(verb, agent(store=store, scorers={"x": scorer("x", wait)}))
    assert ran.result.text == "answer"
    release.set()
    assert len(await scores(store)) == 1


@both
async def test_only_runs_that_ended_well_are_scored(verb):
    store = InMemoryStore()
    never = {"x": scorer("x", lambda _: pytest.fail("asked"))}
    failed = await run(verb, agent(ModelError("down"), store=store, scorers=never))
    assert failed.error is not None
    suspended = agent(Reply(calls=[Call("add", {}, "c1")]), "3", store=store, scorers=never)
    ran = await run(verb, suspended, require_tool_approval=True)
    assert ran.result.finish_reason == "suspended"
    stream = await agent(Reply("a", hang_after=0), store=store, scorers=never).stream("hi")
    stream.abort()
    assert (await stream.get_full_output()).finish_reason == "aborted"
    assert await scores(store) == []


async def test_a_resumed_run_is_scored_as_a_whole():
    store = InMemoryStore()
    one = agent(Reply("Let me see. ", calls=[Call("add", {}, "c1")]), "3", store=store)
    given = {"x": scorer()}
    first = await one.generate("hi", require_tool_approval=True, scorers=given)
    await one.approve_tool_call_generate(run_id=first.run_id)
    [row] = await scores(store)
    assert row.score == len("Let me see. 3")


def test_the_fraction_of_a_run_is_spread_over_0_to_1():
    found = [fraction_of(f"run_{n}") for n in range(2_000)]
    assert all(0 <= each < 1 for each in found)
    assert 0.45 < sum(found) / len(found) < 0.55
    assert fraction_of("run_1") == int.from_bytes(bytes.fromhex("37ddff8ee13f"), "big") / 2**48


@both
async def test_a_filter(verb, caplog):
    store = InMemoryStore()
    pro = {"op": "eq", "left": {"path": "requestContext.user.plan"}, "right": {"literal": "pro"}}
    odd = {"op": "lt", "left": {"path": "requestContext.user.plan"}, "right": {"literal": 3}}
    one = agent(
        "a",
        "b",
        store=store,
        scorers={"pro": {"scorer": scorer(), "filter": pro}, "odd": {"scorer": scorer("odd"), "filter": odd}},
    )
    await run(verb, one, request_context={"user": {"plan": "free"}})
    assert await scores(store) == []
    await run(verb, one, request_context={"user": {"plan": "pro"}})
    assert [row.scorer_id for row in await scores(store)] == ["length"]
    assert "The filter of scorer 'odd' cannot be applied" in caplog.text


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"sampling": {"type": "ratio"}}, ConfigurationError, "rate=None; give a rate from 0 to 1"),
        ({"sampling": {"type": "ratio", "rate": 1.5}}, ConfigurationError, "rate=1.5"),
        ({"sampling": {"type": "ratio", "rate": True}}, ConfigurationError, "rate=True"),
        ({"sampling": {"type": "some"}}, ConfigurationError, "'none' .every run. or 'ratio'"),
        ({"sampling": {"kind": "none"}}, TypeError, "Unknown sampling key"),
        ({"sampling": 0.5}, TypeError, "sampling= takes a mapping"),
        ({"filter": {"op": "is"}}, ConfigurationError, "has the operator 'is'"),
        ({"filter": {"op": "exists", "path": "input.text"}}, ConfigurationError, "looks at 'input'"),
        ({"scorer": 3}, TypeError, "takes a scorer or its id"),
        ({"weight": 3}, TypeError, "Unknown key of a scorer 'weight'"),
    ],
)
async def test_what_cannot_work_is_refused_where_it_is_given(given, error, match):
    wrong = {"x": {"scorer": scorer(), **given}}
    with pytest.raises(error, match=match):
        agent(scorers=wrong)
    with pytest.raises(error, match=match):
        await agent().generate("hi", scorers=wrong)


@pytest.mark.parametrize("wrong", [[scorer()], {"x": 3}, scorer()], ids=repr)
def test_scorers_are_given_by_name(wrong):
    with pytest.raises(TypeError):
        agent(scorers=wrong)


async def test_list_scorers():
    own = scorer()
    given = {"x": {"scorer": own, "sampling": {"type": "ratio", "rate": 0.5}}, "y": "id"}
    found = {"x": {"scorer": own, "sampling": {"type": "ratio", "rate": 0.5}}, "y": {"scorer": "id"}}
    assert await agent(scorers=given).list_scorers() == found
    assert await agent(scorers=lambda context: {context["k"]: own}).list_scorers(request_context={"k": "z"}) == {
        "z": {"scorer": own}
    }
    assert await agent().list_scorers() == {}
    with pytest.raises(TenutoError) as caught:
        await agent(scorers=lambda _: None).list_scorers()
    assert caught.value.id == "AGENT_GET_SCORERS_FUNCTION_EMPTY_RETURN"


def test_list_scorers_without_a_loop():
    assert agent(scorers={"x": "id"}).list_scorers_sync() == {"x": {"scorer": "id"}}


@both
async def test_an_agent_whose_scorers_function_fails(verb, caplog):
    ran = await run(verb, agent(scorers=lambda _: 1 / 0))
    assert ran.result.text == "answer"
    assert "The scorers function of agent 'a' failed" in caplog.text


@both
async def test_what_is_being_scored_at_the_end_of_an_app_is_stored(verb):
    async def slowly(_):
        for _ in range(5):
            await asyncio.sleep(0)
        return 1

    store, kept = InMemoryStore(), []
    post = store.post

    async def posted(item):
        kept.append(item)
        return await post(item)

    store.post = posted
    one = agent(scorers={"x": scorer("x", slowly)})
    async with Tenuto(agents={"a": one}, store=store):
        await run(verb, one)
    assert [row.scorer_id for row in kept] == ["x"]


async def test_an_orderly_end_does_not_wait_for_ever(monkeypatch, caplog):
    from tenuto.core import background

    async def hang(_):
        await asyncio.Event().wait()

    monkeypatch.setattr(background, "GRACE_SECONDS", 0)
    one = agent(scorers={"x": scorer("x", hang)})
    with caplog.at_level(logging.WARNING, "tenuto"):
        async with Tenuto(agents={"a": one}, store=InMemoryStore()):
            await one.generate("hi")
            await asyncio.sleep(0)
    assert "were not done after 0 s and are given up" in caplog.text


@both
async def test_nothing_is_done_without_scorers(verb):
    await run(verb, agent())
    assert Background.current().tasks == set()


@both
@pytest.mark.parametrize("spelling", ["return_scorer_data", "returnScorerData"])
async def test_return_scorer_data(verb, spelling):
    one = agent(Reply(calls=[Call("add", {}, "c1")]), "3", instructions="Be brief.")
    ran = await run(verb, one, "1 + 2?", context="Earlier.", **{spelling: True})
    data = ran.result.scoring_data
    assert [message.text for message in data.input.input_messages] == ["1 + 2?"]
    assert [turn.text for turn in data.input.system_messages] == ["Be brief."]
    assert (data.input.remembered_messages, data.input.tagged_system_messages) == ((), {})
    assert data.output == ran.result.response.db_messages
    assert {wire_name(name) for name in data.__struct_fields__} == {"input", "output"}
    result = await create_keyword_coverage_scorer().run(data.input, data.output)
    assert 0 <= result.score <= 1


@both
async def test_nobody_asked_for_scorer_data(verb):
    assert (await run(verb, agent())).result.scoring_data is None


@both
async def test_a_sub_agent_is_scored_by_its_own_scorers(verb):
    store = InMemoryStore()
    below = Agent(id="below", description="Knows.", model=ScriptedModel(["four"]), scorers={"x": scorer("below's")})
    calls = Reply(calls=[Call("agent-below", {"prompt": "2 + 2?"}, "c1")])
    one = Agent(
        id="above",
        model=ScriptedModel([calls, "it is four"]),
        agents={"below": below},
        store=store,
        scorers={"x": scorer("above's")},
    )
    ran = await run(verb, one, "2 + 2?")
    rows = {row.scorer_id: row for row in await scores(store)}
    assert {name: (row.entity_id, row.score) for name, row in rows.items()} == {
        "below's": ("below", 4.0),
        "above's": ("above", 10.0),
    }
    assert rows["above's"].run_id == ran.result.run_id != rows["below's"].run_id


@both
async def test_scorers_see_what_processors_have_left(verb):
    store = InMemoryStore()
    guard = RegexFilterProcessor(rules=[RegexRule("key", r"sk-\d+", "[key]")], strategy="redact")
    seen = []

    def score(sample):
        seen.append((sample.input_text, sample.output_text))
        return 1

    one = agent(
        "it is sk-123",
        store=store,
        scorers={"x": scorer("x", score)},
        input_processors=[guard],
        output_processors=[guard],
    )
    asked = {"scorers": [scorer("check", score, reason=lambda sample: sample.output_text)]}
    ran = await run(verb, one, "what is sk-9?", is_task_complete=asked, return_scorer_data=True)
    [row] = await scores(store)
    assert seen == [("what is [key]?", "it is [key]")] * 2
    kept = codec.encode([row, ran.result.scoring_data.to_dict(), ran.chunks])
    assert b"sk-1" not in kept
    assert b"sk-9" not in kept


@both
async def test_a_blocked_run_is_not_scored(verb):
    store = InMemoryStore()
    guard = RegexFilterProcessor(rules=[RegexRule("key", r"sk-\d+", "[key]")])
    one = agent("it is sk-123", store=store, scorers={"x": scorer()}, output_processors=[guard])
    ran = await run(verb, one)
    assert ran.result.tripwire is not None
    assert await scores(store) == []


@both
async def test_scores_of_a_thread_belong_to_its_resource(verb):
    store = InMemoryStore()
    mine = {"op": "eq", "left": {"path": "resourceId"}, "right": {"literal": "ann"}}
    one = agent("a", "bb", store=store, memory=Memory(), scorers={"x": {"scorer": scorer(), "filter": mine}})
    app = Tenuto(agents={"a": one}, store=store)
    await run(verb, one, "first", memory={"thread": "t1", "resource": "ann"})
    ran = await run(verb, one, "second", memory={"thread": "t1", "resource": "ann"}, return_scorer_data=True)
    await all_scored()
    row, first = await app.list_scores(resource="ann")
    assert (row.thread_id, row.resource_id, row.score, first.score) == ("t1", "ann", 2.0, 1.0)
    assert [message["role"] for message in row.input["rememberedMessages"]] == ["user", "assistant"]
    assert [message.text for message in ran.result.scoring_data.input.remembered_messages] == ["first", "a"]
    assert await app.list_scores() == await app.list_scores(resource="bob") == []


@both
async def test_feedback_of_a_check_is_in_the_thread(verb):
    one = agent("half", "done", "bye", store=InMemoryStore(), memory=Memory())
    word = create_scorer(id="x", score=lambda sample: "done" in sample.output_text)
    seen = []
    looks = create_scorer(id="y", score=lambda sample: seen.append(sample.input) or 1)
    on = {"thread": "t1", "resource": "ann"}
    ran = await run(verb, one, "hi", memory=on, is_task_complete={"scorers": [word, looks]})
    await run(verb, one, "and?", memory=on)
    asked = one.setup().definition.model.requests[2].messages
    assert [message["role"] for message in asked] == ["user", "assistant", "user", "assistant", "user"]
    assert asked[2]["content"] == ran.result.messages[2].text
    assert (seen[0].thread_id, seen[0].resource_id) == ("t1", "ann")
