"""Runs on a thread that is noted down as it grows: what they read, what stays stored, what goes wrong beside them."""

from __future__ import annotations

from typing import Any

from tenuto import Agent, Memory, Tenuto, create_durable_agent, tool
from tenuto.core import codec
from tenuto.errors import ModelError
from tenuto.processors import PIIDetector, ResponseCache
from tenuto.store import InMemoryStore, SQLiteStore
from tenuto.testing import Call, Gate, Reply, ScriptedModel
from tests.agent.kit import both, run

ANN = {"thread": "t", "resource": "ann"}
LONG = "word " * 80


def notes(*texts: str) -> str:
    return codec.encode({"notes": [{"date": "2026-11-30", "text": text} for text in texts]}).decode()


def remembering(noting: Any, answers: Any = None, *, store: Any = None, **more: Any) -> Agent[Any, Any]:
    options = {"model": noting, "message_tokens": 400, "keep_tokens": 100}
    memory = Memory(store=store or InMemoryStore(), observational_memory=options)
    return Agent(id="a", model=answers or ScriptedModel(lambda _: "fine"), memory=memory, **more)


async def settled(agent: Any) -> None:
    await (await agent.get_memory()).settled()


def prompt(model: Any, call: int = -1) -> list[tuple[str, str]]:
    return [(each["role"], str(each["content"])) for each in model.requests[call].messages]


@both
async def test_a_run_reads_notes_and_the_newest_messages(verb):
    noting, model = ScriptedModel(notes("The user counts.")), ScriptedModel(lambda _: "fine")
    agent = remembering(noting, model)
    for at in range(4):
        await run(verb, agent, f"{at} {LONG}", memory=ANN)
        await settled(agent)
    ran = await run(verb, agent, "last", memory=ANN)
    assert len(noting.requests) == 1
    system, *messages = prompt(model)
    assert system[0] == "system"
    assert "<observations>2026-11-30 The user counts.</observations>" in system[1]
    kept = await (await agent.get_memory()).recall(thread_id="t", resource_id="ann", per_page=False)
    assert [message.text[0] for message in kept.messages] == list("0f1f2f3flf")
    read = [text[0] for _, text in messages]
    assert read == list("0f1f2f3fl")[-len(read) :]
    assert 2 < len(read) < 9
    assert [message.text for message in ran.result.remembered_messages] == [text for _, text in messages[:-1]]


@both
async def test_an_agent_s_own_model_takes_the_notes(verb):
    model = ScriptedModel(lambda request: notes("x") if request.last.startswith("<messages>") else "fine")
    agent = remembering(None, model)
    for at in range(4):
        await run(verb, agent, f"{at} {LONG}", memory=ANN)
        await settled(agent)
    await run(verb, agent, "last", memory=ANN)
    assert "2026-11-30 x" in prompt(model)[0][1]


@both
async def test_nothing_of_it_holds_a_run_up_or_fails_it(verb):
    gate = Gate()
    noting = ScriptedModel([Reply(notes("late"), gate=gate), ModelError("down")])
    agent = remembering(noting)
    for at in range(4):
        assert (await run(verb, agent, f"{at} {LONG}", memory=ANN)).result.text == "fine"
    gate.open()
    await settled(agent)
    assert len(noting.requests) >= 1


@both
async def test_a_sub_agent_and_a_read_only_run_begin_none(verb):
    noting = ScriptedModel()
    agent = remembering(noting)
    for at in range(4):
        memory = {**ANN, "options": {"read_only": True}}
        await run(verb, agent, [f"{at} {LONG}"] * 5, memory=memory)
    await settled(agent)
    assert noting.requests == []


@tool(effects="none")
def look() -> str:
    """Look."""
    return LONG


async def test_d03_each_message_is_stored_once_with_this_memory_too():
    model = ScriptedModel([Call("look"), Call("look"), "done", "again"])
    agent = remembering(ScriptedModel(lambda _: notes("x")), model, tools=[look])
    await agent.generate(f"go {LONG}", memory=ANN)
    await settled(agent)
    await agent.generate("more", memory=ANN)
    await settled(agent)
    kept = await (await agent.get_memory()).recall(thread_id="t", resource_id="ann", per_page=False)
    assert [message.role for message in kept.messages] == ["user", "assistant", "user", "assistant"]


async def test_calls_and_results_are_noted_together():
    """The strict form of a prompt has no result without its call; both are in the message that is noted or not."""
    model = ScriptedModel([Call("look"), "one", Call("look"), "two", "three", "four"])
    agent = remembering(ScriptedModel(lambda _: notes("x")), model, tools=[look])
    for text in ("a", "b", "c", "d"):
        await agent.generate(text, memory=ANN)
        await settled(agent)
    roles = [role for role, _ in prompt(model)]
    assert roles.count("tool") == sum("call" in str(each.get("tool_calls")) for each in model.requests[-1].messages)


async def test_a_durable_run_goes_on_with_what_it_had_read(tmp_path):
    noting = ScriptedModel(lambda _: notes("The user counts."))
    store = SQLiteStore(tmp_path / "runs.db")
    memory = Memory(observational_memory={"model": noting, "message_tokens": 400, "keep_tokens": 100})
    model = ScriptedModel(lambda _: "fine")
    agent = create_durable_agent(Agent(id="a", model=model, memory=memory))
    async with Tenuto(agents={"a": agent}, store=store) as app:
        durable: Any = app.get_agent("a")
        for at in range(5):
            await durable.generate(f"{at} {LONG}", memory=ANN)
            await settled(durable)
        assert "The user counts." in prompt(model)[0][1]
        kept = await store.versioned("observations", "t")
        assert kept is not None
        assert kept.value["up_to"] > 0


async def test_what_processors_took_out_is_in_no_thread_and_in_no_note():
    model = ScriptedModel(lambda request: f"I heard {request.last}, and ann@example.com.")
    pii = PIIDetector(redaction_method="placeholder")
    noting = ScriptedModel(lambda _: notes("x"))
    agent = remembering(noting, model, input_processors=[pii], output_processors=[pii])
    for at in range(4):
        await agent.generate(f"{at} bob@example.com {LONG}", memory=ANN)
        await settled(agent)
    kept = await (await agent.get_memory()).recall(thread_id="t", resource_id="ann", per_page=False)
    seen = repr((kept.messages, [request.messages for request in (*noting.requests, *model.requests)]))
    assert "[EMAIL]" in seen
    assert "@example.com" not in seen
    assert noting.requests


async def test_nobody_is_given_a_cached_answer_to_somebody_else():
    answers = iter(["to Ann", "to Bob"])
    agent = Agent(
        id="a", model=ScriptedModel(lambda _: next(answers)), memory=Memory(store=InMemoryStore()),
        input_processors=[ResponseCache()],
    )  # fmt: skip
    said = [
        (await agent.generate("hi", memory={"thread": name, "resource": who})).text
        for name, who in (("t1", "ann"), ("t2", "bob"), ("t3", "ann"))
    ]
    assert said == ["to Ann", "to Bob", "to Ann"]
