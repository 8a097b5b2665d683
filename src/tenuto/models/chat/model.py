"""`ChatModel`: one model behind an OpenAI-compatible endpoint.

Invariant: it holds no state of a call, so one instance serves any number of calls, threads and event loops. Its key
is read when a call is made, goes into one header and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

from msgspec import Raw, Struct

from tenuto.core.credentials import redact, secrets_of, shown_url
from tenuto.core.errors import ModelError
from tenuto.models.assemble import Assembler
from tenuto.models.catalogue import Quirks
from tenuto.models.chat.messages import ChatMessages
from tenuto.models.chat.request import ToolCache, build_body, read_options, warnings_for
from tenuto.models.chat.response import ChatResponse
from tenuto.models.http_errors import bounded, from_response
from tenuto.models.ports import ModelRequest, Part, RequestStart
from tenuto.models.render import rendered
from tenuto.models.sse import DEFAULT_LIMIT, SseSplitter
from tenuto.models.transport import IDLE_TIMEOUT, AiohttpTransport, HttpRequest, HttpResponse, Transport

USER_AGENT = "tenuto"
_MAX_ERROR_BODY = 64 * 1024


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where a model is and how one gets in.

    Attributes:
        url: The base URL; `/chat/completions` is appended.
        api_key: Given by the caller; else the first of `key_variables` that is set, read at each call.
        key_variables: When not empty and there is no key, a call fails before any request.
        idle_timeout: Seconds without a byte until a call fails.
    """

    url: str
    api_key: str | None = None
    key_variables: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    quirks: Quirks = Quirks()
    idle_timeout: float = IDLE_TIMEOUT

    def __repr__(self) -> str:
        """The URL alone: keys and headers stay out of logs."""
        return f"Endpoint({shown_url(self.url)!r})"


class _Call(Struct, frozen=True):
    body: bytes
    http: HttpRequest
    secrets: tuple[str, ...]
    assembler: Assembler

    def __repr__(self) -> str:
        return f"_Call({self.http!r})"


class ChatModel:
    """A `LanguageModel` that speaks chat completions."""

    __slots__ = ("_endpoint", "_messages", "_model_id", "_provider", "_tools", "_transport")

    def __init__(self, provider: str, model_id: str, endpoint: Endpoint, *, transport: Transport | None = None) -> None:
        self._provider = provider
        self._model_id = model_id
        self._endpoint = endpoint
        self._transport = transport or AiohttpTransport()
        self._tools = ToolCache()
        short = endpoint.quirks.short_ids
        self._messages = {echo: ChatMessages(provider, echo_reasoning=echo, short_ids=short) for echo in (True, False)}

    def __repr__(self) -> str:
        return f"<ChatModel {self._provider}/{self._model_id} at {shown_url(self._endpoint.url)}>"

    @property
    def provider(self) -> str:
        """See `LanguageModel.provider`."""
        return self._provider

    @property
    def model_id(self) -> str:
        """See `LanguageModel.model_id`."""
        return self._model_id

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Part], None]:
        """See `LanguageModel.stream`.

        Raises:
            ModelError: No key, no connection, an error answer, an error event, or an answer that was cut off.
        """
        call = self._prepare(request)
        yield [RequestStart(Raw(call.body), warnings_for(request))]
        http = await self._transport.open(call.http)
        response = ChatResponse(self._provider, http.headers, call.assembler, call.secrets)
        try:
            kind = http.headers.get("content-type", "")
            if http.status >= 300 or "json" in kind or "html" in kind:
                yield await self._unstreamed(http, kind, response, call)
                return
            splitter = SseSplitter()
            async for data in http:
                if parts := response.feed(splitter.feed(data)):
                    yield parts
                if response.finished:
                    return
            for parts in _last(response, splitter):
                yield parts
        except ModelError:
            if said := call.assembler.take():
                yield said  # it stood before the failure in the same read
            raise
        finally:
            http.close(ended=response.finished)

    async def _unstreamed(self, http: HttpResponse, kind: str, response: ChatResponse, call: _Call) -> Sequence[Part]:
        """An error answer, or a whole completion from a server that does not stream."""
        failed = http.status >= 300 or "html" in kind
        body = await _read(http, _MAX_ERROR_BODY if failed else DEFAULT_LIMIT)
        if http.status >= 300:
            raise from_response(self._provider, http.status, http.headers, body, call.secrets)
        if failed:
            raise self._not_a_stream(kind, body, call.secrets)
        return [*response.feed([body]), *response.end()]

    def _not_a_stream(self, kind: str, body: bytes, secrets: tuple[str, ...]) -> ModelError:
        shown = bounded(redact(body.decode("utf-8", "replace"), secrets), 200)
        return ModelError(
            f"{self._provider} answered with {kind}, not with a model's answer; is the base URL right "
            f"({shown_url(self._endpoint.url)}, it often ends in /v1)? It said: {shown}",
            id="MODEL_RESPONSE_INVALID",
            provider=self._provider,
        )

    def _prepare(self, request: ModelRequest) -> _Call:
        key = self._key()
        options = read_options(request.provider_options, self._provider)
        quirks = self._endpoint.quirks
        echo = quirks.echo_reasoning if options.echo_reasoning is None else options.echo_reasoning
        slot = rendered(request.prompt, self._messages[echo])
        messages = slot.render(request.prompt)
        tools = self._tools.encode(request.tools) if request.tools else None
        body = build_body(self._model_id, request, messages=messages, tools=tools, options=options.body, quirks=quirks)
        headers = self._headers(key, request)
        return _Call(
            body,
            self._http_request(body, headers, request),
            secrets_of(self._endpoint.url, headers),
            Assembler(str(len(request.prompt.turns)), slot.used_ids),
        )

    def _http_request(self, body: bytes, headers: Mapping[str, str], request: ModelRequest) -> HttpRequest:
        return HttpRequest(
            url=f"{self._endpoint.url.rstrip('/')}/chat/completions",
            body=body,
            provider=self._provider,
            headers=headers,
            idle_timeout=self._endpoint.idle_timeout,
            abort=request.abort,
        )

    def _headers(self, key: str | None, request: ModelRequest) -> dict[str, str]:
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "user-agent": USER_AGENT,
        }
        if key:
            headers["authorization"] = f"Bearer {key}"
        for more in (self._endpoint.headers, request.settings.headers or {}):
            headers.update((name.lower(), value) for name, value in more.items())
        return headers

    def _key(self) -> str | None:
        endpoint = self._endpoint
        if endpoint.api_key is not None:
            return endpoint.api_key.strip()
        found = (os.environ.get(name, "").strip() for name in endpoint.key_variables)
        key = next((value for value in found if value), None)
        if key is None and endpoint.key_variables:
            names = " or ".join(endpoint.key_variables)
            raise ModelError(
                f"There is no API key for {self._provider}/{self._model_id}. Set {names}, or pass api_key in a model "
                "record.",
                id="MODEL_API_KEY_MISSING",
                provider=self._provider,
                category="USER",
                details={"model": f"{self._provider}/{self._model_id}", "variables": names},
            )
        return key


async def _read(http: HttpResponse, limit: int) -> bytes:
    """The body, up to about `limit` bytes."""
    pieces: list[bytes] = []
    size = 0
    async for data in http:
        pieces.append(data)
        size += len(data)
        if size >= limit:
            break
    return b"".join(pieces)[:limit]


def _last(response: ChatResponse, splitter: SseSplitter) -> Iterator[Sequence[Part]]:
    """The parts after the last byte; a block that was cut in the middle counts as cut off."""
    for event in splitter.flush():
        try:
            yield response.feed([event.data])
        except ModelError as error:
            if error.id != "MODEL_EVENT_INVALID":
                raise
    yield response.end()
