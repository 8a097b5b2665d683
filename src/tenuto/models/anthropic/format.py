"""The messages format as one piece: messages, body, headers and answers.

Source: Anthropic API reference, "Create a message".
"""

from __future__ import annotations

from collections.abc import Mapping

from tenuto.models.answering import Answering
from tenuto.models.anthropic.blocks import is_text
from tenuto.models.anthropic.messages import AnthropicMessages
from tenuto.models.anthropic.options import read_options
from tenuto.models.anthropic.request import Body
from tenuto.models.anthropic.response import AnthropicResponse
from tenuto.models.anthropic.tools import Tools
from tenuto.models.anthropic.traits import traits_of
from tenuto.models.assemble import Assembler
from tenuto.models.ports import ModelRequest, StructuredSupport
from tenuto.models.render import rendered
from tenuto.models.wire_format import WireRequest

VERSION = "2023-06-01"
_BETA = "anthropic-beta"


class AnthropicFormat:
    """See `WireFormat`.

    Args:
        provider: The name before the slash.
        model_id: The one after it.
        max_output: Tokens of an answer at most, when the catalogue says so.
    """

    __slots__ = ("_max_output", "_messages", "_provider", "_tools", "_traits")

    def __init__(self, provider: str, model_id: str, *, max_output: int | None = None) -> None:
        self._provider = provider
        self._traits = traits_of(model_id)
        self._max_output = max_output or self._traits.max_output
        self._tools = Tools(provider)
        self._messages: dict[tuple[bool, bool], AnthropicMessages] = {}

    @property
    def structured(self) -> StructuredSupport:
        """See `WireFormat`."""
        return "native" if self._traits.structured else "tool"

    def request(self, model_id: str, request: ModelRequest) -> WireRequest:
        """See `WireFormat.request`."""
        options = read_options(request.provider_options, self._provider)
        traits = self._traits
        slot = rendered(request.prompt, self._dialect(reasoning=options.send_reasoning, unsigned=not traits.claude))
        system, messages = slot.split(request.prompt)
        body = Body(self._provider, request, options, traits, self._max_output)
        written = body.write(model_id, system, messages, self._tools)
        headers = {"anthropic-version": VERSION}
        if body.betas:
            headers[_BETA] = ",".join(dict.fromkeys(body.betas))
        return WireRequest(
            "/messages",
            written,
            Assembler(request.scope, request.used(slot.used_ids)),
            headers=headers,
            listed=(_BETA,),
            warnings=tuple(body.warnings),
        )

    def takes_url(self, media_type: str, url: str) -> bool:  # noqa: ARG002 - the port's
        """Images and PDFs, and what the format has no place for at all; text is sent as text."""
        return not is_text(media_type.partition(";")[0].strip().lower())

    def key_headers(self, key: str) -> Mapping[str, str]:
        """The vendor's own header; a catalogue entry with a `key_header` has another one."""
        return {"x-api-key": key}

    def reader(self, answering: Answering) -> AnthropicResponse:
        """See `WireFormat.reader`."""
        return AnthropicResponse(answering)

    def _dialect(self, *, reasoning: bool, unsigned: bool) -> AnthropicMessages:
        key = reasoning, unsigned
        if key not in self._messages:
            self._messages[key] = AnthropicMessages(self._provider, reasoning=reasoning, unsigned=unsigned)
        return self._messages[key]
