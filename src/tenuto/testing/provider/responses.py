"""The responses dialect: renders replies as its items and events, and knows its path, keys and errors.

Invariant: a response is a function of the reply, of what the request wants and of its serial number only.

Source: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tenuto.testing.provider.chat import openai_error
from tenuto.testing.provider.dialect import Wanted
from tenuto.testing.provider.http1 import Request
from tenuto.testing.provider.responses_items import Item, events_of, items_of
from tenuto.testing.provider.responses_request import check_request
from tenuto.testing.provider.script import Event, Reply, Usage
from tenuto.testing.provider.strict import Rules, check_bearer

__all__ = ["Responses"]

_CREATED = 1_760_000_000
Json = dict[str, Any]


class _Wish(msgspec.Struct):
    model: str = ""
    stream: bool | None = None


_wishes = msgspec.json.Decoder(_Wish)


class Responses:
    """OpenAI responses; remembers the reasoning and the responses it sent."""

    def __init__(self) -> None:
        self._sealed: dict[str, str] = {}
        self._given: set[str] = set()

    def serves(self, path: str) -> bool:
        """Whether this is the path of responses."""
        return path.endswith("/responses")

    def authorize(self, request: Request, rules: Rules) -> None:
        """Refuse a wrong bearer key."""
        check_bearer(request.headers, rules)

    def check(self, body: Json, rules: Rules) -> None:
        """Refuse what a real provider refuses."""
        check_request(body, rules, self._sealed, self._given)

    def wanted(self, request: Request) -> Wanted:
        """Read model and mode from the body; usage is always reported."""
        try:
            wish = _wishes.decode(request.raw)
        except msgspec.DecodeError:
            wish = _Wish()
        return Wanted(wish.model, bool(wish.stream), usage=True, results=request.raw.count(b'_call_output"'))

    def events(self, reply: Reply, wanted: Wanted, serial: int) -> list[Event]:
        """Render the events of a streamed reply."""
        items = self._items(reply, serial)
        return [
            Event(msgspec.json.encode({**event, "sequence_number": number}), event["type"])
            for number, event in enumerate(self._stream(reply, items, wanted, serial))
        ]

    def whole(self, reply: Reply, wanted: Wanted, serial: int) -> bytes:
        """Render a `response`."""
        return msgspec.json.encode(_ended(reply, self._items(reply, serial), wanted, serial))

    def end(self) -> None:
        """Give nothing: the last event says so itself."""
        return

    def error(self, status: int, message: str, code: str | None = None, param: str | None = None) -> bytes:
        """Render an error object."""
        return openai_error(status, message, code, param)

    def _items(self, reply: Reply, serial: int) -> list[Item]:
        items = items_of(reply, serial)
        self._given.add(f"resp_{serial}")
        self._sealed |= {each["id"]: each["encrypted_content"] for each in items if each["type"] == "reasoning"}
        return items

    def _stream(self, reply: Reply, items: list[Item], wanted: Wanted, serial: int) -> Iterator[Json]:
        begun = _envelope(wanted, serial)
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.in_progress", "response": begun}
        for index, item in enumerate(items):
            yield from events_of(item, index, reply.chunk_size)
        if reply.finish != "":
            ended = _ended(reply, items, wanted, serial)
            yield {"type": f"response.{ended['status']}", "response": ended}


def _envelope(wanted: Wanted, serial: int) -> Json:
    return {
        "id": f"resp_{serial}",
        "object": "response",
        "created_at": _CREATED,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": wanted.model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "metadata": {},
    }


def _ended(reply: Reply, items: list[Item], wanted: Wanted, serial: int) -> Json:
    over: Mapping[str, Any] = {"status": "completed"}
    if reply.finish and reply.finish != "completed":
        over = {"status": "incomplete", "incomplete_details": {"reason": reply.finish}}
    usage = None if reply.usage is None else _usage(reply.usage)
    return {**_envelope(wanted, serial), **over, "output": items, "usage": usage}


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }
