"""The sources of a grounded answer.

Invariant: a source is given out once, however often the events repeat it.

Source: Gemini API reference, "GroundingMetadata".
"""

from __future__ import annotations

import mimetypes

import msgspec
from msgspec import Raw

from tenuto.models.assemble import Assembler
from tenuto.models.gemini.wire import Grounding, GroundingChunk, Place

_decode = msgspec.json.Decoder(Grounding).decode


class Sources:
    """The sources of one answer."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def take(self, raw: Raw, assembler: Assembler) -> None:
        """Give out what is new; what cannot be read is no source."""
        try:
            found = _decode(raw)
        except msgspec.ValidationError:
            return
        for chunk in (found and found.grounding_chunks) or ():
            self._give(chunk, assembler)

    def _give(self, chunk: GroundingChunk, assembler: Assembler) -> None:
        place = chunk.web or chunk.image or chunk.maps or chunk.retrieved_context
        if place is None:
            return
        url = place.source_uri or place.uri
        name = url or place.file_search_store
        if not name or name + (place.title or "") in self._seen:
            return
        self._seen.add(name + (place.title or ""))
        if url is not None and url.startswith(("http://", "https://")):
            assembler.source(url, place.title or "")
        else:
            _document(name, place, assembler)


def _document(name: str, place: Place, assembler: Assembler) -> None:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    assembler.document(place.title or "Unknown document", kind, name.rpartition("/")[2])
