"""How the tests of this room call a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tenuto.core.payloads import TextDeltaPayload, ToolCallPayload
from tenuto.messages.turns import (
    AssistantTurn,
    CallPart,
    Prompt,
    ResultPart,
    SystemTurn,
    Text,
    ToolTurn,
    Turn,
    UserTurn,
)
from tenuto.models.ports import Finish, LanguageModel, ModelRequest, Part, ToolSpec
from tenuto.models.resolve import resolve_model
from tenuto.testing.provider import FakeProvider

F = ToolSpec("f", "Does f.", {"type": "object", "properties": {"a": {"type": "integer"}}})


def user(text: str = "hi") -> UserTurn:
    return UserTurn((Text(text),))


def said(text: str = "", *calls: CallPart) -> AssistantTurn:
    return AssistantTurn(((Text(text),) if text else ()) + calls)


def call(id: str, args: Any = None, name: str = "f", **more: Any) -> CallPart:
    return CallPart(id, name, {} if args is None else args, **more)


def results(*ids: str, text: str = "ok") -> ToolTurn:
    return ToolTurn(tuple(ResultPart(each, "f", text) for each in ids))


def prompt(*turns: Turn, system: Iterable[SystemTurn] = ()) -> Prompt:
    return Prompt(system, turns or [user()])


def model_of(fake: FakeProvider, name: str = "test/m", **record: Any) -> LanguageModel:
    return resolve_model({"id": name, "url": fake.base_url, **record})


def request(*turns: Turn, **options: Any) -> ModelRequest:
    return ModelRequest(prompt=prompt(*turns), **options)


async def run(model: LanguageModel, asked: ModelRequest | None = None) -> list[Part]:
    """All parts of one call; the grammar of ids is checked on the way."""
    parts = [part async for batch in model.stream(asked or request()) for part in batch]
    check_grammar(parts)
    return parts


def check_grammar(parts: Sequence[Part]) -> None:
    opened: set[str] = set()
    ended: set[str] = set()
    calls: list[str] = []
    for part in parts:
        kind = type(part).__name__
        label = getattr(part, "id", None) or getattr(part, "tool_call_id", None)
        if kind.endswith("StartPayload"):
            assert label not in opened
            opened.add(label)
        elif kind.endswith("DeltaPayload"):
            assert label in opened - ended
        elif kind.endswith("EndPayload"):
            assert label in opened - ended
            ended.add(label)
        elif isinstance(part, ToolCallPayload):
            assert label in ended or part.provider_executed
            calls.append(label)
    assert opened == ended
    assert len(calls) == len(set(calls))
    assert isinstance(parts[-1], Finish)
    assert sum(isinstance(part, Finish) for part in parts) == 1


def text_of(parts: Iterable[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextDeltaPayload))


def calls_of(parts: Iterable[Part]) -> list[ToolCallPayload]:
    return [part for part in parts if isinstance(part, ToolCallPayload)]


def finish_of(parts: Sequence[Part]) -> Finish:
    last = parts[-1]
    assert isinstance(last, Finish)
    return last


def kinds(parts: Iterable[Part]) -> list[str]:
    return [type(part).__name__.removesuffix("Payload") for part in parts]


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """A chunk with one choice."""
    return {"id": "r1", "model": "m", "created": 1, "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def tool_delta(*calls: dict[str, Any]) -> dict[str, Any]:
    return delta(tool_calls=list(calls))


def piece(args: str | None = None, name: str | None = None, **labels: Any) -> dict[str, Any]:
    """A piece of a call as it is on the wire."""
    function = {key: value for key, value in (("name", name), ("arguments", args)) if value is not None}
    return {**labels, "function": function}
