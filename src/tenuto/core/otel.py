"""Spans in OpenTelemetry: imported only in a process that has OpenTelemetry loaded already.

Source: OpenTelemetry Python API, `opentelemetry.trace`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from tenuto.core.spans import Attributes, Span, SpanLink, Tracer

_BOUND = 1000
_SCOPE = "tenuto"


class OtelSpan:
    """See `Span`; `raw` is OpenTelemetry's."""

    __slots__ = ("raw",)

    def __init__(self, raw: trace.Span) -> None:
        self.raw: trace.Span = raw

    @property
    def link(self) -> SpanLink | None:
        """See `Span.link`."""
        context = self.raw.get_span_context()
        if not context.is_valid:
            return None
        return SpanLink(trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id))

    @property
    def recording(self) -> bool:
        """See `Span.recording`."""
        return self.raw.is_recording()

    def set(self, attributes: Attributes) -> None:
        """See `Span.set`."""
        self.raw.set_attributes(attributes)

    def fail(self, kind: str, message: str = "") -> None:
        """See `Span.fail`; the first one counts."""
        if not self.raw.is_recording() or getattr(getattr(self.raw, "status", None), "is_ok", True) is False:
            return
        self.raw.set_attribute("error.type", kind)
        self.raw.set_status(Status(StatusCode.ERROR, message[:_BOUND]))

    def current(self) -> AbstractContextManager[Any]:
        """See `Span.current`."""
        return trace.use_span(self.raw, end_on_exit=False, record_exception=False, set_status_on_exception=False)

    def end(self) -> None:
        """See `Span.end`."""
        self.raw.end()


class OtelTracer:
    """See `Tracer`."""

    __slots__ = ("_tracer",)

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def start(self, name: str, attributes: Attributes, *, parent: object = None, client: bool = False) -> Span:
        """See `Tracer.start`."""
        kind = SpanKind.CLIENT if client else SpanKind.INTERNAL
        return OtelSpan(self._tracer.start_span(name, context=_context(parent), kind=kind, attributes=attributes))


def otel_tracer() -> Tracer:
    """A tracer of whatever provider is set now."""
    return OtelTracer(trace.get_tracer(_SCOPE))


def _context(parent: object) -> Context | None:
    """The context that makes `parent` the parent; None leaves it to what is current."""
    match parent:
        case SpanLink():
            ids = int(parent.trace_id, 16), int(parent.span_id, 16)
            far = SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
            return trace.set_span_in_context(NonRecordingSpan(far))
        case OtelSpan():
            return trace.set_span_in_context(parent.raw)
        case trace.Span():
            return trace.set_span_in_context(parent)
        case _:
            return None
