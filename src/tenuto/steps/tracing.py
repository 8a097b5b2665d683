"""The spans of a run: `invoke_agent` around a segment, `chat` around a model call, `execute_tool` around a tool's body.

Invariant: what a span says is of the GenAI conventions, and their names are in this file only; content (prompts,
answers, arguments, results) is recorded only when the caller asks for it.

Source: OpenTelemetry semantic conventions for generative AI: agent, inference and tool spans.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

from tenuto.core.credentials import is_credential
from tenuto.core.spans import (
    NO_SPAN,
    NO_TRACER,
    Attribute,
    Span,
    SpanLink,
    Tracer,
    find_tracer,
    kind_of,
    running,
)
from tenuto.messages.turns import AssistantTurn, Text
from tenuto.steps.span_content import as_json, attribute_of, inputs, output, request_settings, usage_counts
from tenuto.steps.tracing_options import Tracing
from tenuto.tools.outcome import Aborted, Failed, Ok, Outcome, Suspended, UnknownOutcome

if TYPE_CHECKING:
    from tenuto.core.payloads import FinishReason
    from tenuto.machine.records import Said
    from tenuto.messages.turns import CallPart
    from tenuto.models.ports import ModelRequest
    from tenuto.steps.run import Run


class Trace:
    """The spans of one run in this process.

    Attributes:
        root: The span of the segment that is being driven.
    """

    __slots__ = ("_asks", "_tracer", "root")

    def __init__(self, asks: Tracing | None = None) -> None:
        self._asks = asks or Tracing()
        self._tracer: Tracer = NO_TRACER
        self.root: Span = NO_SPAN

    def begin(self, run: Run, *, before: SpanLink | None, resumed: bool) -> Span:
        """Begin the span of a segment; `before` is that of the segment before it."""
        asks = self._asks
        if not asks.enabled:
            return NO_SPAN
        self._tracer = find_tracer()
        definition = run.definition
        attributes: dict[str, Attribute] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.id": definition.id,
            "gen_ai.agent.name": definition.name,
            "tenuto.run.id": run.run_id,
        }
        if resumed:
            attributes["tenuto.resumed"] = True
        name = asks.root_span_name or f"invoke_agent {definition.name}"
        self.root = self._tracer.start(name, attributes, parent=_parent(asks, before))
        if self.root.recording:
            self.root.set(_asked(asks, run))
        return self.root

    def prepared(self, run: Run) -> None:
        """What is known once the prompt is assembled."""
        root = self.root
        if not root.recording:
            return
        if run.model is not None:
            root.set({"gen_ai.provider.name": run.model.provider, "gen_ai.request.model": run.model.model_id})
        if self._asks.record_inputs:
            root.set(inputs(run.prompt.system, run.prompt.turns))

    def ended(self, run: Run, reason: FinishReason) -> None:
        """How the segment ended."""
        root = self.root
        if not root.recording:
            return
        root.set({"gen_ai.response.finish_reasons": (reason,), **usage_counts(run.usage)})
        if self._asks.record_outputs and run.steps:
            said = AssistantTurn((Text("".join(step.text for step in run.steps)),))
            root.set({"gen_ai.output.messages": output(said, reason)})
        if run.error is not None:
            root.fail(run.error.id, str(run.error))
        elif reason == "aborted":
            root.fail("aborted")

    def model_call(self, run: Run, request: ModelRequest) -> AbstractContextManager[Span]:
        """Around a model call; close it with `said`."""
        model = run.model
        if model is None or self._tracer is NO_TRACER:
            return running(NO_SPAN)
        attributes: dict[str, Attribute] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": model.provider,
            "gen_ai.request.model": model.model_id,
        }
        span = self._tracer.start(f"chat {model.model_id}", attributes, client=True)
        if span.recording:
            span.set(request_settings(request))
            if self._asks.record_inputs:
                span.set(inputs(request.prompt.system, request.prompt.turns))
        return running(span, lambda: stopped_by(run))

    def said(self, span: Span, said: Said) -> None:
        """What a model call gave."""
        if not span.recording:
            return
        meta = said.metadata
        attributes: dict[str, Attribute] = {
            "gen_ai.response.finish_reasons": (said.reason,),
            **usage_counts(said.usage),
        }
        if meta.id:
            attributes["gen_ai.response.id"] = meta.id
        if meta.model_id:
            attributes["gen_ai.response.model"] = meta.model_id
        if self._asks.record_outputs:
            attributes["gen_ai.output.messages"] = output(said.turn, said.reason)
        span.set(attributes)

    def tool_call(self, call: CallPart, description: str, args: Any) -> AbstractContextManager[Span]:
        """Around a tool's body; close it with `answered`."""
        if self._tracer is NO_TRACER:
            return running(NO_SPAN)
        attributes: dict[str, Attribute] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.tool_name,
            "gen_ai.tool.call.id": call.tool_call_id,
            "gen_ai.tool.type": "function",
        }
        span = self._tracer.start(f"execute_tool {call.tool_name}", attributes)
        if span.recording:
            if description:
                span.set({"gen_ai.tool.description": description})
            if self._asks.record_inputs:
                span.set({"gen_ai.tool.call.arguments": as_json(args)})
        return running(span)

    def answered(self, span: Span, outcome: Outcome) -> None:
        """What came of a tool's body."""
        if not span.recording:
            return
        match outcome:
            case Ok() if self._asks.record_outputs:
                span.set({"gen_ai.tool.call.result": as_json(outcome.result)})
            case Failed() | UnknownOutcome():
                span.fail(kind_of(outcome.error), outcome.text if self._asks.record_outputs else "")
            case Aborted():
                span.fail("aborted")
            case Suspended():
                span.set({"tenuto.suspended": True})
            case _:
                pass


def stopped_by(run: Run) -> str:
    """What ended a wait of `run`: its time, an abort, or whoever closes the event loop."""
    if run.timed_out is not None:
        return run.timed_out.id
    return "aborted" if run.aborted else "cancelled"


def _parent(asks: Tracing, before: SpanLink | None) -> object:
    """The caller's own span, then the caller's ids, then the segment before; None leaves it to the context."""
    if asks.current_span is not None:
        return asks.current_span
    trace_id = asks.trace_id or (before.trace_id if before and asks.parent_span_id else None)
    if trace_id is None:
        return before
    if asks.parent_span_id:
        return SpanLink(trace_id, asks.parent_span_id)
    if before is not None and before.trace_id == trace_id:
        return before
    return SpanLink(trace_id, trace_id[:16] if trace_id[:16].strip("0") else trace_id[16:])


def _asked(asks: Tracing, run: Run) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    if asks.function_id:
        found["tenuto.function_id"] = asks.function_id
    if asks.tags:
        found["tenuto.tags"] = asks.tags
    for path in asks.request_context_keys:
        value = _at(run.request_context.to_json(), path)
        if value is not None and not is_credential(path.rpartition(".")[2]):
            found[f"tenuto.metadata.{path}"] = attribute_of(value)
    for name, value in asks.metadata.items():
        if value is not None:
            found[f"tenuto.metadata.{name}"] = attribute_of(value)
    return found


def _at(values: Any, path: str) -> Any:
    """The value at a dotted path, or under the path itself as one key."""
    if isinstance(values, Mapping) and path in values:
        return cast("Mapping[str, Any]", values)[path]
    for key in path.split("."):
        values = cast("Any", values).get(key) if isinstance(values, Mapping) else None
    return cast("Any", values)
