"""The floor: tenuto's own transport library and decoder, and nothing that is not needed to stream the answer."""

from __future__ import annotations

import aiohttp
import msgspec
from scenarios import QUESTION, SYSTEM, OnText, OnTool, main

TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}


class Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class ToolCall(msgspec.Struct, gc=False):
    index: int = 0
    id: str | None = None
    function: Function | None = None


class Delta(msgspec.Struct, gc=False):
    content: str | None = None
    tool_calls: list[ToolCall] | None = None


class Choice(msgspec.Struct, gc=False):
    delta: Delta


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice] = []


class Arguments(msgspec.Struct):
    a: int
    b: int


class Called(msgspec.Struct):
    id: str
    name: str
    arguments: str = ""


_decode = msgspec.json.Decoder(Chunk).decode
_arguments = msgspec.json.Decoder(Arguments).decode
_encode = msgspec.json.Encoder().encode


class ByHand:
    async def start(self, base_url: str) -> None:
        self._url = f"{base_url}/chat/completions"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            headers={"content-type": "application/json", "authorization": "Bearer x"},
        )

    async def stop(self) -> None:
        await self._session.close()

    async def answer(self, model: str) -> str:
        pieces: list[str] = []
        await self.stream(model, pieces.append)
        return "".join(pieces)

    async def stream(self, model: str, on_text: OnText) -> None:
        await self._ask(model, [_encode(message) for message in _first_messages()], None, on_text)

    async def rounds(self, model: str, on_tool: OnTool) -> str:
        messages = [_encode(message) for message in _first_messages()]
        while True:
            pieces: list[str] = []
            calls = await self._ask(model, messages, TOOL, pieces.append)
            if not calls:
                return "".join(pieces)
            messages.append(_encode({"role": "assistant", "content": None, "tool_calls": [_as_sent(c) for c in calls]}))
            for each in calls:
                given = _arguments(each.arguments)
                on_tool()
                answer = {"role": "tool", "tool_call_id": each.id, "content": str(given.a + given.b)}
                messages.append(_encode(answer))

    async def _ask(self, model: str, messages: list[bytes], tool: object, on_text: OnText) -> list[Called]:
        body: dict[str, object] = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
        if tool is not None:
            body["tools"] = [tool]
        body["messages"] = [msgspec.Raw(message) for message in messages]
        calls: list[Called] = []
        rest = b""
        async with self._session.post(self._url, data=_encode(body)) as response:
            async for data in response.content.iter_any():
                events = (rest + data).split(b"\n\n")
                rest = events.pop()
                for event in events:
                    if event == b"data: [DONE]":
                        continue
                    choices = _decode(event[6:]).choices
                    if not choices:
                        continue
                    delta = choices[0].delta
                    if delta.content:
                        on_text(delta.content)
                    elif delta.tool_calls:
                        _collect(calls, delta.tool_calls)
        return calls


def _collect(calls: list[Called], pieces: list[ToolCall]) -> None:
    for piece in pieces:
        function = piece.function or Function()
        if piece.index == len(calls):
            calls.append(Called(piece.id or "", function.name or ""))
        calls[piece.index].arguments += function.arguments or ""


def _as_sent(each: Called) -> dict[str, object]:
    return {"id": each.id, "type": "function", "function": {"name": each.name, "arguments": each.arguments}}


def _first_messages() -> list[dict[str, str]]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]


if __name__ == "__main__":
    main(ByHand())
