"""What a sub-agent is shown of its supervisor's conversation: what was said, never a tool call or its result.

Invariant: a message that is handed on holds no part of the supervisor's tools and none that only the supervisor's
provider can read; one that nothing is left of is not handed on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tenuto.messages.stored import DataPart, ErrorPart, SourceDocumentPart, SourcePart, StoredFilePart, TextPart
from tenuto.steps.transcript import all_messages

if TYPE_CHECKING:
    from tenuto.messages.stored import Message
    from tenuto.steps.run import Run

_SAID = (TextPart, StoredFilePart, SourcePart, SourceDocumentPart, DataPart, ErrorPart)


def handed_messages(run: Run) -> tuple[Message, ...]:
    """The messages of `run` so far, without its tools; the answer in progress is not among them."""
    found: list[Message] = []
    for message in all_messages(run):
        parts = tuple(part for part in message.content.parts if isinstance(part, _SAID))
        if any(isinstance(part, (TextPart, StoredFilePart)) for part in parts):
            found.append(replace(message, content=replace(message.content, parts=parts)))
    return tuple(found)
