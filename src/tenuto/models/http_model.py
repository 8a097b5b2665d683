"""`HttpModel`: one model behind an HTTP endpoint, whatever its dialect.

Invariant: no call depends on another one, so one instance serves any number of calls, threads and event loops.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from functools import partial

import msgspec
from msgspec import Raw, Struct

from tenuto.core.credentials import redact, secrets_of, shown_url
from tenuto.core.errors import ModelError
from tenuto.models.answering import Answering
from tenuto.models.catalogue import ModelInfo
from tenuto.models.endpoint import USER_AGENT, Endpoint
from tenuto.models.http_errors import bounded, from_response
from tenuto.models.ports import ModelRequest, Part, RawEvent, RequestStart, StructuredSupport
from tenuto.models.sse import DEFAULT_LIMIT, SseSplitter
from tenuto.models.transport import AiohttpTransport, HttpRequest, HttpResponse, Transport, read_body
from tenuto.models.wire_format import Reader, TakesUrls, WireFormat, WireRequest

_UNREADABLE = (
    msgspec.DecodeError, AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError,
)  # fmt: skip
"""What a reader raises over an event that is JSON, and nothing like what the format says."""
_MAX_ERROR_BODY = 64 * 1024


class _Call(Struct, frozen=True):
    wire: WireRequest
    http: HttpRequest
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return f"_Call({self.http!r})"


class HttpModel:
    """A `LanguageModel` that speaks the dialect `wire_format`."""

    __slots__ = ("_endpoint", "_format", "_model_id", "_provider", "_secrets", "_transport")

    def __init__(
        self,
        provider: str,
        model_id: str,
        endpoint: Endpoint,
        wire_format: WireFormat,
        *,
        transport: Transport | None = None,
    ) -> None:
        self._provider = provider
        self._model_id = model_id
        self._endpoint = endpoint
        self._format = wire_format
        self._transport = transport or AiohttpTransport()
        self._secrets: tuple[Mapping[str, str], tuple[str, ...]] | None = None

    def __repr__(self) -> str:
        where = shown_url(self._endpoint.url)
        return f"<{type(self._format).__name__} {self._provider}/{self._model_id} at {where}>"

    @property
    def provider(self) -> str:
        """See `LanguageModel.provider`."""
        return self._provider

    @property
    def model_id(self) -> str:
        """See `LanguageModel.model_id`."""
        return self._model_id

    @property
    def info(self) -> ModelInfo | None:
        """What the catalogue knows of it; None at a URL of the caller's."""
        return self._endpoint.info

    @property
    def structured(self) -> StructuredSupport:
        """How it takes `structured_output=`; see `LanguageModel`."""
        support: StructuredSupport = getattr(self._format, "structured", "native")
        info = self.info
        if info is None:
            return support
        if info.structured is False:
            support = "tool"
        return "prompt" if support == "tool" and not info.tools else support

    def takes_url(self, media_type: str, url: str) -> bool:
        """See `TakesUrls`; a format that does not say takes all."""
        return not isinstance(self._format, TakesUrls) or self._format.takes_url(media_type, url)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Part], None]:
        """See `LanguageModel.stream`.

        Raises:
            ModelError: No key, no connection, an error answer, an error event, or an answer that was cut off.
        """
        call = self._prepare(request)
        yield [RequestStart(Raw(call.wire.body), call.wire.warnings)]
        http = await self._transport.open(call.http)
        wire = call.wire
        answering = Answering(self._provider, http.headers, wire.assembler, call.secrets, request.provider_tools)
        reader = self._format.reader(answering)
        feed = partial(_feed_raw, call) if request.include_raw else _feed
        try:
            kind = http.headers.get("content-type", "")
            if http.status >= 300 or "json" in kind or "html" in kind:
                yield await self._unstreamed(http, kind, reader, call)
                return
            splitter = SseSplitter()
            async for data in http:
                if parts := feed(reader, splitter.feed(data)):
                    yield parts
                if reader.finished:
                    return
            for parts in _last(reader, splitter):
                yield parts
        except ModelError:
            if said := wire.assembler.take():
                yield said  # it stood before the failure in the same read
            raise
        except _UNREADABLE as error:
            if said := wire.assembler.take():
                yield said
            raise self._unreadable(error) from error
        finally:
            http.close(ended=reader.finished)

    async def _unstreamed(self, http: HttpResponse, kind: str, reader: Reader, call: _Call) -> Sequence[Part]:
        """An error answer, or a whole answer from a server that does not stream."""
        failed = http.status >= 300 or "html" in kind
        body = await read_body(http, _MAX_ERROR_BODY if failed else DEFAULT_LIMIT)
        if http.status >= 300:
            raise from_response(self._provider, http.status, http.headers, body, call.secrets)
        if failed:
            raise self._not_a_stream(kind, body, call.secrets)
        return reader.whole(body)

    def _not_a_stream(self, kind: str, body: bytes, secrets: tuple[str, ...]) -> ModelError:
        shown = bounded(redact(body.decode("utf-8", "replace"), secrets), 200)
        return ModelError(
            f"{self._provider} answered with {kind}, not with a model's answer; is the base URL right "
            f"({shown_url(self._endpoint.url)}, it often ends in /v1)? It said: {shown}",
            id="MODEL_RESPONSE_INVALID",
            provider=self._provider,
        )

    def _unreadable(self, error: Exception) -> ModelError:
        return ModelError(
            f"{self._provider} sent an event that cannot be read ({type(error).__name__}: {bounded(str(error), 200)}).",
            id="MODEL_EVENT_INVALID",
            provider=self._provider,
            retryable=True,
        )

    def _prepare(self, request: ModelRequest) -> _Call:
        key = self._endpoint.key(self._provider, self._model_id)
        wire = self._format.request(self._model_id, request)
        headers = self._headers(key, wire, request)
        http = HttpRequest(
            url=f"{self._endpoint.url.rstrip('/')}{wire.path}",
            body=wire.body,
            provider=self._provider,
            headers=headers,
            idle_timeout=self._endpoint.idle_timeout,
            abort=request.abort,
        )
        return _Call(wire, http, self._secrets_in(headers))

    def _secrets_in(self, headers: Mapping[str, str]) -> tuple[str, ...]:
        """What must not come back; looked for again only when the headers are others than those of the last call."""
        known = self._secrets
        if known is None or known[0] != headers:
            known = self._secrets = headers, secrets_of(self._endpoint.url, headers)
        return known[1]

    def _headers(self, key: str | None, wire: WireRequest, request: ModelRequest) -> dict[str, str]:
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "user-agent": USER_AGENT,
            **wire.headers,
        }
        if key:
            headers.update(self._endpoint.key_headers(key) or self._format.key_headers(key))
        for more in (self._endpoint.headers, request.settings.headers or {}):
            for name, value in more.items():
                lower = name.lower()
                before = headers.get(lower) if lower in wire.listed else None
                headers[lower] = f"{before},{value}" if before else value
        return headers


def _feed(reader: Reader, events: list[bytes]) -> list[Part]:
    return reader.feed(events)


def _feed_raw(call: _Call, reader: Reader, events: list[bytes]) -> list[Part]:
    """Each event as the provider sent it, before the parts made of it; also the one that the reader refuses."""
    assembler = call.wire.assembler
    parts: list[Part] = []
    for event in events:
        assembler.parts.append(RawEvent(_decoded(event, call.secrets)))
        try:
            parts += reader.feed([event])
        except ModelError:
            assembler.parts[:0] = parts
            raise
        if reader.finished:
            break
    return parts


def _decoded(event: bytes, secrets: tuple[str, ...]) -> object:
    text = redact(event.decode("utf-8", "replace"), secrets)
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _last(reader: Reader, splitter: SseSplitter) -> Iterator[Sequence[Part]]:
    """The parts after the last byte; a block that was cut in the middle counts as cut off."""
    for event in splitter.flush():
        try:
            yield reader.feed([event.data])
        except ModelError as error:
            if error.id != "MODEL_EVENT_INVALID":
                raise
    yield reader.end()
