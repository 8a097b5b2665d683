"""The chat completions dialect: renders replies as its chunks and knows its paths, keys and errors.

Invariant: a response is a function of the reply, of what the request wants and of its serial number only.

Source: https://platform.openai.com/docs/api-reference/chat-streaming
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tenuto.testing.provider.chat_request import check_request
from tenuto.testing.provider.dialect import Wanted, refuse_to_render
from tenuto.testing.provider.http1 import Request
from tenuto.testing.provider.script import Call, Event, Reply, Usage
from tenuto.testing.provider.strict import Rules, check_bearer

__all__ = ["Chat", "chat_chunk", "openai_error"]

_CREATED = 1_760_000_000
_ERROR_TYPES = {403: "permission_error", 429: "rate_limit_error"}
Json = dict[str, Any]


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _Wish(msgspec.Struct):
    model: str = ""
    stream: bool | None = None
    stream_options: _StreamOptions | None = None


_wishes = msgspec.json.Decoder(_Wish)


def chat_chunk(
    delta: Mapping[str, Any] | None = None,
    *,
    finish: str | None = None,
    usage: Usage | None = None,
    model: str = "fake",
    serial: int = 0,
    **more: Any,
) -> Json:
    """Build one `chat.completion.chunk` for `Raw`.

    Args:
        delta: The delta; None with `usage` makes the chunk without choices that ends a stream.
        finish: Finish reason.
        usage: Reported usage.
        model: Name of the model.
        serial: Number of the response.
        **more: Further keys of the chunk; they replace those made here.
    """
    choice = {"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish}
    chunk = _envelope("chat.completion.chunk", model, serial)
    chunk["choices"] = [] if delta is None and usage is not None else [choice]
    if usage is not None:
        chunk["usage"] = _usage(usage)
    return chunk | more


def openai_error(status: int, message: str, code: str | None, param: str | None) -> bytes:
    """Render an error object, the same in all formats of OpenAI."""
    kind = "server_error" if status >= 500 else _ERROR_TYPES.get(status, "invalid_request_error")
    code = code or ("rate_limit_exceeded" if status == 429 else None)
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": code}})


_NO_PLACE = ("signature", "redacted", "provider_calls", "sources", "files")


class Chat:
    """OpenAI chat completions; remembers the reasoning it sent with each call."""

    def __init__(self) -> None:
        self._reasoning: dict[str, str] = {}

    def serves(self, path: str) -> bool:
        """Whether this is the path of chat completions."""
        return path.endswith("/chat/completions")

    def authorize(self, request: Request, rules: Rules) -> None:
        """Refuse a wrong bearer key."""
        check_bearer(request.headers, rules)

    def check(self, body: Json, rules: Rules) -> None:
        """Refuse what a real provider refuses."""
        check_request(body, rules, self._reasoning)

    def wanted(self, request: Request) -> Wanted:
        """Read model, mode and usage from the body."""
        try:
            wish = _wishes.decode(request.raw)
        except msgspec.DecodeError:
            wish = _Wish()
        usage = wish.stream_options is not None and wish.stream_options.include_usage
        return Wanted(wish.model, bool(wish.stream), usage, request.raw.count(b'"tool_call_id"'))

    def events(self, reply: Reply, wanted: Wanted, serial: int) -> list[Event]:
        """Render the chunks of a streamed reply."""
        refuse_to_render(reply, *_NO_PLACE)
        calls = self._identify(reply, serial)
        shared: Json = {"model": wanted.model, "serial": serial}
        blank: Json = {"usage": None} if wanted.usage else {}  # every chunk but the last says null
        chunks = [chat_chunk(delta, **shared) | blank for delta in _deltas(reply, calls)]
        if finish := _finish(reply):
            chunks.append(chat_chunk({}, finish=finish, **shared) | blank)
        if wanted.usage and reply.usage is not None:
            chunks.append(chat_chunk(usage=reply.usage, **shared))
        return [Event(msgspec.json.encode(each)) for each in chunks]

    def whole(self, reply: Reply, wanted: Wanted, serial: int) -> bytes:
        """Render a `chat.completion`."""
        refuse_to_render(reply, *_NO_PLACE)
        message: Json = {"role": "assistant", "content": reply.text or None, "refusal": reply.refusal or None}
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        if reply.calls:
            message["tool_calls"] = [
                {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call_id, call in self._identify(reply, serial)
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
        body = _envelope("chat.completion", wanted.model, serial) | {"choices": [choice]}
        if reply.usage is not None:
            body["usage"] = _usage(reply.usage)
        return msgspec.json.encode(body)

    def end(self) -> Event:
        """Give `[DONE]`."""
        return Event("[DONE]")

    def error(self, status: int, message: str, code: str | None = None, param: str | None = None) -> bytes:
        """Render an error object."""
        return openai_error(status, message, code, param)

    def _identify(self, reply: Reply, serial: int) -> list[tuple[str, Call]]:
        calls = [
            (f"call_{serial}_{position}" if call.id is None else call.id, call)
            for position, call in enumerate(reply.calls)
        ]
        if reply.reasoning:
            self._reasoning |= {call_id: reply.reasoning for call_id, _ in calls}
        return calls


def _envelope(kind: str, model: str, serial: int) -> Json:
    made = {"id": f"chatcmpl-{serial}", "object": kind, "created": _CREATED, "model": model}
    return made | {"service_tier": "default", "system_fingerprint": "fp_fake"}


def _usage(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def _finish(reply: Reply) -> str | None:
    if reply.finish is not None:
        return reply.finish or None
    return "tool_calls" if reply.calls else "stop"


def _pieces(text: str, size: int) -> Iterator[str]:
    step = size or len(text) or 1
    return (text[start : start + step] for start in range(0, len(text), step))


def _deltas(reply: Reply, calls: Sequence[tuple[str, Call]]) -> Iterator[Json]:
    yield {"role": "assistant", "content": None if calls and not reply.text else "", "refusal": None}
    for key, text in (("reasoning_content", reply.reasoning), ("content", reply.text), ("refusal", reply.refusal)):
        yield from ({key: piece} for piece in _pieces(text, reply.chunk_size))
    for index, (call_id, call) in enumerate(calls):
        opening = {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        yield {"tool_calls": [{"index": index, **opening}]}
        for piece in _pieces(call.arguments, reply.chunk_size):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
