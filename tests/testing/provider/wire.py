"""A raw client for the provider's tests: it shows chunks and cut-offs as they were on the wire."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tenuto.testing.provider import FakeProvider

HELLO: dict[str, Any] = {"model": "fake", "messages": [{"role": "user", "content": "hi"}], "stream": True}


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    chunks: list[bytes] = field(default_factory=list)
    complete: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def payloads(self) -> list[str]:
        text = self.body.decode().replace("\r\n", "\n").replace("\r", "\n")
        return [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One connection to a provider."""

    def __init__(self, provider: FakeProvider) -> None:
        self._url = urlsplit(provider.base_url)

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(self._url.hostname, self._url.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        await self.writer.wait_closed()

    def send(self, body: Any, headers: Mapping[str, str] | None = None, path: str | None = None) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = {"host": "fake", "content-type": "application/json", "content-length": str(len(raw))} | dict(
            headers or {}
        )
        lines = [f"POST {path or self._url.path + '/chat/completions'} HTTP/1.1"]
        lines += [f"{name}: {text}" for name, text in head.items() if text]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + raw)

    async def head(self) -> Response:
        block = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.partition(": ") for line in block[1:] if line)
        return Response(int(block[0].split(" ")[1]), {name: text for name, _, text in pairs})

    async def chunk(self) -> bytes:
        size = int((await self.reader.readuntil(b"\r\n")), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def response(self) -> Response:
        found = await self.head()
        try:
            if "content-length" in found.headers:
                found.chunks.append(await self.reader.readexactly(int(found.headers["content-length"])))
            else:
                while piece := await self.chunk():
                    found.chunks.append(piece)
            found.complete = True
        except asyncio.IncompleteReadError:
            pass
        return found


async def post(provider: FakeProvider, body: Any = HELLO, headers: Mapping[str, str] | None = None) -> Response:
    async with Client(provider) as client:
        client.send(body, headers)
        return await client.response()
