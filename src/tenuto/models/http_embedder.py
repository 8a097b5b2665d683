"""`HttpEmbedder`: an embedding model behind an HTTP endpoint, in OpenAI's format.

Invariant: no call depends on another one; a request that may succeed later is repeated a few times, never sooner than
the provider asked, and no error holds a secret that was sent.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tenuto.core.clock import Clock, SystemClock
from tenuto.core.credentials import redact, secrets_of, shown_url
from tenuto.core.errors import ModelError
from tenuto.models.embedder import Vector
from tenuto.models.embedding_wire import PATH, decode, encode
from tenuto.models.endpoint import USER_AGENT, Endpoint
from tenuto.models.http_errors import bounded, from_response, in_band, read_error
from tenuto.models.retries import seconds_until_retry
from tenuto.models.transport import AiohttpTransport, HttpRequest, Transport, read_body

MAX_RETRIES = 2
"""Repetitions of a request that may succeed later."""
_IDLE = 60.0
"""Seconds without a byte: an answer is one body, and takes a second or two."""
_LARGEST = 64 << 20
_LARGEST_ERROR = 64 << 10


class HttpEmbedder:
    """An `Embedder` over HTTP."""

    __slots__ = ("_asked", "_clock", "_dimensions", "_endpoint", "_model_id", "_provider", "_retries", "_transport")

    def __init__(
        self,
        provider: str,
        model_id: str,
        endpoint: Endpoint,
        *,
        dimensions: int | None = None,
        max_retries: int = MAX_RETRIES,
        transport: Transport | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Ask `model_id` at `endpoint`.

        Args:
            provider: The part of its name before the slash.
            model_id: The part after it.
            endpoint: Where it is.
            dimensions: Numbers of a vector to ask for; None: as many as the model makes by itself.
            max_retries: Repetitions of a request that may succeed later.
            transport: How requests get out.
            clock: How waits are waited.
        """
        self._provider = provider
        self._model_id = model_id
        self._endpoint = endpoint
        self._asked = dimensions
        self._dimensions = dimensions
        self._retries = max_retries
        self._transport = transport or AiohttpTransport()
        self._clock = clock or SystemClock()

    def __repr__(self) -> str:
        return f"<HttpEmbedder {self.id} at {shown_url(self._endpoint.url)}>"

    @property
    def id(self) -> str:
        """See `Embedder.id`; with the dimensions that were asked for, since those vectors are others."""
        name = f"{self._provider}/{self._model_id}"
        return name if self._asked is None else f"{name}@{self._asked}"

    @property
    def dimensions(self) -> int | None:
        """See `Embedder.dimensions`."""
        return self._dimensions

    @property
    def max_batch(self) -> int:
        """See `Embedder.max_batch`: what the strictest of the known providers takes at once is 96 texts."""
        return 96

    @property
    def max_characters(self) -> int:
        """See `Embedder.max_characters`: well within 8,191 tokens in every language; the smaller, the sharper."""
        return 2000

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """See `Embedder.embed`.

        Raises:
            ModelError: No key, no connection, an error answer, or one that is not what was asked for.
        """
        tries = 0
        while True:
            tries += 1
            try:
                return await self._once(texts)
            except ModelError as error:
                wait = seconds_until_retry(tries, error) if tries <= self._retries else None
                if wait is None:
                    raise
            await self._clock.sleep(wait)

    async def _once(self, texts: Sequence[str]) -> Sequence[Vector]:
        request, secrets = self._request(texts)
        http = await self._transport.open(request)
        whole = False
        try:
            failed = http.status >= 300
            body = await read_body(http, _LARGEST_ERROR if failed else _LARGEST)
            whole = True
        finally:
            http.close(ended=whole)
        if failed:
            raise from_response(self._provider, http.status, http.headers, body, secrets)
        return self._read(body, len(texts), secrets)

    def _request(self, texts: Sequence[str]) -> tuple[HttpRequest, tuple[str, ...]]:
        endpoint = self._endpoint
        headers = {"content-type": "application/json", "accept": "application/json", "user-agent": USER_AGENT}
        if key := endpoint.key(self._provider, self._model_id):
            headers.update(endpoint.key_headers(key) or {"authorization": f"Bearer {key}"})
        headers.update({name.lower(): value for name, value in endpoint.headers.items()})
        url = f"{endpoint.url.rstrip('/')}{PATH}"
        body = encode(self._model_id, texts, self._asked)
        request = HttpRequest(url=url, body=body, provider=self._provider, headers=headers, idle_timeout=_IDLE)
        return request, secrets_of(endpoint.url, headers)

    def _read(self, body: bytes, count: int, secrets: tuple[str, ...]) -> Sequence[Vector]:
        try:
            vectors = decode(body, count)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise self._unreadable(body, error, secrets) from error
        self._check_length(len(vectors[0]) if vectors else self._dimensions)
        return vectors

    def _check_length(self, length: int | None) -> None:
        """Vectors that are suddenly longer or shorter are another model's."""
        if self._dimensions is not None and length != self._dimensions:
            raise ModelError(
                f"{self.id} answered with vectors of {length} numbers, and {self._dimensions} were expected; the model "
                "behind the URL has changed, or takes no `dimensions`.",
                id="EMBEDDING_RESPONSE_INVALID",
                provider=self._provider,
                details={"dimensions": length, "expected": self._dimensions},
            )
        self._dimensions = length

    def _unreadable(self, body: bytes, error: Exception, secrets: tuple[str, ...]) -> ModelError:
        try:
            said = read_error(msgspec.json.decode(body))
        except (msgspec.DecodeError, RecursionError):
            said = None
        if said is not None:
            return in_band(self._provider, said, secrets)
        shown = bounded(redact(body[:_LARGEST_ERROR].decode("utf-8", "replace"), secrets), 200)
        return ModelError(
            f"{self.id} did not answer with vectors ({bounded(str(error), 200)}); is the base URL right "
            f"({shown_url(self._endpoint.url)}, it often ends in /v1), and the model one for embeddings? It said: "
            f"{shown}",
            id="EMBEDDING_RESPONSE_INVALID",
            provider=self._provider,
        )
