"""tenuto with runs that outlive their process, in a SQLite file of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from uuid import uuid4

from scenarios import QUESTION, main
from with_tenuto import WithTenuto

from tenuto import Agent, Memory, Tenuto
from tenuto.memory.config import SemanticRecall
from tenuto.memory.likeness import packed
from tenuto.memory.search import likest
from tenuto.messages.stored import Content, Message, TextPart, timestamp
from tenuto.store import SQLiteStore
from tenuto.store.ports import Fence, ThreadEdit, ThreadRow, VectorRow

_THREADS = 20


class WithDurable(WithTenuto):
    async def start(self, base_url: str) -> None:
        await super().start(base_url)
        self._place = TemporaryDirectory(ignore_cleanup_errors=True)
        self._store = SQLiteStore(Path(self._place.name) / "tenuto.db")
        self._apps: dict[Tenuto, asyncio.Task[None]] = {}
        self._fences: dict[str, Fence] = {}

    async def stop(self) -> None:
        for app, started in self._apps.items():
            await started
            await app.aclose()
        await self._store.aclose()
        self._place.cleanup()

    async def park(self, model: str) -> None:
        result = await self._agent(model).generate(QUESTION, require_tool_approval=True)
        if result.finish_reason != "suspended":
            message = f"the run ended with {result.finish_reason} and does not wait"
            raise AssertionError(message)

    async def say(self, thread: str, messages: int) -> None:
        row = ThreadRow(id=thread, resource="bench")
        fence = self._fences.get(thread) or await self._store.claim(row.scope, "bench")
        if not isinstance(fence, Fence):
            raise TypeError(fence)
        self._fences[thread] = fence
        said = tuple(
            Message(uuid4().hex, "user", timestamp(0), Content((TextPart("Where is my order? " * 20),)))
            for _ in range(messages)
        )
        await self._store.edit(fence, ThreadEdit(thread=row, messages=said))

    async def recall(self, thread: str, last: int) -> int:
        return len(await self._store.messages(thread, resource="bench", last=last))

    async def remember(self, vectors: int) -> None:
        memory = Memory(store=self._store)
        for thread in range(_THREADS):
            ids = [f"{thread}-{place}" for place in range(vectors // _THREADS)]
            messages = [{"id": each, "role": "user", "content": each} for each in ids]
            await memory.save_messages(messages, thread_id=str(thread), resource_id="ann")
            rows = [
                VectorRow(
                    resource="ann", thread=str(thread), message_id=each, part=0, space="bench", vector=_vector(each)
                )
                for each in ids
            ]
            await self._store.index(rows)

    async def search(self) -> int:
        found = await likest(
            self._store,
            _vector("the question"),
            resource="ann",
            space="bench",
            config=SemanticRecall(),
            thread="0",
            known=(),
        )
        return len(found)

    def _new_agent(self, model: str) -> Agent:
        app = Tenuto(agents={"bench": super()._new_agent(model).replace(durable=True)}, store=self._store)
        self._apps[app] = asyncio.ensure_future(app.start())
        return app.get_agent("bench")


def _vector(seed: str) -> bytes:
    numbers = Random(seed)
    return packed([numbers.gauss(0, 1) for _ in range(384)]) or b""


if __name__ == "__main__":
    main(WithDurable())
