"""A recorded stream, played to a model without a socket: what it makes of these bytes, however they were cut.

Everything but the socket is the real path: `HttpModel`, the splitter, the reader of the dialect. The bytes are there at
once, so a model that waits for anything hangs, and is told so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tenuto.core.errors import ModelError
from tenuto.models.ports import Finish, ModelRequest, Part, RequestStart
from tenuto.models.resolve import resolve_model
from tenuto.models.transport import HttpRequest, HttpResponse
from tests.models.drive import check_grammar, request

MODELS: Mapping[str, str] = {
    "chat": "test/m",
    "responses": "test/gpt-5",
    "anthropic": "test/claude-sonnet-4-5",
    "google": "google/gemini-3-pro",
}
"""By dialect, a model that speaks it."""


class Played(NamedTuple):
    """What a stream came to: parts that end with `Finish`, or an error after the parts before it."""

    parts: list[Part]
    error: ModelError | None = None

    @property
    def told(self) -> str:
        return str(self.error)


class _Answer:
    status = 200

    def __init__(self, pieces: Iterable[bytes], kind: str) -> None:
        self.headers = {"content-type": kind}
        self._pieces = iter(pieces)

    def __aiter__(self) -> _Answer:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration

    def close(self, *, ended: bool = False) -> None:
        pass


class _Wire:
    def __init__(self) -> None:
        self.answer: HttpResponse = _Answer((), "")

    async def open(self, request: HttpRequest) -> HttpResponse:
        return self.answer


class Player:
    """Plays streams to one model of a dialect."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self._wire = _Wire()
        record = {"id": MODELS[dialect], "url": "http://127.0.0.1/v1", "api": dialect}
        self._model = resolve_model(record)
        self._model._transport = self._wire

    def play(
        self, pieces: Iterable[bytes], kind: str = "text/event-stream", asked: ModelRequest | None = None
    ) -> Played:
        """What the model makes of it; anything raised but a `ModelError` is a fault of ours and goes through."""
        self._wire.answer = _Answer(pieces, kind)
        parts: list[Part] = []
        try:
            _at_once(self._gather(parts, asked or request()))
        except ModelError as error:
            return _sound(Played(parts, error))
        return _sound(Played(parts))

    async def _gather(self, parts: list[Part], asked: ModelRequest) -> None:
        async for batch in self._model.stream(asked):
            parts += (part for part in batch if not isinstance(part, RequestStart))


def _at_once(waiting: Any) -> None:
    try:
        waiting.send(None)
    except StopIteration:
        return
    waiting.close()
    raise AssertionError("the model waits, though every byte is there")


def _sound(played: Played) -> Played:
    """What must hold of anything a stream comes to: a grammar, `Finish` only at the end, and a form that is kept."""
    if played.error is None:
        check_grammar(played.parts)
    else:
        assert not any(isinstance(part, Finish) for part in played.parts)
        assert played.error.id, "an error has an id"
        assert len(played.told) < 2_000
    msgspec.json.decode(msgspec.json.encode(played.parts))
    return played


def assert_kept(played: Played) -> None:
    """Each part can be stored, and read again."""
    for part in played.parts:
        assert msgspec.json.decode(msgspec.json.encode(part), type=type(part)) is not None


def cut_at(stream: bytes, *places: int) -> Iterator[bytes]:
    start = 0
    for place in (*places, len(stream)):
        yield stream[start:place]
        start = place


def in_pieces(stream: bytes, size: int) -> Sequence[bytes]:
    return [stream[start : start + size] for start in range(0, len(stream), size)]
