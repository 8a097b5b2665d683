"""`Tripwire`: what a processor raises to stop a run, or to have an answer made again.

Invariant: what a tripwire carries is JSON, so that it can be stored and shown as it is.
"""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct, json, to_builtins

from tenuto.core.payloads import Json, TripwirePayload
from tenuto.messages.bounded import valid_text


class Tripwire(Exception):
    """A processor blocked the run; raised by `context.abort(...)`.

    A hook lets it pass: whoever catches it takes the block back.

    Args:
        reason: For people, and with `retry` for the model.
        retry: Ask the model again instead of ending the run, where something can be asked again.
        metadata: What else is to be known; shown as JSON.
        processor_id: Who said so.
    """

    def __init__(self, reason: str, *, retry: bool = False, metadata: Any = None, processor_id: str = "") -> None:
        super().__init__(reason)
        self.reason: str = valid_text(str(reason))
        self.retry: bool = retry
        self.metadata: Json = None if metadata is None else _storable(metadata)
        self.processor_id: str = processor_id

    @property
    def payload(self) -> TripwirePayload:
        """As it is stored, and shown in the stream and as `result.tripwire`."""
        return TripwirePayload(self.reason, self.retry or None, self.metadata, self.processor_id or None)


def _storable(metadata: Any) -> Json:
    """The metadata as JSON, without halves of characters."""
    plain = to_builtins(metadata, enc_hook=str, str_keys=True)
    try:
        json.encode(plain)
    except UnicodeEncodeError:
        return _valid(plain)
    return plain


def _valid(value: Any) -> Any:
    match value:
        case str():
            return valid_text(value)
        case dict():
            return {valid_text(str(key)): _valid(each) for key, each in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [_valid(each) for each in cast("list[Any]", value)]
        case _:
            return value


class Violation(Struct, frozen=True):
    """What `on_violation` gets, whenever its processor has blocked something.

    Attributes:
        processor_id: Of the processor.
        message: The reason.
        detail: The metadata given with it.
    """

    processor_id: str
    message: str
    detail: Json = None
