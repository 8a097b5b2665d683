"""Ctrl-C at the moments between a sync twin's waits."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from tenuto import Agent
from tenuto.core import portal
from tenuto.store import InMemoryStore
from tenuto.testing import Gate, Reply, ScriptedModel


async def ended(store):
    """The status of the run once it has one that is final."""
    while (row := await store.run("r", resource=None)).status == "running":
        await portal.asyncio.sleep(0)
    return row.status


def test_it_comes_when_the_stream_has_just_started(monkeypatch):
    class Interrupted(Future):
        def result(self, timeout=None):
            found = super().result(timeout)
            monkeypatch.undo()
            self.result = lambda: found
            raise KeyboardInterrupt

    monkeypatch.setattr(portal, "Future", Interrupted)
    store, gate = InMemoryStore(), Gate()
    agent = Agent(id="a", model=ScriptedModel([Reply("never", gate=gate)]), store=store)
    with pytest.raises(KeyboardInterrupt):
        agent.stream_sync("hi", run_id="r")
    assert portal.Portal.current().run(ended(store)) == "canceled"


def test_it_comes_before_the_loop_has_heard_of_the_work(monkeypatch):
    def interrupted(*_args, **_kwargs):
        monkeypatch.undo()
        raise KeyboardInterrupt

    loop = portal.Portal.current()._loop
    monkeypatch.setattr(loop, "call_soon_threadsafe", interrupted)
    model = ScriptedModel("fine")
    with pytest.raises(KeyboardInterrupt):
        Agent(id="a", model=model).generate_sync("hi")
    assert model.requests == []
    assert Agent(id="a", model=model).generate_sync("hi").text == "fine"
