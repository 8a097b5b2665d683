"""The spans of a run, as an exporter of OpenTelemetry sees them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tenuto import Agent, RequestContext, Tenuto, create_durable_agent, tool
from tenuto.errors import ModelError
from tenuto.evals import create_scorer
from tenuto.processors import PIIDetector
from tenuto.store import InMemoryStore
from tenuto.testing import Call, FakeProvider, Gate, HTTPError, Reply, ScriptedModel
from tenuto.tools import ToolFailed
from tests.agent.kit import agent_on, all_ended, all_scored, both, run


class WhenAsked(InMemorySpanExporter):
    """Keeps the spans of this file's tests, not those of all the others in the process."""

    asked = False

    def export(self, spans: Any) -> Any:
        return super().export(spans) if self.asked else SpanExportResult.SUCCESS


EXPORTER = WhenAsked()
PROVIDER = TracerProvider()
PROVIDER.add_span_processor(SimpleSpanProcessor(EXPORTER))
trace.set_tracer_provider(PROVIDER)
SECRET = "sk-CANARY-1"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    EXPORTER.asked = True
    yield
    EXPORTER.asked = False
    EXPORTER.clear()


def spans() -> dict[str, Any]:
    """The ended spans by name."""
    return {span.name: span for span in EXPORTER.get_finished_spans()}


def says(span: Any) -> dict[str, Any]:
    return dict(span.attributes)


@tool(effects="none")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    with trace.get_tracer("user").start_as_current_span("inside"):
        return a + b


def adder(*, last: str = "3", **more: Any) -> Agent[Any, Any]:
    model = ScriptedModel([Call("add", {"a": 1, "b": 2}, id="c1"), last])
    return Agent(id="clerk", name="Clerk", model=model, tools=[add], **more)


@both
async def test_the_tree_of_a_run(verb):
    with trace.get_tracer("user").start_as_current_span("request") as request:
        ran = await run(verb, adder(), model_settings={"temperature": 0.5, "max_output_tokens": 9})
    found = spans()
    names = sorted(span.name for span in EXPORTER.get_finished_spans())
    assert names == ["chat model", "chat model", "execute_tool add", "inside", "invoke_agent Clerk", "request"]
    root = found["invoke_agent Clerk"]
    assert root.parent.span_id == request.get_span_context().span_id
    assert {found[name].parent.span_id for name in ("chat model", "execute_tool add")} == {root.context.span_id}
    assert found["inside"].parent.span_id == found["execute_tool add"].context.span_id
    assert ran.result.trace_id == trace.format_trace_id(root.context.trace_id)
    assert ran.result.span_id == trace.format_span_id(root.context.span_id)
    assert says(found["chat model"])["gen_ai.request.temperature"] == 0.5
    assert says(found["chat model"])["gen_ai.request.max_tokens"] == 9
    assert says(found["execute_tool add"]) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Add two numbers.",
    }
    said = says(root)
    assert (said["gen_ai.agent.id"], said["gen_ai.agent.name"]) == ("clerk", "Clerk")
    assert said["gen_ai.usage.input_tokens"] == ran.result.usage.input_tokens
    assert said["gen_ai.response.finish_reasons"] == ("stop",)


async def test_content_is_off_by_default_and_on_when_asked_for():
    await adder(instructions="Be brief.").generate("What is 1 + 2?")
    assert not any("messages" in key or "arguments" in key for span in spans().values() for key in span.attributes)
    EXPORTER.clear()
    await adder(instructions="Be brief.").generate(
        "What is 1 + 2?", telemetry={"recordInputs": True, "record_outputs": True, "function_id": "sum"}
    )
    root, call = spans()["invoke_agent Clerk"], spans()["execute_tool add"]
    assert says(root)["tenuto.function_id"] == "sum"
    asked = json.loads(says(root)["gen_ai.input.messages"])
    assert asked == [{"role": "user", "parts": [{"type": "text", "content": "What is 1 + 2?"}]}]
    assert json.loads(says(root)["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be brief."}]
    answered = json.loads(says(root)["gen_ai.output.messages"])
    assert answered == [{"role": "assistant", "parts": [{"type": "text", "content": "3"}], "finish_reason": "stop"}]
    assert json.loads(says(call)["gen_ai.tool.call.arguments"]) == {"a": 1, "b": 2}
    assert json.loads(says(call)["gen_ai.tool.call.result"]) == 3


async def test_hidden_is_stronger_than_recorded():
    await adder().generate(
        "hi",
        telemetry={"record_inputs": True, "record_outputs": True},
        tracing_options={"hide_input": True, "hide_output": True},
    )
    assert not any("messages" in key or "arguments" in key for span in spans().values() for key in span.attributes)


async def test_a_call_without_telemetry():
    result = await adder().generate("hi", telemetry={"is_enabled": False})
    assert sorted(spans()) == ["inside"]
    assert (result.trace_id, result.span_id) == (None, None)


async def test_what_the_root_span_is_told():
    context = RequestContext({"user": {"id": 7}, "api_key": SECRET, "plan": "pro"})
    await adder().generate(
        "hi",
        request_context=context,
        tracing_options={
            "root_span_name": "support call",
            "metadata": {"session": "s1", "flags": {"x": True}, "gone": None},
            "requestContextKeys": ["user.id", "plan", "missing", "api_key"],
            "tags": ["a", "b"],
            "traceId": "ABC",
            "parent_span_id": "12",
        },
    )
    root = spans()["support call"]
    assert trace.format_trace_id(root.context.trace_id) == "abc".rjust(32, "0")
    assert trace.format_span_id(root.parent.span_id) == "12".rjust(16, "0")
    said = says(root)
    assert said["tenuto.tags"] == ("a", "b")
    assert {key: value for key, value in said.items() if "metadata" in key} == {
        "tenuto.metadata.session": "s1",
        "tenuto.metadata.flags": '{"x":true}',
        "tenuto.metadata.user.id": 7,
        "tenuto.metadata.plan": "pro",
    }


async def test_a_trace_id_alone_decides_the_trace():
    result = await adder().generate("hi", tracing_options={"trace_id": "f" * 32})
    assert result.trace_id == "f" * 32


@pytest.mark.parametrize("bad", ["", "xyz", "0", "f" * 33, 12])
async def test_an_id_that_is_none_is_ignored(bad, caplog):
    result = await adder().generate("hi", tracing_options={"trace_id": bad})
    assert result.text == "3"
    assert "trace_id" in caplog.text


async def test_the_callers_span_is_the_parent():
    with trace.get_tracer("user").start_as_current_span("other") as other:
        pass
    await adder().generate("hi", tracing_context={"current_span": other}, tracing_options={"trace_id": "a"})
    root = spans()["invoke_agent Clerk"]
    assert root.parent.span_id == other.get_span_context().span_id


@pytest.mark.parametrize("wrong", [{"telemetry": {"isEnabld": True}}, {"tracing_options": {"tags": 3}}])
async def test_a_misspelt_or_mistyped_option_is_an_error(wrong):
    with pytest.raises(TypeError, match=r"is_?[eE]nabled|tags"):
        await adder().generate("hi", **wrong)


async def test_a_failed_model_call_marks_its_span_and_the_root():
    with FakeProvider([HTTPError(503, "overloaded")]) as provider, pytest.raises(ModelError):
        await agent_on(provider).generate("hi")
    chat, root = spans()["chat m"], spans()["invoke_agent agent"]
    for span in (chat, root):
        assert span.status.status_code is trace.StatusCode.ERROR
        assert says(span)["error.type"]
        assert span.end_time
    assert says(chat)["gen_ai.provider.name"] == "test"


async def test_a_failed_tool_marks_its_span_only():
    @tool
    async def refuse() -> str:
        raise ToolFailed("no")

    await Agent(id="a", model=ScriptedModel([Call("refuse"), "sorry"]), tools=[refuse]).generate("hi")
    assert says(spans()["execute_tool refuse"])["error.type"] == "TOOL_FAILED"
    assert spans()["invoke_agent a"].status.is_ok


async def test_k03_a_stream_that_is_read_elsewhere_keeps_its_parents(caplog):
    gate = Gate(permits=2)
    one = Agent(id="a", model=ScriptedModel([Reply("Hello world", gate=gate)]))
    streams: list[Any] = []

    async def create() -> None:
        with trace.get_tracer("user").start_as_current_span("creator"):
            streams.append(await one.stream("x"))

    async def read() -> None:
        with trace.get_tracer("user").start_as_current_span("reader"):
            gate.open()
            assert [text async for text in streams[0].text_stream]

    await asyncio.create_task(create())
    await asyncio.create_task(read())
    await all_ended()
    found = spans()
    assert found["invoke_agent a"].parent.span_id == found["creator"].context.span_id
    assert found["chat model"].parent.span_id == found["invoke_agent a"].context.span_id
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("place", ["model", "tool"])
async def test_k11_a_cancelled_run_leaves_no_span_open(place):
    gate = Gate()

    @tool
    async def wait() -> str:
        await gate.take()
        return "never"

    script = {"model": Reply("x", gate=gate), "tool": Call("wait")}
    one = Agent(id="a", model=ScriptedModel([script[place]]), tools=[wait], abort_grace=0.01)
    task = asyncio.create_task(one.generate("x"))
    await gate.wait_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await all_ended()
    name = "chat model" if place == "model" else "execute_tool wait"
    for span in (spans()[name], spans()["invoke_agent a"]):
        assert says(span)["error.type"] == "aborted"
        assert not span.status.is_ok


async def test_a_resumed_run_goes_on_in_its_trace():
    @tool(require_approval=True, effects="none")
    async def pay() -> str:
        return "paid"

    store = InMemoryStore()
    clerk = create_durable_agent(Agent(id="clerk", model=ScriptedModel([Call("pay"), "done"]), tools=[pay]))
    async with Tenuto(agents={"clerk": clerk}, store=store):
        parked = await clerk.generate("pay", telemetry={"function_id": "till"})
        first = spans()["invoke_agent clerk"]
        assert says(first)["gen_ai.response.finish_reasons"] == ("suspended",)
        assert first.status.is_ok
        EXPORTER.clear()
        done = await clerk.approve_tool_call_generate(run_id=parked.run_id)
    second = spans()["invoke_agent clerk"]
    assert done.trace_id == parked.trace_id
    assert second.parent.span_id == first.context.span_id
    assert says(second)["tenuto.resumed"] is True
    assert says(second)["tenuto.function_id"] == "till"


async def test_the_resuming_callers_ids_win():
    @tool(require_approval=True, effects="none")
    async def pay() -> str:
        return "paid"

    clerk = Agent(id="clerk", model=ScriptedModel([Call("pay"), "done"]), tools=[pay])
    parked = await clerk.generate("pay")
    done = await clerk.approve_tool_call_generate(run_id=parked.run_id, tracing_options={"trace_id": "beef"})
    assert done.trace_id == "beef".rjust(32, "0") != parked.trace_id


async def test_j05_no_span_holds_the_key():
    with FakeProvider([HTTPError(400, f"bad key {SECRET}")]) as provider:
        model = {"id": "test/m", "url": provider.base_url, "api_key": SECRET}
        with pytest.raises(ModelError):
            await Agent(id="a", model=model).generate("hi", telemetry={"record_inputs": True, "record_outputs": True})
    assert len(spans()) == 2
    assert SECRET not in "".join(span.to_json() for span in spans().values())


@pytest.mark.slow
def test_without_opentelemetry_in_the_process_none_is_loaded():
    code = """
import sys
from tenuto import Agent
from tenuto.testing import ScriptedModel
result = Agent(id="a", model=ScriptedModel(["hi"])).generate_sync("x")
assert result.trace_id is None
print(any(name.startswith("opentelemetry") for name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False\n", "")


@both
async def test_a_run_is_scored_under_its_trace_and_not_at_all_when_that_is_not_kept(verb):
    store = InMemoryStore()
    scorer = create_scorer(id="x", score=lambda _: 1)
    one = Agent(id="a", model=ScriptedModel(lambda _: "x"), store=store, scorers={"x": scorer})
    kept = await run(verb, one)
    dropped = trace.SpanContext(7, 8, is_remote=True, trace_flags=trace.TraceFlags(0))
    await run(verb, one, tracing_context={"current_span": trace.NonRecordingSpan(dropped)})
    await all_scored()
    [row] = await store.scores(resource=None)
    assert (row.run_id, row.trace_id, row.span_id) == (kept.result.run_id, kept.result.trace_id, kept.result.span_id)
    assert row.trace_id is not None


@both
async def test_what_processors_took_out_is_in_no_span(verb):
    pii = PIIDetector(redaction_method="placeholder", tool_results=True)
    model = ScriptedModel([Call("tell", {}), "It is ann@example.com, too."])

    @tool(effects="none")
    def tell() -> str:
        """Tell."""
        return "ann@example.com"

    agent = Agent(id="clerk", model=model, tools=[tell], input_processors=[pii], output_processors=[pii])
    await run(verb, agent, "I am ann@example.com", telemetry={"record_inputs": True, "record_outputs": True})
    seen = repr(
        [(dict(span.attributes), [dict(event.attributes) for event in span.events]) for span in spans().values()]
    )
    assert "[EMAIL]" in seen
    assert "ann@" not in seen
