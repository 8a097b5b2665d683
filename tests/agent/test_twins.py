"""Every public coroutine method has its sync twin, with the same parameters."""

import inspect

import pytest

from tenuto import Agent, DurableAgent, Tenuto, tool
from tenuto.calls import PendingStream
from tenuto.testing import Call, ScriptedModel


def asynchronous(cls):
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        hints = str(inspect.signature(method).return_annotation)
        if not name.startswith("_") and (inspect.iscoroutinefunction(method) or PendingStream.__name__ in hints):
            yield name, method


NAMES = sorted({name for cls in (Agent, DurableAgent) for name, _ in asynchronous(cls)})


@pytest.mark.parametrize("name", NAMES)
def test_a_method_has_its_twin(name):
    durable_only = name not in dict(asynchronous(Agent)) or not hasattr(Agent, f"{name}_sync")
    cls = DurableAgent if durable_only else Agent
    twin = inspect.signature(getattr(cls, f"{name}_sync"))
    assert list(twin.parameters) == list(inspect.signature(getattr(cls, name)).parameters)


def test_an_approval_without_an_event_loop():
    paid = []

    @tool(require_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    def model():
        return ScriptedModel([Call("pay", {"amount": 5}), "done"])

    agent = Agent(name="clerk", model=model(), tools=[pay])
    result = agent.generate_sync("pay")
    assert [run.run_id for run in agent.list_suspended_runs_sync().runs] == [result.run_id]
    assert agent.approve_tool_call_generate_sync(run_id=result.run_id).text == "done"
    declined = agent.replace(model=model())
    output = declined.decline_tool_call_sync(run_id=declined.generate_sync("pay").run_id, reason="no")
    assert "tool-output-denied" in [chunk.type for chunk in output.full_stream]
    assert paid == [5]


def test_a_durable_agent_without_an_event_loop():
    agent = Agent(name="clerk", model=ScriptedModel("hello"), durable=True)
    durable = Tenuto(agents={"clerk": agent}).get_agent("clerk")
    assert isinstance(durable, DurableAgent)
    run_id = durable.generate_sync("hi").run_id
    assert durable.observe_sync(run_id).text == "hello"
    assert durable.list_active_runs_sync().total == 0
    assert durable.recover_active_runs_sync().recovered == ()
    assert durable.abort_run_stream_sync(run_id) is False
