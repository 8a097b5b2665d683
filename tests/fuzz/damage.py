"""What may come of a stream that lost an event, or got one twice: the same answer, an error, or a loss nobody can see.

A loss that no client can see is one where the rest is a whole stream in itself: a text delta of a format that neither
numbers its events nor says the text again. What differs then is what that event carried, and nothing else. `UNSEEN` and
`UNSEEN_TWICE` name these kinds for each dialect; anything else that differs is a fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tenuto.models.assemble import parse_arguments
from tests.fuzz.corpus import Stream, payload_of
from tests.fuzz.play import Played, Player
from tests.fuzz.story import differences, is_but_for, story_of

ANY = "\0"
"""Some text, in what an event carries."""
_DELTAS = {"text", "reasoning", "arguments"}
UNSEEN: Mapping[str, set[str]] = {
    "chat": {*_DELTAS, "calls", "reason", "sources", "files", "usage", "about", "order"},
    "responses": {
        *_DELTAS, "seals", "calls", "reason", "results", "custom", "files", "sources", "about", "order",
    },  # of streams without numbers, whose end repeats nothing
    "anthropic": {*_DELTAS, "seals", "sources", "custom"},
    "google": {
        *_DELTAS, "seals", "calls", "reason", "results", "custom", "files", "sources", "about", "order", "usage",
    },
}  # fmt: skip
"""Kinds of content whose loss a format cannot show: Gemini gives each part whole, with nothing that counts them."""

UNSEEN_TWICE: Mapping[str, set[str]] = {
    "chat": {*_DELTAS, "about"},
    "responses": {*_DELTAS, "about"},
    "anthropic": {*_DELTAS, "seals", "custom"},
    "google": {*_DELTAS, "seals", "calls", "results", "custom", "order"},
}


def without_one(stream: Stream) -> Iterator[tuple[int, bytes]]:
    events = stream.events
    for place in range(len(events)):
        yield place, b"".join((*events[:place], *events[place + 1 :]))


def with_one_twice(stream: Stream) -> Iterator[tuple[int, bytes]]:
    events = stream.events
    for place in range(len(events)):
        yield place, b"".join((*events[: place + 1], *events[place:]))


def faults_of(stream: Stream, player: Player, *, twice: bool) -> list[str]:
    """What is wrong with how the player takes each damage of the stream."""
    before = player.play([stream.whole])
    damaged = with_one_twice(stream) if twice else without_one(stream)
    found = (
        (place, _fault(stream, stream.events[place], before, player.play([whole]), twice=twice))
        for place, whole in damaged
    )
    how = "twice" if twice else "lost"
    return [
        f"{stream!r}: event {place} {how}: {fault}\n  {stream.events[place]!r:.300}" for place, fault in found if fault
    ]


def _fault(stream: Stream, event: bytes, before: Played, after: Played, *, twice: bool) -> str:
    if after.error is not None or before.error is not None:
        return ""  # a stream that was an error may lose the event that made it one
    old, new = story_of(before.parts), story_of(after.parts)
    differs = differences(old, new)
    carried = carries(stream.dialect, payload_of(event))
    allowed = set(carried) & (UNSEEN_TWICE if twice else UNSEEN)[stream.dialect]
    if numbered(stream):
        allowed = set()
    if "called" in carried:
        allowed.add("unusable")  # nothing runs, and the model is told
    if twice and "identified" in carried and "nameless" not in carried:
        allowed -= {"calls", "results", "custom", "order"}
    if differs - allowed:
        return f"{sorted(differs - allowed)} differ, not only {sorted(allowed)}: {_shown(old, new, differs)}"
    for kind in differs & {"text", "reasoning"}:
        longer, shorter = (new, old) if twice else (old, new)
        if ANY not in carried[kind] and not is_but_for(carried[kind], getattr(longer, kind), getattr(shorter, kind)):
            return f"{kind} differs by more than the event: {_shown(old, new, {kind})}"
    return ""


def _shown(old: Any, new: Any, names: set[str]) -> str:
    return "; ".join(
        f"{name}: {getattr(old, name, None)!r:.200} -> {getattr(new, name, None)!r:.200}" for name in names
    )


def numbered(stream: Stream) -> bool:
    """Whether the events count themselves, as the responses format demands."""
    payloads = [payload_of(event) for event in stream.events]
    numbers = [each.get("sequence_number") for each in payloads if isinstance(each, dict)]
    return stream.dialect == "responses" and numbers == list(range(len(numbers)))


def carries(dialect: str, payload: Any) -> dict[str, str]:
    """The kinds of content that an event holds, each with its text."""
    found: dict[str, list[str]] = {}
    for kind, text in _CARRIES[dialect](payload) if isinstance(payload, dict) else ():
        found.setdefault(kind, []).append(text)
    return {kind: "".join(texts) for kind, texts in found.items()}


Carried = Iterator[tuple[str, str]]


def _chat(payload: dict[str, Any]) -> Carried:
    if payload.get("usage") or payload.get("x_groq"):
        yield "usage", ""
    if payload.get("citations"):
        yield "sources", ""
    for choice in payload.get("choices") or ():
        delta = choice.get("delta") or choice.get("message") or {}
        if choice.get("logprobs"):
            yield "about", ""
        for name in ("reasoning_content", "reasoning"):
            if isinstance(delta.get(name), str):
                yield "reasoning", delta[name]
                break
        yield from _chat_content(delta.get("content"))
        if delta.get("refusal"):
            yield "text", delta["refusal"]
            yield "about", ""
        for name, kind in (("annotations", "sources"), ("images", "files")):
            if delta.get(name):
                yield kind, ""
                yield "order", ""
        if delta.get("function_call"):
            yield from _chat_call(delta["function_call"], finished=False)
        for call in delta.get("tool_calls") or ():
            yield from _chat_call(call.get("function") or {}, finished=bool(choice.get("finish_reason")))


def _chat_call(function: dict[str, Any], *, finished: bool) -> Carried:
    yield "called", ""
    arguments = function.get("arguments") or ""
    whole = parse_arguments(arguments or "-")[0] is not None
    if not function.get("name") or (arguments and not whole):  # some servers send the name with each piece
        yield "arguments", ""
    elif whole and not finished:
        for kind in ("calls", "order", "reason"):  # a whole call in one event
            yield kind, ""


def _chat_content(content: Any) -> Carried:
    if isinstance(content, str):
        yield "text", content
    for part in content if isinstance(content, list) else ():
        if "thinking" in part:
            yield "reasoning", "".join(each["text"] for each in part["thinking"])
        else:
            yield "text", part.get("text") or ""


def _responses(payload: dict[str, Any]) -> Carried:
    kind = str(payload.get("type")).removeprefix("response.")
    delta = payload.get("delta")
    if payload.get("logprobs"):
        yield "about", ""
    if kind.endswith((".done", "annotation.added")):  # says again what was lost before, or for the first time
        for name in UNSEEN["responses"] | {"called"}:
            yield name, ANY
    elif kind == "output_item.added":
        yield "seals", ""
    elif kind in {"output_text.delta", "refusal.delta"} and isinstance(delta, str):
        yield "seals", ""
        yield "text", delta
    elif kind.startswith("reasoning") and kind.endswith(".delta") and isinstance(delta, str):
        yield "seals", ""
        yield "reasoning", delta
    elif kind == "function_call_arguments.delta":
        yield "arguments", ""
        yield "called", ""


def _anthropic(payload: dict[str, Any]) -> Carried:
    delta = payload.get("delta") or {}
    match delta.get("type"):
        case "text_delta":
            yield "text", delta["text"]
        case "thinking_delta":
            yield "reasoning", delta["thinking"]
        case "signature_delta":
            yield "seals", ""
        case "input_json_delta":
            yield "arguments", ""
            yield "called", ""
        case "citations_delta":
            yield "sources", ""
            yield "seals", ""
        case str() if payload.get("type") == "content_block_delta":
            yield "custom", ""
        case _:
            pass


def _google(payload: dict[str, Any]) -> Carried:
    if payload.get("usageMetadata"):
        yield "usage", ""
    for candidate in payload.get("candidates") or ():
        if candidate.get("index"):
            continue
        for part in (candidate.get("content") or {}).get("parts") or ():
            yield from _google_part(part)
        if candidate.get("groundingMetadata"):
            yield "sources", ""
            yield "about", ""


_GOOGLE_PARTS: Mapping[str, tuple[str, ...]] = {
    "executableCode": ("calls", "results", "custom"),
    "codeExecutionResult": ("results", "custom"),
    "toolCall": ("calls", "results", "custom"),
    "toolResponse": ("results", "custom"),
    "inlineData": ("files",),
    "fileData": ("files",),
}


def _google_part(part: dict[str, Any]) -> Carried:
    if part.get("thoughtSignature"):
        yield "seals", ""
    if isinstance(part.get("text"), str):
        yield ("reasoning" if part.get("thought") else "text"), part["text"]
        return
    if "functionCall" in part:
        yield from _google_call(part["functionCall"])
        return
    yield "order", ""
    if any(isinstance(each, dict) and each.get("id") for each in part.values()):
        yield "identified", ""
    for name in part:
        for kind in _GOOGLE_PARTS.get(name, ("custom",)):
            yield kind, ""


def _google_call(call: dict[str, Any]) -> Carried:
    yield ("identified" if call.get("id") else "nameless"), ""
    if call.get("willContinue") and not call.get("name"):
        yield "arguments", ""
    elif call.get("name") and not call.get("willContinue"):
        for kind in ("called", "calls", "reason", "order"):
            yield kind, ""


_CARRIES = {"chat": _chat, "responses": _responses, "anthropic": _anthropic, "google": _google}
