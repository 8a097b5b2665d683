"""What every reader knows of the answer it reads, and what all of them say alike: whose it is, and how it went wrong.

Invariant: no text that leaves here holds a secret that was sent, or more of an unreadable event than a few words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from tenuto.core.credentials import redact
from tenuto.core.errors import ModelError
from tenuto.core.payloads import ResponseMetadataPayload
from tenuto.models.assemble import Assembler
from tenuto.models.http_errors import ProviderError, bounded, in_band, read_error
from tenuto.models.ports import ProviderTool

_LOOKED_AT = 16 * 1024
"""Bytes of an unreadable event that are looked through before a few of them are shown."""

_NO_STATUS: Mapping[str, int] = {}
_any = msgspec.json.Decoder().decode


class Answering(Struct, frozen=True):
    """What a reader must know of the answer it reads.

    Attributes:
        headers: Of the HTTP response, lower-cased.
        secrets: What error messages must not repeat.
        provider_tools: Those of the request; they hold the caller's names.
    """

    provider: str
    headers: Mapping[str, str]
    assembler: Assembler
    secrets: tuple[str, ...] = ()
    provider_tools: tuple[ProviderTool, ...] = ()

    def name(self, response_id: str | None, model: str | None, created: float | None = None) -> None:
        """Say which response this is; `created` in seconds since the epoch."""
        headers = {name: redact(value, self.secrets) for name, value in self.headers.items() if name != "set-cookie"}
        at = int(created * 1000) if created else None
        self.assembler.parts.append(ResponseMetadataPayload(response_id or None, at, model or None, headers))

    def failed(self, error: ProviderError, status: int | None = None) -> ModelError:
        """The error for what the provider said went wrong."""
        return in_band(self.provider, error, self.secrets, status=status)

    def cut_off(self, missing: str) -> ModelError:
        """The error for a stream that ended without its success marker."""
        return ModelError(
            f"The answer of {self.provider} was cut off: the stream ended without {missing}.",
            id="MODEL_STREAM_CUT_OFF",
            provider=self.provider,
            retryable=True,
        )

    def unreadable(
        self,
        data: bytes,
        error: Exception,
        what: str,
        *,
        read: Callable[[Any], ProviderError | None] = read_error,
        statuses: Mapping[str, int] = _NO_STATUS,
    ) -> ModelError:
        """The error for an event that is not `what` it should be: the error that it holds, or that nobody can read it.

        Args:
            data: The event.
            error: Why it cannot be read.
            what: Names what it should be.
            read: Finds an error in the decoded event.
            statuses: The HTTP statuses that the provider's error types stand for.
        """
        try:
            said = read(_any(data))
        except (msgspec.DecodeError, RecursionError):
            said = None
        if said is not None:
            return self.failed(said, statuses.get(said.type or ""))
        shown = bounded(redact(data[:_LOOKED_AT].decode("utf-8", "replace"), self.secrets), 200)
        return ModelError(
            f"{self.provider} sent an event that is not {what} ({error}): {shown}",
            id="MODEL_EVENT_INVALID",
            provider=self.provider,
            retryable=True,
        )
