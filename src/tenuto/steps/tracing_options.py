"""What a call asks of its trace: the options `telemetry`, `tracing_options` and `tracing_context` as one value.

Invariant: nothing here can fail a run; an id that is none is logged and ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar

import msgspec
from msgspec import Struct

from tenuto.core.option_keys import mapping, renamed, spellings
from tenuto.core.spans import as_span_id, as_trace_id

KindT = TypeVar("KindT")

_log = logging.getLogger("tenuto")


class TelemetryDict(TypedDict, total=False):
    """Whether spans are made for a call (`is_enabled`), and what content is put on them; see `docs/tracing.md`."""

    is_enabled: bool
    record_inputs: bool
    record_outputs: bool
    function_id: str


class TracingOptionsDict(TypedDict, total=False):
    """What the root span of a call says and belongs to; see `docs/tracing.md`."""

    root_span_name: str
    metadata: Mapping[str, Any]
    request_context_keys: Sequence[str]
    trace_id: str
    parent_span_id: str
    tags: Sequence[str]
    hide_input: bool
    hide_output: bool


class TracingContextDict(TypedDict, total=False):
    """A span of the caller's tracer."""

    current_span: Any


_NAMES: Mapping[str, Mapping[str, str]] = {
    "telemetry": spellings(TelemetryDict.__annotations__),
    "tracing_options": spellings(TracingOptionsDict.__annotations__),
    "tracing_context": spellings(TracingContextDict.__annotations__),
}


class Tracing(Struct, frozen=True, kw_only=True):
    """What a call asks of its trace; made of `telemetry=`, `tracing_options=` and `tracing_context=`.

    Attributes:
        enabled: False: no spans for this call.
        record_inputs: Put prompts and tool arguments on the spans.
        record_outputs: Put answers and tool results on the spans.
        function_id: Names the place in the caller's program.
        root_span_name: Instead of `invoke_agent NAME`.
        metadata: For the root span.
        tags: For the root span.
        request_context_keys: Dotted paths of request values for the root span.
        trace_id: The trace that the run belongs to.
        parent_span_id: The root span is a child of it.
        current_span: A tracer's own span: the root span is a child of it, whatever the ids say.
    """

    enabled: bool = True
    record_inputs: bool = False
    record_outputs: bool = False
    function_id: str | None = None
    root_span_name: str | None = None
    metadata: Mapping[str, Any] = {}
    tags: tuple[str, ...] = ()
    request_context_keys: tuple[str, ...] = ()
    trace_id: str | None = None
    parent_span_id: str | None = None
    current_span: Any = None


class _Telemetry(Struct, frozen=True, forbid_unknown_fields=True):
    is_enabled: bool = True
    record_inputs: bool = False
    record_outputs: bool = False
    function_id: str | None = None


class _Context(Struct, frozen=True, forbid_unknown_fields=True):
    current_span: Any = None


class _Options(Struct, frozen=True, forbid_unknown_fields=True):
    root_span_name: str | None = None
    metadata: dict[str, Any] = {}
    request_context_keys: tuple[str, ...] = ()
    trace_id: Any = None
    parent_span_id: Any = None
    tags: tuple[str, ...] = ()
    hide_input: bool = False
    hide_output: bool = False


def rename_tracing(options: dict[str, Any]) -> None:
    """Give the keys of the three options their snake_case names.

    Raises:
        TypeError: An unknown key, or one given under both spellings.
    """
    for name, names in _NAMES.items():
        if (given := options.get(name)) is not None:
            options[name] = renamed(mapping(given, name), names, f"{name} key")


def read_tracing(telemetry: Any, options: Any, context: Any) -> Tracing | None:
    """What the options `telemetry`, `tracing_options` and `tracing_context` ask for; None when none was given.

    An id that is none is logged and ignored: it never fails a run.

    Raises:
        TypeError: A value of the wrong type.
    """
    if telemetry is None and options is None and context is None:
        return None
    asks = _converted(telemetry or {}, _Telemetry, "telemetry")
    more = _converted(options or {}, _Options, "tracing_options")
    return Tracing(
        enabled=asks.is_enabled,
        record_inputs=asks.record_inputs and not more.hide_input,
        record_outputs=asks.record_outputs and not more.hide_output,
        function_id=asks.function_id,
        root_span_name=more.root_span_name,
        metadata=more.metadata,
        tags=more.tags,
        request_context_keys=more.request_context_keys,
        trace_id=_id(more.trace_id, as_trace_id, "trace_id", 32),
        parent_span_id=_id(more.parent_span_id, as_span_id, "parent_span_id", 16),
        current_span=_converted(context or {}, _Context, "tracing_context").current_span,
    )


def _converted(given: Any, kind: type[KindT], name: str) -> KindT:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        message = f"{name}= does not fit: {error}."
        raise TypeError(message) from error


def _id(given: Any, read: Callable[[Any], str | None], name: str, digits: int) -> str | None:
    found = read(given)
    if given is not None and found is None:
        _log.warning("tracing_options[%r] is no id of 1 to %d hex digits and is ignored: %.50r", name, digits, given)
    return found
