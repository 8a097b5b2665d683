"""Turns on one thread from several processes: each is kept, whole, and answered once."""

import asyncio
import json
import signal
import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from tenuto import Agent, Memory, create_durable_agent
from tenuto.app import Tenuto
from tenuto.errors import RunError
from tenuto.memory import threads
from tenuto.store import SQLiteStore
from tenuto.testing import ScriptedModel

pytestmark = pytest.mark.slow

TURNS = 4

SCRIPT = textwrap.dedent("""
    import asyncio, json, sys

    from tenuto import Agent, Memory, create_durable_agent
    from tenuto.app import Tenuto
    from tenuto.store import SQLiteStore
    from tenuto.testing import ScriptedModel

    path, name, turns, durable = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "durable"
    WHERE = {"thread": "t", "resource": "ann"}


    async def main():
        texts = [f"{name}{n}" for n in range(turns)]
        model = ScriptedModel(answer)
        agent = Agent(id="agent", model=model, memory=Memory(last_messages=100))
        agents = {"agent": create_durable_agent(agent) if durable else agent}
        async with Tenuto(agents=agents, store=SQLiteStore(path)) as app:
            asked = app.get_agent("agent")
            await asked.list_suspended_runs()
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            results = await asyncio.gather(*(asked.generate(text, memory=WHERE) for text in texts))
        requests = [[m["content"] for m in request.messages] for request in model.requests]
        print(json.dumps({"answers": dict(zip(texts, [r.text for r in results])), "requests": requests}), flush=True)


    def answer(request):
        return "to " + request.messages[-1]["content"]


    asyncio.run(main())
""")


DIES = textwrap.dedent("""
    import asyncio, os, signal, sys

    from tenuto import Agent, Memory, create_durable_agent
    from tenuto.app import Tenuto
    from tenuto.core import faults
    from tenuto.store import SQLiteStore
    from tenuto.testing import ScriptedModel


    def hook(name):
        if name == sys.argv[2]:
            os.kill(os.getpid(), signal.SIGKILL)


    async def main():
        agent = Agent(id="agent", model=ScriptedModel(["one"]), memory=Memory())
        async with Tenuto(agents={"agent": create_durable_agent(agent)}, store=SQLiteStore(sys.argv[1])) as app:
            faults.install(hook)
            await app.get_agent("agent").generate("first", memory={"thread": "t", "resource": "ann"})


    asyncio.run(main())
""")


def process(script, *args):
    command = [sys.executable, "-c", script, *map(str, args)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def texts_of(kept):
    return [[part.text for part in each.message.content.parts if hasattr(part, "text")][-1] for each in kept]


@pytest.mark.parametrize(
    "point", ["model.before_call", "model.after_commit", "run.before_terminal", "run.before_release"]
)
async def test_what_a_killed_process_left_on_a_thread_is_recovered_before_the_next_turn(point, tmp_path):
    """G04 with threads: nobody has to sweep; whoever writes next finds the turn before it whole."""
    path = tmp_path / "tenuto.db"
    child = process(DIES, path, point)
    child.communicate(timeout=60)
    assert child.returncode == -signal.SIGKILL
    asked = []

    def answer(request):
        asked.append([message["content"] for message in request.messages])
        return "one" if request.messages[-1]["content"] == "first" else "two"

    agent = Agent(id="agent", model=ScriptedModel(answer), memory=Memory())
    app = Tenuto(agents={"agent": create_durable_agent(agent)}, store=SQLiteStore(path), recovery="off")
    async with app:
        await app.get_agent("agent").generate("second", memory={"thread": "t", "resource": "ann"})
        kept = await app.store.messages("t", resource="ann")
    assert texts_of(kept) == ["first", "one", "second", "two"]
    assert asked[-1] == ["first", "one", "second"]


async def test_an_edit_comes_after_the_run_that_a_killed_process_left(tmp_path, monkeypatch):
    path = tmp_path / "tenuto.db"
    process(DIES, path, "model.before_call").communicate(timeout=60)
    memory = Memory(store=SQLiteStore(path))
    where = {"thread_id": "t", "resource_id": "ann"}
    with monkeypatch.context() as hurry:
        hurry.setattr(threads, "EDIT_WAIT_SECONDS", 0.0)
        for edit in (memory.save_messages("later", **where), memory.delete_thread(**where)):
            with pytest.raises(RunError, match="recover") as refused:
                await edit
            assert refused.value.id == "MEMORY_THREAD_BUSY"

    agent = Agent(id="agent", model=ScriptedModel(["one"]), memory=Memory())
    edit = asyncio.ensure_future(memory.save_messages("later", **where))
    async with Tenuto(agents={"agent": create_durable_agent(agent)}, store=SQLiteStore(path)) as app:
        await edit
        kept = await app.store.messages("t", resource="ann")
    assert texts_of(kept) == ["first", "one", "later"]
    await memory.store.aclose()


@pytest.mark.parametrize("durable", ["plain", "durable"])
@pytest.mark.parametrize("names", [("a",), ("a", "b")])
async def test_turns_at_once_are_kept_in_order_and_answered_once(names, durable, tmp_path):
    path = tmp_path / "tenuto.db"
    children = [process(SCRIPT, path, name, TURNS // len(names), durable) for name in names]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    said = [json.loads(child.communicate(timeout=60)[0]) for child in children]
    assert [child.returncode for child in children] == [0] * len(names)

    store = SQLiteStore(path)
    kept = await store.messages("t", resource="ann")
    await store.aclose()
    texts = texts_of(kept)
    asked = [f"{name}{n}" for name in names for n in range(TURNS // len(names))]
    assert [each.message.role for each in kept] == ["user", "assistant"] * TURNS
    assert [each.seq for each in kept] == list(range(2 * TURNS))
    assert Counter(texts[::2]) == Counter(asked)
    assert [f"to {text}" for text in texts[::2]] == texts[1::2]
    for name in names:  # those of one process in the order in which they came
        assert [text for text in texts[::2] if text.startswith(name)] == [
            text for text in asked if text.startswith(name)
        ]
    for child in said:
        assert child["answers"] == {text: f"to {text}" for text in child["answers"]}
        for request in child["requests"]:  # each was told all that was said before it, and nothing else
            assert request == texts[: len(request)]
