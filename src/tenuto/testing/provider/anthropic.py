"""The Anthropic messages dialect: renders replies as its events and knows its path, key, version and errors.

Invariant: a response is a function of the reply, of what the request wants and of its serial number only; what it seals
(reasoning, results of its own tools) it knows again when it is sent back.

Source: Anthropic API reference, "Streaming messages", "Errors".
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tenuto.testing.provider.anthropic_request import Sealed, check_request
from tenuto.testing.provider.dialect import Wanted, refuse_to_render
from tenuto.testing.provider.http1 import Request
from tenuto.testing.provider.script import Event, ProviderCall, Reply, Usage
from tenuto.testing.provider.strict import Refused, Rules, require

__all__ = ["Anthropic", "message_events"]

Json = dict[str, Any]
_ERROR_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_STOP = Event(b'{"type":"message_stop"}', "message_stop")


class _Wish(msgspec.Struct):
    model: str = ""
    stream: bool | None = None


_wishes = msgspec.json.Decoder(_Wish)


class Anthropic:
    """Anthropic messages; remembers the blocks it sent that must come back unchanged."""

    def __init__(self) -> None:
        self._sealed = Sealed()

    def serves(self, path: str) -> bool:
        """Whether this is the path of messages."""
        return path.partition("?")[0].endswith("/messages")

    def authorize(self, request: Request, rules: Rules) -> None:
        """Refuse a wrong key, and a request without a version."""
        if rules.api_key is not None and request.headers.get("x-api-key") != rules.api_key:
            raise Refused("invalid_api_key", "invalid x-api-key", status=401)
        if rules.strict:
            version = request.headers.get("anthropic-version")
            require(version, "missing_version", "anthropic-version: header is required")

    def check(self, body: Json, rules: Rules) -> None:
        """Refuse what the real provider refuses."""
        check_request(body, rules, self._sealed)

    def wanted(self, request: Request) -> Wanted:
        """Read model and mode from the body; usage is always reported."""
        try:
            wish = _wishes.decode(request.raw)
        except msgspec.DecodeError:
            wish = _Wish()
        return Wanted(wish.model, bool(wish.stream), usage=True, results=request.raw.count(b'"tool_result"'))

    def events(self, reply: Reply, wanted: Wanted, serial: int) -> list[Event]:
        """Render the events of a streamed reply."""
        blocks = self._blocks(reply, serial)
        found = message_events(
            blocks,
            stop=_stop(reply),
            usage=reply.usage,
            model=wanted.model,
            serial=serial,
            chunk_size=reply.chunk_size,
        )
        return [Event(msgspec.json.encode(each), each["type"]) for each in found]

    def whole(self, reply: Reply, wanted: Wanted, serial: int) -> bytes:
        """Render a message."""
        message = _message(wanted.model, serial)
        blocks = [block | _read_input(block) for block in self._blocks(reply, serial)]
        message |= {"content": blocks, "stop_reason": _stop(reply), "usage": _usage(reply.usage)}
        return msgspec.json.encode(message)

    def end(self) -> Event:
        """Give `message_stop`."""
        return _STOP

    def error(self, status: int, message: str, code: str | None = None, param: str | None = None) -> bytes:
        """Render an error object."""
        kind = "api_error" if status >= 500 else "invalid_request_error"
        where = f"{param}: " if param else ""
        error = {"type": _ERROR_TYPES.get(status, kind), "message": where + message}
        return msgspec.json.encode({"type": "error", "error": error, "request_id": f"req_{code or status}"})

    def _blocks(self, reply: Reply, serial: int) -> list[Json]:
        refuse_to_render(reply, "files")
        blocks = list(_content(reply, serial))
        self._sealed.remember(blocks)
        return blocks


def _content(reply: Reply, serial: int) -> Iterator[Json]:
    """The blocks of a reply; a signature without reasoning is reasoning that is not shown."""
    if reply.reasoning or reply.signature:
        yield {"type": "thinking", "thinking": reply.reasoning, "signature": reply.signature or f"sig_{serial}"}
    for data in reply.redacted:
        yield {"type": "redacted_thinking", "data": data}
    for place, call in enumerate(reply.provider_calls):
        yield from _hosted(call, f"srvtoolu_{serial}_{place}")
    if text := reply.text + reply.refusal:
        yield {"type": "text", "text": text} | ({"citations": _citations(reply)} if reply.sources else {})
    for place, call in enumerate(reply.calls):
        call_id = f"toolu_{serial}_{place}" if call.id is None else call.id
        yield {"type": "tool_use", "id": call_id, "name": call.name, "input": call.args}


def _read_input(block: Json) -> Json:
    """The input of a call as an object; text that is none cannot be said in one body."""
    given: Any = block.get("input")
    return {"input": msgspec.json.decode(given or "{}")} if isinstance(given, str) else {}


def _hosted(call: ProviderCall, fresh: str) -> Iterator[Json]:
    """A tool that ran here; a name with a slash is `server/tool` of an MCP server."""
    call_id = call.id or fresh
    server, slash, name = call.name.rpartition("/")
    if slash:
        yield {"type": "mcp_tool_use", "id": call_id, "name": name, "server_name": server, "input": call.args}
        result: Json = {"type": "mcp_tool_result", "tool_use_id": call_id, "is_error": call.is_error}
        yield result | {"content": call.result}
        return
    yield {"type": "server_tool_use", "id": call_id, "name": call.name, "input": call.args}
    if call.result is not None:
        kind = "tool_search" if call.name.startswith("tool_search") else call.name
        yield {"type": f"{kind}_tool_result", "tool_use_id": call_id, "content": call.result}


def _citations(reply: Reply) -> list[Json]:
    return [
        {
            "type": "web_search_result_location", "cited_text": "cited", "url": url, "title": title,
            "encrypted_index": f"index-{place}",
        }
        for place, (url, title) in enumerate(reply.sources)
    ]  # fmt: skip


def message_events(
    blocks: list[Json],
    *,
    stop: str | None = "end_turn",
    usage: Usage | None = Usage(),  # noqa: B008 - frozen
    model: str = "fake",
    serial: int = 0,
    chunk_size: int = 0,
) -> Iterator[Json]:
    """Build the events of a message for `Raw`, but for the last one, `message_stop`.

    Args:
        blocks: Its content, each block as it is in a message that is not streamed.
        stop: Stop reason; None sends none.
        usage: Reported usage; None reports zeros.
        model: Name of the model.
        serial: Number of the response.
        chunk_size: Characters per delta; 0 sends each text whole.
    """
    begun = _usage(usage) | {"output_tokens": 1}
    yield {"type": "message_start", "message": _message(model, serial) | {"usage": begun}}
    yield {"type": "ping"}
    for index, block in enumerate(blocks):
        opening, deltas = _split(block, chunk_size)
        yield {"type": "content_block_start", "index": index, "content_block": opening}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": stop, "stop_sequence": None}
    counted = {name: value for name, value in _usage(usage).items() if name != "cache_creation"}
    yield {"type": "message_delta", "delta": ended, "usage": counted}


def _split(block: Json, size: int) -> tuple[Json, list[Json]]:
    """How a block begins, and the deltas that fill it."""
    match block["type"]:
        case "text":
            deltas: list[Json] = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"], size)]
            cited = [{"type": "citations_delta", "citation": each} for each in block.get("citations") or ()]
            opening: Json = {**block, "text": ""}
            if cited:
                opening["citations"] = []
            return opening, cited + deltas
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"], size)]
            sealed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*deltas, sealed]
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            given: Any = block["input"]
            text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
            pieces = ["", *_pieces(text, size)] if given else [""]
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        case _:
            return block, []


def _pieces(text: str, size: int) -> Iterator[str]:
    step = size or len(text) or 1
    return (text[start : start + step] for start in range(0, len(text), step))


def _message(model: str, serial: int) -> Json:
    head: Json = {"id": f"msg_{serial}", "type": "message", "role": "assistant", "model": model, "content": []}
    return head | {"stop_reason": None, "stop_sequence": None, "usage": _usage(None)}


def _stop(reply: Reply) -> str | None:
    if reply.finish is not None:
        return reply.finish or None
    if reply.refusal:
        return "refusal"
    return "tool_use" if reply.calls else "end_turn"


def _usage(usage: Usage | None) -> Json:
    """Tokens as the vendor counts them: what is read from or written to the cache stands beside the other input."""
    given = usage or Usage(0, 0)
    found: Json = {
        "input_tokens": given.input - given.cached - given.cache_write,
        "output_tokens": given.output,
        "cache_read_input_tokens": given.cached,
        "cache_creation_input_tokens": given.cache_write,
        "cache_creation": {"ephemeral_5m_input_tokens": given.cache_write, "ephemeral_1h_input_tokens": 0},
    }
    return found | ({"output_tokens_details": {"thinking_tokens": given.reasoning}} if given.reasoning else {})
