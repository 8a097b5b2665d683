"""The port a dialect fills: how a request is written in a provider's format, and how its answer is read.

Invariant: a format holds no state of a call; what belongs to one answer lives in its `Reader`. A request that the
provider would refuse is not built: what the format cannot say becomes a warning or an error that names the remedy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from msgspec import Struct

from tenuto.core.payloads import Json
from tenuto.models.answering import Answering
from tenuto.models.assemble import Assembler
from tenuto.models.ports import ModelRequest, Part


class WireRequest(Struct, frozen=True):
    """A request in a provider's format.

    Attributes:
        path: Appended to the base URL; may hold a query.
        headers: The format's own, such as a version; without the key.
        listed: Names of headers that are lists: what the caller gives is added, not put in place of the format's.
        warnings: What the caller asked for and the format cannot say.
        assembler: Makes the parts of the answer; knows the call ids of the history.
    """

    path: str
    body: bytes
    assembler: Assembler
    headers: Mapping[str, str] = {}
    listed: tuple[str, ...] = ()
    warnings: tuple[Json, ...] = ()


class Reader(Protocol):
    """Reads one answer."""

    @property
    def finished(self) -> bool:
        """Whether `Finish` has been given out."""
        ...

    def feed(self, events: list[bytes]) -> list[Part]:
        """The parts that the data of these events makes; after the provider's own end the last one is `Finish`.

        Raises:
            ModelError: An error event, or one that cannot be read.
        """
        ...

    def end(self) -> list[Part]:
        """The parts that are left at the end of the stream.

        Raises:
            ModelError: The answer was cut off: the provider's success marker is missing.
        """
        ...

    def whole(self, body: bytes) -> list[Part]:
        """The parts of an answer that was not streamed, with `Finish`.

        Raises:
            ModelError: It is an error, or cannot be read.
        """
        ...


@runtime_checkable
class TakesUrls(Protocol):
    """What a format, or a model of somebody's own, has when its provider cannot fetch every file itself."""

    def takes_url(self, media_type: str, url: str) -> bool:
        """Whether a file may be sent as this http(s) URL; if not, it is fetched before the request and sent as data.

        The answer is the same for all models that share the encoded history of a prompt.
        """
        ...


class WireFormat(Protocol):
    """One dialect, for one model; it is also a `TakesUrls` when its provider does not take every URL.

    A format that takes no `response_format`, or none beside tools, has an attribute `structured` that says so (see
    `models.ports.StructuredSupport`); without it, it takes both.
    """

    def request(self, model_id: str, request: ModelRequest) -> WireRequest:
        """Write the request.

        Raises:
            ModelError: It cannot be said in this format.
        """
        ...

    def key_headers(self, key: str) -> Mapping[str, str]:
        """The headers that carry the key."""
        ...

    def reader(self, answering: Answering) -> Reader:
        """A reader for one answer."""
        ...
