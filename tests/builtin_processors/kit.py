"""How the tests of this room ask a hook: with the context it would have in a run."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.core.ids import CountingIds
from tenuto.messages.input import MessageReader
from tenuto.processors import InputContext, OutputStreamContext, Surroundings, Tripwire
from tenuto.testing import ScriptedModel, VirtualClock


async def now(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def messages(*given: Any) -> tuple[Any, ...]:
    return tuple(MessageReader(CountingIds(), VirtualClock()).read(list(given)))


def around(processor: Any, **more: Any) -> Surroundings:
    return Surroundings(processor_id=processor.id, run_id="run_1", **more)


async def texts(processor: Any, *given: Any, shared: Surroundings | None = None) -> list[str]:
    """The texts of the input as `processor` leaves it."""
    context = InputContext(shared or around(processor), messages=messages(*given))
    passed = await now(processor.process_input(context))
    return [message.text for message in (context.messages if passed is None else passed)]


def delta(text: str, part: str = "1", kind: str = "text") -> Any:
    if kind == "reasoning":
        return c.ReasoningDelta("run_1", "AGENT", p.ReasoningDeltaPayload(part, text))
    return c.TextDelta("run_1", "AGENT", p.TextDeltaPayload(part, text))


def end(part: str = "1", kind: str = "text") -> Any:
    if kind == "reasoning":
        return c.ReasoningEnd("run_1", "AGENT", p.ReasoningEndPayload(part))
    return c.TextEnd("run_1", "AGENT", p.TextEndPayload(part))


def other() -> Any:
    return c.Source("run_1", "AGENT", p.SourcePayload("s", "url", "t"))


async def streamed(processor: Any, *chunks: Any, shared: Surroundings | None = None) -> list[Any]:
    """The chunks as they are shown; a block is the last of them."""
    shared = shared or around(processor)
    shown: list[Any] = []
    for chunk in chunks:
        try:
            passed = await now(processor.process_output_stream(OutputStreamContext(shared, chunk, [chunk])))
        except Tripwire as tripwire:
            return [*shown, tripwire]
        shown += [] if passed is None else passed if isinstance(passed, list) else [passed]
    return shown


async def said(processor: Any, *pieces: str, kind: str = "text", shared: Surroundings | None = None) -> str:
    """The text that is shown of a part said in `pieces`."""
    shown = await streamed(processor, *(delta(piece, kind=kind) for piece in pieces), end(kind=kind), shared=shared)
    assert type(shown[-1]) is type(end(kind=kind))
    return "".join(chunk.payload.text for chunk in shown[:-1])


def judge(*answers: Any) -> ScriptedModel:
    """A model that answers with JSON."""
    from tenuto.core import codec

    return ScriptedModel([each if isinstance(each, Exception) else codec.encode(each).decode() for each in answers])


def scores(**found: float) -> dict[str, Any]:
    return {"scores": [{"type": name, "score": score} for name, score in found.items()], "reason": "because"}


def quotes(*found: tuple[str, str, float]) -> dict[str, Any]:
    return {"found": [{"type": a, "value": b, "confidence": n} for a, b, n in found], "reason": "because"}


def run(awaitable: Any) -> Any:
    """For property tests, which are no coroutines."""
    return asyncio.run(awaitable)
