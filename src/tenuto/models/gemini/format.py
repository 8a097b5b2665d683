"""The Gemini format as one piece: contents, body, key and answers.

Source: Gemini API reference, "models.streamGenerateContent".
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from tenuto.models.answering import Answering
from tenuto.models.assemble import Assembler
from tenuto.models.gemini.contents import Turns
from tenuto.models.gemini.family import family_of
from tenuto.models.gemini.messages import GeminiMessages
from tenuto.models.gemini.options import read_options
from tenuto.models.gemini.parts import UNLABELLED
from tenuto.models.gemini.request import Warnings, build_body, warnings_for
from tenuto.models.gemini.response import GeminiResponse
from tenuto.models.gemini.tools import offered, write_tool
from tenuto.models.ports import ModelRequest
from tenuto.models.render import rendered
from tenuto.models.tool_cache import ToolCache
from tenuto.models.wire_format import WireRequest

_ITS_OWN = (
    "https://generativelanguage.googleapis.com/",
    "https://www.youtube.com/",
    "https://youtube.com/",
    "https://youtu.be/",
)
"""Where the URLs of files lead that the API reads itself."""


class GeminiFormat:
    """See `WireFormat`."""

    __slots__ = ("_declarations", "_messages", "_provider")

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._declarations = ToolCache(write_tool)
        self._messages = {signed: GeminiMessages(signed=signed) for signed in (True, False)}

    def request(self, model_id: str, request: ModelRequest) -> WireRequest:
        """See `WireFormat.request`."""
        family = family_of(model_id)
        options = read_options(request.provider_options, self._provider)
        slot = rendered(request.prompt, self._messages[family.signed])
        turns: Turns = slot.kept or Turns()
        slot.kept = turns
        system, contents = slot.split(request.prompt)
        tools = offered(request, self._declarations, combines=family.signed)
        warnings: Warnings = warnings_for(tools, options)
        body = build_body(
            request,
            family,
            system=system,
            contents=contents,
            turns=turns,
            offered=tools,
            options=options,
            warnings=warnings,
        )
        return WireRequest(
            f"/{_path(model_id)}:streamGenerateContent?alt=sse",
            body,
            Assembler(request.scope, request.used(slot.used_ids), made=UNLABELLED),
            options.headers,
            warnings=tuple(warnings),
        )

    def takes_url(self, media_type: str, url: str) -> bool:  # noqa: ARG002 - the port's
        """Files that Google keeps, and its videos."""
        return url.startswith(_ITS_OWN)

    def key_headers(self, key: str) -> Mapping[str, str]:
        """Google's own header."""
        return {"x-goog-api-key": key}

    def reader(self, answering: Answering) -> GeminiResponse:
        """See `WireFormat.reader`."""
        return GeminiResponse(answering)


def _path(model_id: str) -> str:
    """`gemini-x` is `models/gemini-x`; a tuned model's name says where it is itself."""
    return quote(model_id if "/" in model_id else f"models/{model_id}", safe="/@:.")
