"""The answer of a responses call: events in, parts out.

Invariant: it ends with `Finish` only at `response.completed` or `response.incomplete`; `response.failed`, an error
event, an event that cannot be read and a stream that stops early raise.

Source: OpenAI API reference, "Responses", streaming events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tenuto.core.errors import ModelError
from tenuto.core.payloads import Usage
from tenuto.models.answering import Answering
from tenuto.models.http_errors import ProviderError, broken_stream, read_error
from tenuto.models.ports import Finish, Part, ProviderReason
from tenuto.models.responses.output import OutputItems
from tenuto.models.responses.sequence import EventOrder
from tenuto.models.responses.wire import Event, ResponseObject, WireUsage

_DONE = b"[DONE]"
_CUT_SHORT: Mapping[str | None, ProviderReason] = {
    "max_output_tokens": "length",
    "max_messages": "length",
    "content_filter": "content-filter",
}
_event = msgspec.json.Decoder(Event).decode
_response = msgspec.json.Decoder(ResponseObject | None).decode
_any = msgspec.json.Decoder().decode


class ResponsesReader:
    """Decodes one answer; see `wire_format.Reader`."""

    __slots__ = ("_answering", "_items", "_named", "_order", "finished")

    def __init__(self, answering: Answering) -> None:
        self.finished: bool = False
        self._answering = answering
        self._items = OutputItems(answering)
        self._named = False
        self._order = EventOrder()

    def feed(self, events: list[bytes]) -> list[Part]:
        """The parts that these events make; after the response's own end the last one is `Finish`.

        Raises:
            ModelError: An error event, or one that cannot be read.
        """
        items = self._items
        order = self._order
        for data in events:
            try:
                event = _event(data)
            except (msgspec.DecodeError, RecursionError) as error:
                if not data.strip() or data.strip() == _DONE:
                    continue
                raise self._unreadable(data, error) from error
            number = event.sequence_number
            if number is not None and number == order.next:
                order.counted(data)
            elif order.is_repeat(number, data):
                continue
            if event.type == "response.output_text.delta" and items.more_text(event):
                continue
            self._slowly(event, data)
            if self.finished:
                break
        return self._answering.assembler.take()

    def end(self) -> list[Part]:
        """Nothing after the end; before it, the stream was cut.

        Raises:
            ModelError: The answer was cut off, for the response never ended.
        """
        if self.finished:
            return []
        raise self._answering.cut_off("response.completed")

    def whole(self, body: bytes) -> list[Part]:
        """See `Reader.whole`."""
        try:
            response = _response(body) or ResponseObject()
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._unreadable(body, error) from error
        if response.output is None:
            self._check_error(body)
        self._ended(response, response.status or "")
        return self._answering.assembler.take()

    def _slowly(self, event: Event, data: bytes) -> None:
        match event.type:
            case "response.created" | "response.in_progress" | "response.queued":
                self._name(self._read(event.response))
            case "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled":
                self._ended(self._read(event.response), event.type.removeprefix("response."))
            case "error" | "":
                self._check_error(data)
            case _:
                self._items.take(event)

    def _read(self, raw: msgspec.Raw) -> ResponseObject:
        try:
            return _response(raw) or ResponseObject()
        except msgspec.ValidationError as error:
            raise self._unreadable(bytes(raw), error) from error

    def _name(self, response: ResponseObject) -> None:
        """Say which response this is; the first event tells, and any later one when that was lost."""
        if self._named:
            return
        self._named = True
        self._answering.name(response.id, response.model, response.created_at)

    def _ended(self, response: ResponseObject, status: str) -> None:
        if status not in {"completed", "incomplete"}:
            raise self._failed(response, status)
        self._name(response)
        output = response.output or ()
        if self._order.lost and not self._items.confirmed(len(output)):
            raise broken_stream(self._answering.provider, "the numbers of its events have a gap")
        self._items.complete(output)
        self._answering.assembler.end()
        self.finished = True
        self._answering.assembler.parts.append(self._finish(response, status))

    def _finish(self, response: ResponseObject, status: str) -> Finish:
        if status == "incomplete":
            raw = response.incomplete_details.reason if response.incomplete_details else None
            reason = _CUT_SHORT.get(raw, "other")
        else:
            raw, reason = status, "tool-calls" if self._answering.assembler.calls else "stop"
        return Finish(reason, usage_of(response.usage), raw or status, self._metadata(response))

    def _metadata(self, response: ResponseObject) -> Mapping[str, Any] | None:
        found = {
            "responseId": response.id,
            "serviceTier": response.service_tier,
            "refusal": "".join(self._items.refusal),
            "logprobs": self._items.logprobs,
        }
        kept = {name: value for name, value in found.items() if value}
        return {self._answering.provider: kept} if kept else None

    def _failed(self, response: ResponseObject, status: str) -> ModelError:
        error = read_error({"error": response.error}) if response.error else None
        said = error or ProviderError(f"the response ended as {status or 'nothing'!r}")
        return self._answering.failed(said)

    def _check_error(self, data: bytes) -> None:
        if (error := read_error(_any(data))) is not None:
            raise self._answering.failed(error)

    def _unreadable(self, data: bytes, error: Exception) -> ModelError:
        return self._answering.unreadable(data, error, "one of a response")


def usage_of(raw: Any) -> Usage:
    """Normalised usage; what a provider left out or mistyped counts as nothing."""
    if raw is None:
        return Usage()
    try:
        wire = msgspec.convert(raw, WireUsage, strict=False)
    except msgspec.ValidationError:
        return Usage(raw=raw)
    given, made = wire.input_tokens_details, wire.output_tokens_details
    total_in, total_out = wire.input_tokens or 0, wire.output_tokens or 0
    return Usage(
        total_in,
        total_out,
        wire.total_tokens or total_in + total_out,
        made.reasoning_tokens if made else None,
        given.cached_tokens if given else None,
        given.cache_write_tokens if given else None,
        raw,
    )
