"""A web server of the tests: it answers with exactly the bytes it was given, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import asynccontextmanager

PNG = b"\x89PNG\r\n\x1a\n" + b"." * 40


def answer(body=b"", status=200, **headers):
    """The bytes of a response; `content_type=` names a header."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [
        f"HTTP/1.1 {status} X",
        *(f"{name}: {value}" for name, value in ({"content-length": len(body)} | named).items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def moved(target, status=302):
    return answer(status=status, location=target)


class Host:
    """Answers by path; a list of answers is given out in turn, `None` leaves the client waiting."""

    def __init__(self, pages: Mapping[str, object]) -> None:
        self.pages = {path: list(page) if isinstance(page, list) else page for path, page in pages.items()}
        self.asked: list[str] = []
        self.port = 0
        self.reached = asyncio.Event()
        self.closed = asyncio.Event()

    @property
    def paths(self):
        return [head.split(" ")[1] for head in self.asked]

    def url(self, path="/a.png", host="127.0.0.1"):
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.asked.append(head)
            self.reached.set()
            page = self.pages[head.split(" ")[1]]
            page = page.pop(0) if isinstance(page, list) else page
            if page is not None:
                writer.write(page)
                await writer.drain()
            else:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self.closed.set()


@asynccontextmanager
async def hosting(pages):
    host = Host(pages)
    server = await asyncio.start_server(host.serve, "127.0.0.1", 0)
    host.port = server.sockets[0].getsockname()[1]
    try:
        yield host
    finally:
        server.close()
        await server.wait_closed()
