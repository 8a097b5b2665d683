"""Simulated processes on one store: each has its own app and agents, and can be killed at any point.

Invariant: what a killed process had not committed is gone, and nothing of it writes any more; what it had committed is
there for the next one. Time is virtual: a lease runs out when the test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Any

import pytest

from tenuto import Agent, Tenuto, create_durable_agent
from tenuto.core import faults
from tenuto.core.chunks import AnyChunk
from tenuto.core.errors import StoreError
from tenuto.machine.records import AnyRecord, decode_record
from tenuto.runs import live, supervisor
from tenuto.runs.output import RunOutput
from tenuto.store import InMemoryStore, SQLiteStore
from tenuto.store.ports import LEASE_SECONDS
from tenuto.testing import FakeProvider, VirtualClock, check_stream

current: ContextVar[Process | None] = ContextVar("the simulated process", default=None)


in_memory = pytest.mark.parametrize("world", ["memory"], indirect=True)
"""For a test that has nothing to learn from the other store."""


class Killed(BaseException):
    """The process is gone."""


class Mortal:
    """A process's view of the store; once it is dead, no call of it does anything."""

    def __init__(self, store: Any, *, shared: bool) -> None:
        self._store, self._shared = store, shared
        self.dead = self.closed = False
        self.writes: list[Any] = []

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        call = getattr(self._store, name)

        async def alive(*args: Any, **options: Any) -> Any:
            if self.dead and current.get() is not None:
                raise Killed
            if self.closed or self.dead:  # dead: for a thread that has not noticed its process's end
                raise StoreError("This store is closed.", id="STORE_CLOSED")
            if name == "commit":
                self.writes.append(args[1])
            answer = await call(*args, **options)
            if self.dead:
                raise Killed
            return answer

        return alive

    async def aclose(self) -> None:
        self.closed = True
        if not self._shared:
            await self._store.aclose()


class Process:
    """An app with one agent under the key `agent`; what is called through it runs in this process."""

    def __init__(self, store: Mortal, agent: Agent[Any, Any], **app: Any) -> None:
        self.store = store
        self.context = copy_context()
        self.died = asyncio.Event()
        self._point: tuple[str, int] | None = None
        self.context.run(current.set, self)
        self.context.run(live.process.set, live.Process())
        self.app = self.context.run(
            lambda: Tenuto(agents={"agent": agent}, store=store, **{"recovery": "off", **app})  # type: ignore[arg-type]
        )
        self.agent: Any = self.app.get_agent("agent")

    async def call(self, make: Callable[[Any], Any]) -> Any:
        """Await `make(agent)` in this process."""
        return await self.begin(make)

    def begin(self, make: Callable[[Any], Any]) -> asyncio.Task[Any]:
        """Begin it as a task of this process."""

        async def work() -> Any:
            return await make(self.agent)

        return asyncio.get_running_loop().create_task(work(), context=self.context)

    # -- the end -----------------------------------------------------------------------------------------------------

    def dies_at(self, point: str, times: int = 1) -> None:
        """End this process when it passes the failpoint for the `times`th time."""
        self._point = (point, times)

    def hit(self, point: str) -> None:
        if self._point is None or self._point[0] != point:
            return
        name, left = self._point
        self._point = (name, left - 1) if left > 1 else None
        if left == 1:
            self.store.dead = True
            self.died.set()
            raise Killed

    async def killed_in(self, make: Callable[[Any], Any], point: str, times: int = 1) -> Any:
        """Call `make(agent)` and be killed at a failpoint; what the call returned before, if it did."""
        self.dies_at(point, times)
        task = self.begin(make)
        async with asyncio.timeout(5):
            await self.died.wait()
        await asyncio.sleep(0)
        returned = task.result() if task.done() and not task.cancelled() and task.exception() is None else None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self.kill()
        return returned

    async def kill(self) -> None:
        """End it here and now: nothing is released, saved or told."""
        self.store.dead = True
        self.died.set()
        await self._in_here(self._reap)

    async def stop(self) -> None:
        """End it in order."""
        await self._in_here(self.app.aclose)

    async def _in_here(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await asyncio.get_running_loop().create_task(work(), context=self.context)

    async def _reap(self) -> None:
        own = supervisor.Supervisor.current()
        tasks = [*own._tasks, *own._others]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class World:
    """Where the processes live: one store, one clock."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.clock = VirtualClock()
        self.folder = folder
        self._path = folder / "runs.db"
        self._memory = InMemoryStore(clock=self.clock)
        self.processes: list[Process] = []
        self.store: Any = self._open()

    def process(self, agent: Agent[Any, Any], *, durable: bool | dict[str, Any] = True, **app: Any) -> Process:
        """Start one; its agent is made durable unless it is to stay plain."""
        wraps = durable is not False and not hasattr(agent, "agent")
        made = create_durable_agent(agent, **(durable if isinstance(durable, dict) else {})) if wraps else agent
        store = Mortal(self._open(), shared=self.kind == "memory")
        process = Process(store, made, clock=self.clock, **app)
        self.processes.append(process)
        return process

    async def leases_expire(self) -> None:
        await self.clock.advance(LEASE_SECONDS)

    async def records(self, run_id: str) -> list[AnyRecord]:
        return [decode_record(raw) for raw in await self.store.records(run_id, resource=None)]

    async def log(self, run_id: str) -> list[AnyChunk]:
        """All that is stored of the run's stream, checked to be without a gap."""
        events = await self.store.events(run_id, resource=None)
        assert [event.index for event in events] == list(range(len(events)))
        return [event.chunk for event in events]

    async def whole(self, run_id: str) -> list[AnyChunk]:
        """The log of a run that is over, or waits; checked by the grammar."""
        chunks = await self.log(run_id)
        check_stream(chunks)
        return chunks

    async def row(self, run_id: str) -> Any:
        return await self.store.run(run_id, resource=None)

    async def close(self) -> None:
        for process in self.processes:
            if process.store.dead:
                await process.kill()
                await process.store.aclose()
            else:
                await process.stop()
        await self.store.aclose()

    def _open(self) -> Any:
        return self._memory if self.kind == "memory" else SQLiteStore(self._path, clock=self.clock)


@asynccontextmanager
async def world_of(kind: str, folder: Path) -> AsyncIterator[World]:
    world = World(kind, folder)
    faults.install(_hit)
    try:
        yield world
    finally:
        faults.install(None)
        await world.close()


def _hit(point: str) -> None:
    process = current.get()
    if process is not None:
        process.hit(point)


# -- what the tests say ------------------------------------------------------------------------------------------------


def clerk(provider: FakeProvider, tools: Any = (), **more: Any) -> Agent[Any, Any]:
    return Agent(id="clerk", model={"id": "test/m", "url": provider.base_url}, tools=tools, **more)


def of(chunks: list[AnyChunk], *kinds: str) -> list[Any]:
    return [chunk for chunk in chunks if chunk.type in kinds]


def types(chunks: list[AnyChunk]) -> list[str]:
    return [chunk.type for chunk in chunks]


def text_of(chunks: list[AnyChunk]) -> str:
    return "".join(chunk.payload.text for chunk in of(chunks, "text-delta"))


def shown_by(chunks: list[AnyChunk], first: int = 0) -> str:
    """The text as a viewer shows it that forgets what a restarted attempt makes void."""
    kept: dict[int, AnyChunk] = {}
    for index, chunk in enumerate(chunks, first):
        if chunk.type == "attempt-restarted":
            kept = {place: each for place, each in kept.items() if place < chunk.payload.discard_from}
        kept[index] = chunk
    return text_of(list(kept.values()))


def answers(provider: FakeProvider, place: int = -1) -> list[str]:
    """What a request tells the model of its calls, in order."""
    messages = provider.requests[place].body["messages"]
    return [message["content"] for message in messages if message["role"] == "tool"]


async def read(output: RunOutput[Any]) -> list[AnyChunk]:
    return [chunk async for chunk in output.full_stream]


async def soon(condition: Callable[[], Any]) -> None:
    """Let others run until `condition()` holds."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - what it waits for is the code's under test
            await asyncio.sleep(0)


async def settled(process: Process) -> None:
    """Wait for what the process does for viewers and other callers beside its runs."""

    async def wait(_: Any) -> None:
        while tasks := list(supervisor.Supervisor.current()._others):
            await asyncio.wait(tasks)

    await process.call(wait)
