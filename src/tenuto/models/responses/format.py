"""The responses format as one piece: items, body, key and answers.

Invariant: a request is complete in itself. It asks the provider to store nothing, and what the model thought comes
back encrypted and is sent again, so a run that is replayed or recovered needs no state of the provider.

Source: OpenAI API reference, "Create a model response".
"""

from __future__ import annotations

from collections.abc import Mapping

from tenuto.models.answering import Answering
from tenuto.models.assemble import Assembler
from tenuto.models.ports import ModelRequest
from tenuto.models.render import rendered
from tenuto.models.responses.messages import ResponsesMessages, SystemRole
from tenuto.models.responses.options import read_options
from tenuto.models.responses.reasoning import reasons
from tenuto.models.responses.request import Writer
from tenuto.models.responses.response import ResponsesReader
from tenuto.models.wire_format import WireRequest


class ResponsesFormat:
    """See `WireFormat`."""

    __slots__ = ("_messages", "_provider", "_writer")

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._writer = Writer(provider)
        roles: tuple[SystemRole, ...] = ("system", "developer", "remove")
        self._messages = {role: ResponsesMessages(provider, role) for role in roles}

    def request(self, model_id: str, request: ModelRequest) -> WireRequest:
        """See `WireFormat.request`."""
        options = read_options(request.provider_options, self._provider)
        thinks = options.force_reasoning or reasons(model_id)
        role = options.system_role or ("developer" if thinks else "system")
        slot = rendered(request.prompt, self._messages[role])
        items = slot.render(request.prompt)
        body, warnings = self._writer.write(model_id, request, items=items, options=options, thinks=thinks)
        assembler = Assembler(request.scope, request.used(slot.used_ids))
        return WireRequest("/responses", body, assembler, warnings=warnings)

    def key_headers(self, key: str) -> Mapping[str, str]:
        """A bearer token."""
        return {"authorization": f"Bearer {key}"}

    def reader(self, answering: Answering) -> ResponsesReader:
        """See `WireFormat.reader`."""
        return ResponsesReader(answering)
