"""What the model cites, as sources.

Invariant: a page is named once in an answer, however often it is cited; the vendor's own words of a citation are kept.

Source: Anthropic documentation: "Citations", "Web search tool", "Search results".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from tenuto.models.assemble import Assembler

_DOCUMENTS: Mapping[str, str] = {
    "page_location": "application/pdf",
    "char_location": "text/plain",
    "content_block_location": "text/plain",
}
"""By the kind of place in a document, what the document must be."""


class Sources:
    """Names sources in an answer; `provider` is the key of their metadata."""

    __slots__ = ("_assembler", "_provider", "_urls")

    def __init__(self, provider: str, assembler: Assembler) -> None:
        self._provider = provider
        self._assembler = assembler
        self._urls: set[str] = set()

    def cited(self, citation: Mapping[str, Any]) -> None:
        """The source of a citation."""
        kind = str(citation.get("type"))
        if kind in _DOCUMENTS:
            title = str(citation.get("document_title") or "")
            self._assembler.document(title, _DOCUMENTS[kind], None, self._metadata(citation))
        else:
            self._page(citation.get("url") or citation.get("source"), citation)

    def found(self, results: Any) -> None:
        """The pages that a search found."""
        for each in cast("Iterable[Any]", results) if isinstance(results, list) else ():
            if isinstance(each, dict):
                record = cast("dict[str, Any]", each)
                if record.get("type") == "web_search_result":
                    self._page(record.get("url"), {"page_age": record.get("page_age")}, record.get("title"))

    def _page(self, url: Any, said: Mapping[str, Any], title: Any = None) -> None:
        if not isinstance(url, str) or url in self._urls:
            return
        self._urls.add(url)
        self._assembler.source(url, str(title or said.get("title") or ""), self._metadata(said))

    def _metadata(self, said: Mapping[str, Any]) -> Mapping[str, Any] | None:
        kept = {name: value for name, value in said.items() if value is not None and name not in {"url", "title"}}
        return {self._provider: kept} if kept else None
