"""The corpus itself: each rendered stream, and each whole answer, is one that the vendor's own types read; and the run
sees the faults that it looks for."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from google.genai.types import GenerateContentResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tenuto.models.assemble import Assembler
from tenuto.models.chat.response import ChatResponse
from tenuto.models.gemini.answer_parts import AnswerParts
from tenuto.models.responses.output import OutputItems
from tenuto.models.responses.sequence import EventOrder
from tenuto.testing.provider.dialect import Wanted
from tests.fuzz.corpus import corpus, dialects, payload_of, rendered, replies_of
from tests.fuzz.damage import faults_of
from tests.fuzz.play import MODELS, Player
from tests.fuzz.test_fuzz import truncation_faults

EVENTS: dict[str, Any] = {
    "chat": ChatCompletionChunk,
    "responses": ResponseStreamEvent,
    "anthropic": RawMessageStreamEvent | BetaRawMessageStreamEvent,
    "google": GenerateContentResponse,
}
WHOLE: dict[str, Any] = {
    "chat": ChatCompletion,
    "responses": Response,
    "anthropic": Message | BetaMessage,
    "google": GenerateContentResponse,
}
each_dialect = pytest.mark.parametrize("dialect", MODELS)


@lru_cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


@each_dialect
def test_the_vendors_types_read_every_event(dialect):
    seen = 0
    for stream in rendered(dialect):
        for payload in filter(None, map(payload_of, stream.events)):
            if payload != {"type": "ping"}:
                adapter(EVENTS[dialect]).validate_json(json.dumps(payload))
                seen += 1
    assert seen > 100 or dialect == "google"


@each_dialect
def test_the_vendors_types_read_every_whole_answer_and_so_do_we(dialect):
    spoken = dialects()[dialect]
    player = Player(dialect)
    for serial, (name, reply) in enumerate(replies_of(dialect).items()):
        body = spoken.whole(reply, Wanted("m", stream=False, usage=True, results=0), serial)
        adapter(WHOLE[dialect]).validate_json(body)
        assert player.play([body], "application/json").error is None, name


def faults(dialect, *, twice):
    return [fault for stream in corpus(dialect) for fault in faults_of(stream, Player(dialect), twice=twice)]


def test_it_sees_a_call_that_is_made_twice(monkeypatch):
    monkeypatch.setattr(AnswerParts, "_again", lambda *_: False)
    assert faults("google", twice=True)


def test_it_sees_an_event_that_is_taken_twice(monkeypatch):
    monkeypatch.setattr(EventOrder, "is_repeat", lambda *_: False)
    assert faults("responses", twice=True)


def test_it_sees_text_that_is_lost(monkeypatch):
    monkeypatch.setattr(EventOrder, "lost", False)
    monkeypatch.setattr(OutputItems, "_is_past", lambda *_: False)
    assert faults("responses", twice=False)


def test_it_sees_a_success_without_an_end(monkeypatch):
    end = ChatResponse.end

    def lenient(reader):
        reader._reason = reader._reason or "stop"
        return end(reader)

    monkeypatch.setattr(ChatResponse, "end", lenient)
    stream = corpus("chat")[0]
    assert truncation_faults(stream, Player("chat"), range(0, len(stream.whole), 97))


def test_it_sees_parts_that_cannot_be_kept(monkeypatch):
    monkeypatch.setattr(Assembler, "text", lambda assembler, delta: assembler.parts.append(object()))
    with pytest.raises((TypeError, AssertionError)):
        Player("chat").play([corpus("chat")[0].whole])
