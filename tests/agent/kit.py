"""How the tests of this room call an agent: through `generate` and `stream`, with one kind of outcome to look at."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from tenuto import AbortController, Agent
from tenuto.core.background import Background
from tenuto.core.chunks import AnyChunk
from tenuto.core.clock import SystemClock
from tenuto.errors import ModelError, OutputInvalid, TenutoError
from tenuto.processors import ProcessorError
from tenuto.runs.result import Result
from tenuto.runs.supervisor import Supervisor
from tenuto.testing import FakeProvider, Raw, chat_chunk

VERBS = ("generate", "stream")
both = pytest.mark.parametrize("verb", VERBS)
"""A test that is run once through each verb."""


class Ran(NamedTuple):
    """A run that has ended: its result, what it streamed, and what it raised."""

    result: Result[Any]
    chunks: list[AnyChunk]
    error: TenutoError | None

    @property
    def types(self) -> list[str]:
        return [chunk.type for chunk in self.chunks]

    @property
    def text(self) -> str:
        """The text as a reader of the stream sees it."""
        return "".join(chunk.payload.text for chunk in self.of("text-delta"))

    def of(self, kind: str) -> list[Any]:
        return [chunk for chunk in self.chunks if chunk.type == kind]


async def run(verb: str, agent: Agent[Any, Any], messages: Any = "hi", **options: Any) -> Ran:
    """Run `agent` to its end through `verb`; a failed run is an outcome, anything else raises."""
    if verb == "stream":
        stream = await agent.stream(messages, **options)
        chunks = [chunk async for chunk in stream.full_stream]
        result = await stream.get_full_output()
        return Ran(result, chunks, result.error)
    chunks = []
    try:
        result = await agent.generate(messages, **options, on_chunk=chunks.append)
    except (ModelError, OutputInvalid, ProcessorError) as error:
        return Ran(error.result, chunks, error)
    return Ran(result, chunks, None)


def agent_on(
    provider: FakeProvider, tools: Any = (), *, model: str = "test/m", api: str | None = None, **more: Any
) -> Agent[Any, Any]:
    return Agent(id="agent", model={"id": model, "url": provider.base_url, "api": api}, tools=tools, **more)


def raw(*deltas: dict[str, Any], finish: str | None = "stop", **more: Any) -> Raw:
    """A stream of exactly these deltas, then the finish reason."""
    chunks = [chat_chunk(delta) for delta in deltas]
    if finish is not None:
        chunks.append(chat_chunk({}, finish=finish))
    return Raw(events=chunks, **more)


def says(text: str) -> dict[str, Any]:
    return {"content": text}


def calls(*pieces: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": list(pieces)}


def piece(arguments: str | None = None, name: str | None = None, **labels: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**labels, "function": function}


def sent(provider: FakeProvider, place: int = -1) -> list[dict[str, Any]]:
    """The messages of a request."""
    return provider.requests[place].body["messages"]


def answers(provider: FakeProvider, place: int = -1) -> list[str]:
    """What a request tells the model of its calls, in order."""
    return [message["content"] for message in sent(provider, place) if message["role"] == "tool"]


def merged(types: Sequence[str]) -> list[str]:
    """Chunk types with runs of the same one taken together."""
    return [kind for at, kind in enumerate(types) if not at or types[at - 1] != kind]


def plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


def aborted(reason: object = None) -> Any:
    controller = AbortController()
    controller.abort(reason)
    return controller.signal


async def all_ended() -> None:
    """Wait until no run of this loop is driven any more."""
    while tasks := list(Supervisor.current()._tasks):
        await asyncio.wait(tasks)


async def all_scored() -> None:
    """Wait until nobody scores a run of this loop any more."""
    while asides := list(Background.current().tasks):
        await asyncio.wait(asides)


class Hasty(SystemClock):
    """A clock that does not wait, but writes down for how long it was asked to."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


def hasty(agent: Agent[Any, Any]) -> tuple[Agent[Any, Any], list[float]]:
    """A copy of `agent` that waits for nothing before a retry, and the list of its waits."""
    clock, copy = Hasty(), agent.replace()
    object.__setattr__(copy, "_base", replace(copy._base, clock=clock))
    return copy, clock.waits
