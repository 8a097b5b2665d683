"""The streams that the fuzz run damages: every kind of answer, as each dialect writes it, and oddities of real servers.

A stream is its events as bytes, each with its blank line; `recorded` gives those that tests of the suite played.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from tenuto.testing.provider import Call, Event, Made, ProviderCall, Raw, Reply, Usage, chat_chunk, gemini_chunk
from tenuto.testing.provider.delivery import prepare
from tenuto.testing.provider.dialect import Dialect, Wanted
from tenuto.testing.provider.server import FakeProvider

NAMES: Mapping[str, str] = {"Chat": "chat", "Responses": "responses", "Anthropic": "anthropic", "Gemini": "google"}
"""Our names of the dialects, by those of the fake provider's classes."""
SEAL = base64.b64encode(b"seal").decode()
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n0123").decode()
WORDS = 'né 漢 🙂 "x"\n done'
PAY = Call("pay", {"to": "Ann", "amount": 1250, "note": WORDS}, "call_a")
ASK = Call("ask", {"q": [1, 2.5, None, True, {"deep": "é"}]}, "call_b")


class Stream(NamedTuple):
    """One answer of one dialect."""

    dialect: str
    name: str
    events: tuple[bytes, ...]

    @property
    def whole(self) -> bytes:
        return b"".join(self.events)

    def __repr__(self) -> str:
        return f"{self.dialect}: {self.name}"


SAID: Mapping[str, Reply] = {
    "text": Reply(WORDS),
    "text at once": Reply(WORDS, chunk_size=0),
    "empty": Reply(""),
    "no usage": Reply("hello", usage=None),
    "all usage": Reply("hello", usage=Usage(100, 40, cached=30, reasoning=10, cache_write=5)),
    "reasoning": Reply("Yes.", reasoning="Let me see: " + WORDS),
    "one call": Reply(calls=[PAY]),
    "one call at once": Reply(calls=[PAY], chunk_size=0),
    "text and two calls": Reply("I pay.", calls=[PAY, ASK]),
    "a call without arguments": Reply(calls=[Call("now", {}, "call_c")]),
    "two calls of one tool": Reply(calls=[Call("f", {"a": 1}, "c1"), Call("f", {"a": 2}, "c2"), Call("f", {}, "c3")]),
    "calls without ids": Reply(calls=[Call("f", {"a": 1}), Call("g", {"b": "x"})]),
    "reasoning and a call": Reply(reasoning="Pay.", calls=[PAY]),
    "cut short": Reply("hello", finish="max"),
}
"""What every dialect can say."""

SEALED: Mapping[str, Reply] = {
    "signed": Reply("Yes.", reasoning="Hm, hm.", signature=SEAL),
    "signed alone": Reply("Yes.", signature=SEAL),
    "signed call": Reply(reasoning="Hm.", signature=SEAL, calls=[PAY, ASK]),
    "sources": Reply("See there.", sources=[("https://a.example/1", "One"), ("https://a.example/2", "Two")]),
}
REDACTED: Mapping[str, Reply] = {
    "redacted": Reply("Yes.", reasoning="Hm.", signature=SEAL, redacted=["zzz1", "zzz2"]),
    "refused": Reply("I", refusal=" will not."),
}
FILES: Mapping[str, Reply] = {
    "files": Reply("Look:", files=[Made("image/png", PNG), Made("image/jpeg", PNG + "AAAA")]),
}
LIMIT: Mapping[str, str] = {
    "chat": "length",
    "responses": "max_output_tokens",
    "anthropic": "max_tokens",
    "google": "MAX_TOKENS",
}
RAN: Mapping[str, Sequence[ProviderCall]] = {
    "responses": (
        ProviderCall("web_search", {"action": {"type": "search", "query": "q"}}),
        ProviderCall("code_interpreter", {"code": "1+1"}, {"outputs": [{"type": "logs", "logs": "2"}]}),
        ProviderCall("lookup", {"a": 1}, "found"),
    ),
    "anthropic": (
        ProviderCall(
            "web_search",
            {"query": "q"},
            [
                {
                    "type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "e",
                    "page_age": None,
                }
            ],
        ),
        ProviderCall("server/lookup", {"a": 1}, [{"type": "text", "text": "found"}]),
    ),
    "google": (
        ProviderCall("code_execution", {"code": "1+1"}, "2"),
        ProviderCall("google_search_web", {"queries": ["q"]}, {"found": 1}),
    ),
}  # fmt: skip


def replies_of(dialect: str) -> dict[str, Reply]:
    found = dict(SAID)
    if dialect != "chat":
        found |= SEALED
        found["ran"] = Reply("Done.", provider_calls=RAN[dialect])
        found["ran, then a call"] = Reply("Now.", provider_calls=RAN[dialect], calls=[PAY])
    if dialect in {"responses", "anthropic"}:
        found |= REDACTED
    if dialect == "chat":
        found["refused"] = REDACTED["refused"]
    if dialect in {"responses", "google"}:
        found |= FILES
    found["cut short"] = Reply("hello", finish=LIMIT[dialect])
    return found


def dialects() -> Mapping[str, Dialect]:
    """The sides of the fake provider that stream, by our name of the dialect."""
    sides = {type(each).__name__: each for each in FakeProvider()._dialects}
    return {name: sides[kind] for kind, name in NAMES.items()}


@lru_cache
def rendered(dialect: str) -> tuple[Stream, ...]:
    """Each reply as the fake provider of the dialect writes it."""
    spoken = dialects()[dialect]
    wanted = Wanted("m", stream=True, usage=True, results=0)
    return tuple(
        Stream(dialect, name, tuple(prepare(spoken, reply, wanted, serial).items))
        for serial, (name, reply) in enumerate(replies_of(dialect).items())
    )


def stream_of(dialect: str, name: str, *events: Mapping[str, Any] | str | bytes | Event, done: bool = True) -> Stream:
    """A stream of exactly these events, with the dialect's end marker; text that begins with a colon is a comment."""
    wanted = Wanted("m", stream=True, usage=True, results=0)
    items = prepare(dialects()[dialect], Raw(events=events, done=done), wanted, 0).items
    return Stream(dialect, name, tuple(item.removeprefix(b"data: ") if item[6:7] == b":" else item for item in items))


def _chat() -> Iterator[Stream]:
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    azure = {"id": "", "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    yield stream_of(
        "chat",
        "azure",
        azure,
        chat_chunk({"role": "assistant"}),
        chat_chunk({"content": "hel"}),
        chat_chunk({"content": "lo"}, finish="stop"),
        {"choices": [], "usage": usage},
    )
    yield stream_of(
        "chat",
        "openrouter",
        ": OPENROUTER PROCESSING",
        chat_chunk({"content": "", "reasoning": "Hm", "reasoning_details": [{"type": "reasoning.text", "text": "Hm"}]}),
        chat_chunk({"content": "hello"}),
        chat_chunk({"images": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]}),
        chat_chunk({"content": ""}, finish="stop", native_finish_reason="completed"),
        chat_chunk({"content": ""}) | {"usage": usage},
    )
    yield stream_of(
        "chat",
        "mistral, whole calls",
        chat_chunk({"role": "assistant", "content": ""}),
        chat_chunk(
            {"content": "", "tool_calls": [call | {"index": 0}, call | {"id": "c2", "index": 1}]}, finish="tool_calls"
        )
        | {"usage": usage},
    )
    yield stream_of(
        "chat",
        "whole calls, one event each",
        chat_chunk({"tool_calls": [call | {"index": 0}]}),
        chat_chunk({"tool_calls": [call | {"index": 1, "id": "c2"}]}),
        chat_chunk({}, finish="tool_calls"),
    )
    yield stream_of(
        "chat",
        "no index, pieces",
        chat_chunk({"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": '{"a"'}}]}),
        chat_chunk({"tool_calls": [{"function": {"arguments": ":12"}}]}),
        chat_chunk({"tool_calls": [{"function": {"arguments": "34}"}}]}),
        chat_chunk({}, finish="tool_calls"),
    )
    yield stream_of(
        "chat",
        "deepseek",
        ": keep-alive",
        chat_chunk({"role": "assistant", "content": None, "reasoning_content": ""}),
        chat_chunk({"content": None, "reasoning_content": "Let me"}),
        chat_chunk({"content": None, "reasoning_content": " see."}),
        chat_chunk({"content": "2", "reasoning_content": None}),
        chat_chunk({"content": "", "reasoning_content": None}, finish="stop") | {"usage": usage},
    )
    yield stream_of(
        "chat",
        "perplexity",
        chat_chunk({"content": "See [1]"}) | {"citations": ["https://a.example/1"]},
        chat_chunk({"content": " and [2]"}) | {"citations": ["https://a.example/1", "https://a.example/2"]},
        chat_chunk({}, finish="stop") | {"citations": ["https://a.example/1", "https://a.example/2"]},
        done=False,
    )
    yield stream_of(
        "chat",
        "logprobs",
        chat_chunk({"content": "a"})
        | {
            "choices": [
                {"index": 0, "delta": {"content": "a"}, "logprobs": {"content": [{"token": "a", "logprob": -1}]}}
            ]
        },
        chat_chunk({}, finish="stop"),
    )


def _numbered(*events: dict[str, Any]) -> list[dict[str, Any]]:
    return [event | {"sequence_number": number} for number, event in enumerate(events)]


def _responses() -> Iterator[Stream]:
    created = {"type": "response.created", "response": {"id": "r1", "model": "m", "created_at": 1}}
    item = {"type": "message", "id": "m1", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]}
    call = {"type": "function_call", "id": "fc1", "call_id": "c1", "name": "f", "arguments": '{"a":12}'}
    said = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0}
    argued = {"type": "response.function_call_arguments.delta", "output_index": 1}
    ended = {"type": "response.completed", "response": {"id": "r1", "status": "completed"}}
    spoken = (
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"content": []}},
        said | {"delta": "hel"},
        said | {"delta": "lo"},
    )
    called = (
        {"type": "response.output_item.added", "output_index": 1, "item": call | {"arguments": ""}},
        argued | {"delta": '{"a":'},
        argued | {"delta": "12}"},
    )
    bare = (created, *spoken, *called)
    done = (
        created,
        *spoken,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        *called,
        {"type": "response.output_item.done", "output_index": 1, "item": call},
    )
    yield stream_of("responses", "no numbers, items end", *done, ended)
    yield stream_of("responses", "no numbers, nothing repeated", *bare, ended)
    yield stream_of("responses", "numbers, nothing repeated", *_numbered(*bare, ended))
    yield stream_of("responses", "all numbers are 0", *(e | {"sequence_number": 0} for e in (*done, ended)))
    output = {"type": "response.completed", "response": {"id": "r1", "status": "completed", "output": [item, call]}}
    yield stream_of("responses", "only deltas and the whole", *bare, output)
    yield stream_of("responses", "only the whole", created, output)
    yield stream_of("responses", "done marker", *_numbered(*done, output), "[DONE]")


def _anthropic() -> Iterator[Stream]:
    started = {
        "type": "message_start",
        "message": {"id": "m1", "model": "m", "content": [], "usage": {"input_tokens": 3}},
    }
    stop = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}}

    def block(index: int, opening: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"type": "content_block_start", "index": index, "content_block": opening},
            *({"type": "content_block_delta", "index": index, "delta": each} for each in deltas),
            {"type": "content_block_stop", "index": index},
        ]

    cited = {"type": "char_location", "cited_text": "x", "document_index": 0, "document_title": "D"}
    yield stream_of(
        "anthropic",
        "citations and pings",
        started,
        {"type": "ping"},
        *block(
            0,
            {"type": "text", "text": "", "citations": []},
            {"type": "text_delta", "text": "It is "},
            {"type": "citations_delta", "citation": cited | {"start_char_index": 0, "end_char_index": 1}},
            {"type": "text_delta", "text": "so."},
        ),
        {"type": "ping"},
        *block(1, {"type": "mystery", "data": "q"}, {"type": "mystery_delta", "data": "r"}),
        stop,
    )
    yield stream_of(
        "anthropic",
        "a call without deltas",
        started,
        *block(0, {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}),
        stop | {"delta": {"stop_reason": "tool_use"}},
    )
    yield stream_of(
        "anthropic",
        "thinking that is not signed",
        started,
        *block(0, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "Hm."}),
        *block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Yes."}),
        stop,
    )


def _google() -> Iterator[Stream]:
    def partial(*pieces: tuple[str, str, Any], name: str = "", more: bool = True) -> dict[str, Any]:
        args = [{"jsonPath": path, kind: value} for path, kind, value in pieces]
        call: dict[str, Any] = {"name": name} if name else {}
        call |= {"partialArgs": args} if args else {}
        return gemini_chunk({"functionCall": call | ({"willContinue": True} if more else {})})

    yield stream_of(
        "google",
        "arguments in pieces",
        partial(name="f"),
        partial(("$.a", "numberValue", 12)),
        partial(("$.b.c", "stringValue", "x")),
        partial(more=False),
        partial(name="g"),
        partial(("$.d", "boolValue", True), more=False),
        gemini_chunk({"text": ""}, finish="STOP", usage=Usage()),
    )
    yield stream_of(
        "google",
        "signed parts, unknown parts",
        gemini_chunk({"text": "Hm", "thought": True, "thoughtSignature": SEAL}),
        gemini_chunk({"text": "a"}),
        gemini_chunk({"text": "b", "thoughtSignature": SEAL}),
        gemini_chunk({"mystery": {"x": 1}}),
        gemini_chunk(finish="STOP", usage=Usage()),
    )
    yield stream_of(
        "google", "blocked", {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}
    )
    whole = {"functionCall": {"name": "f", "args": {"a": 1}}}
    yield stream_of("google", "calls and finish in one", gemini_chunk(whole, whole, finish="STOP", usage=Usage()))


_BY_HAND = {"chat": _chat, "responses": _responses, "anthropic": _anthropic, "google": _google}


@lru_cache
def by_hand(dialect: str) -> tuple[Stream, ...]:
    """What servers in the world send, and the fake provider does not."""
    return tuple(_BY_HAND[dialect]())


def corpus(dialect: str) -> tuple[Stream, ...]:
    return (*rendered(dialect), *by_hand(dialect))


def payload_of(event: bytes) -> Any:
    """The decoded data of an event, or None."""
    lines = [line[5:].strip() for line in event.splitlines() if line.startswith(b"data:")]
    try:
        return json.loads(b"\n".join(lines))
    except ValueError:
        return None


def event_of(payload: Any) -> bytes:
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"
