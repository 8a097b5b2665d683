"""The chat completions format as one piece: messages, body, key and answers.

Source: OpenAI API reference, "Create chat completion".
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from tenuto.models.answering import Answering
from tenuto.models.assemble import Assembler
from tenuto.models.catalogue import Quirks
from tenuto.models.chat.messages import ChatMessages, is_embedded
from tenuto.models.chat.request import build_body, read_options, warnings_for, write_tool
from tenuto.models.chat.response import ChatResponse
from tenuto.models.ports import ModelRequest, StructuredSupport
from tenuto.models.render import rendered
from tenuto.models.tool_cache import ToolCache
from tenuto.models.wire_format import WireRequest


class ChatFormat:
    """See `WireFormat`."""

    __slots__ = ("_messages", "_provider", "_quirks", "_tools")

    def __init__(self, provider: str, quirks: Quirks = Quirks()) -> None:  # noqa: B008 - frozen
        self._provider = provider
        self._quirks = quirks
        self._tools = ToolCache(write_tool)
        short = quirks.short_ids
        self._messages = {echo: ChatMessages(provider, echo_reasoning=echo, short_ids=short) for echo in (True, False)}

    @property
    def structured(self) -> StructuredSupport:
        """See `WireFormat`."""
        return self._quirks.structured

    def request(self, model_id: str, request: ModelRequest) -> WireRequest:
        """See `WireFormat.request`."""
        options = read_options(request.provider_options, self._provider)
        if options.strict is not None and request.response_format is not None:
            request = replace(request, response_format=replace(request.response_format, strict=options.strict))
        quirks = self._quirks
        echo = quirks.echo_reasoning if options.echo_reasoning is None else options.echo_reasoning
        slot = rendered(request.prompt, self._messages[echo])
        messages = slot.render(request.prompt)
        tools = self._tools.encode(request.tools) if request.tools else None
        body = build_body(model_id, request, messages=messages, tools=tools, options=options.body, quirks=quirks)
        return WireRequest(
            "/chat/completions",
            body,
            Assembler(request.scope, request.used(slot.used_ids)),
            warnings=warnings_for(request),
        )

    def takes_url(self, media_type: str, url: str) -> bool:  # noqa: ARG002 - the port's
        """Images, where the provider fetches them; of other files those that the format has no place for at all."""
        kind = media_type.partition(";")[0].strip().lower()
        return self._quirks.image_urls if kind.startswith("image/") else not is_embedded(kind)

    def key_headers(self, key: str) -> Mapping[str, str]:
        """A bearer token."""
        return {"authorization": f"Bearer {key}"}

    def reader(self, answering: Answering) -> ChatResponse:
        """See `WireFormat.reader`."""
        return ChatResponse(answering)
