"""Spans: the port through which a run tells a tracer what it does, and the tracer that listens to nobody.

Invariant: a span is ended exactly once, by the code that began it, whatever happens in between; without a tracer in
the process a span costs a call and nothing else. A span never holds a key, nor content that nobody asked to record.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

from msgspec import Struct

Attribute = str | int | float | bool | tuple[str, ...]
Attributes = Mapping[str, Attribute]

_TRACE_ID = re.compile(r"[0-9a-fA-F]{1,32}\Z")
_SPAN_ID = re.compile(r"[0-9a-fA-F]{1,16}\Z")


class SpanLink(Struct, frozen=True):
    """A span of another process or of an earlier segment, as lower-case hex: 32 digits, 16 digits."""

    trace_id: str
    span_id: str


class Span(Protocol):
    """One thing that takes time."""

    @property
    def link(self) -> SpanLink | None:
        """Its ids; None when nobody listens."""
        ...

    @property
    def recording(self) -> bool:
        """Whether attributes are worth making."""
        ...

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""
        ...

    def fail(self, kind: str, message: str = "") -> None:
        """It did not end well; `kind` is an error's id or type."""
        ...

    def current(self) -> AbstractContextManager[object]:
        """Make it the parent of what begins inside; entered and left in one task."""
        ...

    def end(self) -> None:
        """End it."""
        ...


class Tracer(Protocol):
    """Something that records spans."""

    def start(self, name: str, attributes: Attributes, *, parent: object = None, client: bool = False) -> Span:
        """Begin a span.

        Args:
            name: Its name.
            attributes: What is known at the start; samplers see it.
            parent: A `SpanLink`, a tracer's own span, or None for what is current in this context.
            client: It waits for a remote service.
        """
        ...


class _NoSpan:
    __slots__ = ()
    link = None
    recording = False

    def set(self, attributes: Attributes) -> None:
        pass

    def fail(self, kind: str, message: str = "") -> None:
        pass

    def current(self) -> AbstractContextManager[object]:
        return _NOTHING

    def end(self) -> None:
        pass


class _NoTracer:
    __slots__ = ()

    def start(self, name: str, attributes: Attributes, *, parent: object = None, client: bool = False) -> Span:  # noqa: ARG002 - the port's
        return NO_SPAN


NO_SPAN: Span = _NoSpan()
_NOTHING = nullcontext(NO_SPAN)
NO_TRACER: Tracer = _NoTracer()


def find_tracer() -> Tracer:
    """OpenTelemetry's tracer when this process has loaded it, else one that records nothing.

    Whoever has set up an exporter has imported OpenTelemetry to do so; nobody else pays for the import.
    """
    if "opentelemetry.trace" not in sys.modules:
        return NO_TRACER
    from tenuto.core.otel import otel_tracer

    return otel_tracer()


def running(span: Span, why: Callable[[], str] = lambda: "cancelled") -> AbstractContextManager[Span]:
    """Keep `span` current for the block and end it after; an exception that leaves the block marks it as failed.

    `why` says why the block was cancelled, when it was.
    """
    return _NOTHING if span is NO_SPAN else _running(span, why)


@contextmanager
def _running(span: Span, why: Callable[[], str]) -> Generator[Span]:
    try:
        with span.current():
            yield span
    except asyncio.CancelledError:
        span.fail(why())
        raise
    except BaseException as error:
        span.fail(kind_of(error), str(error))
        raise
    finally:
        span.end()


def kind_of(error: BaseException) -> str:
    """An error's id, else its type: a name of few values, fit for `error.type`."""
    return str(getattr(error, "id", "") or type(error).__name__)


def as_trace_id(given: Any) -> str | None:
    """A trace id of up to 32 hex digits, filled up with zeros; None when it is none."""
    return _filled(given, _TRACE_ID, 32)


def as_span_id(given: Any) -> str | None:
    """A span id of up to 16 hex digits, filled up with zeros; None when it is none."""
    return _filled(given, _SPAN_ID, 16)


def _filled(given: Any, form: re.Pattern[str], length: int) -> str | None:
    if not isinstance(given, str) or not form.match(given) or not given.strip("0"):
        return None
    return given.lower().rjust(length, "0")
