"""`BatchPartsProcessor`: fewer, larger deltas.

Invariant: the text is the same, and what was gathered of a part is shown before the part ends.
"""

from __future__ import annotations

from msgspec.structs import replace

from tenuto.builtin_processors.options import count
from tenuto.core import chunks as c
from tenuto.core.payloads import TextDeltaPayload
from tenuto.processors import OutputStreamContext, Processor

_ENDS = (c.TextEnd, c.StepFinish, c.Finish)


class BatchPartsProcessor(Processor):
    """Joins text deltas before the processors behind it, and the reader, get them.

    Args:
        batch_size: Deltas that are made one.
        max_wait_time: Milliseconds after which what was gathered goes on with the next delta, however few they are.
        emit_on_non_text: What was gathered goes on before any other chunk; False: before the end of its part only.
    """

    id = "batch-parts"
    name: str | None = "Batch Parts"

    def __init__(
        self, *, batch_size: int = 5, max_wait_time: float | None = None, emit_on_non_text: bool = True
    ) -> None:
        self._size = count("batch_size", batch_size, least=1)
        self._wait = None if max_wait_time is None else max_wait_time / 1000
        self._on_other = emit_on_non_text
        self._key = f"batch {id(self)}"  # others of this id share the state

    def process_output_stream(self, context: OutputStreamContext) -> list[c.AnyChunk]:
        """See `Processor`."""
        state, chunk = context.state, context.part
        if isinstance(chunk, (c.StepStart, c.AttemptRestarted)):
            state.pop(self._key, None)
        batch: _Batch | None = state.get(self._key)
        if not isinstance(chunk, c.TextDelta):
            if batch is not None and (self._on_other or isinstance(chunk, _ENDS)):
                return [state.pop(self._key).delta, chunk]
            return [chunk]
        shown: list[c.AnyChunk] = []
        if batch is not None and batch.first.payload.id != chunk.payload.id:
            shown.append(state.pop(self._key).delta)
            batch = None
        if batch is None:
            batch = state[self._key] = _Batch(chunk, context.clock.monotonic())
        else:
            batch.texts.append(chunk.payload.text)
        if len(batch.texts) >= self._size or self._waited(context, batch) or chunk.payload.provider_metadata:
            shown.append(state.pop(self._key).delta)
        return shown

    def _waited(self, context: OutputStreamContext, batch: _Batch) -> bool:
        return self._wait is not None and context.clock.monotonic() - batch.since >= self._wait


class _Batch:
    """Deltas of one part."""

    def __init__(self, first: c.TextDelta, since: float) -> None:
        self.first = first
        self.since = since
        self.texts = [first.payload.text]

    @property
    def delta(self) -> c.TextDelta:
        """All of them as one."""
        if len(self.texts) == 1:
            return self.first
        return replace(self.first, payload=TextDeltaPayload(self.first.payload.id, "".join(self.texts)))
